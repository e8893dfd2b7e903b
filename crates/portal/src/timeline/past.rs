//! Finished events, read from the history once and then row by row as it grows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::{EventId, Region, Visibility};
use forewarn_store::{EventTimeline as RecordedEvent, HistoryKind, HistoryQuery, HistoryRow};
use forewarn_widgets::event_timeline::scope_name;
use forewarn_widgets::words;

use super::{EventTimeline, approver_name};
use crate::page_context::PageContext;

/// How far back the timeline goes.
const PAST: Duration = Duration::from_secs(24 * 3600);

/// History rows per query.
const ROWS_MAX: u32 = 1000;

/// Events kept in memory, the newest: a few kilobytes per hundred.
const EVENTS_MAX: usize = 2000;

#[derive(Default)]
pub struct FinishedEvents(Mutex<ReadEvents>);

#[derive(Default)]
struct ReadEvents {
    /// The revision of the region up to which the history was read.
    revision: Option<u64>,
    /// The number of the last row that was read.
    row: u64,
    events: HashMap<EventId, PastEvent>,
}

/// An event as recorded so far, with the row of its appearance.
struct PastEvent {
    appeared: HistoryRow,
    recorded: RecordedEvent,
    timeline: Arc<EventTimeline>,
}

impl PastEvent {
    fn begin(context: &PageContext, row: &HistoryRow) -> Option<PastEvent> {
        let recorded = RecordedEvent::begin(row)?;
        let timeline = Arc::new(read_timeline(context.region(), row, &recorded));
        Some(PastEvent { appeared: row.clone(), recorded, timeline })
    }

    /// Adds a later row. The name of an event group that has gone meanwhile stays.
    fn follow(&mut self, context: &PageContext, row: &HistoryRow) {
        self.recorded.follow(row);
        let mut timeline = read_timeline(context.region(), &self.appeared, &self.recorded);
        if timeline.scope.is_empty() {
            timeline.scope.clone_from(&self.timeline.scope);
        }
        self.timeline = Arc::new(timeline);
    }
}

impl FinishedEvents {
    /// Events that finished within the last day. `wanted` gets the row of their appearance.
    pub async fn find_finished(
        &self,
        context: &PageContext,
        wanted: impl Fn(&HistoryRow) -> bool,
    ) -> Vec<Arc<EventTimeline>> {
        self.read_new_rows(context).await;
        let since = context.now - PAST;
        let read = self.lock();
        let finished = read.events.values().filter(|event| event.timeline.ended.is_some_and(|ended| ended >= since));
        finished.filter(|event| wanted(&event.appeared)).map(|event| event.timeline.clone()).collect()
    }

    async fn read_new_rows(&self, context: &PageContext) {
        let revision = context.snapshot.revision;
        loop {
            let (after, is_first) = {
                let read = self.lock();
                if read.revision.is_some_and(|known| known >= revision) {
                    return;
                }
                (read.row, read.revision.is_none())
            };
            let query = HistoryQuery {
                kinds: HistoryKind::OF_EVENTS.to_vec(),
                since: Some(context.now - PAST),
                after: (!is_first).then_some(after),
                newest: is_first,
                limit: Some(ROWS_MAX),
                ..HistoryQuery::default()
            };
            let rows = match context.portal.engine().history(query).await {
                Ok(rows) => rows,
                Err(error) => return tracing::error!(%error, "cannot read history"),
            };
            let is_all = is_first || rows.len() < ROWS_MAX as usize;
            let mut read = self.lock();
            read.apply_rows(&rows, context);
            if is_all {
                read.revision = read.revision.max(Some(revision));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadEvents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadEvents {
    fn apply_rows(&mut self, rows: &[HistoryRow], context: &PageContext) {
        // Another page may have read the same rows in the meantime.
        for row in rows.iter().filter(|row| row.number > self.row) {
            let Some(id) = row.event else { continue };
            match self.events.get_mut(&id) {
                Some(event) => event.follow(context, row),
                None => self.events.extend(PastEvent::begin(context, row).map(|event| (id, event))),
            }
        }
        self.row = rows.last().map_or(self.row, |row| self.row.max(row.number));
        self.drop_oldest();
    }

    /// Drops the oldest events beyond the limit.
    fn drop_oldest(&mut self) {
        if self.events.len() > EVENTS_MAX {
            let mut numbers: Vec<u64> = self.events.values().map(|event| event.appeared.number).collect();
            numbers.sort_unstable();
            let first = numbers[numbers.len() - EVENTS_MAX / 2];
            self.events.retain(|_, event| event.appeared.number >= first);
        }
    }
}

/// From the recorded lifecycle of an event that the region may no longer have.
fn read_timeline(region: &Region, appeared: &HistoryRow, recorded: &RecordedEvent) -> EventTimeline {
    EventTimeline {
        id: recorded.event,
        kind: recorded.appearance.kind.as_str().into(),
        names: recorded.machines.clone(),
        machines: appeared.machine_ids.clone(),
        operations: appeared.operation.iter().chain(&appeared.joined).copied().collect(),
        duration_secs: recorded.appearance.duration_secs,
        is_shown: recorded.appearance.visibility == Visibility::Shown,
        scope_id: recorded.scope,
        scope: recorded.scope.map_or_else(String::new, |scope| scope_name(region, scope)),
        status: recorded.ended.as_ref().map_or("Scheduled", |(_, outcome)| words::outcome_word(outcome)).into(),
        appeared: recorded.appeared,
        not_before: recorded.appearance.not_before,
        approved: recorded.approved.as_ref().map(|(at, by)| (*at, approver_name(by))),
        started: recorded.started,
        ended: recorded.ended.as_ref().map(|(at, _)| *at),
    }
}
