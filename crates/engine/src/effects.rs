//! The writer's side of a driver: where effects go and where reports that are due come from.

use forewarn_core::{Effect, EventId, Region, Report, Timestamp};

/// Receives the effects of every commit. Effects are hints: an implementation that missed one catches up at the next
/// `reconcile`.
pub trait EffectSink: Send {
    /// These events have just started or stopped.
    fn follow(&mut self, effects: &[Effect]);

    /// All events in progress; called at startup, after a reload and once a minute.
    fn reconcile(&mut self, region: &Region);

    /// The time of the next report, for drivers that let the writer collect their reports.
    fn next(&self) -> Option<Timestamp>;

    /// The reports due at `now`, at most `max` of them.
    fn due(&self, now: Timestamp, max: usize) -> Vec<(EventId, Report)>;

    /// The report of this event was committed or refused.
    fn reported(&mut self, event: EventId);
}
