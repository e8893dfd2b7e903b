//! The head of a page: where it is in the console, and the state of its subject in one sentence.

use askama::Template;

use super::panel::Panel;

#[derive(Template)]
#[template(path = "page_head.html")]
pub struct PageHead<'a> {
    /// Address and label of the parent page.
    pub parent: (&'a str, &'a str),
    pub here: &'a str,
    pub kind: &'a str,
    pub severity: &'a str,
    /// HTML.
    pub facts: Vec<String>,
}

/// The state of the subject of a page.
#[derive(Template)]
#[template(path = "sentence.html")]
pub struct Sentence {
    /// HTML.
    text: String,
}

impl Sentence {
    /// Joins parts (HTML) and skips empty ones.
    pub fn of(mut parts: Vec<String>) -> Sentence {
        parts.retain(|part| !part.is_empty());
        Sentence { text: parts.join(r#" <span class="qq">·</span> "#) }
    }

    /// The first panel of a page.
    pub fn into_panel(self) -> Panel {
        Panel::with_content("status", "Status", &self).without_frame()
    }
}
