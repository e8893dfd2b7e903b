//! Detects other load on the machine: while no benchmark runs, all cores should be idle.

use std::time::Duration;

use anyhow::{Context, Result};

/// How long the machine is watched.
const WATCH: Duration = Duration::from_millis(500);

/// Timers and the kernel alone use less.
const BUSY_SHARE_MAX: f64 = 0.05;

/// The share of CPU time that other programs, or the physical host, use right now.
pub fn busy_share() -> Result<f64> {
    let before = Times::read()?;
    std::thread::sleep(WATCH);
    Ok(Times::read()?.busy_share_since(&before))
}

/// A warning if other programs were busy before or after a benchmark.
pub fn warning(before: f64, after: f64) -> Option<String> {
    (before.max(after) > BUSY_SHARE_MAX).then(|| {
        let percent = |share: f64| (share * 100.0).round();
        format!(
            "other load: the CPUs were {} % busy before this benchmark and {} % after it; repeat it on a quiet machine",
            percent(before),
            percent(after)
        )
    })
}

/// CPU time since boot, in clock ticks.
struct Times {
    idle: f64,
    total: f64,
}

impl Times {
    fn read() -> Result<Times> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Times::parse(stat.lines().next().unwrap_or_default())
    }

    /// `cpu user nice system idle iowait irq softirq steal …`; what follows is part of `user` and `nice`.
    fn parse(line: &str) -> Result<Times> {
        let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
        let idle = ticks.get(3).context("unexpected format of /proc/stat")? + ticks.get(4).unwrap_or(&0.0);
        Ok(Times { idle, total: ticks.iter().sum() })
    }

    fn busy_share_since(&self, before: &Times) -> f64 {
        let total = self.total - before.total;
        if total > 0.0 { 1.0 - (self.idle - before.idle) / total } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_share_counts_everything_but_idle_time() {
        let before = Times::parse("cpu  100 0 100 1000 50 0 0 10 7 0").unwrap();
        let after = Times::parse("cpu  110 0 105 1070 60 0 0 15 9 0").unwrap();
        assert!((after.busy_share_since(&before) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn only_a_busy_machine_is_mentioned() {
        assert_eq!(warning(0.01, 0.04), None);
        assert!(warning(0.01, 0.5).unwrap().contains("1 % busy before this benchmark and 50 % after"));
    }
}
