//! Simulation of several servers from a seed: the state machine and a region over a log in memory, with lost and late requests, lost
//! answers, stale reads, pauses, crashes, hung copies, clocks of different speed, and a log restored from a backup.
//!
//! `FOREWARN_SIM_SEEDS=n` sets the number of seeds; `FOREWARN_SIM_SEED=n` runs one seed and prints its trace.
//! Seeds that failed once are in `seeds.txt` and always run.

mod checker;
mod node;
mod region;
mod rng;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The default number of seeds.
const SEEDS_DEFAULT: u64 = 2000;
/// After a failure, this many seeds are skipped, to show sooner whether the failure is rare.
const SKIPPED: u64 = SEEDS_DEFAULT / 5;

#[test]
fn runs_lose_nothing_and_happen_once_in_one_order() {
    if let Some(seed) = number("FOREWARN_SIM_SEED") {
        return report(run(seed, true).err().map(|what| (seed, what)).into_iter().collect());
    }
    let seeds = number("FOREWARN_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    report(run_all(&(0..seeds).collect::<Vec<_>>()));
}

#[test]
fn seeds_that_failed_once_pass() {
    let kept = include_str!("seeds.txt").lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let seeds: Vec<u64> = kept.filter(|line| !line.is_empty()).map(|line| line.parse().expect("a seed")).collect();
    report(run_all(&seeds));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..4 {
        let once = world::simulate(seed, false).expect("the run succeeds");
        assert_eq!(once, world::simulate(seed, false).expect("the run succeeds"), "seed {seed} had two runs");
        assert_ne!(once, world::simulate(seed + 1, false).expect("the run succeeds"), "two seeds had one run");
    }
}

/// A simulation that never reaches the interesting cases proves nothing.
#[test]
fn runs_reach_the_interesting_cases() {
    let mut total = world::Summary::default();
    for seed in 0..100 {
        total.add(&world::simulate(seed, false).expect("the run succeeds"));
    }
    let world::Summary {
        committed,
        failed,
        unknown,
        deposed,
        takeovers,
        truncations,
        transfers,
        diverged,
        batches,
        started,
        hash: _,
    } = total;
    for (name, number) in [
        ("committed", committed),
        ("failed", failed),
        ("unknown", unknown),
        ("deposed", deposed),
        ("takeovers", takeovers),
        ("truncations", truncations),
        ("transfers", transfers),
        ("diverged", diverged),
        ("batches", batches),
        ("started", started),
    ] {
        assert!(number >= 5, "only {number} {name} in 100 runs: {total:?}");
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

/// Runs all seeds on a few threads. Returns those that failed, with the reason.
fn run_all(seeds: &[u64]) -> Vec<(u64, String)> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if let Err(what) = run(*seed, false) {
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

fn run(seed: u64, print: bool) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| world::simulate(seed, print))) {
        Ok(result) => result.map(drop),
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
        eprintln!(
            "--- seed {seed}: {what}\n    FOREWARN_SIM_SEED={seed} cargo test --package forewarn-cluster --test sim runs_"
        );
    }
    let seeds: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
    assert!(failed.is_empty(), "{} seeds failed: {:?}", seeds.len(), &seeds[..seeds.len().min(20)]);
}
