//! `forewarn vm`.

use clap::{Subcommand, ValueEnum};
use forewarn_access::Role;

use super::properties::{DetailArgs, EvictionPolicy, PolicyArgs, Priority, TerminateChange};
use super::{GroupFilter, OperationArgs, ResourceName};
use crate::parse;

#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// All machines.
    List(GroupFilter),
    /// One machine, with everything that is known of it.
    Show(ResourceName),
    /// Add a machine.
    #[command(visible_alias = "register")]
    Create(Box<CreateVmArgs>),
    /// Change what is given; the rest stays.
    Update(Box<UpdateVmArgs>),
    /// Its identity, with which it gets tokens for this API from its metadata endpoint.
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// What it asked of the metadata endpoint lately, and how often it polls.
    Requests(super::RequestsArgs),
    /// Restart it, after the notice.
    Restart(VmOperationArgs),
    /// Move it to another host, after the notice.
    Redeploy(VmOperationArgs),
    /// Do now the maintenance that it would get later: it moves to another host, after the notice.
    PerformMaintenance(VmOperationArgs),
    /// Evict a Spot machine.
    #[command(visible_alias = "evict")]
    SimulateEviction(VmOperationArgs),
    /// Its hardware breaks: no notice, the event appears as Started.
    #[command(visible_alias = "hardware-failure")]
    Fail(FailVmArgs),
    /// Delete it; at once and without notice unless it has a terminate notification.
    Delete(VmOperationArgs),
    /// Switch it on.
    Start(ResourceName),
    /// Switch it off.
    Stop {
        #[command(flatten)]
        vm: ResourceName,
        /// And give up its place on its host.
        #[arg(long)]
        deallocate: bool,
    },
    /// Switch it off and give up its place on its host.
    Deallocate(ResourceName),
}

#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Who its tokens say that it is, and what they let it do.
    Show(ResourceName),
    /// Give it one, or another role.
    Assign {
        #[command(flatten)]
        vm: ResourceName,
        /// What its tokens let it do.
        #[arg(long, value_name = "ROLE", default_value = "reader", value_parser = super::sign_in::role())]
        role: Role,
    },
    /// Take it away.
    Remove(ResourceName),
}

#[derive(Debug, clap::Args)]
pub struct VmOperationArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    #[command(flatten)]
    pub operation: OperationArgs,
}

#[derive(Debug, clap::Args)]
pub struct FailVmArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    #[command(flatten)]
    pub failure: FailureArgs,
}

#[derive(Debug, clap::Args)]
pub struct FailureArgs {
    /// Whether the machines restart where they are or elsewhere.
    #[arg(long = "type", value_name = "TYPE", default_value = "Reboot", ignore_case = true)]
    pub kind: FailureType,
    #[command(flatten)]
    pub operation: OperationArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum FailureType {
    Reboot,
    Redeploy,
}

/// Where a machine is and asks from, when it is made and later.
#[derive(Debug, clap::Args)]
pub struct PlacementArgs {
    /// Where it asks from, instead of what it had; may be repeated. A new machine without it gets one from the pool.
    #[arg(long = "address", value_name = "[NETWORK=]IP")]
    pub addresses: Vec<String>,
    /// It is known by its listener or its path.
    #[arg(long, conflicts_with = "addresses")]
    pub no_address: bool,
    /// The host that it is on; "" for none that is known.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Its update domain; a new machine without it gets the next in turn.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true)]
    pub update_domain: Option<u32>,
    /// Its fault domain; a new machine without it gets the next in turn.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, visible_alias = "platform-fault-domain")]
    pub fault_domain: Option<u32>,
    /// Its availability zone; "" for none.
    #[arg(short, long, value_name = "ZONE")]
    pub zone: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct CreateVmArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// The id by which it knows itself; without it a new one.
    #[arg(long, value_name = "ID")]
    pub vm_id: Option<String>,
    /// The availability set that it belongs to.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cloud_service", "vmss"])]
    pub availability_set: Option<String>,
    /// The scale set, with flexible orchestration, that it becomes an instance of.
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_service")]
    pub vmss: Option<String>,
    /// The cloud service that it belongs to; its name is ROLE_IN_NUMBER then.
    #[arg(long, value_name = "NAME")]
    pub cloud_service: Option<String>,
    /// Spot machines may be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true)]
    pub priority: Option<Priority>,
    /// The same as --priority Spot.
    #[arg(long, conflicts_with = "priority")]
    pub spot: bool,
    /// What an eviction does to it.
    #[arg(long, value_name = "POLICY", ignore_case = true)]
    pub eviction_policy: Option<EvictionPolicy>,
    /// Announce its deletion so long before, 5 to 15 minutes, as a number or such as 7m30s; without it, it is deleted at once, without notice.
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
    /// The same as a span of time; a bare number is seconds.
    #[arg(
        long,
        hide = true,
        value_name = "SPAN",
        value_parser = parse::whole_seconds,
        allow_hyphen_values = true,
        conflicts_with = "terminate_notification_time"
    )]
    pub terminate_notice: Option<u64>,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}

#[derive(Debug, clap::Args)]
pub struct UpdateVmArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// An instance of a scale set: scale-in leaves it alone.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub protect_from_scale_in: Option<bool>,
    #[command(flatten)]
    pub terminate: TerminateChange,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
