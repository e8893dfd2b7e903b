//! Runs against the optimised programs: other people's, unchanged; the examples; fleets in network namespaces.

mod agent;
pub mod azure;
mod curl;
mod daemon;
mod discovery;
mod fleet;
mod hostile;
mod kit;
mod netns;
mod pacemaker;
mod package;
mod pinning;
pub mod portal;
mod run;
mod samples;
mod schemathesis;
mod server;
mod wait;

use anyhow::{Result, bail, ensure};

/// A run by its name.
type Run = (&'static str, fn() -> Result<()>);

const RUNS: &[Run] = &[
    ("azure", azure::run),
    ("curl", curl::run),
    ("samples", samples::run),
    ("fleet", fleet::run),
    ("discovery", discovery::run),
    ("pinning", pinning::run),
    ("hostile", hostile::run),
    ("package", package::run),
    ("pacemaker", pacemaker::run),
    ("run", run::run),
    ("pytest", kit::pytest),
    ("actions", kit::actions),
    ("schemathesis", schemathesis::run),
    ("portal", portal::run),
];

/// `--write` among the names: what a run keeps in the repository is written anew.
pub fn run(arguments: &[&str]) -> Result<()> {
    let names: Vec<&str> = arguments.iter().copied().filter(|word| *word != portal::WRITE).collect();
    let names = names.as_slice();
    let known = |name: &&str| RUNS.iter().any(|(known, _)| known == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        bail!(
            "no acceptance run is called '{name}'; there are: {}",
            RUNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        );
    }
    let chosen: Vec<&Run> = RUNS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)).collect();
    let mut failed = 0;
    for (name, run) in &chosen {
        eprintln!("── accept {name}");
        if let Err(problem) = run() {
            eprintln!("   {name} failed: {problem:#}");
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed", chosen.len() - failed);
    ensure!(failed == 0, "{failed} acceptance runs failed");
    Ok(())
}
