//! Logs events, approvals and operations of a running server at the level `info`, from its history. In a cluster, the leader does.

use forewarn_engine::{ClusterRole, Engine};
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow, StoreError};
use tokio::sync::watch;

/// Rows that are read at once.
const ROWS_PER_PAGE: u32 = 100;

/// Logs until the engine stops.
pub async fn log_activity(engine: Engine) {
    // Subscribe before reading history, so that no commit is missed.
    let commits = engine.subscribe();
    let read = |query| {
        let engine = engine.clone();
        async move { engine.history(query).await }
    };
    let leads = || engine.cluster().is_none_or(|cluster| cluster.status().role == ClusterRole::Leader);
    let log_at_leader = |row: &HistoryRow| {
        if leads() {
            log(row);
        }
    };
    follow(commits, read, log_at_leader).await;
}

/// Logs the rows of every commit. Rows that could not be read are read again after the next commit.
async fn follow<Read, Rows>(mut commits: watch::Receiver<u64>, read: Read, log: impl Fn(&HistoryRow))
where
    Read: Fn(HistoryQuery) -> Rows,
    Rows: Future<Output = Result<Vec<HistoryRow>, StoreError>>,
{
    let mut last = None;
    loop {
        if let Err(error) = log_new(&read, &log, &mut last).await {
            tracing::warn!(%error, "cannot read the history; retrying after the next change");
        }
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// Logs the rows after `last`. At first, when `last` is None, only finds the newest row.
async fn log_new<Read, Rows>(read: &Read, log: &impl Fn(&HistoryRow), last: &mut Option<u64>) -> Result<(), StoreError>
where
    Read: Fn(HistoryQuery) -> Rows,
    Rows: Future<Output = Result<Vec<HistoryRow>, StoreError>>,
{
    let Some(last) = last else {
        let rows = read(HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() }).await?;
        *last = Some(rows.last().map_or(0, |row| row.number));
        return Ok(());
    };
    loop {
        let query = HistoryQuery { after: Some(*last), limit: Some(ROWS_PER_PAGE), ..HistoryQuery::default() };
        let rows = read(query).await?;
        rows.iter().for_each(log);
        *last = rows.last().map_or(*last, |row| row.number);
        if rows.len() < ROWS_PER_PAGE as usize {
            return Ok(());
        }
    }
}

fn log(row: &HistoryRow) {
    let Some(message) = message(row) else { return };
    // Events as in documents and on the command line, where their IDs are in capitals.
    let event = row.event.map(|id| id.to_string().to_uppercase());
    let id = event.or_else(|| row.operation.map(|id| id.to_string()));
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
        | HistoryKind::GroupOn
        | HistoryKind::GroupOff
        | HistoryKind::RolloutChanged
        | HistoryKind::HostChanged
        | HistoryKind::Audit => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use forewarn_core::Timestamp;

    use super::*;

    fn row(number: u64) -> HistoryRow {
        HistoryRow {
            number,
            at: Timestamp(0),
            kind: "started".into(),
            event: None,
            operation: None,
            joined: Vec::new(),
            scope: None,
            machines: Vec::new(),
            machine_ids: Vec::new(),
            actor: None,
            target: None,
            outcome: None,
            detail: "{}".into(),
        }
    }

    /// Each answer is followed by a commit, the last one by the end of the engine.
    #[tokio::test]
    async fn rows_that_cannot_be_read_are_logged_after_the_next_commit() {
        let broken = || Err(StoreError::Message("no disk".into()));
        let answers = [broken(), Ok(vec![row(4)]), broken(), Ok(vec![row(5), row(6)])];
        let answers = RefCell::new(VecDeque::from(answers));
        let (commit, commits) = watch::channel(0);
        let commit = RefCell::new(Some(commit));
        let (asked, logged) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let read = |query: HistoryQuery| {
            asked.borrow_mut().push(query.after);
            let answer = answers.borrow_mut().pop_front().unwrap();
            match answers.borrow().is_empty() {
                true => drop(commit.take()),
                false => commit.borrow().as_ref().unwrap().send_modify(|number| *number += 1),
            }
            std::future::ready(answer)
        };
        follow(commits, read, |row| logged.borrow_mut().push(row.number)).await;
        assert_eq!(asked.take(), [None, None, Some(4), Some(4)]);
        assert_eq!(logged.take(), [5, 6]);
    }
}
