//! The clock that the drivers of real machines use for deadlines and pauses.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use forewarn_core::Timestamp;

/// The current time: the wall clock when this program first asked for it, and the time that has passed since. If the clock is
/// set, no pause becomes longer and no deadline passes early.
pub fn now() -> Timestamp {
    static FIRST: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));
    let (instant, wall) = *FIRST;
    let since = (wall + instant.elapsed()).duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
