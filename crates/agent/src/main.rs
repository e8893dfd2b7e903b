//! `forewarn-agent`: watches for Scheduled Events that affect this machine, runs hooks and actions, and approves
//! events.
//!
//! | module | purpose | I/O |
//! |---|---|---|
//! | `record`, `policy`, `step`, `plan`, `counters` | decide what to do and when; count it | |
//! | `args`, `config`, `values`, `hooks`, `catalog` | read and check the configuration | reads files |
//! | `state` | the state that survives a restart | reads and writes one file |
//! | `environment`, `process` | run a step as a process | yes |
//! | `action` | the built-in actions, each in its own process | yes |
//! | `message`, `poller`, `driver` | threads and the main loop | yes |
//! | `metrics` | metrics and health on a local port | yes |
//! | `commands` | `test` and `status` | yes |

mod action;
mod args;
mod catalog;
mod commands;
mod config;
mod counters;
mod driver;
mod environment;
mod executable;
mod hooks;
mod log;
mod message;
mod metrics;
mod plan;
mod policy;
mod poller;
mod process;
mod record;
mod state;
mod step;
mod values;

use std::process::ExitCode;

use args::Command;
use catalog::StepCatalog;
use config::Config;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(AgentError { code, error }) => {
            eprintln!("forewarn-agent: {error:#}");
            ExitCode::from(code)
        }
    }
}

/// Exit code of a failed hook or action in `test` and `act`.
const FAILED: u8 = 1;

/// Exit code of invalid arguments, hooks, settings and state files, and of everything else that keeps the agent from starting.
const CANNOT_START: u8 = 2;

struct AgentError {
    code: u8,
    error: anyhow::Error,
}

fn run() -> Result<(), AgentError> {
    let at_start = |error| AgentError { code: CANNOT_START, error };
    let failed = |error| AgentError { code: FAILED, error };
    let (command, flags) = args::parse(std::env::args_os().skip(1)).map_err(at_start)?;
    let load = || Config::load(&flags).map_err(at_start);
    match command {
        Command::Help => print!("{}", args::HELP),
        Command::Version => println!("forewarn-agent {}", env!("CARGO_PKG_VERSION")),
        Command::Run => driver::run(load()?).map_err(at_start)?,
        Command::Test { kind } => {
            let config = load()?;
            let catalog = StepCatalog::load(&config).map_err(at_start)?;
            commands::run_test(&config, &catalog, &kind).map_err(failed)?;
        }
        Command::Act => action::run_requested_action().map_err(failed)?,
        Command::Status => commands::print_status(&load()?).map_err(at_start)?,
    }
    Ok(())
}
