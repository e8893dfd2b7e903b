//! `forewarn maintenance`.

use clap::{Subcommand, ValueEnum};

use super::OperationArgs;
use crate::parse;

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
    /// Why; decides what machines are told.
    #[arg(long, value_name = "CAUSE", ignore_case = true)]
    pub cause: Option<MaintenanceCause>,
    /// When, such as 2026-07-28T10:00:00Z; without it as soon as the notice is over.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub at: Option<jiff::Timestamp>,
    /// More notice than the least one: 1h, or a number of seconds.
    #[arg(long, value_name = "SPAN", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
    pub notice: Option<u64>,
    /// How long machines are told that it will take: 15m, or a number of seconds.
    #[arg(long, value_name = "SPAN", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// What machines are told about it.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub operation: OperationArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// A machine: a name, or GROUP/NAME where several have it, or a vmId. May be repeated: then one update domain
    /// after the other.
    #[arg(long, value_name = "NAME")]
    pub vm: Vec<String>,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum MaintenanceCause {
    HostMaintenance,
    LiveMigration,
}
