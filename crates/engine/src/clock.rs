//! The program's clock. A real clock advances with the boot-time clock and is slewed toward the wall clock (see `slew`), so that
//! setting the wall clock neither shortens a notice nor stops time. A manual clock stands still until the writer advances it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use forewarn_core::Timestamp;
use forewarn_store::{ClockKind, ClockStamp};

use crate::slew::ClockAnchor;
use crate::system_clocks::SystemClocks;

/// How far the program's time and the wall clock may differ before it is reported. NTP sets the wall clock instead of slewing
/// it from a much smaller difference on, so a larger one is a step.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5);

/// How often the real clock is compared with the wall clock, at most: a comparison allocates.
const COMPARE_INTERVAL_US: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSetting {
    Real,
    /// Stands still until advanced. `start`: the time of a new store; None: the current time in whole seconds.
    Manual {
        start: Option<Timestamp>,
    },
}

impl ClockSetting {
    /// The kind as the store keeps it.
    pub(crate) fn stored(self) -> ClockKind {
        match self {
            ClockSetting::Real => ClockKind::Real,
            ClockSetting::Manual { .. } => ClockKind::Manual,
        }
    }
}

pub struct Clock {
    source: TimeSource,
    /// Real: the latest time that was read. Manual: the time.
    latest_ms: AtomicI64,
}

enum TimeSource {
    Real(SlewedClock),
    Manual,
}

struct SlewedClock {
    clocks: Arc<dyn SystemClocks>,
    anchor: ArcSwap<ClockAnchor>,
}

impl Clock {
    /// `stored`: the latest time in the region; zero for a new store. `stamp`: the clocks at the latest commit.
    pub fn new(
        kind: ClockSetting,
        clocks: Arc<dyn SystemClocks>,
        stored: Timestamp,
        stamp: Option<&ClockStamp>,
    ) -> Clock {
        let readings = clocks.read();
        match kind {
            ClockSetting::Real => {
                let anchor = ClockAnchor::begin(readings, clocks.boot_id(), stamp, stored);
                let latest_ms = AtomicI64::new(anchor.time_us.div_euclid(1000));
                Clock {
                    source: TimeSource::Real(SlewedClock { clocks, anchor: ArcSwap::from_pointee(anchor) }),
                    latest_ms,
                }
            }
            ClockSetting::Manual { start } => {
                let is_new = stored == Timestamp::default();
                let begin = start.unwrap_or(Timestamp::from_secs(readings.wall_us.div_euclid(1_000_000)));
                let time = if is_new { begin } else { stored };
                Clock { source: TimeSource::Manual, latest_ms: AtomicI64::new(time.0) }
            }
        }
    }

