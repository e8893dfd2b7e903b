//! What is over, read from history once and then row by row as it grows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::EventId;
use forewarn_store::{HistoryQuery, HistoryRow};

use super::Life;
use crate::page::Scene;

/// How far back the time line goes.
const PAST: Duration = Duration::from_secs(24 * 3600);

/// Rows of history that are read at a time.
const ROWS_MAX: u32 = 1000;

/// Events that are kept, the newest: some kilobytes each hundred, and more than anybody scrolls through.
const KEPT_MAX: usize = 2000;

#[derive(Default)]
pub struct Past(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The revision of the region that history was read at.
    revision: Option<u64>,
    /// The number of the last row that was read.
    row: u64,
    events: HashMap<EventId, Told>,
}

/// An event as history tells it.
struct Told {
    appeared: HistoryRow,
    life: Arc<Life>,
}

impl Past {
    /// Events that are over for less than a day, of those that `wanted` says so of, given the row of their appearance.
    pub async fn over(&self, scene: &Scene, wanted: impl Fn(&HistoryRow) -> bool) -> Vec<Arc<Life>> {
        self.read_on(scene).await;
        let since = scene.now - PAST;
        let kept = self.kept();
        let over = kept.events.values().filter(|told| told.life.ended.is_some_and(|ended| ended >= since));
        over.filter(|told| wanted(&told.appeared)).map(|told| told.life.clone()).collect()
    }

    async fn read_on(&self, scene: &Scene) {
        let revision = scene.snapshot.revision;
        loop {
            let (after, is_first) = {
                let kept = self.kept();
                if kept.revision.is_some_and(|read| read >= revision) {
                    return;
                }
                (kept.row, kept.revision.is_none())
            };
            let kinds = ["appeared", "approved", "started", "ended"].map(str::to_owned).to_vec();
            let query = HistoryQuery {
                kinds,
                since: Some(scene.now - PAST),
                after: (!is_first).then_some(after),
                newest: is_first,
                limit: Some(ROWS_MAX),
                ..HistoryQuery::default()
            };
            let rows = match scene.service.engine().history(query).await {
                Ok(rows) => rows,
                Err(error) => return tracing::error!(%error, "history cannot be read"),
            };
            let is_all = is_first || rows.len() < ROWS_MAX as usize;
            let mut kept = self.kept();
            kept.take(&rows, scene);
            if is_all {
                kept.revision = kept.revision.max(Some(revision));
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, rows: &[HistoryRow], scene: &Scene) {
        // Another viewer may have read the same rows meanwhile.
        for row in rows.iter().filter(|row| row.number > self.row) {
            let Some(id) = row.event else { continue };
            if row.kind == "appeared" {
                let life = Arc::new(Life::appeared(scene.region(), id, row));
                self.events.insert(id, Told { appeared: row.clone(), life });
            } else if let Some(told) = self.events.get_mut(&id) {
                Arc::make_mut(&mut told.life).went_on(row);
            }
        }
        self.row = rows.last().map_or(self.row, |row| self.row.max(row.number));
        self.forget();
    }

    /// The oldest go first.
    fn forget(&mut self) {
        if self.events.len() > KEPT_MAX {
            let mut numbers: Vec<u64> = self.events.values().map(|told| told.appeared.number).collect();
            numbers.sort_unstable();
            let first = numbers[numbers.len() - KEPT_MAX / 2];
            self.events.retain(|_, told| told.appeared.number >= first);
        }
    }
}
