//! The history of a machine, event, operation, group, host, rollout or of the fleet, newest first, in pages. Rows that no index
//! finds are searched in a limited range of the newest rows; the next page continues where the search ended.

use askama::Template;
use forewarn_api_types::join_names;
use forewarn_core::{Machine, Region};
use forewarn_store::{HistoryFact, HistoryQuery, HistoryRow};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::history_line::{describe_fact, find_page};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::words;

use super::page_context::PageContext;

/// Rows per page.
const ROWS_SHOWN: usize = 50;

/// Rows on the page of the whole history.
const ROWS_FOUND: usize = 200;

/// Rows that are searched for those of a group, host, rollout or person. A search reads few more when the page is updated.
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
        let (found, next) = scan(context, query, before, max + 1, &search.is_wanted).await;
        rows.extend(found);
        rest = next;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.number));
    rows.dedup_by_key(|row| row.number);
    // Indexed rows beyond the end of the search are on a later page.
    rows.retain(|row| rest.is_none_or(|end| row.number >= end));
    let (next, note) = match (rows.get(max - 1), rest) {
        (Some(last), _) if rows.len() > max => (Some(last.number), ""),
        (_, Some(end)) => (Some(end), "Older rows were not searched."),
        (_, None) => (None, ""),
    };
    rows.truncate(max);
    let fragments = rows.iter().map(|row| render_row(context.region(), row, search.here)).collect();
    let foot = next.map_or_else(String::new, |number| {
        let href = search.query.with("before", &number.to_string()).address(search.here);
        let label = if note.is_empty() { "Older" } else { "Search older rows" };
        format!(r#"<p class="foot"><span>{note}</span><a href="{}">{label}</a></p>"#, words::escape_html(href))
    });
    let empty = if is_whole { "No matching history." } else { "No history yet." };
    Panel::new("history", "History", fragments).or_empty_text(empty).with_html_after(foot)
}

/// The newest wanted rows of a limited range of the history, and where the search goes on if there are older rows. Row numbers are
/// consecutive, so a range of numbers limits the rows that the store reads.
async fn scan(
    context: &PageContext,
    query: &HistoryQuery,
    before: Option<u64>,
    max: usize,
    is_wanted: &impl Fn(&HistoryRow) -> bool,
) -> (Vec<HistoryRow>, Option<u64>) {
    let newest = HistoryQuery { before, limit: Some(1), ..HistoryQuery::default() };
    let Some(newest) = read(context, newest).await.pop() else { return (Vec::new(), None) };
    let mut end = newest.number + 1;
    let limit = end.saturating_sub(ROWS_SEARCHED_MAX + 1);
    let mut found = Vec::new();
    while found.len() < max && end > limit + 1 {
        let begin = end.saturating_sub(u64::from(ROWS_READ) + 1).max(limit);
        let (after, before) = (Some(begin), Some(end));
        let rows = read(context, HistoryQuery { after, before, limit: Some(ROWS_READ), ..query.clone() }).await;
        found.extend(rows.into_iter().rev().filter(is_wanted));
        end = begin + 1;
    }
    if found.len() >= max {
        return (found, None);
    }
    let older = HistoryQuery { before: Some(end), limit: Some(1), ..HistoryQuery::default() };
    let has_older = !read(context, older).await.is_empty();
    (found, has_older.then_some(end))
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
            Some(HistoryFact::ScopeOn | HistoryFact::ScopeOff) => "handler".into(),
            Some(HistoryFact::Audit { .. }) => "request".into(),
            _ => row.kind.replace('-', " "),
        },
        what: fact.as_ref().map_or_else(|| join_names(&row.machines), |fact| describe_fact(region, row, fact)),
        href: find_page(region, row, here),
    };
    Fragment::render(id, sort, &line)
}
