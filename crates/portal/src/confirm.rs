//! The confirmation page for actions on several machines: a preview for each, and a button that performs the action.

use askama::Template;
use forewarn_widgets::html;
use forewarn_widgets::panel::{PageContent, Panel};

use super::action::ButtonStyle;

#[derive(Template)]
#[template(path = "confirm.html")]
pub struct Confirmation<'a> {
    pub title: String,
    /// Names, each with a preview in HTML.
    pub previews: Vec<(String, String)>,
    /// The address that the form is sent to.
    pub action: &'a str,
    pub fields: Vec<(&'a str, &'a str)>,
    pub label: String,
    pub tone: ButtonStyle,
    pub back: &'a str,
    pub csrf: &'a str,
}

impl Confirmation<'_> {
    pub fn render(&self) -> PageContent {
        // Above the list and not in it, so that live updates of the page behind do not replace it.
        let panel = Panel::new("confirm", "Preview", Vec::new()).with_html_before(html::render(self));
        PageContent { title: self.title.clone(), lead: String::new(), panels: vec![panel], aside: Vec::new() }
    }

    fn is_danger(&self) -> bool {
        self.tone == ButtonStyle::Danger
    }
}