    pub fn kind(&self) -> ClockKind {
        match self.source {
            TimeSource::Real(_) => ClockKind::Real,
            TimeSource::Manual => ClockKind::Manual,
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.source {
            TimeSource::Manual => Timestamp(self.latest_ms.load(Ordering::Relaxed)),
            TimeSource::Real(slewed) => self.raise(slewed.time_us().div_euclid(1000)),
        }
    }

    /// The later of `ms` and the latest time that was read, because threads can use the courses before and after a comparison
    /// at the same time.
    fn raise(&self, ms: i64) -> Timestamp {
        let latest = self.latest_ms.load(Ordering::Relaxed);
        // Readers share this cache line: write only when a millisecond has passed.
        if ms > latest { Timestamp(self.latest_ms.fetch_max(ms, Ordering::Relaxed).max(ms)) } else { Timestamp(latest) }
    }

    /// Advances a manual clock. Does nothing to a real one.
    pub fn move_to(&self, to: Timestamp) {
        match self.source {
            TimeSource::Manual => drop(self.latest_ms.fetch_max(to.0, Ordering::Relaxed)),
            TimeSource::Real(_) => {}
        }
    }

    /// Continues from this time, earlier or later than before: in a cluster, the leader sets the time.
    pub fn set(&self, time: Timestamp) {
        if let TimeSource::Real(slewed) = &self.source {
            slewed.anchor.store(Arc::new(ClockAnchor::from_time(slewed.clocks.read(), time)));
        }
        self.latest_ms.store(time.0, Ordering::Relaxed);
    }

    /// Continues as after a restart.
    pub fn restart(&self, stored: Timestamp, stamp: Option<&ClockStamp>) {
        match &self.source {
            TimeSource::Manual if stored == Timestamp::default() => {}
            TimeSource::Manual => self.latest_ms.store(stored.0, Ordering::Relaxed),
            TimeSource::Real(slewed) => {
                let anchor = ClockAnchor::begin(slewed.clocks.read(), slewed.clocks.boot_id(), stamp, stored);
                self.latest_ms.store(anchor.time_us.div_euclid(1000), Ordering::Relaxed);
                slewed.anchor.store(Arc::new(anchor));
            }
        }
    }

    /// Compares a real clock with the wall clock, and from then on slews toward it. Only the writer calls this, at least every
    /// few seconds.
    pub fn follow_wall(&self) {
        if let TimeSource::Real(slewed) = &self.source {
            slewed.compare();
        }
    }

    /// How far the program's time is ahead of the wall clock, in milliseconds; negative if it is behind. Zero for a manual
    /// clock.
    pub fn ahead_ms(&self) -> i64 {
        match &self.source {
            TimeSource::Manual => 0,
            TimeSource::Real(slewed) => (slewed.time_us() - slewed.clocks.wall_us()) / 1000,
        }
    }

    /// The clocks now, to be stored with a commit. None: the clock is manual, or the boot is unknown.
    pub fn stamp(&self) -> Option<ClockStamp> {
        let TimeSource::Real(slewed) = &self.source else { return None };
        let boot_id = slewed.clocks.boot_id()?.to_owned();
        let boot_us = slewed.clocks.boot_us();
        let time = self.raise(slewed.anchor.load().time_at(boot_us).div_euclid(1000));
        Some(ClockStamp { boot_id, boot_ms: boot_us.div_euclid(1000), time })
    }
}

impl SlewedClock {
    fn time_us(&self) -> i64 {
        let boot_us = self.clocks.boot_us();
        self.anchor.load().time_at(boot_us)
    }

    fn compare(&self) {
        let readings = self.clocks.read();
        let anchor = self.anchor.load();
        if readings.boot_us - anchor.boot_us >= COMPARE_INTERVAL_US {
            self.anchor.store(Arc::new(anchor.compare(readings)));
        }
    }
}

/// Describes a difference of the clocks that is large enough to report.
pub fn describe_difference(ahead_ms: i64) -> Option<String> {
    if !is_large(ahead_ms) {
        return None;
    }
    let (direction, remedy) = if ahead_ms > 0 {
        ("ahead of", "Check that the system's clock is right")
    } else {
        ("behind", "If the system's clock is right, reboot the host to correct the time at once")
    };
    let secs = ahead_ms.unsigned_abs() / 1000;
    Some(format!(
        "the server's time is {secs} s {direction} the system's clock and approaches it by 0.5 ms per second; notice periods \
         are not affected. {remedy}"
    ))
}

fn is_large(difference_ms: i64) -> bool {
    u128::from(difference_ms.unsigned_abs()) > CLOCK_AHEAD_MAX.as_millis()
}

/// Remembers which difference was logged, so that a step causes one warning.
#[derive(Debug, Default)]
pub struct ClockWatch {
    logged_ms: i64,
}

impl ClockWatch {
    /// Logs the difference if it has become too large, has changed by that much, or is small again.
    pub fn log(&mut self, ahead_ms: i64) {
        if !self.notice(ahead_ms) {
            return;
        }
        match describe_difference(ahead_ms) {
            Some(problem) => tracing::warn!(ahead_ms, "{problem}"),
            None => tracing::info!(ahead_ms, "the server's time agrees with the system's clock again"),
        }
    }

