//! A table of labels and values: the details of a machine, event, group or host.

use askama::Template;

#[derive(Template)]
#[template(path = "facts.html")]
pub struct Facts {
    /// Labels, with values in HTML.
    pub facts: Vec<(&'static str, String)>,
}
