//! The clock that the drivers of real machines use for deadlines and pauses: the boot-time clock, shown as wall-clock time.
//!
//! If the wall clock is set, no pause becomes longer and no deadline passes early. Within one boot of the operating system, a
//! journal keeps the clock of the program that began it, so that this is also true for a program that is started again.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use forewarn_core::Timestamp;

/// The current time on the clock of this program.
pub fn now() -> Timestamp {
    Clock::of_program().now()
}

/// A clock that advances with the boot-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The time that it shows at the start of the boot-time clock, in milliseconds.
    pub offset_ms: i64,
}

impl Clock {
    /// The clock of this program: the wall clock when the program first asked for it, and the time that has passed since.
    pub fn of_program() -> Clock {
        static FIRST: LazyLock<Clock> = LazyLock::new(|| {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Clock { offset_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX).saturating_sub(boot_ms()) }
        });
        *FIRST
    }

    pub fn now(self) -> Timestamp {
        Timestamp(self.offset_ms.saturating_add(boot_ms()))
    }

    /// A time of another clock on this one.
    pub fn convert(self, time: Timestamp, from: Clock) -> Timestamp {
        Timestamp(time.0.saturating_add(self.offset_ms.saturating_sub(from.offset_ms)))
    }
}

/// Milliseconds on the boot-time clock, which includes suspends and is never set.
#[cfg(target_os = "linux")]
fn boot_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// The monotonic clock since the program started. Elsewhere, the boot is unknown, so that no journal keeps a clock.
#[cfg(not(target_os = "linux"))]
fn boot_ms() -> i64 {
    static FIRST: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    i64::try_from(FIRST.elapsed().as_millis()).unwrap_or(i64::MAX)
}
