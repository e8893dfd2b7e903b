//! What `cargo xtask bench` measures without a network: the rules and the store, at any size of fleet.
//!
//! ```text
//! fleet_cost memory N SET               bytes for each of N machines, in sets of SET; 0: each on its own
//! fleet_cost mix N TURNS                a mix of ten commands, so many times
//! fleet_cost make DIR N SET EVENTS      a data directory with this fleet, for the others and for servers
//! fleet_cost load DIR                   how long it takes to load
//! fleet_cost commit DIR DIR ROUNDS N    one command a commit, in two fleets by turns
//! fleet_cost approve DIR SKIP N         approvals, each with its own commit
//! fleet_cost sqlite DIR N               commits of SQLite alone
//! ```
//!
//! Each prints `name=value` pairs, one line for each round.

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
