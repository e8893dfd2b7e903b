//! Waits for an event to reach a status. No change is missed, however short-lived: the wait reads rows of history, and commits
//! wake it.
//!
//! ```text
//!   subscribe ─▶ newest row of history ─▶ has an event already reached the status? ─yes─▶ reached
//!                                                   │ no
//!                     ┌── read the later rows ◀────┘
//!                     ▼                     ▲
//!              a matching row? ─no─▶ wait for a commit, or time out
//!                     └── the last candidate ended without reaching it: missed
//! ```

use std::sync::Arc;

use forewarn_core::{Event, EventId, EventKind, Machine, MachineId, Region, ScopeId, Status, Timestamp};
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::engine::Engine;

/// Rows per read.
const ROWS_MAX: u32 = 500;

/// A status to wait for. Events pass through all earlier ones, except that not every event is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// The event has appeared.
    Scheduled,
    Approved,
    Started,
    /// The event has ended, with any outcome.
    Gone,
}

impl Milestone {
    /// The kind of the history row that records it.
    fn row(self) -> HistoryKind {
        match self {
            Milestone::Scheduled => HistoryKind::Appeared,
            Milestone::Approved => HistoryKind::Approved,
            Milestone::Started => HistoryKind::Started,
            Milestone::Gone => HistoryKind::Ended,
        }
    }
}

/// The events to wait for. Events that had already ended do not count, unless `event`, `since` or `after` is given.
#[derive(Clone, Debug)]
pub struct WaitFor {
    pub milestone: Milestone,
    pub machine: Option<MachineFilter>,
    pub kind: Option<EventKind>,
    pub event: Option<EventId>,
    /// Statuses reached at this time or later count.
    pub since: Option<Timestamp>,
    /// Rows of history after this one count; continues an earlier wait.
    pub after: Option<u64>,
}

impl WaitFor {
    pub fn new(milestone: Milestone) -> WaitFor {
        WaitFor { milestone, machine: None, kind: None, event: None, since: None, after: None }
    }

    fn includes_past(&self) -> bool {
        self.event.is_some() || self.since.is_some()
    }
}

/// The machine of an event.
#[derive(Clone, Debug)]
pub struct MachineFilter {
    name: String,
    known: Option<(MachineId, ScopeId)>,
}

impl MachineFilter {
    pub fn of(machine: &Machine) -> MachineFilter {
        MachineFilter { name: machine.name.to_string(), known: Some((machine.id, machine.scope)) }
    }

