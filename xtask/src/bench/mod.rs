//! `cargo xtask bench [NAME…]`: measures the performance targets of the project next to a reference. Not a test: results
//! are printed beside those of `docs/performance.md`, which names the machine they were measured on.
//!
//! ```text
//!   core       the rules alone: instructions by size of fleet, memory per machine
//!   commit     one command with its durable commit, by size of fleet; time to load
//!   start      a server with 1,000,000 machines: time to the first response, resident memory
//!   get        GET of a document with one event, and 304, compared with nginx and with a bare epoll loop
//!   paths      one caller compared with 100,000 and 1,000,000, by path and by source address
//!   approve    durable approvals by 64 clients, compared with one commit per approval
//!   hold       10,000 held requests in one event group; 15,000 in 150 groups
//!   hostile    polls of a guest while its neighbor attacks; needs root
//!   arm        scale sets of 100 and 10,000 instances through the ARM API; commits of a scale-in
//!   cluster    three servers on etcd: approvals and reads compared with a single server
//!   takeover   the same servers: from a kill of the leader to the next acknowledged change
//!   catch-up   a follower of 1,000,000 machines that was away for a minute, or joins
//!   agent      host agents: from a request to its event at the guest, GETs compared with the server, memory, idle CPU time
//!   portal     the overview of 3,000 machines in Chromium, compared with a small fleet
//! ```
//!
//! Servers run on one core and the load generator on another, on loopback only. `--json` prints the figures under stable
//! names. `--write` puts the tables on the page. `--smoke` runs everything once with small fleets, to see that the benchmarks
//! still work; its figures mean nothing.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::needs::Needs;
use crate::sh;
use table::{Table, read_documented};

mod addresses;
mod agent;
mod approve;
mod arm;
pub mod bare;
mod client;
mod cluster;
mod core;
mod etcd;
mod get;
mod hold;
mod hostile;
mod load;
mod paths;
mod portal;
mod process;
mod start;
mod table;
mod wrk;

type Bench = (&'static str, fn(&Built) -> Result<Table>);

const ALL: &[Bench] = &[
    ("core", core::rules),
    ("commit", core::commit),
    ("start", start::run),
    ("get", get::run),
    ("paths", paths::run),
    ("approve", approve::run),
    ("hold", hold::run),
    ("hostile", hostile::run),
    ("arm", arm::run),
    ("cluster", cluster::compare_with_single),
    ("takeover", cluster::measure_takeovers),
    ("catch-up", cluster::measure_large_region),
    ("agent", agent::run),
    ("portal", portal::run),
];

pub const NEEDS: Needs = Needs {
    root: false,
    packages: &[("wrk", "wrk"), ("nginx-light", "nginx"), ("valgrind", "valgrind")],
    downloads: &[],
};

const PAGE: &str = "docs/performance.md";

pub fn run(arguments: &[&str]) -> Result<()> {
    let (flags, names): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !["--json", "--smoke", "--write"].contains(flag)) {
        bail!("unknown option '{flag}': use --json, --smoke or --write");
    }
    let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name) && **name != "all") {
        bail!("there is no benchmark '{name}'; there are {}", known.join(", "));
    }
    NEEDS.meet()?;
    let built = Built::new(if flags.contains(&"--smoke") { Scale::Smoke } else { Scale::Full })?;
    let file = sh::root().join(PAGE);
    let mut page = std::fs::read_to_string(&file).with_context(|| format!("cannot read {PAGE}"))?;
    let mut figures = Map::new();
    for (name, bench) in ALL {
        if names.is_empty() || names.contains(&"all") || names.contains(name) {
            eprintln!("── bench {name}");
            let begun = Instant::now();
            let (table, warning) = built.measure(*bench).with_context(|| format!("bench {name}"))?;
            eprintln!("   {name}: {:.0} s", begun.elapsed().as_secs_f64());
            let text = table.render(&read_documented(&page, name)) + &warning.unwrap_or_default();
            page = table.write_on(&page, name);
            if flags.contains(&"--write") {
                std::fs::write(&file, &page)?;
            }
            if flags.contains(&"--json") {
                eprintln!("{text}")
            } else {
                println!("{text}")
            }
            figures.extend(table.into_figures());
        }
    }
    if flags.contains(&"--json") {
        println!("{}", serde_json::to_string_pretty(&Value::Object(figures))?);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Full,
    Smoke,
}

/// The programs under test, fully optimized.
pub struct Built {
    pub forewarn: PathBuf,
    pub fleet_cost: PathBuf,
    /// The directory for data and configuration.
    scratch: PathBuf,
    scale: Scale,
}

impl Built {
    fn new(scale: Scale) -> Result<Built> {
        let scratch = sh::target().join("tmp/bench");
        if scale == Scale::Smoke {
            // The tests have built both, and no figure matters.
            let fleet_cost = sh::built_dir().join("examples/fleet_cost");
            return Ok(Built { forewarn: sh::built_dir().join("forewarn"), fleet_cost, scratch, scale });
        }
        // `dev` builds faster and is enough while writing a benchmark.
        let profile = std::env::var("FOREWARN_BENCH_PROFILE").unwrap_or_else(|_| "bench-lto".into());
        let packages = ["build", "--profile", &profile, "--package", "forewarn-cli", "--package", "forewarn-store"];
        sh::cargo(&packages).args(&["--bin", "forewarn", "--example", "fleet_cost"]).run()?;
        let dir = sh::target().join(if profile == "dev" { "debug" } else { &profile });
        Ok(Built { forewarn: dir.join("forewarn"), fleet_cost: dir.join("examples/fleet_cost"), scratch, scale })
    }

    /// Runs a benchmark. Also returns a warning if the machine was busy otherwise, unless no figure matters.
    fn measure(&self, bench: fn(&Built) -> Result<Table>) -> Result<(Table, Option<String>)> {
        if self.scale == Scale::Smoke {
            return Ok((bench(self)?, None));
        }
        let before = load::busy_share()?;
        let table = bench(self)?;
        Ok((table, load::warning(before, load::busy_share()?)))
    }

    /// The number for a benchmark, or the one for a smoke test.
    pub fn pick<T>(&self, full: T, smoke: T) -> T {
        match self.scale {
            Scale::Full => full,
            Scale::Smoke => smoke,
        }
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

    /// A data directory with a generated fleet, in sets of this size; 0: machines without a set.
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
