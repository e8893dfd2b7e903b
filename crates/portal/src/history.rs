//! The history of a machine, event, group or host, newest first. History rows name machines and events but not groups, so
//! that the history of a group is filtered from the most recent rows.

use askama::Template;
use forewarn_core::{Found, Machine, Region, Timestamp};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_wire::guid;
use serde_json::Value;

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
    let query =
        HistoryQuery { machine: Some(machine.name.to_string()), limit: Some(ROWS_READ), ..HistoryQuery::default() };
    let rows = read(scene, query).await;
    let matcher = MachineRows::of(scene.region(), machine, &rows);
    render_rows(rows.iter().rev().filter(|row| matcher.contains(row)).take(ROWS_SHOWN))
}

/// Tells the rows of a machine from those of other machines, existing or deleted, with the same name.
struct MachineRows {
    scope: u64,
    vm_id: String,
    is_only: bool,
    /// The time of registration, if its row was read.
    registered: Option<Timestamp>,
}

impl MachineRows {
    fn of(region: &Region, machine: &Machine, rows: &[HistoryRow]) -> MachineRows {
        let is_only = matches!(region.machine_by_name(&machine.name, None), Found::One(_));
        let vm_id = guid::Lower(machine.vm_id.0).to_string();
        let is_registration =
            |row: &&HistoryRow| row.kind == "machine-added" && detail(row, "vm_id") == Some(vm_id.clone());
        let registered = rows.iter().find(is_registration).map(|row| row.at);
        MachineRows { scope: machine.scope.0, is_only, registered, vm_id }
    }

    /// Decides by the scope, which never changes for a machine. Rows of requests have no scope but may name the machine.
    fn contains(&self, row: &HistoryRow) -> bool {
        if let Some(vm_id) = detail(row, "vmId") {
            return vm_id == self.vm_id;
        }
        let is_later = self.registered.is_none_or(|registered| row.at >= registered);
        is_later && row.scope.map_or(self.is_only, |scope| scope == self.scope)
    }
}

fn detail(row: &HistoryRow, key: &str) -> Option<String> {
    let detail: Value = serde_json::from_str(&row.detail).ok()?;
    detail[key].as_str().map(str::to_ascii_lowercase)
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
