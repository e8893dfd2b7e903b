//! What happened, newest first: of one machine or event, or of a group or host by a look at the last rows of all.

use askama::Template;
use forewarn_store::{HistoryQuery, HistoryRow};

use super::page::{Fragment, Panel, Scene};
use super::words;

/// Rows on a page.
const ROWS_SHOWN: usize = 50;

/// Rows that are looked at for those of a group: history knows machines and events, not groups.
const ROWS_READ: u32 = 1000;

#[derive(Template)]
#[template(path = "history.html")]
struct Line {
    id: String,
    sort: String,
    at: String,
    kind: String,
    what: String,
    event: Option<String>,
}

/// What the query finds.
pub async fn panel(scene: &Scene, query: HistoryQuery) -> Panel {
    shown(read(scene, HistoryQuery { limit: Some(ROWS_SHOWN as u32), ..query }).await.iter().rev())
}

/// What this says yes to, of the last rows of all.
pub async fn panel_of(scene: &Scene, wanted: impl Fn(&HistoryRow) -> bool) -> Panel {
    let rows = read(scene, HistoryQuery { limit: Some(ROWS_READ), ..HistoryQuery::default() }).await;
    shown(rows.iter().rev().filter(|row| wanted(row)).take(ROWS_SHOWN))
}

async fn read(scene: &Scene, query: HistoryQuery) -> Vec<HistoryRow> {
    scene.service.engine().history(HistoryQuery { newest: true, ..query }).await.unwrap_or_else(|error| {
        tracing::error!(%error, "history cannot be read");
        Vec::new()
    })
}

fn shown<'r>(rows: impl Iterator<Item = &'r HistoryRow>) -> Panel {
    Panel::new("history", "History", rows.map(line).collect()).or("Nothing has happened yet.")
}

fn line(row: &HistoryRow) -> Fragment {
    let actor = row.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
    let machines = words::few(&row.machines);
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
    let line = Line {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: row.kind.clone(),
        what,
        event: row.event.map(words::event_name),
    };
    Fragment::of(id, sort, &line)
}
