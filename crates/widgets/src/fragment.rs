//! The unit of live updates: one HTML element with an ID.

use askama::Template;

use super::html;

#[derive(Clone)]
pub struct Fragment {
    /// The ID of the element.
    pub id: String,
    /// Sort key among the fragments of the same list.
    pub sort: String,
    pub html: String,
}

impl Fragment {
    pub fn render(id: impl Into<String>, sort: impl Into<String>, template: &impl Template) -> Fragment {
        Fragment { id: id.into(), sort: sort.into(), html: html::render(template) }
    }
}
