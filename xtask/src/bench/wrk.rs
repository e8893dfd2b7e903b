//! Runs wrk on its own core and measures the CPU time of the server meanwhile. Candidates take turns in rounds.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::Built;
use super::process::{CLIENT_CORE, Process};
use super::table::{Table, median, short};
use crate::sh;

/// Rounds after a warm-up round. Each round measures every candidate once.
const ROUNDS: usize = 5;
const SECS: u32 = 2;

/// Connections: a small fleet that polls at the same time.
const CONNECTIONS: &str = "-c64";

#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    pub per_second: f64,
    /// CPU time of the server per request, in microseconds.
    pub cpu_us: f64,
    /// NaN: not measured.
    pub p99_us: f64,
}

/// The length of one measurement, in seconds.
pub fn secs(built: &Built) -> u32 {
    built.pick(SECS, 1)
}

pub fn run(server: &Process, secs: u32, arguments: &[&str]) -> Result<Throughput> {
    let duration = format!("-d{secs}s");
    let before = server.cpu_secs()?;
    let fixed = ["-c", CLIENT_CORE, "wrk", "-t1", CONNECTIONS, &duration, "--latency"];
    let text = sh::program("taskset").args(&fixed).args(arguments).read()?;
    let used = server.cpu_secs()? - before;
    ensure!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk reports errors:\n{text}");
    let requests: f64 = after(&text, |words| words.get(1) == Some(&"requests"), 0)?.parse()?;
    Ok(Throughput {
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

/// Measures all candidates in turn. The first round is a warm-up.
pub fn rounds(built: &Built, turns: &mut [&mut dyn FnMut() -> Result<Throughput>]) -> Result<Vec<Vec<Throughput>>> {
    let mut runs = vec![Vec::new(); turns.len()];
    for round in built.pick(0..=ROUNDS, 1..=1) {
        let mut line = String::new();
        for n in 0..turns.len() {
            // The order rotates from round to round.
            let n = (n + round) % turns.len();
            let run = turns[n]()?;
            write!(line, "  [{n}] {:.0}/s {:.2} us", run.per_second, run.cpu_us)?;
            if round > 0 {
                runs[n].push(run);
            }
        }
        eprintln!("   round {round}{line}");
    }
    Ok(runs)
}

pub fn describe(table: &mut Table, who: &str, runs: &[Throughput]) {
    let middle = |figure: fn(&Throughput) -> f64| short(median(runs.iter().map(figure).collect()));
    let mut text = format!("{}/s, {} µs CPU", middle(|r| r.per_second), middle(|r| r.cpu_us));
    if runs.iter().all(|run| !run.p99_us.is_nan()) {
        text += &format!(", p99 {} µs", middle(|r| r.p99_us));
    }
    table.tell(who, text);
}

/// The median of the ratios of all rounds.
pub fn ratio(ours: &[Throughput], theirs: &[Throughput], figure: fn(&Throughput) -> f64) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
}
