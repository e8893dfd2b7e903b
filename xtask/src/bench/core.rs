//! The rules and the store without a network: the cost of a command by fleet size.

use anyhow::{Context, Result};

use super::table::{Table, Target, median, short};
use super::{Built, path, value};
use crate::sh;

const SMALL: u64 = 1000;
const LARGE: u64 = 1_000_000;

/// Rounds of the command mix under callgrind, ten commands each.
const TURNS: u64 = 300;

pub fn rules(built: &Built) -> Result<()> {
    let mut table = Table::new("The rules alone");
    let small = instructions(built, SMALL)?;
    let large = instructions(built, LARGE)?;
    table.tell("instructions per command, 1,000 machines", short(small));
    table.tell("instructions per command, 1,000,000 machines", short(large));
    table.judge("1,000,000 : 1,000", large / small, " x", Target::AtMost(3.0));
    let nanos =
        |machines: u64| -> Result<f64> { value(&built.fleet_cost(&["mix", &machines.to_string(), "3000"])?, "nanos") };
    table.tell("time per command, 1,000 machines, µs", short(nanos(SMALL)? / 1e3));
    table.tell("time per command, 1,000,000 machines, µs", short(nanos(LARGE)? / 1e3));
    let bytes = |set: &str| value(&built.fleet_cost(&["memory", &LARGE.to_string(), set])?, "bytes");
    table.judge("bytes per machine, sets of 100", bytes("100")?, "", Target::AtMost(1024.0));
    table.tell("bytes per machine, each with its own scope and details", short(bytes("0")?));
    table.print();
    Ok(())
}

/// Instructions per command of the mix, without loading.
fn instructions(built: &Built, machines: u64) -> Result<f64> {
    let out = built.scratch("callgrind")?.join("out");
    let file = format!("--callgrind-out-file={}", path(&out)?);
    let valgrind = ["--tool=callgrind", "--toggle-collect=*region*commands*", &file];
    let (machines, turns) = (machines.to_string(), TURNS.to_string());
    let program = [path(&built.fleet_cost)?, "mix", &machines, &turns];
    sh::program("valgrind").args(&valgrind).args(&program).read()?;
    let text = std::fs::read_to_string(&out)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total: f64 = total.context("callgrind wrote no total")?.trim().parse()?;
    Ok(total / (TURNS * 10) as f64)
}

const ROUNDS: &str = "7";
const COMMITS: &str = "500";

pub fn commit(built: &Built) -> Result<()> {
    let small = built.fleet("commit-small", SMALL, 100, 0)?;
    let large = built.fleet("commit-large", LARGE, 100, 0)?;
    let loaded = built.fleet_cost(&["load", path(&large)?])?;
    let lines = built.fleet_cost(&["commit", path(&small)?, path(&large)?, ROUNDS, COMMITS])?;
    let column = |name: &str| lines.lines().map(|line| value(line, name)).collect::<Result<Vec<f64>>>();
    let (small, large) = (column("small_us")?, column("large_us")?);
    let ratios = large.iter().zip(&small).map(|(large, small)| large / small).collect();
    let mut table = Table::new("One command with its durable commit");
    table.tell("1,000 machines, µs", short(median(small)));
    table.tell("1,000,000 machines, µs", short(median(large)));
    table.judge("1,000,000 : 1,000", median(ratios), " x", Target::AtMost(1.5));
    let seconds = |name: &str| value(&loaded, name).map(|millis| short(millis / 1e3));
    let read = format!("{} s, {} s CPU", seconds("read_ms")?, seconds("read_cpu_ms")?);
    table.tell("reading 1,000,000 machines from SQLite", read);
    table.tell("until the region is built", format!("{} s, {} s CPU", seconds("all_ms")?, seconds("all_cpu_ms")?));
    table.print();
    Ok(())
}
