//! The history of a machine, event, group or host, newest first. History rows name machines and events but not groups, so
//! that the history of a group is filtered from the most recent rows.

use askama::Template;
use forewarn_core::{Machine, Region};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words;

use super::activity::title_of;
use super::page_context::PageContext;

/// Rows per page.
const ROWS_SHOWN: usize = 50;

/// Rows on the page of the whole history.
const ROWS_FOUND: usize = 200;

/// Rows that are read to find those of a group, host or machine.
const ROWS_READ: u32 = 1000;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryLine {
    id: String,
    sort: String,
    at: String,
    kind: String,
    what: String,
    /// The page of the event, operation or rollout; empty if there is none.
    href: String,
}

pub async fn render_panel(context: &PageContext, query: HistoryQuery) -> Panel {
    render_rows(context, read(context, HistoryQuery { limit: Some(ROWS_SHOWN as u32), ..query }).await.iter().rev())
}

/// The history of one machine, without rows of other machines with the same name.
pub async fn render_machine_panel(context: &PageContext, machine: &Machine) -> Panel {
    let query = HistoryQuery {
        machine: Some(machine.name.to_string()),
        machine_id: Some(machine.id),
        ..HistoryQuery::default()
    };
    render_panel(context, query).await
}

/// The rows of a query that are wanted, in a table of their own.
pub async fn render_search_panel(
    context: &PageContext,
    query: HistoryQuery,
    wanted: impl Fn(&HistoryRow) -> bool,
) -> Panel {
    let rows = read(context, HistoryQuery { limit: Some(ROWS_READ), ..query }).await;
    let rows = rows.iter().rev().filter(|row| wanted(row)).take(ROWS_FOUND);
    Panel::new("history", "History", rows.map(|row| render_row(context.region(), row)).collect())
        .or_empty_text("No matching history.")
}

/// The wanted rows among the most recent ones.
pub async fn render_filtered_panel(context: &PageContext, wanted: impl Fn(&HistoryRow) -> bool) -> Panel {
    let rows = read(context, HistoryQuery { limit: Some(ROWS_READ), ..HistoryQuery::default() }).await;
    render_rows(context, rows.iter().rev().filter(|row| wanted(row)).take(ROWS_SHOWN))
}

async fn read(context: &PageContext, query: HistoryQuery) -> Vec<HistoryRow> {
    context.portal.engine().history(HistoryQuery { newest: true, ..query }).await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read history");
        Vec::new()
    })
}

fn render_rows<'r>(context: &PageContext, rows: impl Iterator<Item = &'r HistoryRow>) -> Panel {
    Panel::new("history", "History", rows.map(|row| render_row(context.region(), row)).collect())
        .or_empty_text("No history yet.")
}

fn render_row(region: &Region, row: &HistoryRow) -> Fragment {
    let actor = row.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
    let machines = words::join_names(&row.machines);
    let outcome = row.outcome.as_deref().unwrap_or_default();
    // The region knows events and operations until an hour after their end.
    let event = row.event.and_then(|id| region.event(id)).map(|event| words::event_kind(event.kind));
    let of_event = event.map_or_else(|| machines.clone(), |kind| format!("{kind} of {machines}"));
    let operation = row.operation.and_then(|id| region.operation(id));
    let what = match row.kind.as_str() {
        "appeared" => format!("{outcome} appeared for {machines}"),
        "approved" if machines.is_empty() => format!("approved{actor}"),
        "approved" => format!("{of_event} approved{actor}"),
        "started" => format!("{} started on {machines}", event.unwrap_or("event")),
        "ended" if machines.is_empty() => format!("ended: {}{actor}", outcome.replace('-', " ")),
        "ended" => format!("{of_event} ended: {}{actor}", outcome.replace('-', " ")),
        "audit" => format!("{outcome} of {}{actor}", row.target.as_deref().unwrap_or_default()),
        "operation-ended" => match operation {
            Some(operation) => format!("{}: {outcome}", title_of(region, operation)),
            None => format!("operation {outcome}"),
        },
        "rollout" => describe_rollout(row, outcome),
        "scope-on" => "handler connected".into(),
        "scope-off" => "handler disconnected".into(),
        "host" => format!("host {} is {}", row.target.as_deref().unwrap_or_default(), outcome.to_lowercase()),
        other => format!("{} {machines}", other.replace('-', " ")),
    };
    let sort = format!("{:016}", u64::MAX - row.number);
    let id = format!("row-{}", row.number);
    let line = HistoryLine {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: row.kind.replace("scope-on", "handler").replace("scope-off", "handler").replace('-', " "),
        what,
        href: match (row.event, row.operation, row.kind.as_str()) {
            (Some(event), _, _) => format!("/events/{}", words::event_name(event)),
            (None, _, "rollout") => format!("/rollouts/{}", row.target.as_deref().unwrap_or_default()),
            (None, Some(operation), _) => format!("/operations/{operation}"),
            (None, None, _) => String::new(),
        },
    };
    Fragment::render(id, sort, &line)
}

/// `rollout: step started, host r05-n01`
fn describe_rollout(row: &HistoryRow, change: &str) -> String {
    let detail: serde_json::Value = serde_json::from_str(&row.detail).unwrap_or_default();
    let step = match (detail["host"].as_str(), detail["domain"].as_u64()) {
        (Some(host), _) => format!(", host {host}"),
        (None, Some(domain)) => format!(", update domain {domain}"),
        (None, None) => String::new(),
    };
    let result = detail["step_state"]
        .as_str()
        .filter(|_| change == "step-ended")
        .map_or_else(String::new, |state| format!(": {state}"));
    let wait = detail["waits_for"].as_str().map_or_else(String::new, |reason| format!(" for {reason}"));
    format!("rollout: {}{step}{result}{wait}", change.replace('-', " "))
}
