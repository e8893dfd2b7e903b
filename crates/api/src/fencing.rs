//! The statement that a host is off: its author and its time. The region has only the state of the host, so this comes from the
//! audit trail, which every server of a cluster has.

use forewarn_api_types::Fencing;
use forewarn_core::{Host, HostState};
use forewarn_engine::Engine;
use forewarn_render::Convert;
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow, StoreError};

use super::Action;

/// Audit rows that are read to find the latest statement about a host. A machine can have the same name.
const ROWS_READ: u32 = 100;

/// The statement behind the state of a host. `None` if the host is not fenced, or the history has been deleted since.
pub async fn find_fencing(engine: &Engine, host: &Host) -> Result<Option<Fencing>, StoreError> {
    if host.state != HostState::Failed {
        return Ok(None);
    }
    let query = HistoryQuery {
        machine: Some(host.name.to_string()),
        kinds: vec![HistoryKind::Audit],
        limit: Some(ROWS_READ),
        newest: true,
        ..HistoryQuery::default()
    };
    let is_statement = |row: &HistoryRow| {
        row.outcome.as_deref() == Some(Action::FenceHost.name()) && row.target.as_deref() == Some(&*host.name)
    };
    let row = engine.history(query).await?.into_iter().rev().find(is_statement);
    Ok(row.map(|row| Fencing { by: row.actor.unwrap_or_default(), at: row.at.convert() }))
}
