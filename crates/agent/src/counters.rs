//! Counters of this run of the agent. Pure.

use std::collections::BTreeMap;

use forewarn_client::EventKind;

use crate::policy::KNOWN_KINDS;
use crate::record::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Events by type; unknown types are counted together.
    pub events: BTreeMap<&'static str, u64>,
    /// Steps by outcome.
    pub steps: BTreeMap<&'static str, u64>,
    pub approvals: u64,
    pub approvals_failed: u64,
}

/// All keys of `Counters::steps`.
pub const OUTCOME_LABELS: [&str; 4] = ["succeeded", "failed", "late", "interrupted"];

impl Counters {
    pub fn count_event(&mut self, kind: &EventKind) {
        *self.events.entry(event_type_label(kind)).or_default() += 1;
    }

    pub fn count_step(&mut self, outcome: &Outcome) {
        *self.steps.entry(outcome.as_str()).or_default() += 1;
    }
}

/// All keys of `Counters::events`.
pub fn event_type_labels() -> impl Iterator<Item = &'static str> {
    KNOWN_KINDS.iter().map(EventKind::as_str).chain([OTHER])
}

const OTHER: &str = "Other";

/// Maps types to a fixed set of labels, so that the service cannot create new time series.
fn event_type_label(kind: &EventKind) -> &'static str {
    KNOWN_KINDS.iter().find(|known| *known == kind).map_or(OTHER, EventKind::as_str)
}
