//! Counts the orders that may keep a machine paused, and ends them when this program stops.

use std::time::Duration;

use forewarn_core::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::clock::Clock;

/// The longest remaining freeze that shutdown waits for. Longer ones are cut short at once. It leaves time for the last
/// steps within the runner's `RELEASE_MAX`.
const REST_MAX: Duration = Duration::from_millis(1_500);

/// An order that may keep its machine paused.
pub type PauseGuard = TaskTrackerToken;

pub struct PauseTracker {
    clock: Clock,
    orders: TaskTracker,
    ending: CancellationToken,
}

impl PauseTracker {
    /// `clock`: the clock on which pauses end.
    pub fn new(clock: Clock) -> PauseTracker {
        PauseTracker { clock, orders: TaskTracker::new(), ending: CancellationToken::new() }
    }

    /// Registers an order. Check `is_ending` afterwards, before the machine is paused.
    pub fn begin(&self) -> PauseGuard {
        self.orders.token()
    }

    /// Ends all pauses, and returns once there are none.
    pub async fn release(&self) {
        self.ending.cancel();
        self.orders.close();
        self.orders.wait().await;
    }

    /// Whether this program stops.
    pub fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// Whether a pause until this time can end by itself although this program stops.
    pub fn is_short(&self, until: Timestamp) -> bool {
        until.since(self.clock.now()) <= REST_MAX
    }

    /// Returns when a pause until this time has to end early. Never, if it ends soon enough by itself.
    pub async fn ending(&self, until: Timestamp) {
        self.ending.cancelled().await;
        if self.is_short(until) {
            std::future::pending::<()>().await;
        }
    }
}
