//! A store for tests that wraps another one and fails on demand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forewarn_core::Timestamp;

use crate::*;

/// The way in which a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the error says so.
    Refused,
    /// The batch is written, but the error leaves that open.
    DoneButDoubt,
    /// Nothing is written, but the error leaves that open.
    NotDoneButDoubt,
}

pub struct FaultyStore<S> {
    inner: S,
    faults: Faults,
}

/// A handle for the test that stays valid after the store has moved into a server.
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Mutex<Pending>>,
    /// Wakes applies that wait.
    resumed: Arc<Condvar>,
}

#[derive(Default)]
struct Pending {
    commits: VecDeque<Option<Fault>>,
    applies: VecDeque<Fault>,
    loads: u32,
    /// Whether applies of records wait, as on a disk that does not answer.
    is_stalled: bool,
    waiting: usize,
}

impl<S: Store> FaultyStore<S> {
    pub fn new(inner: S) -> (FaultyStore<S>, Faults) {
        let faults = Faults::default();
        (FaultyStore { inner, faults: faults.clone() }, faults)
    }
}

impl Faults {
    /// Queues a fault for the next commit that has none queued. None: that commit succeeds.
    pub fn next_commit(&self, fault: impl Into<Option<Fault>>) {
        self.pending().commits.push_back(fault.into());
    }

    /// Queues a fault for the next apply of records that has none queued.
    pub fn next_apply(&self, fault: Fault) {
        self.pending().applies.push_back(fault);
    }

    /// Makes this many loads fail, starting with the next.
    pub fn next_loads(&self, count: u32) {
        self.pending().loads = count;
    }

    /// Lets applies of records wait until [`Faults::resume`].
    pub fn stall(&self) {
        self.pending().is_stalled = true;
    }

    pub fn resume(&self) {
        self.pending().is_stalled = false;
        self.resumed.notify_all();
    }

    /// Number of applies that wait.
    pub fn waiting(&self) -> usize {
        self.pending().waiting
    }

    fn wait_while_stalled(&self) {
        let mut pending = self.pending();
        pending.waiting += 1;
        let waited = self.resumed.wait_while(pending, |pending| pending.is_stalled);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// Number of queued faults that have not occurred.
    pub fn left(&self) -> usize {
        let pending = self.pending();
        pending.commits.len() + pending.applies.len() + pending.loads as usize
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_load(&self) -> bool {
        let mut pending = self.pending();
        let fails = pending.loads > 0;
        pending.loads = pending.loads.saturating_sub(1);
        fails
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        if self.faults.take_load() {
            return Err(StoreError::Io(INJECTED.into()));
        }
        self.inner.load()
    }

    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let fault = self.faults.pending().commits.pop_front().flatten();
        match fault {
            None => self.inner.commit(expected, batch),
            Some(Fault::Refused) => Err(CommitError::Refused(INJECTED.into())),
            Some(Fault::NotDoneButDoubt) => Err(CommitError::Doubt(INJECTED.into())),
            Some(Fault::DoneButDoubt) => {
                self.inner.commit(expected, batch)?;
                Err(CommitError::Doubt(INJECTED.into()))
            }
        }
    }

    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.inner.forget_history(before, limit)
    }

    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError> {
        self.inner.clock_kind()
    }

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError> {
        self.inner.set_clock_kind(kind)
    }

    fn clock_stamp(&mut self) -> Result<Option<ClockStamp>, StoreError> {
        self.inner.clock_stamp()
    }

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        self.inner.restore(contents, history)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader()
    }
}

impl<S: Replicated> Replicated for FaultyStore<S> {
    fn position(&mut self) -> Result<Option<String>, StoreError> {
        self.inner.position()
    }

    fn set_position(&mut self, position: &str) -> Result<(), StoreError> {
        self.inner.set_position(position)
    }

    fn apply(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        self.faults.wait_while_stalled();
        let fault = self.faults.pending().applies.pop_front();
        if matches!(fault, None | Some(Fault::DoneButDoubt)) {
            self.inner.apply(revision, position, changes)?;
        }
        fault.map_or(Ok(()), |_| Err(StoreError::Io(INJECTED.into())))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError> {
        self.inner.newest_row()
    }

    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        self.inner.find_oldest(before, limit)
    }

    fn copier(&self) -> Arc<dyn SnapshotWriter> {
        self.inner.copier()
    }

    fn install(&mut self, copy: &Path) -> Result<(), StoreError> {
        self.inner.install(copy)
    }
}

const INJECTED: &str = "fault injected by a test";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_occurs_once_and_in_order() {
        let (mut store, faults) = FaultyStore::new(MemoryStore::new());
        faults.next_commit(Fault::Refused);
        faults.next_commit(None);
        faults.next_commit(Fault::DoneButDoubt);
        faults.next_commit(Fault::NotDoneButDoubt);
        let batch = Batch::default();
        assert!(matches!(store.commit(0, &batch), Err(CommitError::Refused(_))));
        assert_eq!(store.load().unwrap().revision, 0);
        assert_eq!(store.commit(0, &batch).unwrap(), 1);
        assert!(matches!(store.commit(1, &batch), Err(CommitError::Doubt(_))));
        assert_eq!(store.load().unwrap().revision, 2);
        assert!(matches!(store.commit(2, &batch), Err(CommitError::Doubt(_))));
        assert_eq!(store.load().unwrap().revision, 2);
        assert_eq!(faults.left(), 0);
        assert_eq!(store.commit(2, &batch).unwrap(), 3);
        faults.next_loads(1);
        assert!(store.load().is_err());
        assert!(store.load().is_ok());
    }
}
