//! `cargo xtask`: the one door for people and CI.
//!
//! ```text
//! cargo xtask test           everything: format, lints, tidy, tests, optimised build, acceptance
//! cargo xtask tidy           only the checks on the shape of the repository
//! cargo xtask accept [NAME]  only the runs of other people's programs against ours
//! cargo xtask accept azure --write   and writes what was seen to docs/compatibility.md
//! cargo xtask accept portal --write  the same, and takes the screenshots in docs/portal anew
//! cargo xtask sim [SEED]     the simulation of the rules: all seeds, or one with its trace
//! cargo xtask planted        plants bugs in the rules and expects the simulation to find each
//! cargo xtask package        Debian packages, in target/debian
//! cargo xtask docs           the documentation as a website, in target/docs-site
//! cargo xtask bench [NAME]   measures, side by side with a yardstick
//! ```

use anyhow::{Result, bail};

mod accept;
mod bench;
mod docs;
mod package;
mod setup;
mod sh;
mod test;
mod tidy;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["accept", "azure", "--write"] => accept::azure::write(),
        ["accept", names @ ..] => accept::run(names),
        ["sim"] => sh::cargo(&["test", "--package", "forewarn-core", "--test", "sim"]).run(),
        ["sim", seed] => {
            let mut simulation =
                sh::cargo(&["test", "--package", "forewarn-core", "--test", "sim", "--", "--nocapture"]);
            simulation.env("FOREWARN_SIM_SEED", seed).run()
        }
        ["bench", names @ ..] => bench::run(names),
        ["docs"] => docs::run(),
        ["package"] => package::run(),
        ["planted"] => sh::program("crates/core/planted/run.sh").run(),
        _ => bail!(
            "usage: cargo xtask test | tidy | accept [NAME] | sim [SEED] | planted | package | docs | bench [NAME]"
        ),
    }
}
