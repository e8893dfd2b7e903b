//! A server's copy of a replicated region that collects records in memory and stores them in large transactions. Readers see
//! applied records at once.
//!
//! ```text
//!   apply ─▶ queue ──one transaction──▶ store       when the records are synced, there are many, or a reader needs them
//!     └────▶ newest history rows, in memory
//! ```
//!
//! A crash of the process loses the queue. The log still has its records, because only what was synced is deleted there. Most
//! records change the same entities and pages, so storing the records of a second together costs a fraction of storing each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_core::{Timestamp, Write};

use crate::recent::RecentRows;
use crate::replica::out_of_order;
use crate::*;

/// Writes, attachments and history rows in the queue: a second of a busy region. More are stored at once, so that memory and the
/// length of a transaction have a limit.
const QUEUE_MAX: usize = 20_000;

/// A copy whose records are stored together.
pub struct BufferedStore {
    shared: Arc<Shared>,
}

struct Shared {
    copy: Mutex<QueuedStore>,
    reader: Arc<dyn Reader>,
    /// The newest history rows, with those in the queue.
    recent: Mutex<RecentRows>,
    /// Whether the queue has history rows, or changes them.
    has_rows: AtomicBool,
    /// Whether the queue has attachments, or deletes their owners.
    has_attachments: AtomicBool,
}

struct QueuedStore {
    store: Box<dyn Replicated>,
    queue: Vec<Change>,
    /// The number of writes, attachments and history rows in the queue.
    size: usize,
    /// The revision and position after the queue. None: not known, and the queue is empty.
    end: Option<(u64, String)>,
    newest_row: (Timestamp, u64),
    clock: Option<ClockKind>,
    /// The last transaction failed.
    has_failed: bool,
}

impl BufferedStore {
    pub fn new(mut store: Box<dyn Replicated>) -> Result<BufferedStore, StoreError> {
        let (newest_row, clock, reader) = (store.newest_row()?, store.clock_kind()?, store.reader());
        let recent = Mutex::new(RecentRows::new(newest_row.1));
        let copy = QueuedStore { store, queue: Vec::new(), size: 0, end: None, newest_row, clock, has_failed: false };
        let shared = Shared {
            copy: Mutex::new(copy),
            reader,
            recent,
            has_rows: AtomicBool::default(),
            has_attachments: AtomicBool::default(),
        };
        Ok(BufferedStore { shared: Arc::new(shared) })
    }

    /// Does something with the store after everything in the queue was stored.
    fn with_all<T>(&self, work: impl FnOnce(&mut dyn Replicated) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut copy = self.shared.copy();
        self.shared.flush(&mut copy)?;
        work(&mut *copy.store)
    }

    /// The same for work that changes the store.
    fn change_all<T>(&self, work: impl FnOnce(&mut dyn Replicated) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut copy = self.shared.copy();
        self.shared.flush(&mut copy)?;
        let result = work(&mut *copy.store);
        copy.forget_end()?;
        *self.shared.recent() = RecentRows::new(copy.newest_row.1);
        result
    }
}

impl Shared {
    /// Ignores lock poisoning: a transaction is complete or undone, and what was not stored is still in the queue.
    fn copy(&self) -> MutexGuard<'_, QueuedStore> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, RecentRows> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the queue in one transaction.
    fn flush(&self, copy: &mut QueuedStore) -> Result<(), StoreError> {
        copy.flush()?;
        self.has_rows.store(false, Ordering::Release);
        self.has_attachments.store(false, Ordering::Release);
        Ok(())
    }

    /// Lets the store's reader see the queue if it concerns what is read.
    fn flush_if(&self, is_needed: &AtomicBool) -> Result<(), StoreError> {
        if is_needed.load(Ordering::Acquire) { self.flush(&mut self.copy()) } else { Ok(()) }
    }

    /// Makes new changes known to readers.
    fn note(&self, changes: &[Change], newest_row: u64) {
        let deletes_owner = |write: &Write| matches!(write, Write::Delete(key) if Owner::from_key(key).is_some());
        let changes_attachments =
            |change: &Change| !change.attachments.is_empty() || change.writes.iter().any(deletes_owner);
        if changes.iter().any(changes_attachments) {
            self.has_attachments.store(true, Ordering::Release);
        }
        let mut recent = self.recent();
        for change in changes {
            change.rows.iter().for_each(|row| recent.add(row.clone()));
        }
        if changes.iter().any(|change| change.forget_through.is_some()) {
            *recent = RecentRows::new(newest_row);
        }
        if changes.iter().any(|change| !change.rows.is_empty() || change.forget_through.is_some()) {
            self.has_rows.store(true, Ordering::Release);
        }
    }
}

