//! The arithmetic of the real clock: readings of the system's clocks go in, the program's time comes out. It reads no clock.
//!
//! ```text
//!   time ▲            ╱ wall time, after a step forward
//!        │           ╱
//!        │          ╱        ╱ program's time: at most 500 ppm faster
//!        │                ╱·   than the boot-time clock until it meets wall time
//!        │   ╱ step   ╱·
//!        │  ╱     ╱·
//!        │ ╱  ╱·
//!        └─────────────────────▶ boot time
//! ```

use forewarn_core::Timestamp;
use forewarn_store::ClockStamp;

use crate::system_clocks::Readings;

/// Boot time per unit of correction: 500 ppm, the limit that the kernel has for slewing its own clock. A notice of 15 minutes
/// changes by at most 0.45 s.
const SLEW_INTERVAL: i64 = 1_000_000 / 500;

/// A comparison of the clocks, from which the program's time follows as a function of boot time until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnchor {
    pub boot_us: i64,
    pub time_us: i64,
    /// Wall time minus the program's time, when they were compared.
    gap_us: i64,
}

impl ClockAnchor {
    /// The anchor at startup. `stored` is the latest time in the region, zero for a new store. `stamp` is from the latest
    /// commit: within the same boot, time has passed as the boot-time clock says. Otherwise the wall clock is trusted, but
    /// time does not go back.
    pub fn begin(
        readings: Readings,
        boot_id: Option<&str>,
        stamp: Option<&ClockStamp>,
        stored: Timestamp,
    ) -> ClockAnchor {
        let Readings { boot_us, wall_us } = readings;
        let lowest = stamp.map_or(stored, |stamp| stamp.time.max(stored));
        let continued = stamp.and_then(|stamp| continue_stamp(stamp, boot_id?, boot_us));
        let time_us = continued.unwrap_or(wall_us).max(lowest.0.saturating_mul(1000));
        ClockAnchor { boot_us, time_us, gap_us: wall_us.saturating_sub(time_us) }
    }

    /// The anchor of a time that another server has set.
    pub fn from_time(readings: Readings, time: Timestamp) -> ClockAnchor {
        let Readings { boot_us, wall_us } = readings;
        let time_us = time.0.saturating_mul(1000);
        ClockAnchor { boot_us, time_us, gap_us: wall_us.saturating_sub(time_us) }
    }

    /// The program's time, in microseconds. Corrects no more than the gap, however late the next comparison is.
    pub fn time_at(&self, boot_us: i64) -> i64 {
        let elapsed = (boot_us - self.boot_us).max(0);
        let correction_max = elapsed / SLEW_INTERVAL;
        self.time_us + elapsed + self.gap_us.clamp(-correction_max, correction_max)
    }

    /// The anchor after another comparison with the wall clock. The program's time has no step at that point.
    #[must_use]
    pub fn compare(&self, readings: Readings) -> ClockAnchor {
        let boot_us = readings.boot_us.max(self.boot_us);
        let time_us = self.time_at(boot_us);
        ClockAnchor { boot_us, time_us, gap_us: readings.wall_us.saturating_sub(time_us) }
    }
}

