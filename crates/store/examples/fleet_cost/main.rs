//! The benchmarks of `cargo xtask bench` that need no network: the rules and the store, for a fleet of any
//! size.
//!
//! ```text
//! fleet_cost memory N SET               bytes per machine for N machines in sets of SET; 0: standalone
//! fleet_cost mix N TURNS                a mix of ten commands, repeated TURNS times
//! fleet_cost make DIR N SET EVENTS      create a data directory with this fleet, for other benchmarks and servers
//! fleet_cost load DIR                   time to load a data directory
//! fleet_cost commit DIR DIR ROUNDS N    one command per commit, alternating between two fleets
//! fleet_cost approve DIR SKIP N         approvals, each with its own commit
//! fleet_cost sqlite DIR N               commits of SQLite alone
//! ```
//!
//! Each prints `name=value` pairs, one line per round.

use std::error::Error;
use std::path::Path;
use std::time::SystemTime;

use forewarn_core::Timestamp;

mod fleet;
mod region;
mod store;

use fleet::{Fleet, Shape};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["memory", machines, set] => region::memory(made_up(machines, set)?),
        ["mix", machines, turns] => region::mix(made_up(machines, "100")?, turns.parse()?),
        ["make", dir, machines, set, events] => store::make(made_up(machines, set)?, Path::new(dir), events.parse()?),
        ["load", dir] => store::load(Path::new(dir)),
        ["commit", small, large, rounds, count] => {
            store::commit(Path::new(small), Path::new(large), rounds.parse()?, count.parse()?)
        }
        ["approve", dir, skip, count] => store::approve(Path::new(dir), skip.parse()?, count.parse()?),
        ["sqlite", dir, count] => store::sqlite(Path::new(dir), count.parse()?),
        _ => Err("see the head of this file for what can be measured".into()),
    }
}

fn made_up(machines: &str, set: &str) -> Result<Fleet, Box<dyn Error>> {
    let shape = match set.parse()? {
        0 => Shape::Alone,
        size => Shape::Sets { size },
    };
    let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(Fleet { machines: machines.parse()?, shape, start: Timestamp::default() + start })
}
