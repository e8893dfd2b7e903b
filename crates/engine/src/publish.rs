//! What the writer has made public: the newest snapshot, its number, and for each scope whose readers
//! wait, a channel that moves only when that scope's document does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use forewarn_core::{ScopeId, Snapshot};
use tokio::sync::watch;

pub struct Board {
    newest: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
    scopes: Mutex<HashMap<ScopeId, watch::Sender<u64>>>,
}

impl Board {
    pub fn new(first: Arc<Snapshot>) -> Board {
        let revision = watch::Sender::new(first.revision);
        Board { newest: ArcSwap::new(first), revision, scopes: Mutex::default() }
    }

    pub fn newest(&self) -> Arc<Snapshot> {
        self.newest.load_full()
    }

    /// The newest snapshot for a look, without a share in it.
    pub fn peek(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.newest.load()
    }

    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Shows `snapshot` to everybody, then wakes those who wait for one of the `changed` scopes.
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

    /// Shows a region that was loaded again: anything may have changed.
    pub fn publish_anew(&self, snapshot: Arc<Snapshot>) {
        let watched: Vec<_> = self.scopes().keys().copied().collect();
        self.publish(snapshot, &watched);
    }

    /// Joins those who wait for this scope's document. The snapshot must be looked at after this call.
    pub fn watch(self: &Arc<Self>, scope: ScopeId) -> ScopeWatch {
        let mut scopes = self.scopes();
        let channel = scopes.entry(scope).or_insert_with(|| watch::Sender::new(0));
        ScopeWatch { scope, receiver: channel.subscribe(), board: self.clone() }
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<ScopeId, watch::Sender<u64>>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share in a scope's channel. The last one to go takes the channel along.
pub struct ScopeWatch {
    scope: ScopeId,
    receiver: watch::Receiver<u64>,
    board: Arc<Board>,
}

impl ScopeWatch {
    pub async fn changed(&mut self) {
        // The sender lives in the board as long as this watch does.
        let _ = self.receiver.changed().await;
    }
}

impl Drop for ScopeWatch {
    fn drop(&mut self) {
        let mut scopes = self.board.scopes();
        if scopes.get(&self.scope).is_some_and(|channel| channel.receiver_count() <= 1) {
            scopes.remove(&self.scope);
        }
    }
}

/// A scope that has gone counts as changed.
fn incarnation(snapshot: &Snapshot, scope: ScopeId) -> u64 {
    snapshot.region.scope(scope).map_or(u64::MAX, |scope| scope.incarnation)
}
