//! State that pages share: finished events, the order of event groups, open streams. Everything here can be rebuilt from the
//! region and its history.

use std::sync::{Arc, Mutex, PoisonError};

use forewarn_core::ScopeId;

use super::test_kit::LastScenario;
use super::timeline::Past;
use super::view::Streams;
use super::words;
use forewarn_core::Snapshot;

#[derive(Default)]
pub struct Shared {
    pub past: Past,
    pub streams: Streams,
    order: Mutex<ScopeOrder>,
    /// The scenario that was run last, with its session. Keeping one is enough to save pasting it again.
    last_scenario: Mutex<Option<(String, LastScenario)>>,
}

/// All event groups, sorted by name.
#[derive(Default)]
struct ScopeOrder {
    key: Option<OrderKey>,
    scopes: Arc<[ScopeId]>,
}

/// Changes whenever event groups may have been added or removed. They come with machines and with groups; groups take their
/// numbers from `next_id`.
#[derive(PartialEq, Eq)]
struct OrderKey {
    roster: u64,
    scopes: usize,
    next_id: u64,
}

impl Shared {
    /// The scenario that this session ran last, unless another session has run one since.
    pub fn last_scenario(&self, cookie: &str) -> Option<LastScenario> {
        let last = self.last_scenario.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(owner, _)| owner == cookie).map(|(_, scenario)| scenario.clone())
    }

    pub fn set_last_scenario(&self, cookie: &str, scenario: LastScenario) {
        *self.last_scenario.lock().unwrap_or_else(PoisonError::into_inner) = Some((cookie.to_owned(), scenario));
    }

    /// All event groups, sorted by name. Sorted again only when one was added or removed.
    pub fn scope_order(&self, snapshot: &Snapshot) -> Arc<[ScopeId]> {
        let region = &snapshot.region;
        let key = OrderKey { roster: snapshot.roster, scopes: region.scopes().len(), next_id: region.meta().next_id };
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.key.as_ref() != Some(&key) {
            let mut named: Vec<(String, ScopeId)> =
                region.scopes().map(|scope| (words::scope(region, scope).name.to_lowercase(), scope.id)).collect();
            named.sort_unstable();
            *order = ScopeOrder { key: Some(key), scopes: named.into_iter().map(|(_, id)| id).collect() };
        }
        order.scopes.clone()
    }
}