/// The time that has been reached since the stamp. None: the stamp is from another boot, or from one that looks the same after
/// a snapshot of a virtual machine was restored.
fn continue_stamp(stamp: &ClockStamp, boot_id: &str, boot_us: i64) -> Option<i64> {
    let stamped_us = stamp.boot_ms.saturating_mul(1000);
    (stamp.boot_id == boot_id && stamped_us <= boot_us)
        .then(|| stamp.time.0.saturating_mul(1000).saturating_add(boot_us - stamped_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: i64 = 1_000_000;
    const WALL: i64 = 1_800_000_000;

    fn readings(boot_secs: i64, wall_secs: i64) -> Readings {
        Readings { boot_us: boot_secs * SEC, wall_us: wall_secs * SEC }
    }

    fn begin(boot_secs: i64, wall_secs: i64) -> ClockAnchor {
        ClockAnchor::begin(readings(boot_secs, wall_secs), None, None, Timestamp::default())
    }

    /// Follows a wall clock that differs by `step` seconds from the moment zero on, comparing every `interval_us`. Returns the
    /// time relative to boot time after each comparison.
    fn follow(step: i64, interval_us: i64, comparisons: i64) -> Vec<i64> {
        let mut anchor = begin(0, WALL);
        let corrections = (1..=comparisons).map(|number| {
            let boot_us = number * interval_us;
            anchor = anchor.compare(Readings { boot_us, wall_us: (WALL + step) * SEC + boot_us });
            anchor.time_us - WALL * SEC - boot_us
        });
        corrections.collect()
    }

    #[test]
    fn time_is_slewed_by_at_most_500_ppm_and_converges_without_overshoot() {
        for step in [1, -1, 960, -3600, 3 * 86_400] {
            for interval_us in [100_000, SEC, 5 * SEC, 3_600 * SEC] {
                let mut before = 0;
                for correction in follow(step, interval_us, 1000) {
                    let change = correction - before;
                    assert!(change.abs() <= interval_us / 2000, "{step} {interval_us}: {change}");
                    assert!(change * step.signum() >= 0, "{step} {interval_us}: {change} leads away");
                    assert!(correction.abs() <= step.abs() * SEC, "{step} {interval_us}: {correction} overshoots");
                    before = correction;
                }
            }
        }
        // A second takes 2000 s, an hour 83 days; the first comparison only measures the difference.
        assert_eq!(follow(1, 5 * SEC, 401).last(), Some(&SEC));
        assert_eq!(follow(-1, 5 * SEC, 401).last(), Some(&-SEC));
        assert_eq!(follow(-3600, 3600 * SEC, 2001).last(), Some(&(-3600 * SEC)));
    }

    #[test]
    fn time_neither_jumps_nor_stands_still_between_comparisons() {
        let mut anchor = begin(0, WALL).compare(readings(0, WALL + 3600));
        let mut latest = anchor.time_us;
        for ms in 1..20_000_i64 {
            let time = anchor.time_at(ms * 1000);
            assert!((999..=1001).contains(&(time - latest)), "{ms}: {}", time - latest);
            latest = time;
            if ms % 1000 == 0 {
                let wall = if ms % 2000 == 0 { WALL + 3600 } else { WALL - 3600 };
                anchor = anchor.compare(Readings { boot_us: ms * 1000, wall_us: wall * SEC });
                assert_eq!(anchor.time_at(ms * 1000), latest);
            }
        }
    }

    #[test]
    fn a_late_comparison_does_not_correct_too_much() {
        let anchor = begin(0, WALL).compare(readings(0, WALL + 1));
        assert_eq!(anchor.time_at(86_400 * SEC), (WALL + 86_400 + 1) * SEC);
    }

    #[test]
    fn an_older_reading_changes_nothing() {
        let anchor = begin(100, WALL);
        assert_eq!(anchor.time_at(99 * SEC), WALL * SEC);
        assert_eq!(anchor.compare(readings(99, WALL)), anchor);
    }

    /// Starts at `boot_secs` of `boot_id` with this wall time after a commit at 1000 s of boot `a`, at [`WALL`].
    fn restart(boot_id: Option<&str>, boot_secs: i64, wall_secs: i64) -> i64 {
        let stamp = ClockStamp { boot_id: "a".into(), boot_ms: 1_000_000, time: Timestamp::from_secs(WALL) };
        let anchor =
            ClockAnchor::begin(readings(boot_secs, wall_secs), boot_id, Some(&stamp), Timestamp::from_secs(WALL));
        assert_eq!(anchor.time_us % SEC, 0);
        anchor.time_us / SEC - WALL
    }

    #[test]
    fn a_restart_in_the_same_boot_continues_by_boot_time() {
        for step in [0, 960, -3600, 3 * 86_400, -WALL] {
            assert_eq!(restart(Some("a"), 1060, WALL + 60 + step), 60, "{step}");
        }
    }

    #[test]
    fn a_reboot_trusts_the_wall_clock_but_does_not_go_back() {
        assert_eq!(restart(Some("b"), 20, WALL + 300), 300);
        assert_eq!(restart(Some("b"), 5000, WALL + 300), 300);
        assert_eq!(restart(Some("b"), 20, WALL - 3600), 0);
        assert_eq!(restart(None, 2000, WALL + 300), 300);
        assert_eq!(restart(Some("a"), 999, WALL + 300), 300, "a restored snapshot");
    }

    #[test]
    fn the_regions_time_is_a_lower_bound_without_a_stamp_too() {
        let stored = Timestamp::from_secs(WALL + 50);
        assert_eq!(ClockAnchor::begin(readings(5, WALL), Some("a"), None, stored).time_us, (WALL + 50) * SEC);
        assert_eq!(ClockAnchor::begin(readings(5, WALL + 90), Some("a"), None, stored).time_us, (WALL + 90) * SEC);
    }
}
