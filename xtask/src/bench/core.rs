//! The rules and the store without a network: the cost of a command by fleet size.

use anyhow::{Context, Result};

use super::table::{Table, Target, median, short};
use super::{Built, path, value};
use crate::sh;

const SMALL: u64 = 1000;
const LARGE: u64 = 1_000_000;

/// Rounds of the command mix under callgrind, ten commands each.
const TURNS: u64 = 300;

const SMALL_SMOKE: u64 = 100;
const LARGE_SMOKE: u64 = 1000;

fn sizes(built: &Built) -> (u64, u64) {
    built.pick((SMALL, LARGE), (SMALL_SMOKE, LARGE_SMOKE))
}

pub fn rules(built: &Built) -> Result<Table> {
    let (few, many) = sizes(built);
    let mut table = Table::new("The rules alone");
    let small = instructions(built, few)?;
    let large = instructions(built, many)?;
    table.tell("instructions per command, 1,000 machines", short(small));
    table.tell("instructions per command, 1,000,000 machines", short(large));
    table.judge("core_instructions_ratio", "1,000,000 : 1,000", large / small, " x", Target::AtMost(3.0));
    let nanos =
        |machines: u64| -> Result<f64> { value(&built.fleet_cost(&["mix", &machines.to_string(), "3000"])?, "nanos") };
    table.tell("time per command, 1,000 machines, µs", short(nanos(few)? / 1e3));
    table.tell("time per command, 1,000,000 machines, µs", short(nanos(many)? / 1e3));
    let bytes = |set: &str| value(&built.fleet_cost(&["memory", &many.to_string(), set])?, "bytes");
    table.note("core_sets_bytes", "bytes per machine, sets of 100", bytes("100")?, "");
    table.note("core_alone_bytes", "bytes per machine, own event group and details", bytes("0")?, "");
    Ok(table)
}

/// Instructions per command of the mix, without loading.
fn instructions(built: &Built, machines: u64) -> Result<f64> {
    let out = built.scratch("callgrind")?.join("out");
    let file = format!("--callgrind-out-file={}", path(&out)?);
    let valgrind = ["--tool=callgrind", "--toggle-collect=*region*commands*", &file];
    let turns = built.pick(TURNS, 3);
    let (machines, count) = (machines.to_string(), turns.to_string());
    let program = [path(&built.fleet_cost)?, "mix", &machines, &count];
    sh::program("valgrind").args(&valgrind).args(&program).read()?;
    let text = std::fs::read_to_string(&out)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total: f64 = total.context("callgrind wrote no total")?.trim().parse()?;
    Ok(total / (turns * 10) as f64)
}

const ROUNDS: &str = "7";

/// Restarts per round. All rounds together restart each machine of the small fleet at most once: a second restart would join the
/// event of the first, and write much less.
const COMMITS: &str = "140";

pub fn commit(built: &Built) -> Result<Table> {
    let (few, many) = sizes(built);
    let small = built.fleet("commit-small", few, 100, 0)?;
    let large = built.fleet("commit-large", many, 100, 0)?;
    let loaded = built.fleet_cost(&["load", path(&large)?])?;
    let lines = built.fleet_cost(&[
        "commit",
        path(&small)?,
        path(&large)?,
        built.pick(ROUNDS, "1"),
        built.pick(COMMITS, "20"),
    ])?;
    let column = |name: &str| lines.lines().map(|line| value(line, name)).collect::<Result<Vec<f64>>>();
    let (small, large) = (column("small_us")?, column("large_us")?);
    let ratios = large.iter().zip(&small).map(|(large, small)| large / small).collect();
    let mut table = Table::new("One command with its durable commit");
    table.tell("1,000 machines, µs", short(median(small)));
    table.tell("1,000,000 machines, µs", short(median(large)));
    table.judge("commit_ratio", "1,000,000 : 1,000", median(ratios), " x", Target::AtMost(1.2));
    let seconds = |name: &str| value(&loaded, name).map(|millis| short(millis / 1e3));
    let read = format!("{} s, {} s CPU", seconds("read_ms")?, seconds("read_cpu_ms")?);
    table.tell("reading 1,000,000 machines from SQLite", read);
    table.tell("until the region is loaded", format!("{} s, {} s CPU", seconds("all_ms")?, seconds("all_cpu_ms")?));
    Ok(table)
}
