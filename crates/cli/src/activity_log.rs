//! Logs events, approvals and operations of a running server at the level `info`, from its history.

use forewarn_server::Engine;
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow};
use tokio::sync::watch;

/// Rows that are read at once.
const ROWS_PER_PAGE: u32 = 100;

/// Logs until the engine stops.
pub async fn run(engine: Engine) {
    // Subscribe before reading history, so that no commit is missed.
    let commits = engine.subscribe();
    let newest = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
    let Ok(rows) = engine.history(newest).await else { return };
    let last = rows.last().map_or(0, |row| row.number);
    follow(&engine, commits, last).await;
}

async fn follow(engine: &Engine, mut commits: watch::Receiver<u64>, mut last: u64) {
    while commits.changed().await.is_ok() {
        loop {
            let query = HistoryQuery { after: Some(last), limit: Some(ROWS_PER_PAGE), ..HistoryQuery::default() };
            // History that cannot be read is reported by the health check.
            let Ok(rows) = engine.history(query).await else { return };
            rows.iter().for_each(log);
            last = rows.last().map_or(last, |row| row.number);
            if rows.len() < ROWS_PER_PAGE as usize {
                break;
            }
        }
    }
}

fn log(row: &HistoryRow) {
    let Some(message) = message(row) else { return };
    let id = row.event.map(|id| id.to_string()).or_else(|| row.operation.map(|id| id.to_string()));
    let id = id.unwrap_or_default();
    let machines = row.machines.join(",");
    match &row.actor {
        Some(by) => tracing::info!(id, machines, by, "{message}"),
        None => tracing::info!(id, machines, "{message}"),
    }
}

/// None for rows that are not about events and operations.
fn message(row: &HistoryRow) -> Option<String> {
    let outcome = row.outcome.as_deref().unwrap_or_default();
    match HistoryKind::parse(&row.kind)? {
        HistoryKind::Appeared => Some(format!("{outcome} scheduled")),
        HistoryKind::Approved => Some("event approved".to_owned()),
        HistoryKind::Started => Some("event started".to_owned()),
        HistoryKind::Ended => Some(format!("event {outcome}")),
        HistoryKind::OperationEnded => Some(format!("operation {outcome}")),
        HistoryKind::MachineAdded
        | HistoryKind::MachineRemoved
        | HistoryKind::ScopeOn
        | HistoryKind::ScopeOff
        | HistoryKind::RolloutChanged
        | HistoryKind::HostChanged
        | HistoryKind::Audit => None,
    }
}