    /// Whether to log this difference.
    fn notice(&mut self, ahead_ms: i64) -> bool {
        let is_over = self.logged_ms != 0 && !is_large(ahead_ms);
        let is_news = is_large(ahead_ms) && is_large(ahead_ms - self.logged_ms);
        if is_news {
            self.logged_ms = ahead_ms;
        } else if is_over {
            self.logged_ms = 0;
        }
        is_news || is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_clocks::{HostClocks, SimulatedClocks};

    const WALL: i64 = 1_800_000_000;

    fn manual(start: i64, stored: i64) -> Clock {
        let kind = ClockSetting::Manual { start: Some(Timestamp::from_secs(start)) };
        Clock::new(kind, Arc::new(HostClocks::new()), Timestamp::from_secs(stored), None)
    }

    fn real(clocks: &Arc<SimulatedClocks>) -> Clock {
        Clock::new(ClockSetting::Real, clocks.clone(), Timestamp::default(), None)
    }

    #[test]
    fn a_manual_clock_stands_still_and_never_goes_back() {
        let clock = manual(100, 0);
        assert_eq!(clock.now(), Timestamp::from_secs(100));
        clock.move_to(Timestamp::from_secs(200));
        clock.move_to(Timestamp::from_secs(150));
        assert_eq!(clock.now(), Timestamp::from_secs(200));
        assert_eq!((clock.ahead_ms(), clock.stamp()), (0, None));
    }

    #[test]
    fn a_manual_clock_goes_on_where_the_store_stood() {
        assert_eq!(manual(100, 7).now(), Timestamp::from_secs(7));
    }

    #[test]
    fn a_real_clock_is_not_behind_what_the_store_has_seen_and_does_not_stand_still() {
        let clocks = Arc::new(SimulatedClocks::new("a", 10, WALL));
        let ahead = Timestamp::from_secs(4_000_000_000);
        let clock = Clock::new(ClockSetting::Real, clocks.clone(), ahead, None);
        assert_eq!(clock.now(), ahead);
        clock.move_to(Timestamp::from_secs(5_000_000_000));
        clocks.pass_ms(2000);
        assert_eq!(clock.now(), ahead + Duration::from_millis(1999));
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_the_time_by_500_ppm_at_most() {
        for step in [960, -3600, 3 * 86_400] {
            let clocks = Arc::new(SimulatedClocks::new("a", 10, WALL));
            let clock = real(&clocks);
            clocks.step_wall_secs(step);
            clock.follow_wall();
            assert_eq!(clock.now(), Timestamp::from_secs(WALL), "{step}");
            assert_eq!(clock.ahead_ms(), -step * 1000);
            for second in 1..=900 {
                clocks.pass_ms(1000);
                clock.follow_wall();
                let error_ms = clock.now().0 - (WALL + second) * 1000;
                assert!(
                    error_ms.abs() <= second / 2 + 1 && error_ms * step.signum() >= -1,
                    "{step} {second}: {error_ms}"
                );
            }
        }
    }

    #[test]
    fn a_stamp_has_the_time_at_its_boot_time() {
        let clocks = Arc::new(SimulatedClocks::new("a", 10, WALL));
        let clock = real(&clocks);
        clocks.pass_ms(1500);
        let time = Timestamp(WALL * 1000 + 1500);
        assert_eq!(clock.stamp(), Some(ClockStamp { boot_id: "a".into(), boot_ms: 11_500, time }));
    }

    #[test]
    fn time_does_not_go_back_on_any_thread() {
        let clocks = Arc::new(SimulatedClocks::new("a", 10, WALL));
        let clock = real(&clocks);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut latest = clock.now();
                    while latest < Timestamp::from_secs(WALL + 2000) {
                        let now = clock.now();
                        assert!(now >= latest, "{now:?} after {latest:?}");
                        latest = now;
                    }
                });
            }
            for number in 0..3000 {
                clocks.step_wall_secs(if number % 2 == 0 { 3600 } else { -3600 });
                clocks.pass_ms(1000);
                clock.follow_wall();
            }
        });
    }

    #[test]
    fn a_difference_is_logged_once_until_it_changes_or_ends() {
        let mut watch = ClockWatch::default();
        let logged = [0, 5000, 5001, 5002, 3_600_000, 3_599_000, 3_590_000, -6000, 400, 300, -5001];
        let logged = logged.map(|ahead| watch.notice(ahead));
        assert_eq!(logged, [false, false, true, false, true, false, true, true, true, false, true]);
    }

    #[test]
    fn a_difference_over_5_seconds_is_described() {
        assert_eq!(describe_difference(5000), None);
        assert_eq!(describe_difference(-5000), None);
        assert!(describe_difference(960_000).is_some_and(|text| text.contains("960 s ahead of the system's clock")));
        assert!(describe_difference(-3_600_000).is_some_and(|text| text.contains("3600 s behind the system's clock")));
    }
}
