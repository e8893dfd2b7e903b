//! Arguments of `forewarn vm`.

use clap::Subcommand;
use forewarn_access::Role;
use forewarn_api_types::{FailureType, MachineEvictionPolicy, MachinePriority};
use forewarn_config::parse;

use super::properties::{DetailArgs, PolicyArgs, TerminateChange};
use super::{DeletionArgs, GroupFilter, OperationArgs, ResourceName};

#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// List machines.
    List(GroupFilter),
    /// Show the details of a machine.
    Show(ResourceName),
    /// Create a machine.
    #[command(visible_alias = "register")]
    Create(Box<CreateVmArgs>),
    /// Change a machine; omitted options keep their values.
    Update(Box<UpdateVmArgs>),
    /// Manage the identity of a machine, which lets it get tokens for this API.
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// Show a machine's recent requests to the metadata endpoint and how often it polls.
    Requests(super::RequestsArgs),
    /// Restart a machine after its notice period.
    Restart(VmOperationArgs),
    /// Redeploy a machine to another host after its notice period.
    Redeploy(VmOperationArgs),
    /// Perform pending maintenance now: redeploy a machine after its notice period.
    PerformMaintenance(VmOperationArgs),
    /// Evict a Spot machine.
    #[command(visible_alias = "evict")]
    SimulateEviction(VmOperationArgs),
    /// Recommend moving work away from a Spot machine. Only api-version 2024-07-09 shows it (serve --preview-version).
    SimulateRebalance(VmOperationArgs),
    /// Simulate a hardware failure: the machine gets a Started event without notice.
    #[command(visible_alias = "hardware-failure")]
    Fail(FailVmArgs),
    /// Delete a machine, after a notice period if terminate notification is enabled, otherwise immediately.
    Delete {
        #[command(flatten)]
        vm: ResourceName,
        #[command(flatten)]
        deletion: DeletionArgs,
    },
    /// Start a machine.
    Start(ResourceName),
    /// Stop a machine.
    Stop {
        #[command(flatten)]
        vm: ResourceName,
        /// Also remove the machine from its host.
        #[arg(long)]
        deallocate: bool,
    },
    /// Stop a machine and remove it from its host.
    Deallocate(ResourceName),
}

#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Show the identity and role of a machine.
    Show(ResourceName),
    /// Assign an identity to a machine, or change its role.
    Assign {
        #[command(flatten)]
        vm: ResourceName,
        /// Role of the identity.
        #[arg(long, value_name = "ROLE", default_value = "reader", value_parser = super::sign_in::role())]
        role: Role,
    },
    /// Remove the identity of a machine.
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
    /// Event type: Reboot on the same host, or Redeploy to another.
    #[arg(long = "type", value_name = "TYPE", default_value = "Reboot", ignore_case = true, value_parser = parse::word::<FailureType>())]
    pub kind: FailureType,
    #[command(flatten)]
    pub operation: OperationArgs,
}

/// Addresses and placement of a machine.
#[derive(Debug, clap::Args)]
pub struct PlacementArgs {
    /// Address of the machine, replacing its previous ones; repeatable [default for a new machine: one from the pool].
    #[arg(long = "address", value_name = "[NETWORK=]IP")]
    pub addresses: Vec<String>,
    /// Assign no address; the machine is identified by its listener or path.
    #[arg(long, conflicts_with = "addresses")]
    pub no_address: bool,
    /// Host that the machine is on, as recorded; "" removes it.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Memory that the machine needs on its host, in MiB; 0 if unknown.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
    /// Whether the machine can move to another host while it runs [default: true].
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub live_migration: Option<bool>,
    /// Update domain [default for a new machine: the next one].
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true)]
    pub update_domain: Option<u32>,
    /// Fault domain [default for a new machine: the next one].
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, visible_alias = "platform-fault-domain")]
    pub fault_domain: Option<u32>,
    /// Availability zone; "" removes it.
    #[arg(short, long, value_name = "ZONE")]
    pub zone: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct CreateVmArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// vmId of the machine [default: a new one].
    #[arg(long, value_name = "ID")]
    pub vm_id: Option<String>,
    /// Availability set to join.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cloud_service", "vmss"])]
    pub availability_set: Option<String>,
    /// Scale set with flexible orchestration to join.
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_service")]
    pub vmss: Option<String>,
    /// Cloud service to join; the machine is then named ROLE_IN_NUMBER.
    #[arg(long, value_name = "NAME")]
    pub cloud_service: Option<String>,
    /// Priority; Spot machines can be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true, value_parser = parse::word::<MachinePriority>())]
    pub priority: Option<MachinePriority>,
    /// Create a Spot machine; the same as --priority Spot.
    #[arg(long, conflicts_with = "priority")]
    pub spot: bool,
    /// Effect of an eviction.
    #[arg(long, value_name = "POLICY", ignore_case = true, value_parser = parse::word::<MachineEvictionPolicy>())]
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Notice period for deletion: 5 to 15 minutes, as a number of minutes or a duration such as 7m30s [default: no notice].
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
    /// Notice period for deletion as a duration; a plain number is seconds.
    #[arg(
        long,
        hide = true,
        value_name = "DURATION",
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
    /// Protect a scale set instance from scale-in.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub protect_from_scale_in: Option<bool>,
    #[command(flatten)]
    pub terminate: TerminateChange,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
