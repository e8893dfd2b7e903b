//! Action buttons. A button opens a preview of what will happen and asks for confirmation.

use askama::Template;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::{html, words};

use super::page_context::PageContext;
use forewarn_api::Action;

pub struct Button {
    pub act: &'static str,
    pub label: String,
    /// HTML that says what will happen.
    pub preview: String,
    /// HTML of additional fields.
    pub fields: String,
    pub needs: Action,
    pub tone: ButtonStyle,
    /// Whether the rules refuse the action at the moment; the preview says why.
    pub is_blocked: bool,
    /// Whether it is behind the button "More".
    pub is_rare: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ButtonStyle {
    Normal,
    /// The most likely action of a page.
    Primary,
    /// Something is lost.
    Danger,
}

/// The buttons of a page, all for the same target.
pub struct ButtonPanel<'s> {
    context: &'s PageContext,
    target: String,
    back: String,
    fragments: Vec<Fragment>,
}

#[derive(Template)]
#[template(path = "action.html")]
struct ButtonTemplate<'a> {
    id: &'a str,
    sort: &'a str,
    button: &'a Button,
    target: &'a str,
    allowed: bool,
    csrf: &'a str,
    back: &'a str,
}

#[derive(Template)]
#[template(path = "link.html")]
struct LinkTemplate<'a> {
    id: &'a str,
    sort: &'a str,
    label: &'a str,
    href: &'a str,
}

impl Button {
    pub fn new(
        act: &'static str,
        label: impl Into<String>,
        preview: String,
        needs: Action,
        tone: ButtonStyle,
    ) -> Button {
        let label = label.into();
        Button { act, label, preview, fields: String::new(), needs, tone, is_blocked: false, is_rare: false }
    }

    /// A button that only says why the action is not possible.
    #[must_use]
    pub fn with_disabled(self) -> Button {
        Button { is_blocked: true, ..self }
    }

    /// A button that is hidden behind "More".
    #[must_use]
    pub fn under_more(self) -> Button {
        Button { is_rare: true, ..self }
    }

    pub fn with_fields(self, fields: String) -> Button {
        Button { fields, ..self }
    }

    /// Renders the button as an element with this ID.
    pub fn render(&self, context: &PageContext, (id, sort): (&str, &str), target: &str, back: &str) -> String {
        let (allowed, csrf) = (context.visitor.is_allowed(self.needs), context.visitor.session.csrf.as_str());
        html::render(&ButtonTemplate { id, sort, button: self, target, allowed, csrf, back })
    }

    fn role_needed(&self) -> String {
        words::role_needed(self.needs.role())
    }

    fn is_danger(&self) -> bool {
        self.tone == ButtonStyle::Danger
    }

    fn is_primary(&self) -> bool {
        self.tone == ButtonStyle::Primary
    }
}

impl<'s> ButtonPanel<'s> {
    pub fn new(context: &'s PageContext, target: impl Into<String>, back: impl Into<String>) -> ButtonPanel<'s> {
        ButtonPanel { context, target: target.into(), back: back.into(), fragments: Vec::new() }
    }

    #[must_use]
    pub fn button(self, button: Button) -> ButtonPanel<'s> {
        let target = self.target.clone();
        self.button_for(&target, button)
    }

    /// Adds a button for another target.
    #[must_use]
    pub fn button_for(mut self, target: &str, button: Button) -> ButtonPanel<'s> {
        if button.is_rare {
            self.add_more();
        }
        let (id, sort) = (format!("do-{}", button.act), self.next_sort());
        let html = button.render(self.context, (&id, &sort), target, &self.back);
        self.fragments.push(Fragment { id, sort, html });
        self
    }

    /// Adds a link to a page with a form, if the visitor may perform the action.
    #[must_use]
    pub fn link(mut self, act: &str, label: &str, href: &str, needs: Action) -> ButtonPanel<'s> {
        if !self.context.visitor.is_allowed(needs) {
            return self;
        }
        let (id, sort) = (format!("do-{act}"), self.next_sort());
        self.fragments.push(Fragment::render(&id, &sort, &LinkTemplate { id: &id, sort: &sort, label, href }));
        self
    }

    /// Adds the button that shows the rare ones after it, once.
    fn add_more(&mut self) {
        let (id, sort) = ("do-more".to_owned(), self.next_sort());
        if self.fragments.iter().all(|fragment| fragment.id != id) {
            let html = format!(
                r#"<details id="{id}" class="action more" data-sort="{sort}"><summary>More</summary></details>"#
            );
            self.fragments.push(Fragment { id, sort, html });
        }
    }

    pub fn into_panel(self) -> Panel {
        Panel::new("actions", "Actions", self.fragments)
    }

    fn next_sort(&self) -> String {
        format!("{:02}", self.fragments.len())
    }
}
