//! What pages share: what is over, the order of scopes, the streams that are open. None of it is truth: it is read again
//! when it has changed.

use std::sync::{Arc, Mutex, PoisonError};

use forewarn_core::ScopeId;

use super::test_kit::LastRun;
use super::timeline::Past;
use super::view::Streams;
use super::words;
use forewarn_core::Snapshot;

#[derive(Default)]
pub struct Shared {
    pub past: Past,
    pub streams: Streams,
    order: Mutex<Order>,
    /// The scenario that was run last, and in which session. One is enough: it saves pasting it again.
    ran: Mutex<Option<(String, LastRun)>>,
}

/// All scopes by their names.
#[derive(Default)]
struct Order {
    key: Option<Key>,
    scopes: Arc<[ScopeId]>,
}

/// Scopes come and go with machines, and with groups, which have numbers of the same row.
#[derive(PartialEq, Eq)]
struct Key {
    roster: u64,
    scopes: usize,
    next_id: u64,
}

impl Shared {
    /// The scenario that this session ran last, unless another has run one since.
    pub fn last_run(&self, cookie: &str) -> Option<LastRun> {
        let ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        ran.as_ref().filter(|(whose, _)| whose == cookie).map(|(_, run)| run.clone())
    }

    pub fn ran(&self, cookie: &str, run: LastRun) {
        *self.ran.lock().unwrap_or_else(PoisonError::into_inner) = Some((cookie.to_owned(), run));
    }

    /// Every scope in the order of the names, which is made again when one has come or gone.
    pub fn order(&self, snapshot: &Snapshot) -> Arc<[ScopeId]> {
        let region = &snapshot.region;
        let key = Key { roster: snapshot.roster, scopes: region.scopes().len(), next_id: region.meta().next_id };
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.key.as_ref() != Some(&key) {
            let mut named: Vec<(String, ScopeId)> =
                region.scopes().map(|scope| (words::scope(region, scope).name.to_lowercase(), scope.id)).collect();
            named.sort_unstable();
            *order = Order { key: Some(key), scopes: named.into_iter().map(|(_, id)| id).collect() };
        }
        order.scopes.clone()
    }
}
