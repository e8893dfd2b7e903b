//! `forewarn-agent`: watches for Scheduled Events of this machine, runs hooks and actions, approves.
//!
//! | module | what it knows | does I/O |
//! |---|---|---|
//! | `record`, `policy`, `step`, `plan`, `tally` | what to do, and when; what was counted | |
//! | `args`, `config`, `hooks`, `toolbox` | what somebody set up, and what is wrong with it | reads files |
//! | `state` | what must survive a restart | reads and writes one file |
//! | `process` | one step as a process | yes |
//! | `action` | the built-in actions, each in a process of its own | yes |
//! | `poller`, `driver` | threads and the loop | yes |
//! | `metrics` | counts and health on a local port | yes |
//! | `commands` | `test` and `status` | yes |

mod action;
mod args;
mod commands;
mod config;
mod driver;
mod executable;
mod hooks;
mod log;
mod metrics;
mod plan;
mod policy;
mod poller;
mod process;
mod record;
mod state;
mod step;
mod tally;
mod toolbox;

use std::process::ExitCode;

use anyhow::Result;

use args::Command;
use config::Config;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forewarn-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (command, flags) = args::parse(std::env::args_os().skip(1))?;
    match command {
        Command::Help => print!("{}", args::HELP),
        Command::Version => println!("forewarn-agent {}", env!("CARGO_PKG_VERSION")),
        Command::Run => driver::run(Config::load(&flags)?)?,
        Command::Test { kind } => commands::test(&Config::load(&flags)?, &kind)?,
        Command::Act => action::perform()?,
        Command::Status => commands::status(&Config::load(&flags)?)?,
    }
    Ok(())
}
