//! The history of a machine, event, operation, group, host, rollout or of the fleet, newest first, in pages. Rows that no index
//! finds are searched in a limited range of the newest rows; the next page continues where the search ended.

use std::sync::Arc;

use askama::Template;
use forewarn_api_types::join_names;
use forewarn_core::{Machine, Region};
use forewarn_store::{HistoryFact, HistoryQuery, HistoryRow};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::history_line::{describe_fact, find_page};
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::words;

use super::history_searches::FoundRows;
use super::page_context::PageContext;

/// Rows per page.
const ROWS_SHOWN: usize = 50;

/// Rows on the page of the whole history.
const ROWS_FOUND: usize = 200;

/// Rows that are searched for those of a group, host, rollout or person.
const ROWS_SEARCHED_MAX: u64 = 10_000;

/// Rows per query, so that a search ends soon after it has found enough.
const ROWS_READ: u32 = 1000;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryLine {
    id: String,
    sort: String,
    at: String,
    kind: String,
    what: String,
    /// The page that the row is about; empty if there is none, or if it is this page.
    href: String,
}

/// Which rows of the history a page shows.
pub struct HistorySearch<'a, F: Fn(&HistoryRow) -> bool> {
    /// Rows that an index finds, however old they are.
    pub indexed: Option<HistoryQuery>,
    /// Rows that are searched.
    pub scanned: Option<HistoryQuery>,
    /// Selects rows of `scanned`.
    pub is_wanted: F,
    /// The address of the page, and its query with the first row of the page.
    pub here: &'a str,
    pub query: &'a PageQuery,
}

/// The newest rows of a query that uses an index.
pub async fn render_panel(context: &PageContext, query: HistoryQuery, here: &str) -> Panel {
    let rows = read(context, HistoryQuery { limit: Some(ROWS_SHOWN as u32), ..query }).await;
    let rows = rows.iter().rev().map(|row| render_row(context.region(), row, here));
    Panel::new("history", "History", rows.collect()).or_empty_text("No history yet.")
}

/// The history of one machine, without rows of other machines with the same name.
pub async fn render_machine_panel(context: &PageContext, machine: &Machine, here: &str) -> Panel {
    let query = HistoryQuery {
        machine: Some(machine.name.to_string()),
        machine_id: Some(machine.id),
        ..HistoryQuery::default()
    };
    render_panel(context, query, here).await
}

/// A page of rows, with a link to the next one.
pub async fn render_search_panel<F: Fn(&HistoryRow) -> bool>(
    context: &PageContext,
    search: &HistorySearch<'_, F>,
) -> Panel {
    let is_whole = search.here == "/history";
    let max = if is_whole { ROWS_FOUND } else { ROWS_SHOWN };
    let before = search.query.text("before").parse().ok();
    let mut rows = Vec::new();
    if let Some(query) = &search.indexed {
        rows.extend(read(context, HistoryQuery { before, limit: Some(max as u32 + 1), ..query.clone() }).await);
    }
    let mut rest = None;
    if let Some(query) = &search.scanned {
        let found = find_scanned(context, search, query, before, max + 1).await;
        rows.extend(found.rows.iter().cloned());
        rest = found.rest;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.number));
    rows.dedup_by_key(|row| row.number);
    // Indexed rows beyond the end of the search are on a later page.
    rows.retain(|row| rest.is_none_or(|end| row.number >= end));
    let (next, note) = match (rows.get(max - 1), rest) {
        (Some(last), _) if rows.len() > max => (Some(last.number), ""),
        (_, Some(end)) if rows.is_empty() => (Some(end), "No matching rows so far. Older rows were not searched."),
        (_, Some(end)) => (Some(end), "Older rows were not searched."),
        (_, None) => (None, ""),
    };
    rows.truncate(max);
    let mut fragments: Vec<Fragment> = rows.iter().map(|row| render_row(context.region(), row, search.here)).collect();
    // A part of the list, because new rows move others to the next page.
    fragments.extend(next.map(|number| {
        let href = words::escape_html(search.query.with("before", &number.to_string()).address(search.here));
        let label = if note.is_empty() { "Older" } else { "Search older rows" };
        Fragment {
            id: "history-more".into(),
            sort: "~".into(),
            html: format!(
                r#"<p id="history-more" class="foot" data-sort="~"><span>{note}</span><a href="{href}">{label}</a></p>"#
            ),
        }
    }));
    let empty = if is_whole { "No matching history." } else { "No history yet." };
    Panel::new("history", "History", fragments).or_empty_text(empty)
}

