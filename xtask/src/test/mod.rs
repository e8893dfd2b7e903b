//! `cargo xtask test`: everything that must hold, in two lanes that run at the same time.
//!
//! ```text
//!  CPU lane      fmt ─▶ tidy ─▶ programs ─▶ build-tests ─▶ tests
//!                                  │             │
//!  waiting lane  setup ────────────┴▶ accept …   └▶ kill, bench --smoke
//! ```
//!
//! `programs` and `build-tests` build with clippy, so they also fail for a lint. They share what they build.
//!
//! A part starts when the parts it depends on are done and its lane is free. Two parts of the waiting lane run at a time, and three
//! once the CPU lane is done. Each part is a process of its own with a log of its own and a deadline.

mod lanes;
mod prerequisites;
mod report;
mod scratch;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::needs::Strictness;
use crate::{accept, sh, test_programs};
use lanes::{Lane, Part};
pub use prerequisites::install as install_prerequisites;

/// Fails the tests that would skip themselves; read by `forewarn-test-support`.
const STRICT: &str = "XTASK_STRICT";

pub fn run(strictness: Strictness) -> Result<ExitCode> {
    let started = Instant::now();
    if let Some(message) = prerequisites::message() {
        println!("{message}\n");
        if strictness == Strictness::Strict {
            println!("stopped: nothing may be skipped with CI=true or --strict");
            return Ok(ExitCode::FAILURE);
        }
    }
    let scratch = scratch::create()?;
    let mut parts = parts(strictness)?;
    for part in parts.iter_mut().filter(|part| scratch::is_for(part.name())) {
        if let Some(directory) = &scratch {
            part.env("TMPDIR", directory.path().as_os_str());
        }
    }
    let results = lanes::run(&parts)?;
    Ok(report::print(&results, started.elapsed(), strictness))
}

/// Checks the program without the feature `cluster`, which no other part builds.
const WITHOUT_CLUSTER: [&str; 4] = ["check", "--package", "forewarn-cli", "--no-default-features"];

/// All parts, in the order in which each lane takes them.
fn parts(strictness: Strictness) -> Result<Vec<Part>> {
    let mut parts = vec![
        Part::cargo("fmt", Lane::Cpu, minutes(2), &["fmt", "--all", "--check"]),
        // On a new machine, it downloads the packages that it checks.
        Part::xtask("tidy", Lane::Cpu, minutes(5), &["tidy"])?,
        Part::xtask("programs", Lane::Cpu, minutes(40), &["build-programs"])?,
        Part::xtask("build-tests", Lane::Cpu, minutes(40), &["build-tests"])?,
        Part::xtask("tests", Lane::Cpu, minutes(30), &["run-tests"])?.after(&["setup", "build-tests"]),
        Part::cargo("no-cluster", Lane::Cpu, minutes(15), &WITHOUT_CLUSTER),
        Part::xtask("setup", Lane::Waiting, minutes(20), &["setup"])?.even_if_skipped(),
        Part::xtask("bench", Lane::Waiting, minutes(10), &["bench", "--smoke"])?.after(&["programs", "build-tests"]),
        Part::xtask("kill", Lane::Waiting, minutes(10), &["run-tests", "kill"])?.after(&["build-tests"]),
    ];
    for run in accept::RUNS {
        let name = format!("accept {}", run.name);
        parts.push(Part::xtask(&name, Lane::Waiting, run.deadline, &["accept", run.name])?.after(run.after));
    }
    for part in &mut parts {
        part.env(sh::PROFILE, sh::ACCEPT_PROFILE.as_ref());
        if part.name() != "setup" {
            part.env(crate::needs::INSTALL, "off".as_ref());
        }
        if !["setup", "build-tests"].contains(&part.name()) {
            part.env(test_programs::LIST, test_programs::list_path().as_os_str());
        }
        if strictness == Strictness::Strict || ["accept agent-actions", "accept cluster"].contains(&part.name()) {
            part.env(STRICT, "1".as_ref());
        }
    }
    Ok(parts)
}

const fn minutes(number: u64) -> Duration {
    Duration::from_secs(number * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_with_data_in_memory_exist() {
        let parts = parts(Strictness::Lenient).unwrap();
        let found = parts.iter().filter(|part| scratch::is_for(part.name())).count();
        assert_eq!(found, scratch::PARTS.len());
    }
}
