//! Waiting for another process or thread.

use std::thread;
use std::time::{Duration, Instant};

/// Expires only if a test fails, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two checks of a condition.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until the closure returns a value.
///
/// # Panics
///
/// If it does not within [`PATIENCE`].
#[track_caller]
pub fn poll_until<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    poll_until_or(|| what.to_owned(), check)
}

/// Like [`poll_until`], with a message that is built on failure.
///
/// # Panics
///
/// If the closure returns no value within [`PATIENCE`].
#[track_caller]
pub fn poll_until_or<T>(what: impl Fn() -> String, mut check: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        match check() {
            Some(found) => return found,
            None => assert!(started.elapsed() < PATIENCE, "timed out waiting for {}", what()),
        }
        thread::sleep(INTERVAL);
    }
}
