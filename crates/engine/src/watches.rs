//! Readers that wait for the document of an event group to change. Thousands can wait for one group, so a task wakes them batch
//! by batch, after the commit has been answered: otherwise the response to the request that caused the change would wait behind
//! theirs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_core::ScopeId;
use tokio::sync::{mpsc, watch};

/// Readers that are woken together. Responding to this many takes about a millisecond.
const BATCH: usize = 64;

/// The watches of all event groups. Dropping it ends the task that wakes them.
pub struct Watches {
    shared: Arc<Mutex<Shared>>,
    /// Holds one message while groups are pending.
    signal: mpsc::Sender<()>,
}

#[derive(Default)]
struct Shared {
    groups: HashMap<ScopeId, Batches>,
    /// Changed groups whose readers have not been woken.
    pending: BTreeSet<ScopeId>,
}

/// The readers of one group.
type Batches = BTreeMap<u64, watch::Sender<()>>;

impl Watches {
    /// Starts the task that wakes readers, in the runtime of the caller.
    pub fn start() -> Watches {
        let shared = Arc::default();
        let (signal, signals) = mpsc::channel(1);
        tokio::spawn(wake_pending(Arc::clone(&shared), signals));
        Watches { shared, signal }
    }

    pub fn watch(&self, scope: ScopeId) -> ScopeWatch {
        let mut shared = lock(&self.shared);
        let batches = shared.groups.entry(scope).or_default();
        let (mut batch, newest) = batches.last_key_value().map_or((0, None), |(batch, newest)| (*batch, Some(newest)));
        if newest.is_some_and(|newest| newest.receiver_count() >= BATCH) {
            batch += 1;
        }
        let receiver = batches.entry(batch).or_insert_with(|| watch::Sender::new(())).subscribe();
        ScopeWatch { scope, batch, receiver, shared: self.shared.clone() }
    }

    /// Wakes the readers of these groups soon.
    pub fn wake(&self, changed: &[ScopeId]) {
        let mut shared = lock(&self.shared);
        let watched: Vec<ScopeId> = changed.iter().filter(|scope| shared.groups.contains_key(scope)).copied().collect();
        shared.pending.extend(watched);
        self.signal(&shared);
    }

    /// Wakes all readers soon.
    pub fn wake_all(&self) {
        let mut shared = lock(&self.shared);
        let watched: Vec<ScopeId> = shared.groups.keys().copied().collect();
        shared.pending.extend(watched);
        self.signal(&shared);
    }

    fn signal(&self, shared: &Shared) {
        if !shared.pending.is_empty() {
            // If the channel is full, the task has yet to take the signal, and will find these groups too.
            let _ = self.signal.try_send(());
        }
    }
}

async fn wake_pending(shared: Arc<Mutex<Shared>>, mut signals: mpsc::Receiver<()>) {
    while signals.recv().await.is_some() {
        while let Some(batches) = take_pending(&shared) {
            for batch in batches {
                batch.send_replace(());
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The readers of the next pending group.
fn take_pending(shared: &Mutex<Shared>) -> Option<Vec<watch::Sender<()>>> {
    let mut shared = lock(shared);
    let scope = shared.pending.pop_first()?;
    Some(shared.groups.get(&scope).map(|batches| batches.values().cloned().collect()).unwrap_or_default())
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches one event group.
pub struct ScopeWatch {
    scope: ScopeId,
    batch: u64,
    receiver: watch::Receiver<()>,
    shared: Arc<Mutex<Shared>>,
}

impl ScopeWatch {
    pub async fn changed(&mut self) {
        // The sender lives as long as this watch.
        let _ = self.receiver.changed().await;
    }
}

impl Drop for ScopeWatch {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        let Some(batches) = shared.groups.get_mut(&self.scope) else { return };
        if batches.get(&self.batch).is_some_and(|batch| batch.receiver_count() <= 1) {
            batches.remove(&self.batch);
        }
        if batches.is_empty() {
            shared.groups.remove(&self.scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    fn is_changed(watch: &mut ScopeWatch) -> bool {
        let changed = std::pin::pin!(watch.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn readers_of_a_changed_group_are_woken_in_batches_between_other_tasks() {
        let watches = Watches::start();
        let mut held: Vec<_> = (0..3 * BATCH).map(|_| watches.watch(ScopeId(1))).collect();
        let mut other = watches.watch(ScopeId(2));
        watches.wake(&[ScopeId(1), ScopeId(3)]);
        let mut turns = 0;
        while !held.iter_mut().all(is_changed_or_was) {
            turns += 1;
            assert!(turns < 100, "some readers were not woken");
            tokio::task::yield_now().await;
        }
        assert!(turns >= 3, "all readers were woken at once");
        assert!(!is_changed(&mut other));
        watches.wake_all();
        other.changed().await;
    }

    /// Like `is_changed`, but does not forget the change.
    fn is_changed_or_was(watch: &mut ScopeWatch) -> bool {
        watch.receiver.has_changed().unwrap()
    }

    #[tokio::test]
    async fn nothing_is_kept_of_watches_that_ended() {
        let watches = Watches::start();
        let held: Vec<_> = (0..2 * BATCH + 1).map(|_| watches.watch(ScopeId(1))).collect();
        assert_eq!(lock(&watches.shared).groups[&ScopeId(1)].len(), 3);
        drop(held);
        assert!(lock(&watches.shared).groups.is_empty());
        watches.wake(&[ScopeId(1)]);
        assert!(lock(&watches.shared).pending.is_empty());
    }
}
