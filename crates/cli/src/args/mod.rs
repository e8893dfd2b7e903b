//! The command line as it was typed. What it means is decided by the command that gets it.

mod serve;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use serve::ServeArgs;

use crate::words;

const EXIT_CODES: &str = "Exit codes:
    0  done
    1  refused or failed
    2  the command line or the configuration is wrong
    3  the server cannot be reached
    4  the operation that was waited for failed or was cancelled
  130  ended by Ctrl-C; an operation that was waited for goes on";

/// Scheduled Events for any fleet of virtual machines.
#[derive(Debug, Parser)]
#[command(name = "forewarn", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(ServeArgs),
    /// See, approve and cancel events.
    #[command(after_help = EXIT_CODES)]
    Events(Client<EventsCommand>),
    /// Announce and carry out maintenance.
    #[command(after_help = EXIT_CODES)]
    Maintenance(Client<MaintenanceCommand>),
    /// See machines and do things to them.
    #[command(after_help = EXIT_CODES)]
    Vm(Client<VmCommand>),
    /// What became of something that was asked for.
    #[command(after_help = EXIT_CODES)]
    Operation(Client<OperationCommand>),
    /// What happened.
    History(HistoryArgs),
    /// The server's clock.
    Clock(Client<ClockCommand>),
    /// The token of the management API, in the data directory of this machine.
    #[command(subcommand)]
    Token(TokenCommand),
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
    #[arg(long, global = true, env = "FOREWARN_SERVER", value_name = "URL", default_value = "http://127.0.0.1:8170")]
    pub server: String,
    /// The server's data directory, where the token is.
    #[arg(long, global = true, env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The token itself, for a server on another machine.
    #[arg(long, global = true, env = "FOREWARN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
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
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Call an event off.
    Cancel {
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
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub asking: Asking,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
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
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Switch it off.
    Stop {
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
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it asks from; may be repeated. Without it, it gets one from the pool.
    #[arg(long = "address", value_name = "[NETWORK=]IP")]
    pub addresses: Vec<String>,
    /// It is known by its listener or its path.
    #[arg(long, conflicts_with = "addresses")]
    pub no_address: bool,
    #[arg(long, value_name = "NAME")]
    pub resource_group: Option<String>,
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_service")]
    pub availability_set: Option<String>,
    /// Its name is ROLE_IN_NUMBER then.
    #[arg(long, value_name = "NAME")]
    pub cloud_service: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    #[arg(long, value_name = "N")]
    pub update_domain: Option<u32>,
    #[arg(long, value_name = "N")]
    pub fault_domain: Option<u32>,
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// It may be evicted.
    #[arg(long)]
    pub spot: bool,
    /// Announce its deletion so long before, 5m to 15m; without it, it is deleted at once, without notice.
    #[arg(long, value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
    pub terminate_notice: Option<u64>,
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Wait for its end.
    Wait {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Call off what has not started yet.
    Cancel {
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub connection: Connection,
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    #[arg(long, value_name = "ID")]
    pub operation: Option<String>,
    /// appeared, approved, started, ended, operation-ended, machine-added, machine-removed, scope-on, scope-off, audit.
    #[arg(long = "kind", value_name = "KIND")]
    pub kinds: Vec<String>,
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub since: Option<jiff::Timestamp>,
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub until: Option<jiff::Timestamp>,
    /// The newest so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    Show,
    /// Let time pass on a manual clock: 15m, 90s, 1h30m.
    Advance {
        #[arg(value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
        seconds: u64,
    },
    /// Move a manual clock forward to a point in time.
    Set {
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
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
