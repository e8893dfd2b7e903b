//! `cargo xtask`: the development commands, the same for people and for CI.
//!
//! ```text
//! cargo xtask test           everything: format, lints, tidy, tests, acceptance runs
//! cargo xtask test --strict  the same, but whatever cannot run on this machine is a failure
//! cargo xtask setup          installs what the tests need: Debian packages (as root) and downloads in a cache
//! cargo xtask tidy           checks the structure and the language of the repository
//! cargo xtask accept [NAME]  acceptance runs: third-party clients and the examples against the programs of a release
//! cargo xtask accept azure --write   also updates docs/compatibility.md
//! cargo xtask accept portal --write  also updates the screenshots in docs/portal
//! cargo xtask upgrade REVISION  builds an older commit, and upgrades a cluster of its servers one by one
//! cargo xtask sim [SEED]     simulates the rules: all seeds, or one seed with its trace
//! cargo xtask planted        plants bugs in the rules and in the log, and expects the simulations to find each of them
//! cargo xtask kill COUNT     kills the server under load COUNT times; `cargo xtask test` does it 200 times
//! cargo xtask fuzz [TARGET] [SECONDS]  fuzzes what reads foreign bytes: all targets, or one
//! cargo xtask deny           checks the dependencies with cargo-deny, which looks for advisories over the network
//! cargo xtask package        builds Debian packages in target/debian
//! cargo xtask release [--out DIR]  builds the files of a release in target/dist
//! cargo xtask release --verify  rebuilds the last commit elsewhere and compares it with target/dist
//! cargo xtask publish [--dry-run]  publishes the libraries on crates.io
//! cargo xtask docs           builds the documentation as a website in target/docs-site
//! cargo xtask bench [NAME…] [--json] [--smoke] [--write]  measures performance against a reference
//! ```

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

mod accept;
mod bench;
mod compiler;
mod docs;
mod fuzz;
mod machine;
mod needs;
mod package;
mod path_map;
mod release;
mod setup;
mod sh;
mod stat;
mod static_programs;
mod test;
mod test_programs;
mod tidy;

/// The exit code for "cannot run on this machine", as in Automake's test driver.
const EXIT_SKIPPED: u8 = 77;

fn main() -> ExitCode {
    match search_sbin().and_then(|()| run()) {
        Ok(code) => code,
        Err(problem) if problem.is::<needs::Unavailable>() => {
            eprintln!("skipped: {problem}");
            ExitCode::from(EXIT_SKIPPED)
        }
        Err(problem) => {
            eprintln!("error: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    if std::env::var_os(compiler::VARIABLE).is_some() {
        let problem = compiler::become_compiler(std::env::args_os().skip(1).collect());
        return Err(problem).context("cannot run the compiler");
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => return test::run(needs::Strictness::from_environment()),
        ["test", "--strict"] => return test::run(needs::Strictness::Strict),
        ["setup"] => test::install_prerequisites(),
        ["build-tests"] => test_programs::build().map(drop),
        ["run-tests"] => test_programs::run_all(),
        ["kill", count] => {
            sh::cargo(&["test", "--package", "forewarn-cli", "--test", "it", "kill::"]).env("XTASK_KILLS", count).run()
        }
        ["run-tests", "kill"] => test_programs::run_only(test_programs::KILL, &[]),
        ["tidy"] => tidy::run(),
        ["accept", "azure", "--write"] => accept::azure::write(),
        ["accept", names @ ..] => accept::run(names),
        ["upgrade", revision] => accept::upgrade::run(revision),
        ["sim"] => sh::cargo(&["test", "--package", "forewarn-core", "--test", "sim"]).run(),
        ["sim", seed] => {
            let mut simulation =
                sh::cargo(&["test", "--package", "forewarn-core", "--test", "sim", "--", "--nocapture"]);
            simulation.env("FOREWARN_SIM_SEED", seed).run()
        }
        ["bench", arguments @ ..] => bench::run(arguments),
        [bench::bare::COMMAND, address, response] => bench::bare::serve(address, response),
        ["fuzz", arguments @ ..] => fuzz::run(arguments),
        ["deny"] => {
            sh::cargo(&["deny", "check"]).run().context("install cargo-deny with `cargo install --locked cargo-deny`")
        }
        ["docs"] => docs::run(),
        ["package"] => package::run(),
        ["build-release"] => static_programs::build(),
        ["build-programs"] => test_programs::build_programs(),
        ["publish", flags @ ..] => release::publish(flags),
        ["release"] => release::run(None),
        ["release", "--out", dir] => release::run(Some(dir)),
        ["release", "--verify"] => release::verify::run(),
        ["planted"] => sh::program("crates/core/planted/run.sh")
            .run()
            .and_then(|()| sh::program("crates/cluster/planted/run.sh").run()),
        _ => bail!(
            "usage: cargo xtask test [--strict] | setup | tidy | accept [NAME] | upgrade REVISION | sim [SEED] | planted | kill COUNT | fuzz [TARGET] [SECONDS] | deny | package | release [--out DIR | --verify] | publish [--dry-run] | docs | bench [NAME…] [--json] [--smoke] [--write]"
        ),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Debian puts servers and `ip` where the `PATH` of ordinary users does not look. Starts this program again with a
/// `PATH` that does, so that everything it runs inherits it.
fn search_sbin() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<_> = std::env::split_paths(&path).collect();
    let missing: Vec<_> =
        ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from).into_iter().filter(|dir| !dirs.contains(dir)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    dirs.extend(missing);
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).env("PATH", std::env::join_paths(dirs)?);
    Err(again.exec()).context("cannot start xtask again")
}
