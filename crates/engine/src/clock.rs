//! The program's clock. A real clock is the system's time, but never goes back. A manual clock stands still until the writer
//! advances it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use forewarn_core::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    Real,
    /// Stands still until advanced. `start`: the time of a new store; None: the current time in whole seconds.
    Manual {
        start: Option<Timestamp>,
    },
}

#[derive(Debug)]
pub struct Clock {
    kind: Kind,
    /// Real: the latest time that was read. Manual: the time.
    latest_ms: AtomicI64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Real,
    Manual,
}

impl Clock {
    /// `stored`: the latest time in the region; zero for a new store.
    pub fn new(kind: ClockKind, stored: Timestamp) -> Clock {
        let (kind, latest) = match kind {
            ClockKind::Real => (Kind::Real, stored),
            ClockKind::Manual { start } => {
                let is_new = stored == Timestamp::default();
                let begin = start.unwrap_or_else(|| Timestamp::from_secs(system_time().as_secs()));
                (Kind::Manual, if is_new { begin } else { stored })
            }
        };
        Clock { kind, latest_ms: AtomicI64::new(latest.0) }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn now(&self) -> Timestamp {
        let latest = self.latest_ms.load(Ordering::Relaxed);
        match self.kind {
            Kind::Manual => Timestamp(latest),
            Kind::Real => {
                let now = system_time().0;
                // Readers share this cache line: write only when a millisecond has passed.
                if now > latest {
                    Timestamp(self.latest_ms.fetch_max(now, Ordering::Relaxed).max(now))
                } else {
                    Timestamp(latest)
                }
            }
        }
    }

    /// Advances a manual clock. Does nothing to a real one.
    pub fn move_to(&self, to: Timestamp) {
        if self.kind == Kind::Manual {
            self.latest_ms.fetch_max(to.0, Ordering::Relaxed);
        }
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_and_never_goes_back() {
        let clock = Clock::new(ClockKind::Manual { start: Some(Timestamp::from_secs(100)) }, Timestamp::default());
        assert_eq!(clock.now(), Timestamp::from_secs(100));
        clock.move_to(Timestamp::from_secs(200));
        clock.move_to(Timestamp::from_secs(150));
        assert_eq!(clock.now(), Timestamp::from_secs(200));
    }

    #[test]
    fn a_manual_clock_goes_on_where_the_store_stood() {
        let clock = Clock::new(ClockKind::Manual { start: Some(Timestamp::from_secs(100)) }, Timestamp::from_secs(7));
        assert_eq!(clock.now(), Timestamp::from_secs(7));
    }

    #[test]
    fn a_real_clock_is_not_behind_what_the_store_has_seen() {
        let ahead = Timestamp::from_secs(4_000_000_000);
        let clock = Clock::new(ClockKind::Real, ahead);
        assert_eq!(clock.now(), ahead);
        clock.move_to(Timestamp::from_secs(5_000_000_000));
        assert_eq!(clock.now(), ahead);
    }
}
