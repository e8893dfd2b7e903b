//! Publishes the writer's results: the newest snapshot, its revision, and the event groups whose documents changed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use forewarn_core::{Entity, Key, Region, ScopeId, Snapshot, Write};
use tokio::sync::watch;

use crate::watches::{ScopeWatch, Watches};

pub struct Publisher {
    newest: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
    /// Counts the commits of a cluster with attachments of the region itself.
    attachments: watch::Sender<u64>,
    watches: Watches,
}

impl Publisher {
    /// Must be called within a runtime, which wakes waiting readers.
    pub fn new(first: Arc<Snapshot>) -> Publisher {
        let revision = watch::Sender::new(first.revision);
        let attachments = watch::Sender::new(0);
        Publisher { newest: ArcSwap::new(first), revision, attachments, watches: Watches::start() }
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

    /// Changes when the servers of a cluster have stored or removed attachments of the region itself.
    pub fn region_attachments(&self) -> watch::Receiver<u64> {
        self.attachments.subscribe()
    }

    /// Signals that the attachments of the region itself have changed.
    pub fn note_region_attachments(&self) {
        self.attachments.send_modify(|count| *count += 1);
    }

    /// Publishes a snapshot, then has the readers woken that wait for one of the `changed` event groups.
    pub fn publish(&self, snapshot: Arc<Snapshot>, changed: &[ScopeId]) {
        self.show(snapshot);
        if !changed.is_empty() {
            self.watches.wake(changed);
        }
    }

    /// Publishes a region that was loaded again: anything can have changed.
    pub fn publish_reloaded(&self, snapshot: Arc<Snapshot>) {
        self.show(snapshot);
        self.watches.wake_all();
    }

    /// Watches the document of an event group. Read the snapshot after this call, or a change can be missed.
    pub fn watch(&self, scope: ScopeId) -> ScopeWatch {
        self.watches.watch(scope)
    }

    fn show(&self, snapshot: Arc<Snapshot>) {
        let revision = snapshot.revision;
        self.newest.store(snapshot);
        self.revision.send_replace(revision);
    }
}

/// Publishes the region after commits with these writes, and returns the new snapshot.
pub fn publish_commits<'a>(
    publisher: &Publisher,
    before: &Snapshot,
    revision: u64,
    region: Region,
    writes: impl Iterator<Item = &'a Write>,
) -> Arc<Snapshot> {
    let changed = changed_scopes(&before.region, writes);
    let snapshot = Arc::new(Snapshot { revision, region });
    publisher.publish(snapshot.clone(), &changed);
    snapshot
}

/// The event groups whose documents these writes change, each once.
fn changed_scopes<'a>(before: &Region, writes: impl Iterator<Item = &'a Write>) -> Vec<ScopeId> {
    let incarnation = |id| before.scope(id).map(|scope| scope.incarnation);
    let changed = writes.filter_map(|write| match write {
        Write::Put(Entity::Scope(scope)) => (incarnation(scope.id) != Some(scope.incarnation)).then_some(scope.id),
        Write::Delete(Key::Scope(scope)) => Some(*scope),
        Write::Put(_) | Write::Delete(_) => None,
    });
    let mut changed: Vec<ScopeId> = changed.collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}
