//! Simulation from a seed: runs of a few hundred commands, valid and invalid, with jumps in time, failed
//! commits, commits whose result is lost, crashes and reloads. After each step the region must satisfy named
//! invariants and agree with a simple model.
//!
//! `FOREWARN_SIM_SEEDS=n` sets the number of seeds; `FOREWARN_SIM_SEED=n` runs one seed and prints its trace.
//! Seeds that failed once are in `seeds.txt` and always run.

mod invariants;
mod limits;
mod model;
mod plans;
mod refusals;
mod rng;
mod runs;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The default number of seeds.
const SEEDS_DEFAULT: u64 = 300;
/// After a failure, this many more seeds are tried, to show whether the failure is rare.
const SKIPPED: u64 = SEEDS_DEFAULT / 5;

/// A simulated run from a seed. The flag prints its trace.
type Simulation = fn(u64, bool) -> Result<(), String>;

#[test]
fn runs_satisfy_the_invariants_and_agree_with_the_model() {
    if let Some(seed) = number("FOREWARN_SIM_SEED") {
        return report(run(seed, true, runs::simulate).err().map(|what| (seed, what)).into_iter().collect());
    }
    let seeds = number("FOREWARN_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    report(run_all(&(0..seeds).collect::<Vec<_>>(), runs::simulate));
}

#[test]
fn drains_and_rollouts_satisfy_the_invariants() {
    if let Some(seed) = number("FOREWARN_SIM_SEED") {
        return report(run(seed, true, plans::simulate).err().map(|what| (seed, what)).into_iter().collect());
    }
    let seeds = number("FOREWARN_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    report(run_all(&(0..seeds).collect::<Vec<_>>(), plans::simulate));
}

#[test]
fn seeds_that_failed_once_pass() {
    let kept = include_str!("seeds.txt").lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let seeds: Vec<u64> = kept.filter(|line| !line.is_empty()).map(|line| line.parse().expect("a seed")).collect();
    report(run_all(&seeds, runs::simulate));
    report(run_all(&seeds, plans::simulate));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..4 {
        let once = runs::trace(seed);
        assert_eq!(once, runs::trace(seed), "seed {seed} had two traces");
        assert_ne!(once, runs::trace(seed + 1), "seeds {seed} and {} had one trace", seed + 1);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

/// Runs all seeds on a few threads. Returns those that failed, with the reason.
fn run_all(seeds: &[u64], simulate: Simulation) -> Vec<(u64, String)> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if let Err(what) = run(*seed, false, simulate) {
                        failed.lock().expect("no panic while held").push((*seed, what));
                        next.fetch_add(SKIPPED, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no panic while held");
    failed.sort();
    failed
}

fn run(seed: u64, print: bool, simulate: Simulation) -> Result<(), String> {
    let run = AssertUnwindSafe(|| simulate(seed, print));
    match catch_unwind(run) {
        Ok(result) => result,
        Err(panic) => Err(format!("panicked: {}", text_of(panic.as_ref()))),
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "(no message)",
    }
}

fn report(failed: Vec<(u64, String)>) {
    const SHOWN_MAX: usize = 5;
    for (seed, what) in failed.iter().take(SHOWN_MAX) {
        eprintln!("--- seed {seed}: {what}\n    cargo xtask sim {seed}");
    }
    let seeds: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
    assert!(failed.is_empty(), "{} seeds failed: {:?}", seeds.len(), &seeds[..seeds.len().min(20)]);
}
