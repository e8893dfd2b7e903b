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
    /// Addresses and labels of pages that offer a way out.
    pub actions: Vec<(String, String)>,
}

impl Callout<'_> {
    pub fn render(&self) -> String {
        html::render(self)
    }
}
