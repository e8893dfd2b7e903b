//! Scheduling of a watch: when to poll, and which change to return next. Pure; the blocking and the async watch do the
//! polling and the waiting.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::calls::Poll;
use crate::tracker::{Change, Tracker};

/// Default interval between polls: the one that Azure recommends.
pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Default duration of a long poll: short enough to notice soon that the service is gone, long enough to save requests.
pub const HOLD_DEFAULT: Duration = Duration::from_secs(30);

/// State of a watch between two calls.
#[derive(Debug)]
pub(crate) struct WatchState {
    pub interval: Duration,
    pub hold: Option<Duration>,
    pub tracker: Tracker,
    queue: VecDeque<Change>,
    /// Earliest start of the next poll.
    due: Duration,
}

/// Next thing for a watch to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchStep {
    Yield(Change),
    Poll { after: Duration, hold: Option<Duration> },
}

impl Default for WatchState {
    fn default() -> WatchState {
        WatchState {
            interval: INTERVAL_DEFAULT,
            hold: Some(HOLD_DEFAULT),
            tracker: Tracker::new(),
            queue: VecDeque::new(),
            due: Duration::ZERO,
        }
    }
}

impl WatchState {
    /// Returns a queued change, or schedules the next poll.
    ///
    /// Polls start at least one interval apart even if the service holds them. Otherwise a service that is shutting
    /// down, or a proxy that ignores `wait`, would be flooded with requests.
    pub fn next(&mut self, now: Duration) -> WatchStep {
        if let Some(change) = self.queue.pop_front() {
            return WatchStep::Yield(change);
        }
        let after = self.due.saturating_sub(now);
        self.due = now + after + self.interval;
        WatchStep::Poll { after, hold: self.hold }
    }

    /// Queues the changes that a poll revealed.
    pub fn record(&mut self, poll: &Poll, wall: SystemTime) {
        if let Poll::Changed(document) = poll {
            self.queue.extend(self.tracker.update(document, wall));
        }
    }
}
