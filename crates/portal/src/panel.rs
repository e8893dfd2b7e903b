//! The parts of a page: panels with a heading, each a list of fragments. The live stream sends a fragment again when it
//! has changed; everything else in a panel is fixed once the page has loaded.

use askama::Template;

use super::chunk::Chunk;
use super::fragment::Fragment;

pub struct Panel {
    /// The ID of its list.
    pub id: &'static str,
    pub title: String,
    /// Static HTML above the list.
    pub before: String,
    /// Static HTML in the same scrolling box as the list, above it.
    pub inside: String,
    pub fragments: Vec<Fragment>,
    /// Used instead of `fragments` for lists that can be long.
    pub chunks: Vec<Chunk>,
    /// Text for an empty list.
    pub empty: &'static str,
}

/// A page without header and navigation.
pub struct PageContent {
    pub title: String,
    /// HTML above the panels.
    pub lead: String,
    pub panels: Vec<Panel>,
}

/// The page does not exist, with the reason.
#[derive(Debug)]
pub struct NotFound(pub String);

impl Panel {
    pub fn new(id: &'static str, title: impl Into<String>, fragments: Vec<Fragment>) -> Panel {
        Panel {
            id,
            title: title.into(),
            before: String::new(),
            inside: String::new(),
            fragments,
            chunks: Vec::new(),
            empty: "",
        }
    }

    /// A panel with one fragment.
    pub fn with_content(id: &'static str, title: impl Into<String>, template: &impl Template) -> Panel {
        Panel::new(id, title, vec![Fragment::render(format!("{id}-content"), "", template)])
    }

    pub fn or_empty_text(mut self, empty: &'static str) -> Panel {
        self.empty = empty;
        self
    }

    /// Adds static HTML above the list.
    pub fn with_html_before(mut self, before: String) -> Panel {
        self.before = before;
        self
    }

    /// Adds static HTML inside the box of the list.
    pub fn with_html_inside(mut self, inside: String) -> Panel {
        self.inside = inside;
        self
    }

    pub fn with_chunks(mut self, chunks: Vec<Chunk>) -> Panel {
        self.chunks = chunks;
        self
    }

    /// All rendered fragments, each with the ID of its list.
    pub fn rendered_fragments(&self) -> impl Iterator<Item = (&str, &Fragment)> {
        let chunks = self.chunks.iter().filter_map(|chunk| Some((chunk.id.as_str(), chunk.fragments.as_ref()?)));
        let lists = std::iter::once((self.id, &self.fragments)).chain(chunks);
        lists.flat_map(|(list, fragments)| fragments.iter().map(move |fragment| (list, fragment)))
    }
}
