//! The results of searches through the history, so that an update of a page reads only the rows that are new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forewarn_store::HistoryRow;

/// How long a result is used: rows are searched for the machines of now.
const AGE_MAX: Duration = Duration::from_secs(30);

const SEARCHES_MAX: usize = 64;

/// Results by the address of their page.
#[derive(Default)]
pub struct HistorySearches(Mutex<HashMap<String, (Instant, Arc<FoundRows>)>>);

/// The rows that a search has found.
#[derive(Clone, Default)]
pub struct FoundRows {
    /// Newest first.
    pub rows: Vec<HistoryRow>,
    /// The number of the newest row that was searched.
    pub through: u64,
    /// The search ended at the row with this number, and there are older ones.
    pub rest: Option<u64>,
}

impl HistorySearches {
    pub fn find(&self, address: &str) -> Option<Arc<FoundRows>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(address).filter(|(begun, _)| begun.elapsed() < AGE_MAX).map(|(_, found)| found.clone())
    }

    /// Keeps a result. One that continues another is as old as that one.
    pub fn keep(&self, address: String, found: Arc<FoundRows>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let begun = all.get(&address).map(|(begun, _)| *begun).filter(|begun| now - *begun < AGE_MAX).unwrap_or(now);
        if all.len() >= SEARCHES_MAX {
            all.retain(|_, (begun, _)| now - *begun < AGE_MAX);
        }
        if all.len() < SEARCHES_MAX {
            all.insert(address, (begun, found));
        }
    }
}
