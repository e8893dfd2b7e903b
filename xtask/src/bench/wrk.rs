//! Runs wrk on its own core and measures the CPU time of the server meanwhile.

use anyhow::{Context, Result, ensure};

use super::process::{CLIENT_CORE, Process};
use crate::sh;

/// Connections: a small fleet that polls at the same time.
const CONNECTIONS: &str = "-c64";

#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub per_second: f64,
    /// CPU time of the server per request, in microseconds.
    pub cpu_us: f64,
    pub p99_us: f64,
}

pub fn run(server: &Process, secs: u32, arguments: &[&str]) -> Result<Run> {
    let duration = format!("-d{secs}s");
    let before = server.cpu_secs()?;
    let fixed = ["-c", CLIENT_CORE, "wrk", "-t1", CONNECTIONS, &duration, "--latency"];
    let text = sh::program("taskset").args(&fixed).args(arguments).read()?;
    let used = server.cpu_secs()? - before;
    ensure!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk reports errors:\n{text}");
    let requests: f64 = after(&text, |words| words.get(1) == Some(&"requests"), 0)?.parse()?;
    Ok(Run {
        per_second: after(&text, |words| words.first() == Some(&"Requests/sec:"), 1)?.parse()?,
        cpu_us: used * 1e6 / requests,
        p99_us: micros(after(&text, |words| words.first() == Some(&"99%"), 1)?)?,
    })
}

/// A word of the first line that matches.
fn after(text: &str, like: impl Fn(&[&str]) -> bool, word: usize) -> Result<&str> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| like(words)).with_context(|| format!("unexpected output of wrk:\n{text}"))?;
    line.get(word).copied().context("a line of wrk is too short")
}

fn micros(text: &str) -> Result<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).context("a time without unit")?;
    let number: f64 = text[..split].parse()?;
    Ok(match &text[split..] {
        "us" => number,
        "ms" => number * 1e3,
        "s" => number * 1e6,
        unit => anyhow::bail!("unknown unit of wrk: {unit}"),
    })
}
