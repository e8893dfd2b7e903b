//! Acceptance runs against the programs of a release: unchanged third-party clients, the examples, fleets in network namespaces.

mod agent;
mod agent_actions;
pub mod azure;
pub mod cluster;
mod curl;
mod daemon;
mod discovery;
mod fleet;
pub mod hostile;
mod kit;
mod libvirt;
pub mod netns;
mod oidc;
mod pacemaker;
mod package;
mod pinning;
pub mod portal;
mod qemu;
mod release;
mod run;
mod samples;
mod schemathesis;
pub mod server;
pub mod upgrade;
mod wait;

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::needs::{Needs, Strictness, Unavailable};

/// One acceptance run.
pub struct Run {
    pub name: &'static str,
    pub needs: &'static Needs,
    /// Several times what the run takes on two cores.
    pub deadline: Duration,
    /// Parts of `cargo xtask test` that build what the run uses.
    pub after: &'static [&'static str],
    run: fn() -> Result<()>,
}

const fn run_of(name: &'static str, needs: &'static Needs, minutes: u64, run: fn() -> Result<()>) -> Run {
    Run { name, needs, deadline: Duration::from_secs(minutes * 60), after: &["setup", "programs"], run }
}

/// The longest ones first.
pub const RUNS: &[Run] = &[
    run_of("azure", &azure::NEEDS, 20, azure::run),
    run_of("portal", &portal::NEEDS, 30, portal::run),
    run_of("schemathesis", &schemathesis::NEEDS, 15, schemathesis::run),
    run_of("package", &package::NEEDS, 10, package::run),
    run_of("release", &release::NEEDS, 10, release::run),
    run_of("pacemaker", &pacemaker::NEEDS, 10, pacemaker::run),
    Run { after: &["setup", "programs", "build-tests"], ..run_of("samples", &samples::NEEDS, 10, samples::run) },
    Run { after: &["setup", "build-tests"], ..run_of("agent-actions", &agent_actions::NEEDS, 10, agent_actions::run) },
    Run { after: &["setup", "programs", "build-tests"], ..run_of("libvirt", &libvirt::NEEDS, 20, libvirt::run) },
    Run { after: &["setup", "programs", "build-tests"], ..run_of("qemu", &qemu::NEEDS, 20, qemu::run) },
    Run { after: &["setup", "build-tests"], ..run_of("cluster", &cluster::NEEDS, 10, cluster::run) },
    run_of("discovery", &discovery::NEEDS, 10, discovery::run),
    run_of("fleet", &fleet::NEEDS, 10, fleet::run),
    run_of("pinning", &pinning::NEEDS, 10, pinning::run),
    run_of("hostile", &hostile::NEEDS, 10, hostile::run),
    run_of("run", &run::NEEDS, 10, run::run),
    run_of("curl", &curl::NEEDS, 5, curl::run),
    run_of("oidc", &oidc::NEEDS, 5, oidc::run),
    run_of("pytest", &kit::PYTEST_NEEDS, 5, kit::pytest),
    run_of("actions", &kit::ACTIONS_NEEDS, 5, kit::actions),
];

/// `cargo xtask accept [NAME]...`. With `--write`, a run also updates the files that it keeps in the repository.
pub fn run(arguments: &[&str]) -> Result<()> {
    let names: Vec<&str> = arguments.iter().copied().filter(|word| *word != portal::WRITE).collect();
    match names.as_slice() {
        [name] => run_one(find(name)?),
        _ => run_several(&names),
    }
}

fn find(name: &str) -> Result<&'static Run> {
    match RUNS.iter().find(|run| run.name == name) {
        Some(run) => Ok(run),
        None => {
            let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
            bail!("there is no acceptance run '{name}'; there are: {}", names.join(", "))
        }
    }
}

fn run_one(run: &Run) -> Result<()> {
    eprintln!("── accept {}", run.name);
    run.needs.meet()?;
    (run.run)()
}

/// All runs when no names are given. Later runs start even if earlier ones fail.
fn run_several(names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| find(name).map(drop))?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for run in RUNS.iter().filter(|run| names.is_empty() || names.contains(&run.name)) {
        match run_one(run) {
            Ok(()) => passed += 1,
            Err(problem) if problem.is::<Unavailable>() => {
                eprintln!("   {} skipped: {problem}", run.name);
                skipped += 1;
            }
            Err(problem) => {
                eprintln!("   {} failed: {problem:#}", run.name);
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    judge(failed, skipped, Strictness::from_environment())
}

fn judge(failed: u32, skipped: u32, strictness: Strictness) -> Result<()> {
    ensure!(failed == 0, "{failed} acceptance runs failed");
    ensure!(skipped == 0 || strictness == Strictness::Lenient, "{skipped} acceptance runs skipped with CI=true");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_runs_are_failures_in_ci_only() {
        assert!(judge(0, 0, Strictness::Strict).is_ok());
        assert!(judge(0, 1, Strictness::Lenient).is_ok());
        assert!(judge(0, 1, Strictness::Strict).is_err());
        assert!(judge(1, 0, Strictness::Lenient).is_err());
    }
}
