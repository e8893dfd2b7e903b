//! Arguments of `forewarn host`.

use clap::Subcommand;

use super::HostName;
use super::vm::FailureArgs;
use crate::parse;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List hosts.
    List,
    /// Show a host and its machines.
    Show(HostName),
    /// Create a host; does nothing if the host exists.
    Create(HostName),
    /// Change the pool, the labels or the memory of a host.
    Update(HostUpdateArgs),
    /// Delete a host that has no machines.
    Delete(HostName),
    /// Move all machines away from a host, with notice.
    Drain(Box<DrainArgs>),
    /// Stop draining a host, or make a drained host available again.
    Undrain(HostName),
    /// Make a failed host available again. Machines that are left on it are neither adopted nor deleted.
    Activate(HostName),
    /// Simulate a host failure: every machine on the host gets a Started event without notice.
    #[command(visible_alias = "hardware-failure")]
    Fail {
        #[command(flatten)]
        host: HostName,
        /// State that the host is off: its machines are stopped and its events end.
        #[arg(long, conflicts_with = "dry_run")]
        fenced: bool,
        #[command(flatten)]
        failure: FailureArgs,
    },
}

#[derive(Debug, clap::Args)]
pub struct HostUpdateArgs {
    #[command(flatten)]
    pub host: HostName,
    /// Pool; machines move only between hosts of one pool.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Label; repeatable, replaces all labels.
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Memory for machines in MiB, or 'none' for no limit.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct DrainArgs {
    #[command(flatten)]
    pub host: HostName,
    /// Pool to which machines move [default: the pool of the host].
    #[arg(long, value_name = "POOL")]
    pub to: Option<String>,
    /// Maximum number of machines that move at a time [default: 1].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub parallel: Option<u32>,
    /// Maximum number of unavailable machines in each group [default: one update domain].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub max_unavailable: Option<u32>,
    /// Notice period, at least 15 minutes; such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds)]
    pub notice: Option<u64>,
    /// Restart machines that cannot move while they run, instead of moving them.
    #[arg(long)]
    pub wait_in_place: bool,
    /// Description that machines see.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Show where each machine would go, without draining the host.
    #[arg(long)]
    pub dry_run: bool,
    /// Return at once instead of waiting until the host is empty.
    #[arg(long)]
    pub no_wait: bool,
}