/// The rows that a search finds. An update of a page reads only those that are new.
async fn find_scanned<F: Fn(&HistoryRow) -> bool>(
    context: &PageContext,
    search: &HistorySearch<'_, F>,
    query: &HistoryQuery,
    before: Option<u64>,
    max: usize,
) -> Arc<FoundRows> {
    let address = search.query.address(search.here);
    let searches = &context.portal.shared.searches;
    let known = searches.find(&address).filter(|_| context.mode == RenderMode::Update);
    let continued = match &known {
        Some(known) => continue_scan(context, query, before, max, known, &search.is_wanted).await,
        None => None,
    };
    let found = match continued {
        Some(found) => found,
        None => scan(context, query, before, max, &search.is_wanted).await,
    };
    let found = Arc::new(found);
    searches.keep(address, found.clone());
    found
}

/// Adds the new rows to those that are known. `None` if there are too many.
async fn continue_scan(
    context: &PageContext,
    query: &HistoryQuery,
    before: Option<u64>,
    max: usize,
    known: &FoundRows,
    is_wanted: &impl Fn(&HistoryRow) -> bool,
) -> Option<FoundRows> {
    let new = HistoryQuery { after: Some(known.through), before, limit: Some(ROWS_READ), ..query.clone() };
    let new = read(context, new).await;
    if new.len() == ROWS_READ as usize {
        return None;
    }
    let through = new.last().map_or(known.through, |row| row.number);
    let is_recent = |row: &HistoryRow| query.since.is_none_or(|since| row.at >= since);
    let rows = new.into_iter().rev().filter(is_wanted).chain(known.rows.iter().cloned());
    let rows: Vec<HistoryRow> = rows.filter(is_recent).take(max).collect();
    let rest = known.rest.filter(|_| rows.len() < max);
    Some(FoundRows { rows, through, rest })
}

/// The newest wanted rows of a limited range of the history. Row numbers are consecutive, so a range of numbers limits the rows
/// that the store reads.
async fn scan(
    context: &PageContext,
    query: &HistoryQuery,
    before: Option<u64>,
    max: usize,
    is_wanted: &impl Fn(&HistoryRow) -> bool,
) -> FoundRows {
    let any = HistoryQuery { since: query.since, limit: Some(1), ..HistoryQuery::default() };
    let newest = HistoryQuery { before, ..any.clone() };
    let Some(newest) = read(context, newest).await.pop() else { return FoundRows::default() };
    let mut end = newest.number + 1;
    let limit = end.saturating_sub(ROWS_SEARCHED_MAX + 1);
    let mut rows = Vec::new();
    while rows.len() < max && end > limit + 1 {
        let begin = end.saturating_sub(u64::from(ROWS_READ) + 1).max(limit);
        let (after, before) = (Some(begin), Some(end));
        let found = read(context, HistoryQuery { after, before, limit: Some(ROWS_READ), ..query.clone() }).await;
        rows.extend(found.into_iter().rev().filter(is_wanted));
        end = begin + 1;
    }
    let is_full = rows.len() >= max;
    let has_older = !is_full && !read(context, HistoryQuery { before: Some(end), ..any }).await.is_empty();
    FoundRows { rows, through: newest.number, rest: has_older.then_some(end) }
}

/// The newest rows of a query, oldest first.
pub async fn read(context: &PageContext, query: HistoryQuery) -> Vec<HistoryRow> {
    context.portal.engine().history(HistoryQuery { newest: true, ..query }).await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read history");
        Vec::new()
    })
}

fn render_row(region: &Region, row: &HistoryRow, here: &str) -> Fragment {
    let fact = row.fact();
    let sort = format!("{:016}", u64::MAX - row.number);
    let id = format!("row-{}", row.number);
    let line = HistoryLine {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: match fact {
            Some(HistoryFact::GroupOn | HistoryFact::GroupOff) => "handler".into(),
            Some(HistoryFact::Audit { .. }) => "request".into(),
            _ => row.kind.replace('-', " "),
        },
        what: fact.as_ref().map_or_else(|| join_names(&row.machines), |fact| describe_fact(region, row, fact)),
        href: find_page(region, row, here),
    };
    Fragment::render(id, sort, &line)
}
