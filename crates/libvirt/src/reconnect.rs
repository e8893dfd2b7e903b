//! Connecting again after libvirtd was restarted.

use std::time::Duration;

use crate::connection::{Connection, Target};
use crate::error::Error;
use crate::event::Events;

/// Delay after the first failed attempt. Each further one waits twice as long.
pub const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Longest delay: libvirtd is back soon after its restart, and trying costs little.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Opens connections to one libvirtd, one after the other.
///
/// Registrations and events do not survive a connection. After each one: register, list the domains, then compare.
#[derive(Clone, Debug)]
pub struct Reconnector {
    target: Target,
    delay: Duration,
}

impl Reconnector {
    /// A reconnector that has not tried yet.
    pub fn new(target: Target) -> Reconnector {
        Reconnector { target, delay: RETRY_DELAY }
    }

    /// Tries until a connection is open. Calls `failed` with each error and the delay before the next attempt.
    pub async fn connect(&mut self, mut failed: impl FnMut(&Error, Duration)) -> (Connection, Events) {
        loop {
            match self.target.connect().await {
                Ok(connected) => {
                    self.delay = RETRY_DELAY;
                    return connected;
                }
                Err(error) => failed(&error, self.delay),
            }
            tokio::time::sleep(self.delay).await;
            self.delay = (self.delay * 2).min(RETRY_DELAY_MAX);
        }
    }
}
