//! The system's clocks: the boot-time clock, the wall clock and the boot ID. It only reads them; `clock` decides what the
//! program's time is.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Both clocks, read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    pub boot_us: i64,
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub wall_us: i64,
}

pub trait SystemClocks: Send + Sync {
    /// Identifies the boot of the operating system. None: unknown, so the boot-time clock says nothing after a restart.
    fn boot_id(&self) -> Option<&str>;

    /// Microseconds that have passed, including suspends. Never goes back and is never set.
    fn boot_us(&self) -> i64;

    /// Microseconds since 1970-01-01T00:00:00Z. Can be set to any value at any time.
    fn wall_us(&self) -> i64;

    fn read(&self) -> Readings {
        Readings { boot_us: self.boot_us(), wall_us: self.wall_us() }
    }
}

/// The clocks of this host.
#[derive(Debug)]
pub struct HostClocks {
    boot_id: Option<String>,
    boot: BootClock,
}

impl HostClocks {
    pub fn new() -> HostClocks {
        HostClocks { boot_id: read_boot_id(), boot: BootClock::new() }
    }
}

impl Default for HostClocks {
    fn default() -> Self {
        HostClocks::new()
    }
}

impl SystemClocks for HostClocks {
    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    fn boot_us(&self) -> i64 {
        self.boot.read_us()
    }

    fn wall_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(target_os = "linux")]
fn read_boot_id() -> Option<String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::read_to_string(PATH) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) => {
            tracing::warn!(%error, "cannot read {PATH}; after a restart, time continues by the wall clock");
            None
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn read_boot_id() -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
#[derive(Debug)]
struct BootClock;

#[cfg(target_os = "linux")]
impl BootClock {
    fn new() -> BootClock {
        BootClock
    }

    fn read_us(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1000
    }
}

/// The monotonic clock since the program started. Without a boot ID, only differences matter.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct BootClock(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl BootClock {
    fn new() -> BootClock {
        BootClock(std::time::Instant::now())
    }

    fn read_us(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

/// Clocks that a test sets.
#[derive(Debug)]
pub struct SimulatedClocks {
    boot_id: String,
    boot_us: AtomicI64,
    wall_us: AtomicI64,
}

impl SimulatedClocks {
    pub fn new(boot_id: &str, boot_secs: i64, wall_secs: i64) -> SimulatedClocks {
        SimulatedClocks {
            boot_id: boot_id.to_owned(),
            boot_us: AtomicI64::new(boot_secs * 1_000_000),
            wall_us: AtomicI64::new(wall_secs * 1_000_000),
        }
    }

    /// Lets time pass on both clocks.
    pub fn pass_ms(&self, ms: i64) {
        self.boot_us.fetch_add(ms * 1000, Ordering::Relaxed);
        self.wall_us.fetch_add(ms * 1000, Ordering::Relaxed);
    }

    /// Sets the wall clock forward, or back if negative.
    pub fn step_wall_secs(&self, secs: i64) {
        self.wall_us.fetch_add(secs * 1_000_000, Ordering::Relaxed);
    }
}

impl SystemClocks for SimulatedClocks {
    fn boot_id(&self) -> Option<&str> {
        Some(&self.boot_id)
    }

    fn boot_us(&self) -> i64 {
        self.boot_us.load(Ordering::Relaxed)
    }

    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_boot_clock_advances_and_its_wall_clock_is_in_this_century() {
        let clocks = HostClocks::new();
        let first = clocks.read();
        let second = clocks.read();
        assert!(first.boot_us > 0 && second.boot_us >= first.boot_us, "{first:?} {second:?}");
        assert!((1_500_000_000_000_000..4_102_444_800_000_000).contains(&first.wall_us), "{first:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_boot_id_is_one_word_that_stays_the_same() {
        let boot_id = HostClocks::new().boot_id().map(str::to_owned);
        assert_eq!(boot_id.as_ref().map(String::len), Some(36), "{boot_id:?}");
        assert_eq!(HostClocks::new().boot_id().map(str::to_owned), boot_id);
    }
}
