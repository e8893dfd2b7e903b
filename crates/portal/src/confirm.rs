//! A page between a form and what comes of it, for what is asked of several machines at once: what will happen, and a
//! button that does it.

use askama::Template;

use super::action::Tone;
use super::page::{Drawn, Panel};
use super::sign_in;

#[derive(Template)]
#[template(path = "confirm.html")]
pub struct Confirm<'a> {
    pub title: String,
    /// Whom it is about, and a sentence of HTML.
    pub told: Vec<(String, String)>,
    /// Where the form goes.
    pub action: &'a str,
    pub fields: Vec<(&'a str, &'a str)>,
    pub label: &'static str,
    pub tone: Tone,
    pub back: &'a str,
    pub csrf: &'a str,
}

impl Confirm<'_> {
    pub fn draw(&self) -> Drawn {
        // Above the list and not in it: the stream of the page behind it does not touch it.
        let panel = Panel::new("confirm", "What will happen", Vec::new()).below(sign_in::rendered(self).0);
        Drawn { title: self.title.clone(), lead: String::new(), panels: vec![panel] }
    }

    fn is_danger(&self) -> bool {
        self.tone == Tone::Danger
    }
}
