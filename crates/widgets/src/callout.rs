//! A highlighted warning.

use askama::Template;

use super::html;

#[derive(Template)]
#[template(path = "callout.html")]
pub struct Callout<'a> {
    /// `c-red` or `c-amber`.
    pub class: &'a str,
    pub title: String,
    /// HTML.
    pub text: String,
}

impl Callout<'_> {
    pub fn render(&self) -> String {
        html::render(self)
    }
}
