//! The command line as it was typed, one file for each operation_noun. What it means is decided by the command that
//! gets it.

mod check;
mod clock;
mod completions;
mod connection;
mod data;
mod events;
mod fault;
mod global_options;
mod group;
mod history;
mod host;
mod maintenance;
mod names;
mod observe;
mod operation;
mod portal;
mod properties;
mod run;
mod scenario;
mod serve;
mod sign_in;
mod vm;
mod vmss;
mod webhook;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use check::{CheckArgs, Profile};
pub use clock::ClockCommand;
pub use completions::CompletionsCommand;
pub use connection::{Client, Connection, OperationArgs, Output};
pub use data::{ArchiveArgs, TokenCommand};
pub use events::{EventsCommand, WatchArgs};
pub use fault::{ClearArgs, FaultArgs, FaultCommand, FaultKindArgs, FaultMethod, FaultStatus};
pub use group::{CreateGroupArgs, GroupCommand};
pub use history::HistoryArgs;
pub use host::HostCommand;
pub use maintenance::{MaintenanceArgs, MaintenanceCommand, TargetArgs};
pub use names::{GroupFilter, HostName, ResourceName};
pub use observe::{EventType, RequestsArgs, WaitArgs, WaitStatus};
pub use operation::OperationCommand;
pub use portal::PortalArgs;
pub use properties::{DetailArgs, PolicyArgs, TerminateChange};
pub use run::{CompanionArgs, RunArgs, RunOptions, Verbosity};
pub use scenario::ScenarioCommand;
pub use serve::ServeArgs;
pub use sign_in::{AzArgs, CaCommand, IssueArgs};
pub use vm::{CreateVmArgs, FailureArgs, IdentityCommand, UpdateVmArgs, VmCommand, VmOperationArgs};
pub use vmss::{CreateSetArgs, InstanceOperationArgs, InstancePowerArgs, NoWaitArgs, UpdateSetArgs, VmssCommand};
pub use webhook::{CreateWebhookArgs, ResendArgs, UpdateWebhookArgs, WebhookArgs, WebhookCommand, WebhookName};

const EXIT_CODES: &str = "Exit codes:
    0  done
    1  refused or failed
    2  the command line or the configuration is wrong
    3  the server cannot be reached
    4  the operation that was waited for failed or was cancelled
    5  what was waited for did not come true in time
    6  what was waited for cannot come true any more
  130  ended by Ctrl-C; an operation that was waited for goes on";

const SERVE_EXIT_CODES: &str = "Exit codes:
  0  stopped by SIGTERM or Ctrl-C
  1  refused or failed
  2  the command line or the configuration is wrong";

const RUN_EXIT_CODES: &str = "Exit codes:
  the program's own, and
    2  the command line is wrong
  125  the program was not run: no network of its own, no server, no such machine
  126  the program cannot be run
  127  there is no such program";

/// The flags of the connection are the commands' own; see [`global_options`].
const USAGE: &str = "forewarn [--server URL] [--data DIR] [--token TOKEN] [-o FORMAT] <COMMAND>";

/// Scheduled Events for any fleet of virtual machines.
#[derive(Debug, Parser)]
#[command(name = "forewarn", version, disable_help_subcommand = true, override_usage = USAGE)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// What was typed; help ends the process, and so do complaints, which `complained` may hear of before.
    pub fn typed(complained: impl Fn(&[OsString])) -> Args {
        let mut command = described();
        let words = global_options::move_behind_command(std::env::args_os().collect());
        let end = |error: clap::Error| -> Args {
            if error.use_stderr() {
                complained(&words);
            }
            error.exit()
        };
        match command.try_get_matches_from_mut(&words) {
            Ok(matches) => Args::from_arg_matches(&matches).unwrap_or_else(|error| end(error.format(&mut command))),
            Err(error) => end(error),
        }
    }
}

/// The whole command line, with the exit codes in the help of every command.
pub fn described() -> clap::Command {
    let command = with_exit_codes(Args::command());
    // Nouns may have a verb of that name.
    command.mut_subcommand("run", |run| run.after_help(RUN_EXIT_CODES))
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let codes = if command.get_name() == "serve" { SERVE_EXIT_CODES } else { EXIT_CODES };
    command.after_help(codes).mut_subcommands(with_exit_codes)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(ServeArgs),
    /// Run a program as a machine: in a network of its own, in which http://169.254.169.254 is forewarn.
    Run(Box<RunArgs>),
    /// The process beside such a program.
    #[command(hide = true)]
    RunCompanion(Box<CompanionArgs>),
    /// Open the portal in a browser.
    Portal(PortalArgs),
    /// The live view of events; the same as events watch.
    Watch(WatchArgs),
    /// See, approve and cancel events.
    Events(Client<EventsCommand>),
    /// Announce and carry out maintenance.
    Maintenance(Client<MaintenanceCommand>),
    /// See machines and do things to them.
    Vm(Client<VmCommand>),
    /// Scale sets, and what is done to their instances.
    Vmss(Client<VmssCommand>),
    /// Availability sets.
    AvailabilitySet(Client<GroupCommand>),
    /// Cloud services.
    CloudService(Client<GroupCommand>),
    /// Hosts, and what happens to all machines on one.
    Host(Client<HostCommand>),
    /// What became of something that was asked for.
    Operation(Client<OperationCommand>),
    /// Let the metadata endpoint answer wrongly, to see what a handler makes of it.
    Fault(Client<FaultCommand>),
    /// Programs that are told what happens to events.
    Webhook(Client<WebhookCommand>),
    /// What happened.
    History(HistoryArgs),
    /// Put a handler through scenarios and faults, and judge what it does.
    Check(CheckArgs),
    /// Run a time line of events, and what is expected of it.
    Scenario(Client<ScenarioCommand>),
    /// The server's clock.
    Clock(Client<ClockCommand>),
    /// The token of the management API, in the data directory of this machine.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Let the Azure CLI speak to the server.
    ///
    /// Makes a configuration directory for it and prints lines for the shell: eval "$(forewarn az)". With -- and
    /// arguments it runs az with them at once: forewarn az -- vmss list. ~/.azure is left alone.
    Az(AzArgs),
    /// The authority that the server's certificate for https is from.
    Ca(Client<CaCommand>),
    /// Write everything that a stopped server has stored to a file.
    Export(ArchiveArgs),
    /// Fill an empty data directory from such a file.
    Import(ArchiveArgs),
    /// Completion for a shell, and manual pages.
    #[command(subcommand)]
    Completions(CompletionsCommand),
    /// The help of a command: forewarn help vm restart.
    Help {
        /// A command; without it the help of all.
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// The version of this program.
    Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        described().debug_assert();
    }

    #[test]
    fn everything_is_described_in_the_help_of_every_command() {
        let mut command = described();
        command.build();
        check_help(&command);
    }

    fn check_help(command: &clap::Command) {
        let name = command.get_bin_name().unwrap_or_default();
        assert!(command.get_about().is_some() && command.get_after_help().is_some(), "{name}");
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{name} {arg}");
        }
        command.get_subcommands().for_each(check_help);
    }
}
