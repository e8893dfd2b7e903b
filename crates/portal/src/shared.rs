//! State that pages share: finished events, open streams, confirmations, forecasts. Everything here can be rebuilt from the region and its
//! history, or is not missed.

use std::sync::{Mutex, PoisonError};

use super::flash::Flashes;
use super::forecasts::Forecasts;
use super::history_searches::HistorySearches;
use super::streams::Streams;
use super::test_kit::LastScenario;
use super::timeline::FinishedEvents;

#[derive(Default)]
pub struct PortalState {
    pub past: FinishedEvents,
    pub streams: Streams,
    pub flashes: Flashes,
    pub forecasts: Forecasts,
    pub searches: HistorySearches,
    /// The scenario that was run last, with its session. Keeping one is enough to save pasting it again.
    last_scenario: Mutex<Option<(String, LastScenario)>>,
}

impl PortalState {
    /// The scenario that this session ran last, unless another session has run one since.
    pub fn last_scenario(&self, cookie: &str) -> Option<LastScenario> {
        let last = self.last_scenario.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(owner, _)| owner == cookie).map(|(_, scenario)| scenario.clone())
    }

    pub fn set_last_scenario(&self, cookie: &str, scenario: LastScenario) {
        *self.last_scenario.lock().unwrap_or_else(PoisonError::into_inner) = Some((cookie.to_owned(), scenario));
    }
}
