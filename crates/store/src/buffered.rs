//! A server's copy of a replicated region that collects records in memory and stores them in large transactions, on a thread of its
//! own. Readers see applied records at once.
//!
//! ```text
//!   apply ─▶ queue ──one transaction──▶ store       once a second, when there are many, or when a reader needs them
//!     └────▶ newest history rows, in memory
//! ```
//!
//! A crash of the process loses the queue. The log still has its records, because only what is durable is deleted there. Most
//! records change the same entities and pages, so storing the records of a second together costs a fraction of storing each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use forewarn_core::{Timestamp, Write};

use crate::recent::RecentRows;
use crate::replica::out_of_order;
use crate::*;

/// Writes, attachments and history rows in the queue that are stored without waiting for the end of the second, so that the length
/// of a transaction has a limit.
const QUEUE_LARGE: usize = 20_000;

/// The same in the queue and in the transaction in progress. More wait for that transaction, so that memory has a limit.
const QUEUE_MAX: usize = 2 * QUEUE_LARGE;

/// A copy whose records are stored together.
pub struct BufferedStore {
    shared: Arc<Shared>,
    /// None only while it is dropped.
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Locked during transactions, and always before the queue.
    store: Mutex<Box<dyn Replicated>>,
    /// Never locked for long.
    queue: Mutex<Queue>,
    /// Signals work for the thread.
    work: Condvar,
    reader: Arc<dyn Reader>,
    /// The newest history rows, with those in the queue.
    recent: Mutex<RecentRows>,
    /// Whether changes that are not stored yet have history rows, or delete them.
    has_rows: AtomicBool,
    /// Whether changes that are not stored yet have attachments, or delete their owners.
    has_attachments: AtomicBool,
}

struct Queue {
    changes: Vec<Change>,
    /// The number of writes, attachments and history rows in `changes`.
    size: usize,
    /// The same in the transaction in progress.
    storing: usize,
    /// The revision and position after the last change. None: not known, and the queue is empty.
    end: Option<(u64, String)>,
    newest_row: (Timestamp, u64),
    clock: Option<ClockKind>,
    /// The last transaction failed. The thread does nothing until the owner of the store has repeated it.
    has_failed: bool,
    /// Everything up to this revision must become durable.
    wanted: Option<u64>,
    /// Everything up to this revision is durable.
    durable: u64,
    is_stopping: bool,
}

/// Changes that are stored in one transaction.
struct Part {
    changes: Vec<Change>,
    size: usize,
    /// The revision and position after the last change.
    end: (u64, String),
}

impl BufferedStore {
    pub fn new(mut store: Box<dyn Replicated>) -> Result<BufferedStore, StoreError> {
        let (newest_row, clock, reader) = (store.newest_row()?, store.clock_kind()?, store.reader());
        let queue = Queue {
            changes: Vec::new(),
            size: 0,
            storing: 0,
            end: None,
            newest_row,
            clock,
            has_failed: false,
            wanted: None,
            durable: 0,
            is_stopping: false,
        };
        let shared = Arc::new(Shared {
            store: Mutex::new(store),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            reader,
            recent: Mutex::new(RecentRows::new(newest_row.1)),
            has_rows: AtomicBool::default(),
            has_attachments: AtomicBool::default(),
        });
        let runner = shared.clone();
        let thread = std::thread::Builder::new().name("forewarn-copy".into()).spawn(move || runner.run());
        let thread = Some(thread.map_err(|error| StoreError::Io(error.into()))?);
        Ok(BufferedStore { shared, thread })
    }

    /// Does something with the store after everything in the queue was stored.
    fn with_all<T>(&self, work: impl FnOnce(&mut dyn Replicated) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut store = self.shared.store();
        self.shared.flush(&mut **store)?;
        work(&mut **store)
    }

    /// The same for work that changes the store.
    fn change_all<T>(&self, work: impl FnOnce(&mut dyn Replicated) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut store = self.shared.store();
        self.shared.flush(&mut **store)?;
        let result = work(&mut **store);
        let mut queue = self.shared.queue();
        (queue.end, queue.durable) = (None, 0);
        (queue.newest_row, queue.clock) = (store.newest_row()?, store.clock_kind()?);
        *self.shared.recent() = RecentRows::new(queue.newest_row.1);
        result
    }
}

