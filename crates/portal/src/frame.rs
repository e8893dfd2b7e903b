//! The HTML around the content of every page: header, navigation, status of the connection.

use askama::Template;
use axum::response::Html;
use forewarn_engine::ClockKind;
use forewarn_widgets::panel::{PageContent, Panel, Shape};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{html, words};

use super::cluster;
use super::flash::Flash;
use super::page_context::PageContext;
use forewarn_widgets::outage::count_down;

#[derive(Template)]
#[template(path = "page.html")]
struct Frame<'a> {
    title: &'a str,
    lead: &'a str,
    panels: &'a [Panel],
    /// The columns: class and panels.
    columns: Vec<(&'static str, &'a [Panel])>,
    name: &'a str,
    role: &'a str,
    csrf: &'a str,
    /// The address of this page, for the stream.
    here: &'a str,
    now_ms: i64,
    /// The revision that the page was rendered from.
    revision: u64,
    manual: bool,
    /// The divisor of notices, 1 on a production server.
    scale: u32,
    problem: &'a str,
    section: &'a str,
    nav: Vec<(&'static str, &'static str)>,
    more: Vec<(&'static str, &'static str)>,
    /// The warning while no server leads; empty otherwise.
    outage: &'static str,
    /// Machines that are down, for the title of the tab.
    down: usize,
    flash: Option<Flash>,
    /// The time in UTC, for browsers without JavaScript.
    clock: String,
    search: String,
}

/// Pages in the navigation: section and label.
const NAV: [(&str, &str); 5] = [
    ("", "Overview"),
    ("operations", "Operations"),
    ("groups", "Groups"),
    ("hosts", "Hosts"),
    ("webhooks", "Webhooks"),
];

/// Pages in the menu.
const MORE: [(&str, &str); 6] = [
    ("machines", "Machines"),
    ("scale-sets", "Scale sets"),
    ("calendar", "Calendar"),
    ("history", "History"),
    ("maintenance", "Maintenance"),
    ("test-kit", "Test kit"),
];

impl Frame<'_> {
    fn is_split(&self) -> bool {
        self.columns.iter().all(|(_, panels)| !panels.is_empty())
    }

    /// Whether the heading of a panel would repeat the page's.
    fn repeats_title(&self, panel: &Panel) -> bool {
        panel.title == self.title
    }

    fn is_current(&self, section: &str) -> bool {
        self.section == section
    }

    fn is_in_menu(&self) -> bool {
        self.more.iter().any(|(section, _)| *section == self.section)
    }
}

/// The pages in the menu. The page of servers and agents is there if there are any.
fn list_more(context: &PageContext) -> Vec<(&'static str, &'static str)> {
    let cluster = cluster::find_label(context).map(|label| ("cluster", label));
    MORE.into_iter().chain(cluster).collect()
}

/// A complete page. `problem` is an error message above the content, or empty.
pub fn render(context: &PageContext, here: &str, content: &PageContent, problem: &str) -> Html<String> {
    let principal = &context.visitor.session.holder.principal;
    Html(html::render(&Frame {
        title: &content.title,
        lead: &content.lead,
        panels: &content.panels,
        columns: vec![("panels", content.panels.as_slice()), ("panels aside", content.aside.as_slice())],
        name: &principal.name,
        role: principal.role.as_str(),
        csrf: &context.visitor.session.csrf,
        here,
        now_ms: context.now.0,
        revision: context.snapshot.revision,
        manual: context.portal.engine().clock_kind() == ClockKind::Manual,
        scale: context.region().settings().notice_scale,
        problem,
        section: match here.split(['/', '?']).nth(1).unwrap_or_default() {
            "rollouts" => "operations",
            other => other,
        },
        nav: NAV.to_vec(),
        more: list_more(context),
        outage: cluster::describe_outage(context),
        down: count_down(context.region()),
        flash: context.portal.shared.flashes.take(&context.visitor.cookie),
        clock: words::utc(context.now),
        search: find_search(here),
    }))
}

/// The text in the search box.
fn find_search(here: &str) -> String {
    match here.split_once('?') {
        Some(("/search", query)) => PageQuery::parse(query).text("q").to_owned(),
        Some(_) | None => String::new(),
    }
}
