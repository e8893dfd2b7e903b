//! `cargo xtask bench [NAME]`: measures the performance targets of the project next to a reference. Not a test: results
//! are printed, and `docs/performance.md` records them with the machine they were measured on.
//!
//! ```text
//!   core       the rules alone: instructions by size of fleet, memory per machine
//!   commit     one command with its durable commit, by size of fleet; time to load
//!   get        GET of a document with one event, and 304, compared with nginx
//!   paths      one path compared with those of 100,000 machines in 1,000 scopes
//!   approve    durable approvals by 64 clients, compared with one commit per approval
//!   hold       10,000 held requests in one scope
//!   arm        scale sets of 100 and 10,000 instances through the ARM API; commits of a scale-in
//!   portal     the overview of 5,000 machines in Chromium, compared with a small fleet
//! ```
//!
//! Servers run on one core and the load generator on another, on loopback only.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{setup, sh};

mod approve;
mod arm;
mod client;
mod core;
mod get;
mod hold;
mod portal;
mod process;
mod table;
mod wrk;

type Bench = (&'static str, fn(&Built) -> Result<()>);

const ALL: &[Bench] = &[
    ("core", core::rules),
    ("commit", core::commit),
    ("get", get::get),
    ("paths", get::paths),
    ("approve", approve::run),
    ("hold", hold::run),
    ("arm", arm::run),
    ("portal", portal::run),
];

pub fn run(names: &[&str]) -> Result<()> {
    let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!("there is no benchmark '{name}'; there are {}", known.join(", "));
    }
    setup::debian(&[("wrk", "wrk"), ("nginx-light", "nginx"), ("valgrind", "valgrind")])?;
    let built = Built::new()?;
    for (name, bench) in ALL {
        if names.is_empty() || names.contains(name) {
            eprintln!("── bench {name}");
            bench(&built).with_context(|| format!("bench {name}"))?;
        }
    }
    Ok(())
}

/// The programs under test, fully optimized.
pub struct Built {
    pub forewarn: PathBuf,
    pub fleet_cost: PathBuf,
    /// The directory for data and configuration.
    scratch: PathBuf,
}

impl Built {
    fn new() -> Result<Built> {
        // `dev` builds faster and is enough while writing a benchmark.
        let profile = std::env::var("FOREWARN_BENCH_PROFILE").unwrap_or_else(|_| "bench-lto".into());
        let packages = ["build", "--profile", &profile, "--package", "forewarn-cli", "--package", "forewarn-store"];
        sh::cargo(&packages).args(&["--bin", "forewarn", "--example", "fleet_cost"]).run()?;
        let dir = sh::target().join(if profile == "dev" { "debug" } else { &profile });
        let scratch = sh::target().join("tmp/bench");
        Ok(Built { forewarn: dir.join("forewarn"), fleet_cost: dir.join("examples/fleet_cost"), scratch })
    }

    /// An empty directory of this name.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.scratch.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Output of the example `fleet_cost`.
    pub fn fleet_cost(&self, arguments: &[&str]) -> Result<String> {
        sh::program(path(&self.fleet_cost)?).args(arguments).read()
    }

    /// A data directory with a generated fleet.
    pub fn fleet(&self, name: &str, machines: u64, set: u64, events: u64) -> Result<PathBuf> {
        let dir = self.scratch(name)?;
        let numbers = [machines, set, events].map(|number| number.to_string());
        self.fleet_cost(&["make", path(&dir)?, &numbers[0], &numbers[1], &numbers[2]])?;
        Ok(dir)
    }
}

pub fn path(path: &std::path::Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}

/// The value of `name=…` in a line.
pub fn value(line: &str, name: &str) -> Result<f64> {
    let mut pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name).with_context(|| format!("no {name} in '{line}'"))?;
    Ok(value.parse()?)
}