    /// A machine that no longer exists.
    pub fn past(name: &str) -> MachineFilter {
        MachineFilter { name: name.to_owned(), known: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitResult {
    pub outcome: Outcome,
    /// The last row that was read; a later wait continues there.
    pub after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Reached(Reached),
    /// This event ended without reaching the status, and no other candidate exists.
    Missed(Reached),
    TimedOut,
}

/// An event and the time at which it reached the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub event: EventId,
    pub at: Timestamp,
}

impl Engine {
    /// Waits until an event has reached the status, or until a real time.
    pub async fn wait_for(&self, wait: &WaitFor, until: Instant) -> Result<WaitResult, StoreError> {
        let mut commits = self.subscribe();
        let mut after = match wait.after {
            Some(after) => after,
            None if wait.includes_past() => 0,
            None => self.newest_row().await?,
        };
        if let Some(reached) = find_reached(&self.snapshot().region, wait) {
            return Ok(WaitResult { outcome: Outcome::Reached(reached), after });
        }
        loop {
            commits.borrow_and_update();
            if let Some(outcome) = self.scan(wait, &mut after).await? {
                return Ok(WaitResult { outcome, after });
            }
            match timeout_at(until, commits.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Ok(WaitResult { outcome: Outcome::TimedOut, after }),
            }
        }
    }

    /// Finds the first matching row after `after`, and advances `after`. Without a match, returns an event that ended if it was
    /// the last candidate.
    async fn scan(&self, wait: &WaitFor, after: &mut u64) -> Result<Option<Outcome>, StoreError> {
        let mut over = None;
        loop {
            let rows = self
                .history(HistoryQuery {
                    after: Some(*after),
                    event: wait.event,
                    machine: wait.machine.as_ref().map(|whose| whose.name.clone()),
                    kinds: vec![wait.milestone.row(), Milestone::Gone.row()],
                    since: wait.since,
                    limit: Some(ROWS_MAX),
                    ..HistoryQuery::default()
                })
                .await?;
            let is_last = rows.len() < ROWS_MAX as usize;
            for row in &rows {
                *after = row.number;
                let Some(event) = row.event.filter(|_| matches(row, wait)) else { continue };
                let found = Reached { event, at: row.at };
                if row.kind == wait.milestone.row().as_str() {
                    return Ok(Some(Outcome::Reached(found)));
                }
                over = Some(found);
            }
            if is_last {
                break;
            }
        }
        match over {
            Some(over) if !self.may_still_come(wait, over.event).await? => Ok(Some(Outcome::Missed(over))),
            Some(_) | None => Ok(None),
        }
    }

    /// Whether another candidate exists, or this event had reached the status before the wait.
    async fn may_still_come(&self, wait: &WaitFor, over: EventId) -> Result<bool, StoreError> {
        if candidates(&self.snapshot().region, wait).any(|event| event.is_live()) {
            return Ok(true);
        }
        let kinds = vec![wait.milestone.row()];
        let rows = HistoryQuery { event: Some(over), kinds, limit: Some(1), ..HistoryQuery::default() };
        Ok(!self.history(rows).await?.is_empty())
    }

    async fn newest_row(&self) -> Result<u64, StoreError> {
        let query = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
        Ok(self.history(query).await?.last().map_or(0, |row| row.number))
    }
}

/// An event that has already reached the status, and has not ended or was requested by ID.
fn find_reached(region: &Region, wait: &WaitFor) -> Option<Reached> {
    candidates(region, wait).filter(|event| event.is_live() || wait.event.is_some()).find_map(|event| {
        let at = reached_at(event, wait.milestone)?;
        wait.since.is_none_or(|since| at >= since).then_some(Reached { event: event.id, at })
    })
}

/// The candidates in the region, in any status.
fn candidates<'a>(region: &'a Region, wait: &'a WaitFor) -> impl Iterator<Item = &'a Arc<Event>> {
    let events: Box<dyn Iterator<Item = &Arc<Event>>> = match (wait.event, &wait.machine) {
        (Some(id), _) => Box::new(region.event(id).into_iter()),
        (None, Some(MachineFilter { known: Some((machine, _)), .. })) => Box::new(region.events_of(*machine)),
        (None, Some(MachineFilter { known: None, .. })) => Box::new(std::iter::empty()),
        (None, None) => Box::new(region.events()),
    };
    events.filter(|event| {
        wait.kind.is_none_or(|kind| event.kind == kind) && wait.machine.as_ref().is_none_or(|whose| is_of(event, whose))
    })
}

fn is_of(event: &Event, whose: &MachineFilter) -> bool {
    event.resources.iter().any(|resource| match whose.known {
        Some((machine, _)) => resource.machine == machine,
        None => resource.name.eq_ignore_ascii_case(&whose.name),
    })
}

/// When the event reached the status, as far as the event itself records it: an ended event does not record its start.
fn reached_at(event: &Event, milestone: Milestone) -> Option<Timestamp> {
    match (milestone, &event.status) {
        (Milestone::Scheduled, _) => Some(event.appeared),
        (Milestone::Approved, _) => event.approval.as_ref().map(|approval| approval.at),
        (Milestone::Started, Status::Started { at }) | (Milestone::Gone, Status::Ended { at, .. }) => Some(*at),
        (Milestone::Started, Status::Scheduled | Status::Ended { .. })
        | (Milestone::Gone, Status::Scheduled | Status::Started { .. }) => None,
    }
}

/// History finds machines by name, and several machines can have the same name.
fn matches(row: &HistoryRow, wait: &WaitFor) -> bool {
    let is_kind = |kind: EventKind| row.event_kind() == Some(kind);
    let is_here = |whose: &MachineFilter| whose.known.is_none_or(|(_, scope)| row.scope == Some(scope.0));
    wait.kind.is_none_or(is_kind) && wait.machine.as_ref().is_none_or(is_here)
}
