//! Runs against the optimised programs: other people's, unchanged; the examples; fleets in network namespaces.

mod agent;
mod azure;
mod curl;
mod daemon;
mod discovery;
mod fleet;
mod netns;
mod pacemaker;
mod package;
mod pinning;
mod samples;
mod schemathesis;
mod server;
mod wait;

use anyhow::{Result, bail, ensure};

use self::azure::Table;

/// A run by its name.
type Run = (&'static str, fn(Table) -> Result<()>);

const RUNS: &[Run] = &[
    ("azure", azure::run),
    ("curl", |_| curl::run()),
    ("samples", |_| samples::run()),
    ("fleet", |_| fleet::run()),
    ("discovery", |_| discovery::run()),
    ("pinning", |_| pinning::run()),
    ("package", |_| package::run()),
    ("pacemaker", |_| pacemaker::run()),
    ("schemathesis", |_| schemathesis::run()),
];

/// `--write` among the names lets runs write the documents that they otherwise compare with.
pub fn run(names: &[&str]) -> Result<()> {
    let table = if names.contains(&"--write") { Table::Write } else { Table::Check };
    let names: Vec<&str> = names.iter().copied().filter(|name| *name != "--write").collect();
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
        if let Err(problem) = run(table) {
            eprintln!("   {name} failed: {problem:#}");
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed", chosen.len() - failed);
    ensure!(failed == 0, "{failed} acceptance runs failed");
    Ok(())
}
