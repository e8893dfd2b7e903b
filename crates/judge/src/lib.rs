//! Judges a handler of Scheduled Events by what was observed of it: its requests, the events of its machine and its
//! output. Pure: running the handler and printing the verdict is the work of the caller.

mod cases;
mod junit;
mod marks;
mod observation;
mod verdict;

pub use cases::{ALL as CASES, Case, select};
pub use junit::{render_junit, render_junit_error};
pub use marks::{Mark, Marks};
pub use observation::{Elapsed, Observation, ObservedEvent, ObservedRequest, RequestKind};
pub use verdict::{Finding, GAP_MAX, PollStatistics, Severity, Verdict, judge, secs};

/// The events that a handler approves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Events of its own machine, and no others.
    Own,
    /// Every event that it sees.
    All,
    /// No events.
    Never,
}

impl Profile {
    /// Whether the handler should approve an event.
    pub fn is_approval_expected(self, mine: bool) -> bool {
        match self {
            Profile::Own => mine,
            Profile::All => true,
            Profile::Never => false,
        }
    }
}
