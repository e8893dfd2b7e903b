//! The command line as it was typed. What it means is decided by the command that gets it.

mod serve;
mod sign_in;

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use serve::ServeArgs;
pub use sign_in::{AzArgs, CaCommand, IssueArgs};

use crate::words;

const EXIT_CODES: &str = "Exit codes:
    0  done
    1  refused or failed
    2  the command line or the configuration is wrong
    3  the server cannot be reached
    4  the operation that was waited for failed or was cancelled
  130  ended by Ctrl-C; an operation that was waited for goes on";

const SERVE_EXIT_CODES: &str = "Exit codes:
  0  stopped by SIGTERM or Ctrl-C
  1  refused or failed
  2  the command line or the configuration is wrong";

/// Scheduled Events for any fleet of virtual machines.
#[derive(Debug, Parser)]
#[command(name = "forewarn", version, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// What was typed; help and complaints end the process.
    pub fn typed() -> Args {
        let mut command = described();
        let args = Args::from_arg_matches(&command.get_matches_mut());
        args.unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// The whole command line, with the exit codes in the help of every command.
fn described() -> clap::Command {
    with_exit_codes(Args::command())
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let codes = if command.get_name() == "serve" { SERVE_EXIT_CODES } else { EXIT_CODES };
    command.after_help(codes).mut_subcommands(with_exit_codes)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(ServeArgs),
    /// See, approve and cancel events.
    Events(Client<EventsCommand>),
    /// Announce and carry out maintenance.
    Maintenance(Client<MaintenanceCommand>),
    /// See machines and do things to them.
    Vm(Client<VmCommand>),
    /// What became of something that was asked for.
    Operation(Client<OperationCommand>),
    /// What happened.
    History(HistoryArgs),
    /// The server's clock.
    Clock(Client<ClockCommand>),
    /// The token of the management API, in the data directory of this machine.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Let the Azure CLI speak to the server.
    Az(AzArgs),
    /// The authority that the server's certificate for https is from.
    Ca(Client<CaCommand>),
    /// Write everything that a stopped server has stored to a file.
    Export(ArchiveArgs),
    /// Fill an empty data directory from such a file.
    Import(ArchiveArgs),
}

/// A group of commands that talk to a server.
#[derive(Debug, clap::Args)]
pub struct Client<C: Subcommand> {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: C,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// The server's management address.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "FOREWARN_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8170"
    )]
    pub server: String,
    /// The server's data directory, where the token is.
    #[arg(long, global = true, help_heading = "Connection", env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The token itself, for a server on another machine.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "FOREWARN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// Tables for people, or JSON for programs.
    #[arg(short, long, global = true, help_heading = "Connection", value_name = "FORMAT", default_value = "table")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Events that are not over.
    List {
        /// Also those that ended within the last hour.
        #[arg(long)]
        all: bool,
        /// Only those of this machine.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
    },
    /// Show what happens, as it happens, until interrupted.
    Watch,
    /// Let events start now.
    Approve {
        /// The ids of events, all approved or none.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Call an event off.
    Cancel {
        /// The id of the event.
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum MaintenanceCommand {
    /// Maintain a machine, a host or a whole group.
    Start(Box<MaintenanceArgs>),
}

#[derive(Debug, clap::Args)]
pub struct MaintenanceArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// What is done to the machines.
    #[arg(long = "type", value_name = "TYPE", default_value = "Freeze", ignore_case = true)]
    pub kind: MaintenanceType,
    /// When, such as 2026-07-28T10:00:00Z; without it as soon as the notice is over.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub at: Option<jiff::Timestamp>,
    /// More notice than the least one: 1h, or a number of seconds.
    #[arg(long, value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
    pub notice: Option<u64>,
    /// How long machines are told that it will take: 15m, or a number of seconds.
    #[arg(long, value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// What machines are told about it.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub asking: Asking,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// A machine: a name, or GROUP/NAME where several have it, or a vmId.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// A host, with all machines on it.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// An availability set, cloud service or scale set, one update domain after the other.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum MaintenanceType {
    Freeze,
    Reboot,
    Redeploy,
}

/// How an operation is asked for.
#[derive(Debug, clap::Args)]
pub struct Asking {
    /// The id that the event shall have.
    #[arg(long, value_name = "ID")]
    pub event_id: Option<String>,
    /// Do not wait for the end.
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// All machines.
    List,
    /// Add a machine.
    Register(Box<RegisterArgs>),
    /// Restart it, after the notice.
    Restart(OneVm),
    /// Move it to another host, after the notice.
    Redeploy(OneVm),
    /// Evict a Spot machine.
    Evict(OneVm),
    /// Delete it; at once and without notice unless it was registered with --terminate-notice.
    Delete(OneVm),
    /// Switch it on.
    Start {
        /// A name, or GROUP/NAME where several machines have it, or a vmId.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Switch it off.
    Stop {
        /// A name, or GROUP/NAME where several machines have it, or a vmId.
        #[arg(value_name = "NAME")]
        name: String,
        /// And give up its place on its host.
        #[arg(long)]
        deallocate: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct OneVm {
    /// A name, or GROUP/NAME where several machines have it, or a vmId.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub asking: Asking,
}

#[derive(Debug, clap::Args)]
pub struct RegisterArgs {
    /// What it is called.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it asks from; may be repeated. Without it, it gets one from the pool.
    #[arg(long = "address", value_name = "[NETWORK=]IP")]
    pub addresses: Vec<String>,
    /// It is known by its listener or its path.
    #[arg(long, conflicts_with = "addresses")]
    pub no_address: bool,
    /// Its resource group, `default` without it.
    #[arg(long, value_name = "NAME")]
    pub resource_group: Option<String>,
    /// The availability set that it belongs to.
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_service")]
    pub availability_set: Option<String>,
    /// The cloud service that it belongs to; its name is ROLE_IN_NUMBER then.
    #[arg(long, value_name = "NAME")]
    pub cloud_service: Option<String>,
    /// The host that it is on.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Its update domain; without it the next in turn.
    #[arg(long, value_name = "N")]
    pub update_domain: Option<u32>,
    /// Its fault domain; without it the next in turn.
    #[arg(long, value_name = "N")]
    pub fault_domain: Option<u32>,
    /// Its availability zone.
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// It may be evicted.
    #[arg(long)]
    pub spot: bool,
    /// Announce its deletion so long before, 5m to 15m; without it, it is deleted at once, without notice.
    #[arg(long, value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
    pub terminate_notice: Option<u64>,
    /// A tag; may be repeated.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// Show what became of it.
    Show {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Wait for its end.
    Wait {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Call off what has not started yet.
    Cancel {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Only of this machine.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Only of the event with this id.
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    /// Only of the operation with this id.
    #[arg(long, value_name = "ID")]
    pub operation: Option<String>,
    /// Only this kind, may be repeated: appeared, approved, started, ended, operation-ended, machine-added, machine-removed, scope-on, scope-off, audit.
    #[arg(long = "kind", value_name = "KIND")]
    pub kinds: Vec<String>,
    /// Not before this time, such as 2026-07-28T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub since: Option<jiff::Timestamp>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub until: Option<jiff::Timestamp>,
    /// The newest so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show what time it is for the server.
    Show,
    /// Let time pass on a manual clock: 15m, 90s, 1h30m.
    Advance {
        /// How long.
        #[arg(value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
        seconds: u64,
    },
    /// Move a manual clock forward to a point in time.
    Set {
        /// When, such as 2026-07-28T10:00:00Z.
        #[arg(value_name = "TIME", value_parser = words::time)]
        time: jiff::Timestamp,
    },
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Print it.
    Show(DataArgs),
    /// Make a new one; the old one is worth nothing from then on.
    Rotate(DataArgs),
    /// Print a new one for somebody who may do less, or not for ever.
    Issue(IssueArgs),
}

#[derive(Debug, clap::Args)]
pub struct DataArgs {
    /// The server's data directory.
    #[arg(long, env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// A file, or - for standard input or output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
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
