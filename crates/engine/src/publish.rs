//! Publishes the writer's results: the newest snapshot, its revision, and for each event group with waiting readers a channel
//! that changes only when the group's document does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use forewarn_core::{Entity, Key, Region, ScopeId, Snapshot, Write};
use tokio::sync::watch;

pub struct Publisher {
    newest: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
    scopes: Mutex<HashMap<ScopeId, watch::Sender<u64>>>,
}

impl Publisher {
    pub fn new(first: Arc<Snapshot>) -> Publisher {
        let revision = watch::Sender::new(first.revision);
        Publisher { newest: ArcSwap::new(first), revision, scopes: Mutex::default() }
    }

    pub fn newest(&self) -> Arc<Snapshot> {
        self.newest.load_full()
    }

    /// Borrows the newest snapshot, without counting a reference.
    pub fn peek(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.newest.load()
    }

    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Publishes a snapshot, then wakes the readers that wait for one of the `changed` event groups.
    pub fn publish(&self, snapshot: Arc<Snapshot>, changed: &[ScopeId]) {
        let revision = snapshot.revision;
        self.newest.store(snapshot.clone());
        self.revision.send_replace(revision);
        if changed.is_empty() {
            return;
        }
        let scopes = self.scopes();
        for scope in changed {
            if let Some(channel) = scopes.get(scope) {
                channel.send_replace(incarnation(&snapshot, *scope));
            }
        }
    }

    /// Publishes a region that was loaded again: anything can have changed.
    pub fn publish_reloaded(&self, snapshot: Arc<Snapshot>) {
        let watched: Vec<_> = self.scopes().keys().copied().collect();
        self.publish(snapshot, &watched);
    }

    /// Watches the document of an event group. Read the snapshot after this call, or a change can be missed.
    pub fn watch(self: &Arc<Self>, scope: ScopeId) -> ScopeWatch {
        let mut scopes = self.scopes();
        let channel = scopes.entry(scope).or_insert_with(|| watch::Sender::new(0));
        ScopeWatch { scope, receiver: channel.subscribe(), publisher: self.clone() }
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<ScopeId, watch::Sender<u64>>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one event group. The channel is removed with its last watch.
pub struct ScopeWatch {
    scope: ScopeId,
    receiver: watch::Receiver<u64>,
    publisher: Arc<Publisher>,
}

impl ScopeWatch {
    pub async fn changed(&mut self) {
        // The sender lives as long as this watch.
        let _ = self.receiver.changed().await;
    }
}

impl Drop for ScopeWatch {
    fn drop(&mut self) {
        let mut scopes = self.publisher.scopes();
        if scopes.get(&self.scope).is_some_and(|channel| channel.receiver_count() <= 1) {
            scopes.remove(&self.scope);
        }
    }
}

/// Publishes the region after a commit with these writes, and returns the new snapshot.
pub fn publish_commit(
    publisher: &Publisher,
    before: &Snapshot,
    revision: u64,
    region: Region,
    writes: &[Write],
) -> Arc<Snapshot> {
    let changed = changed_scopes(&before.region, writes);
    let roster = before.roster + u64::from(changes_roster(&before.region, writes));
    let snapshot = Arc::new(Snapshot { revision, region, roster });
    publisher.publish(snapshot.clone(), &changed);
    snapshot
}

/// The event groups whose documents these writes change.
fn changed_scopes(before: &Region, writes: &[Write]) -> Vec<ScopeId> {
    let incarnation = |id| before.scope(id).map(|scope| scope.incarnation);
    let changed = writes.iter().filter_map(|write| match write {
        Write::Put(Entity::Scope(scope)) => (incarnation(scope.id) != Some(scope.incarnation)).then_some(scope.id),
        Write::Delete(Key::Scope(scope)) => Some(*scope),
        Write::Put(_) | Write::Delete(_) => None,
    });
    changed.collect()
}

/// Whether these writes add or remove a machine.
fn changes_roster(before: &Region, writes: &[Write]) -> bool {
    writes.iter().any(|write| match write {
        Write::Put(Entity::Machine(machine)) => before.machine(machine.id).is_none(),
        Write::Delete(Key::Machine(_)) => true,
        Write::Put(_) | Write::Delete(_) => false,
    })
}

/// A removed event group counts as changed.
fn incarnation(snapshot: &Snapshot, scope: ScopeId) -> u64 {
    snapshot.region.scope(scope).map_or(u64::MAX, |scope| scope.incarnation)
}
