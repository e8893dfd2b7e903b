//! The binary `forewarn`: `serve` runs the server; the other commands are clients of its management API or work on the
//! data directory of a stopped server.
//!
//! ```text
//!  args (parsed) ─▶ commands ─┬─▶ serve ──▶ forewarn-config ──▶ forewarn-server
//!                             ├─▶ run ────▶ a program in a private network, and a server next to it
//!                             ├─▶ client ──HTTP──▶ the management API of a server
//!                             └─▶ token, export, import: files
//! ```

mod args;
mod check;
mod client;
mod commands;
mod completion;
mod connect;
mod interrupt;
mod name_lookup;
mod output;
mod run;
mod serve;
mod watch;

use std::process::ExitCode;

use forewarn_api_client::{decode, failure};

fn main() -> ExitCode {
    name_lookup::use_builtin_sources();
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