impl Drop for BufferedStore {
    /// Ends the thread, so that another process can use the store. Does not store the queue.
    fn drop(&mut self) {
        self.shared.queue().is_stopping = true;
        self.shared.work.notify_one();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// Ignores lock poisoning: a transaction is complete or undone.
    fn store(&self) -> MutexGuard<'_, Box<dyn Replicated>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, RecentRows> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that stores the queue.
    fn run(&self) {
        let is_idle = |queue: &mut Queue| !queue.is_stopping && !queue.has_work();
        loop {
            let mut queue = self.work.wait_while(self.queue(), is_idle).unwrap_or_else(PoisonError::into_inner);
            if queue.is_stopping {
                return;
            }
            let wanted = queue.wanted.take();
            drop(queue);
            // The owner of the store repeats it after a failure, and gets the error.
            let _ = self.store_all(wanted);
        }
    }

    /// Stores everything, and makes it durable up to a revision.
    fn store_all(&self, wanted: Option<u64>) -> Result<(), StoreError> {
        let mut store = self.store();
        let stored = self.flush(&mut **store).and_then(|()| wanted.map_or(Ok(()), |_| store.sync()));
        let mut queue = self.queue();
        queue.has_failed = stored.is_err();
        if let (Ok(()), Some(revision)) = (&stored, wanted) {
            queue.durable = revision;
        }
        stored
    }

    /// Stores the queue in one transaction.
    fn flush(&self, store: &mut dyn Replicated) -> Result<(), StoreError> {
        let Some(part) = self.queue().take() else { return Ok(()) };
        let stored = part.store_in(store);
        let mut queue = self.queue();
        queue.storing = 0;
        queue.has_failed = stored.is_err();
        if stored.is_err() {
            queue.put_back(part);
        }
        self.has_rows.store(queue.changes.iter().any(changes_rows), Ordering::Release);
        self.has_attachments.store(queue.changes.iter().any(changes_attachments), Ordering::Release);
        stored
    }

    /// Lets the store's reader see the queue if it concerns what is read.
    fn flush_if(&self, is_needed: &AtomicBool) -> Result<(), StoreError> {
        if is_needed.load(Ordering::Acquire) { self.flush(&mut **self.store()) } else { Ok(()) }
    }

    /// Adds changes to the queue, and makes them known to readers.
    fn push(&self, queue: &mut Queue, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        queue.push(revision, position, changes)?;
        self.note(changes, queue.newest_row.1);
        if queue.has_work() {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Makes new changes known to readers.
    fn note(&self, changes: &[Change], newest_row: u64) {
        self.note_recent(changes, newest_row);
        if changes.iter().any(changes_attachments) {
            self.has_attachments.store(true, Ordering::Release);
        }
        if changes.iter().any(changes_rows) {
            self.has_rows.store(true, Ordering::Release);
        }
    }

    fn note_recent(&self, changes: &[Change], newest_row: u64) {
        let mut recent = self.recent();
        for change in changes {
            change.rows.iter().for_each(|row| recent.add(row.clone()));
        }
        if changes.iter().any(|change| change.forget_through.is_some()) {
            *recent = RecentRows::new(newest_row);
        }
    }
}

fn changes_rows(change: &Change) -> bool {
    !change.rows.is_empty() || change.forget_through.is_some()
}

fn changes_attachments(change: &Change) -> bool {
    let deletes_owner = |write: &Write| matches!(write, Write::Delete(key) if Owner::from_key(key).is_some());
    !change.attachments.is_empty() || change.writes.iter().any(deletes_owner)
}

impl Part {
    fn store_in(&self, store: &mut dyn Replicated) -> Result<(), StoreError> {
        let (revision, position) = &self.end;
        let first = revision + 1 - self.changes.len() as u64;
        match store.apply(first, position, &self.changes) {
            // A transaction can happen although its end reports an error.
            Err(error) if store.position()?.as_ref() != Some(position) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Queue {
    /// Whether the thread has something to do.
    fn has_work(&self) -> bool {
        !self.has_failed && (self.wanted.is_some() || self.size > QUEUE_LARGE)
    }

    /// Whether the next changes must wait until those before them are stored.
    fn is_blocked(&self) -> bool {
        self.has_failed || self.size + self.storing > QUEUE_MAX
    }

    /// Takes everything for a transaction. None: there is nothing to store.
    fn take(&mut self) -> Option<Part> {
        let end = self.end.clone().filter(|_| !self.changes.is_empty())?;
        self.storing = self.size;
        Some(Part { changes: std::mem::take(&mut self.changes), size: std::mem::take(&mut self.size), end })
    }

    /// Takes back what could not be stored.
    fn put_back(&mut self, part: Part) {
        let later = std::mem::replace(&mut self.changes, part.changes);
        self.changes.extend(later);
        self.size += part.size;
    }

    /// Adds changes, or nothing.
    fn push(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        match &self.end {
            Some((last, _)) if last + 1 != revision => return Err(out_of_order(*last, revision)),
            Some(_) | None => self.changes.extend_from_slice(changes),
        }
        let sizes = changes.iter().map(|change| change.writes.len() + change.attachments.len() + change.rows.len());
        self.size += 1 + sizes.sum::<usize>();
        self.follow(revision, position, changes);
        Ok(())
    }

    /// Takes over what is known after these changes.
    fn follow(&mut self, revision: u64, position: &str, changes: &[Change]) {
        self.end = Some((revision + changes.len() as u64 - 1, position.to_owned()));
        if let Some(row) = changes.iter().rev().find_map(|change| change.rows.last()) {
            self.newest_row = (row.at, row.number);
        }
        self.clock = changes.iter().rev().find_map(|change| change.clock).or(self.clock);
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
        let mut queue = self.shared.queue();
        if queue.is_blocked() {
            drop(queue);
            self.shared.store_all(None)?;
            queue = self.shared.queue();
        }
        if queue.end.is_some() {
            return self.shared.push(&mut queue, revision, position, changes);
        }
        drop(queue);
        // Only the store knows its revision.
        let mut store = self.shared.store();
        store.apply(revision, position, changes)?;
        let mut queue = self.shared.queue();
        queue.follow(revision, position, changes);
        self.shared.note_recent(changes, queue.newest_row.1);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.with_all(|store| store.sync())
    }

    fn sync_in_background(&mut self, applied: u64) -> Result<u64, StoreError> {
        let mut queue = self.shared.queue();
        if queue.has_failed {
            drop(queue);
            self.shared.store_all(Some(applied))?;
            queue = self.shared.queue();
        } else if queue.durable < applied {
            queue.wanted = Some(applied);
            self.shared.work.notify_one();
        }
        Ok(queue.durable)
    }

    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError> {
        Ok(self.shared.queue().newest_row)
    }

    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        self.with_all(|store| store.find_oldest(before, limit))
    }

    fn copier(&self) -> Arc<dyn SnapshotWriter> {
        let copier = self.shared.store().copier();
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
        Ok(self.shared.queue().clock)
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
        self.shared.flush(&mut **self.shared.store())?;
        self.copier.copy_to(file)
    }
}
