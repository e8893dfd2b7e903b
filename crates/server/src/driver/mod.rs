//! Drivers do to machines what events say, and report how it went.
//!
//! What should be under way is read from the region (`wanted_effects`). The effects of a transition are
//! hints that save looking at everything; losing one costs time, not truth.

mod command;
mod simulated;

use forewarn_core::{Effect, EventId, Region, Report, Timestamp};

pub(crate) use command::{CommandRunner, CommandSignal};
pub(crate) use simulated::Simulated;

/// The writer's end of a driver.
pub(crate) trait Driver: Send {
    /// These events have just started or stopped.
    fn follow(&mut self, effects: &[Effect]);

    /// Everything that should be under way.
    fn reconcile(&mut self, region: &Region);

    /// When there will be something to report; None for drivers that report by themselves.
    fn next(&self) -> Option<Timestamp>;

    /// What is to be reported at `now`, at most `max` events.
    fn due(&self, now: Timestamp, max: usize) -> Vec<(EventId, Report)>;

    /// The report was taken or refused: nothing is left to do for this event.
    fn reported(&mut self, event: EventId);
}
