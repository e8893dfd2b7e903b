//! The bar with actions on the selected rows of a table. It floats at the bottom while rows are selected.

use askama::Template;

use super::html;

#[derive(Template)]
#[template(path = "selection_bar.html")]
pub struct SelectionBar<'a> {
    pub action: &'a str,
    pub csrf: &'a str,
    pub back: &'a str,
    pub label: &'a str,
    /// Name, label, class.
    pub buttons: Vec<(&'static str, &'static str, &'static str)>,
}

impl SelectionBar<'_> {
    pub fn render(&self) -> String {
        html::render(self)
    }
}
