//! Reads parents and CPU times of processes from `/proc/PID/stat`.

use anyhow::{Context, Result};

/// Clock ticks per second in /proc, the same on all supported systems.
const TICKS: f64 = 100.0;

pub struct Stat {
    pub parent: u32,
    /// CPU time of the process.
    pub own_secs: f64,
    /// CPU time of its descendants that have ended.
    pub ended_secs: f64,
}

impl Stat {
    pub fn read(process: u32) -> Result<Stat> {
        let path = format!("/proc/{process}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Stat::parse(&text).with_context(|| format!("{path} has an unexpected format: {text}"))
    }

    /// Counts fields from the end of the name, which may contain anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let parent = fields.get(1)?.parse().ok()?;
        let times: Vec<f64> = fields.get(11..15)?.iter().map(|field| field.parse()).collect::<Result<_, _>>().ok()?;
        Some(Stat { parent, own_secs: (times[0] + times[1]) / TICKS, ended_secs: (times[2] + times[3]) / TICKS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_anything() {
        let stat = Stat::parse("12 (a) b (c) S 7 12 12 0 -1 0 0 0 0 0 150 50 300 100 20 0").unwrap();
        assert_eq!((stat.parent, stat.own_secs, stat.ended_secs), (7, 2.0, 4.0));
        assert!(Stat::parse("12 (a) S 7").is_none());
    }
}
