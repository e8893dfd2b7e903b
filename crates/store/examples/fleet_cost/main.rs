//! What `cargo xtask bench` measures without a network: the rules and the store, at any size of fleet.
//!
//! ```text
//! fleet_cost memory N SET          bytes for each of N machines, in sets of SET machines; 0: each on its own
//! fleet_cost mix N TURNS           a mix of ten commands, so many times
//! ```
//!
//! Each prints `name=value` pairs on one line.

use std::error::Error;

mod fleet;
mod region;

use fleet::{Fleet, Shape};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["memory", machines, set] => region::memory(Fleet { machines: machines.parse()?, shape: shape(set)? }),
        ["mix", machines, turns] => {
            region::mix(Fleet { machines: machines.parse()?, shape: Shape::Sets { size: 100 } }, turns.parse()?)
        }
        _ => Err("see the head of this file for what can be measured".into()),
    }
}

fn shape(set: &str) -> Result<Shape, Box<dyn Error>> {
    Ok(match set.parse()? {
        0 => Shape::Alone,
        size => Shape::Sets { size },
    })
}