impl QueuedStore {
    /// The store has been changed other than by records.
    fn forget_end(&mut self) -> Result<(), StoreError> {
        self.end = None;
        (self.newest_row, self.clock) = (self.store.newest_row()?, self.store.clock_kind()?);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let (Some((revision, position)), false) = (&self.end, self.queue.is_empty()) else { return Ok(()) };
        let first = revision + 1 - self.queue.len() as u64;
        let stored = self.store.apply(first, position, &self.queue);
        self.has_failed = match stored {
            Ok(()) => false,
            // A transaction can happen although its end reports an error.
            Err(error) if self.store.position()?.as_ref() != Some(position) => {
                self.has_failed = true;
                return Err(error);
            }
            Err(_) => false,
        };
        self.queue.clear();
        self.size = 0;
        Ok(())
    }

    /// Adds changes to the queue, or nothing.
    fn push(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        let end = (revision + changes.len() as u64 - 1, position.to_owned());
        match &self.end {
            Some((last, _)) if last + 1 != revision => return Err(out_of_order(*last, revision)),
            Some(_) => self.queue.extend_from_slice(changes),
            // The store knows its revision.
            None => self.store.apply(revision, position, changes)?,
        }
        self.end = Some(end);
        let sizes = changes.iter().map(|change| change.writes.len() + change.attachments.len() + change.rows.len());
        self.size += 1 + sizes.sum::<usize>();
        if let Some(row) = changes.iter().rev().find_map(|change| change.rows.last()) {
            self.newest_row = (row.at, row.number);
        }
        self.clock = changes.iter().rev().find_map(|change| change.clock).or(self.clock);
        Ok(())
    }
}

impl Replicated for BufferedStore {
    fn position(&mut self) -> Result<Option<String>, StoreError> {
        self.with_all(|store| store.position())
    }

    fn set_position(&mut self, position: &str) -> Result<(), StoreError> {
        self.change_all(|store| store.set_position(position))
    }

    fn apply(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        let mut copy = self.shared.copy();
        if copy.has_failed || copy.size > QUEUE_MAX {
            self.shared.flush(&mut copy)?;
        }
        copy.push(revision, position, changes)?;
        self.shared.note(changes, copy.newest_row.1);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.with_all(|store| store.sync())
    }

    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError> {
        Ok(self.shared.copy().newest_row)
    }

    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        self.with_all(|store| store.find_oldest(before, limit))
    }

    fn copier(&self) -> Arc<dyn SnapshotWriter> {
        let copier = self.shared.copy().store.copier();
        Arc::new(BufferedCopier { shared: self.shared.clone(), copier })
    }

    fn install(&mut self, copy: &Path) -> Result<(), StoreError> {
        self.change_all(|store| store.install(copy))
    }
}

impl Store for BufferedStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.with_all(|store| store.load())
    }

    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let mut committed = Ok(0);
        let changed = self.change_all(|store| {
            committed = store.commit(expected, batch);
            Ok(())
        });
        committed.and_then(|revision| changed.map(|()| revision).map_err(|error| CommitError::Doubt(error.into())))
    }

    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.change_all(|store| store.forget_history(before, limit))
    }

    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError> {
        Ok(self.shared.copy().clock)
    }

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError> {
        self.change_all(|store| store.set_clock_kind(kind))
    }

    fn clock_stamp(&mut self) -> Result<Option<ClockStamp>, StoreError> {
        self.with_all(|store| store.clock_stamp())
    }

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        self.change_all(|store| store.restore(contents, history))
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.shared.clone()
    }
}

impl Reader for Shared {
    fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryRow>, StoreError> {
        if let Some(rows) = self.recent_history(query) {
            return Ok(rows);
        }
        self.flush_if(&self.has_rows)?;
        self.reader.history(query)
    }

    fn recent_history(&self, query: &HistoryQuery) -> Option<Vec<HistoryRow>> {
        let slice = self.recent().select(query)?;
        slice.answer(query)
    }

    fn attachment(&self, owner: Owner, name: &str) -> Result<Option<String>, StoreError> {
        self.flush_if(&self.has_attachments)?;
        self.reader.attachment(owner, name)
    }

    fn attachments(
        &self,
        owner: Owner,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        self.flush_if(&self.has_attachments)?;
        self.reader.attachments(owner, prefix, after, limit)
    }

    fn all_attachments(&self, after: Option<(Owner, &str)>) -> Result<Vec<Attachment>, StoreError> {
        self.flush_if(&self.has_attachments)?;
        self.reader.all_attachments(after)
    }
}

struct BufferedCopier {
    shared: Arc<Shared>,
    copier: Arc<dyn SnapshotWriter>,
}

impl SnapshotWriter for BufferedCopier {
    fn copy_to(&self, file: &Path) -> Result<(), StoreError> {
        self.shared.flush(&mut self.shared.copy())?;
        self.copier.copy_to(file)
    }
}
