//! Arguments of `forewarn maintenance`.

use clap::Subcommand;
use forewarn_api_client::moment::{self, Moment};
use forewarn_api_types::{MaintenanceCause, MaintenanceType};
use forewarn_config::parse;

use super::OperationArgs;

#[derive(Debug, Subcommand)]
pub enum MaintenanceCommand {
    /// Start maintenance of machines, a host or a group.
    Start(Box<MaintenanceArgs>),
}

#[derive(Debug, clap::Args)]
pub struct MaintenanceArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Event type.
    #[arg(long = "type", value_name = "TYPE", default_value = "Freeze", ignore_case = true, value_parser = parse::word::<MaintenanceType>())]
    pub kind: MaintenanceType,
    /// Cause, which determines the description that machines see.
    #[arg(long, value_name = "CAUSE", ignore_case = true, value_parser = parse::word::<MaintenanceCause>())]
    pub cause: Option<MaintenanceCause>,
    /// Time to start, such as '2026-07-28 10:00:00' or +2h [default: after the notice period].
    #[arg(long, value_name = "TIME", value_parser = moment::parse_future)]
    pub at: Option<Moment>,
    /// Notice period, at least the minimum of the event type; such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
    pub notice: Option<u64>,
    /// Expected duration, shown to machines, such as 15m; on libvirt and QEMU, a Freeze pauses the machine for this long.
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// Description that machines see.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub operation: OperationArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// Machine: NAME, GROUP/NAME or vmId; repeatable; several machines are maintained one update domain at a time.
    #[arg(long, value_name = "NAME")]
    pub vm: Vec<String>,
    /// Host, with all its machines.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Availability set, cloud service or scale set, maintained one update domain at a time.
    #[arg(long, value_name = "NAME", alias = "group")]
    pub set: Option<String>,
}
