//! What this run of the agent counted. Pure.

use std::collections::BTreeMap;

use forewarn_client::Kind;

use crate::policy::KINDS;
use crate::record::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// By type; types that this agent does not know are counted together.
    pub events: BTreeMap<&'static str, u64>,
    /// By how they ended.
    pub steps: BTreeMap<&'static str, u64>,
    pub approvals: u64,
    pub approvals_failed: u64,
}

/// Every value that `Tally::steps` may be about.
pub const OUTCOMES: [&str; 4] = ["succeeded", "failed", "late", "interrupted"];

impl Tally {
    pub fn event_seen(&mut self, kind: &Kind) {
        *self.events.entry(event_word(kind)).or_default() += 1;
    }

    pub fn step_ended(&mut self, outcome: &Outcome) {
        *self.steps.entry(outcome.as_str()).or_default() += 1;
    }
}

/// Every value that `Tally::events` may be about.
pub fn event_words() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().map(|kind| event_word(&kind)).chain([OTHER])
}

const OTHER: &str = "Other";

/// A closed set of words, because the service decides what a type is called.
fn event_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Freeze => "Freeze",
        Kind::Reboot => "Reboot",
        Kind::Redeploy => "Redeploy",
        Kind::Preempt => "Preempt",
        Kind::Terminate => "Terminate",
        Kind::Other(_) => OTHER,
    }
}
