//! The history of a machine, event, group or host, newest first. History rows name machines and events but not groups, so
//! that the history of a group is filtered from the most recent rows.

use askama::Template;
use forewarn_core::Machine;
use forewarn_store::{HistoryQuery, HistoryRow};

use super::fragment::Fragment;
use super::panel::Panel;
use super::scene::Scene;
use super::words;

/// Rows per page.
const ROWS_SHOWN: usize = 50;

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
    event: Option<String>,
}

pub async fn render_panel(scene: &Scene, query: HistoryQuery) -> Panel {
    render_rows(read(scene, HistoryQuery { limit: Some(ROWS_SHOWN as u32), ..query }).await.iter().rev())
}

/// The history of one machine, without rows of other machines with the same name.
pub async fn render_machine_panel(scene: &Scene, machine: &Machine) -> Panel {
    let query = HistoryQuery {
        machine: Some(machine.name.to_string()),
        machine_id: Some(machine.id),
        ..HistoryQuery::default()
    };
    render_panel(scene, query).await
}

/// The wanted rows among the most recent ones.
pub async fn render_filtered_panel(scene: &Scene, wanted: impl Fn(&HistoryRow) -> bool) -> Panel {
    let rows = read(scene, HistoryQuery { limit: Some(ROWS_READ), ..HistoryQuery::default() }).await;
    render_rows(rows.iter().rev().filter(|row| wanted(row)).take(ROWS_SHOWN))
}

async fn read(scene: &Scene, query: HistoryQuery) -> Vec<HistoryRow> {
    scene.portal.engine().history(HistoryQuery { newest: true, ..query }).await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read history");
        Vec::new()
    })
}

fn render_rows<'r>(rows: impl Iterator<Item = &'r HistoryRow>) -> Panel {
    Panel::new("history", "History", rows.map(render_row).collect()).or_empty_text("No history yet.")
}

fn render_row(row: &HistoryRow) -> Fragment {
    let actor = row.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
    let machines = words::join_names(&row.machines);
    let outcome = row.outcome.as_deref().unwrap_or_default();
    let what = match row.kind.as_str() {
        "appeared" => format!("{outcome} appeared for {machines}"),
        "approved" => format!("approved{actor}"),
        "started" => format!("started on {machines}"),
        "ended" => format!("ended: {outcome}{actor}"),
        "audit" => format!("{outcome} of {}{actor}", row.target.as_deref().unwrap_or_default()),
        "operation-ended" => format!("operation {outcome}"),
        other => format!("{} {machines}", other.replace('-', " ")),
    };
    let sort = format!("{:016}", u64::MAX - row.number);
    let id = format!("row-{}", row.number);
    let line = HistoryLine {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: row.kind.clone(),
        what,
        event: row.event.map(words::event_name),
    };
    Fragment::render(id, sort, &line)
}
