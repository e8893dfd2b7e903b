//! The parts of a page: panels with a heading, each a list of fragments. The live stream sends a fragment again when it
//! has changed; everything else in a panel is fixed once the page has loaded.

use askama::Template;

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
    /// Text for an empty list.
    pub empty: &'static str,
    /// The head of the table whose rows are the fragments; empty for other lists.
    pub head: String,
    /// Static HTML below the list.
    pub after: String,
    pub shape: Shape,
    pub fold: Option<Fold>,
}

/// The content is below a line that opens it: settings, which most visits do not need.
pub struct Fold {
    /// The contents in a few words, beside the title.
    pub summary: &'static str,
    pub is_open: bool,
}

/// How a panel looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A card.
    Card,
    /// Without a frame, and with a heading for screen readers only.
    Plain,
    /// Without a frame, below its heading.
    Titled,
    /// A card without padding, whose fragments are list items.
    List,
}

/// A page without header and navigation.
pub struct PageContent {
    pub title: String,
    /// HTML above the panels.
    pub lead: String,
    pub panels: Vec<Panel>,
    /// Panels in a second column.
    pub aside: Vec<Panel>,
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
            empty: "",
            head: String::new(),
            after: String::new(),
            shape: Shape::Card,
            fold: None,
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

    /// Adds static HTML below the list.
    pub fn with_html_after(mut self, after: String) -> Panel {
        self.after = after;
        self
    }

    /// Makes the fragments rows of a table with this head.
    pub fn with_table(mut self, head: String) -> Panel {
        self.head = head;
        self
    }

    pub fn without_frame(mut self) -> Panel {
        self.shape = Shape::Plain;
        self
    }

    /// Shows the heading above the content, without a frame around it.
    pub fn without_frame_but_title(mut self) -> Panel {
        self.shape = Shape::Titled;
        self
    }

    pub fn with_list_items(mut self) -> Panel {
        self.shape = Shape::List;
        self
    }

    pub fn folded(mut self, fold: Fold) -> Panel {
        self.fold = Some(fold);
        self
    }

    /// Opens a folded panel if the address asks for it.
    pub fn opened(mut self, is_asked: bool) -> Panel {
        if let Some(fold) = &mut self.fold {
            fold.is_open |= is_asked;
        }
        self
    }

    /// All fragments, each with the ID of its list.
    pub fn rendered_fragments(&self) -> impl Iterator<Item = (&str, &Fragment)> {
        self.fragments.iter().map(move |fragment| (self.id, fragment))
    }
}

impl PageContent {
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> PageContent {
        PageContent { title: title.into(), lead: String::new(), panels, aside: Vec::new() }
    }

    /// Adds HTML above the panels.
    pub fn with_lead(mut self, lead: impl Into<String>) -> PageContent {
        self.lead = lead.into();
        self
    }

    /// Adds panels in a second column.
    pub fn with_aside(mut self, aside: Vec<Panel>) -> PageContent {
        self.aside = aside;
        self
    }

    pub fn all_panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().chain(&self.aside)
    }
}
