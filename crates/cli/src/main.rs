//! The binary `forewarn`: `serve` runs the server, everything else is a client of its management API
//! or works on the data directory of a server that does not run.
//!
//! ```text
//!  args (what was typed) ─▶ commands ─┬─▶ serve ──▶ config (what is meant) ──▶ forewarn-server
//!                                     ├─▶ run ────▶ a program in a network of its own, a server beside it
//!                                     ├─▶ client ──HTTP──▶ the management API of a server
//!                                     └─▶ token, export, import: files
//! ```

mod args;
mod check;
mod client;
mod commands;
mod config;
mod decode;
mod failure;
mod network;
mod output;
mod parse;
mod run;
mod serve;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse_or_exit(commands::print_eval_guard);
    match commands::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::print_stderr(&format!("forewarn: {}", failure::strip_os_codes(message)));
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
