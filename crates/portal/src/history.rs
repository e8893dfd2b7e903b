//! What happened, newest first: of one machine or event, or of a group or host by a look at the last rows of all.

use askama::Template;
use forewarn_core::{Found, Machine, Region, Timestamp};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_wire::guid;
use serde_json::Value;

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

/// What happened to this machine, and not to another of its name.
pub async fn panel_of_machine(scene: &Scene, machine: &Machine) -> Panel {
    let query =
        HistoryQuery { machine: Some(machine.name.to_string()), limit: Some(ROWS_READ), ..HistoryQuery::default() };
    let rows = read(scene, query).await;
    let whose = Whose::of(scene.region(), machine, &rows);
    shown(rows.iter().rev().filter(|row| whose.has(row)).take(ROWS_SHOWN))
}

/// What tells the rows of a machine from those of others of its name, which are there or were.
struct Whose {
    scope: u64,
    vm_id: String,
    is_only: bool,
    /// When it was registered, if that was read.
    born: Option<Timestamp>,
}

impl Whose {
    fn of(region: &Region, machine: &Machine, rows: &[HistoryRow]) -> Whose {
        let is_only = matches!(region.machine_by_name(&machine.name, None), Found::One(_));
        let vm_id = guid::Lower(machine.vm_id.0).to_string();
        let is_birth = |row: &&HistoryRow| row.kind == "machine-added" && detail(row, "vm_id") == Some(vm_id.clone());
        let born = rows.iter().find(is_birth).map(|row| row.at);
        Whose { scope: machine.scope.0, is_only, born, vm_id }
    }

    /// By the scope, which a machine keeps for life; rows of what people asked have none, but may name the machine.
    fn has(&self, row: &HistoryRow) -> bool {
        if let Some(vm_id) = detail(row, "vmId") {
            return vm_id == self.vm_id;
        }
        let is_later = self.born.is_none_or(|born| row.at >= born);
        is_later && row.scope.map_or(self.is_only, |scope| scope == self.scope)
    }
}

fn detail(row: &HistoryRow, key: &str) -> Option<String> {
    let detail: Value = serde_json::from_str(&row.detail).ok()?;
    detail[key].as_str().map(str::to_ascii_lowercase)
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
    let outcome = match row.outcome.as_deref() {
        Some("canceled") => "cancelled",
        outcome => outcome.unwrap_or_default(),
    };
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
