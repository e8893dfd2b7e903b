//! Arguments of `forewarn vmss`.

use clap::Subcommand;
use forewarn_api_types::{MachineEvictionPolicy, MachinePriority, OrchestrationMode, UpgradePolicy};
use forewarn_config::parse;

use super::properties::{DetailArgs, PolicyArgs, TerminateChange};
use super::{DeletionArgs, GroupFilter, OperationArgs, ResourceName};

#[derive(Debug, Subcommand)]
pub enum VmssCommand {
    /// List scale sets.
    List(GroupFilter),
    /// Show the details of a scale set.
    Show(ResourceName),
    /// Create a scale set and its instances.
    Create(Box<CreateSetArgs>),
    /// Change the model, upgrade mode or automatic approval of a scale set.
    Update(Box<UpdateSetArgs>),
    /// Scale a set to a number of instances.
    Scale {
        #[command(flatten)]
        set: ResourceName,
        /// Number of instances to scale to.
        #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true)]
        new_capacity: u32,
        #[command(flatten)]
        waiting: NoWaitArgs,
    },
    /// Delete a scale set and its instances, after their notice period.
    Delete {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        deletion: DeletionArgs,
    },
    /// List the instances of a scale set.
    ListInstances(ResourceName),
    /// Update instances to the latest model [default: all instances].
    UpdateInstances {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        instances: OptionalInstances,
    },
    /// Delete instances after their notice period.
    DeleteInstances {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        instances: Instances,
        #[command(flatten)]
        deletion: DeletionArgs,
    },
    /// Restart instances after their notice period [default: all instances].
    Restart(InstanceOperationArgs),
    /// Redeploy instances to other hosts after their notice period [default: all instances].
    Redeploy(InstanceOperationArgs),
    /// Perform pending maintenance of instances now [default: all instances].
    PerformMaintenance(InstanceOperationArgs),
    /// Evict Spot instances.
    SimulateEviction {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        instances: Instances,
        #[command(flatten)]
        waiting: NoWaitArgs,
    },
    /// Start instances [default: all].
    Start(InstancePowerArgs),
    /// Stop instances [default: all].
    Stop(InstancePowerArgs),
    /// Stop instances and remove them from their hosts [default: all].
    Deallocate(InstancePowerArgs),
}

#[derive(Debug, clap::Args)]
pub struct InstanceOperationArgs {
    #[command(flatten)]
    pub set: ResourceName,
    #[command(flatten)]
    pub instances: OptionalInstances,
    #[command(flatten)]
    pub waiting: NoWaitArgs,
}

#[derive(Debug, clap::Args)]
pub struct InstancePowerArgs {
    #[command(flatten)]
    pub set: ResourceName,
    #[command(flatten)]
    pub instances: OptionalInstances,
}

#[derive(Debug, clap::Args)]
pub struct Instances {
    /// IDs or names of instances; * selects all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1.., required = true)]
    pub ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct OptionalInstances {
    /// IDs or names of instances; * selects all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1..)]
    pub ids: Vec<String>,
}

/// Options of commands that can start several operations.
#[derive(Debug, clap::Args)]
pub struct NoWaitArgs {
    /// Return immediately instead of waiting for the operations to finish.
    #[arg(long)]
    pub no_wait: bool,
    /// Show the events that would be created, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl NoWaitArgs {
    /// The same options for one operation.
    pub fn for_one(&self) -> OperationArgs {
        OperationArgs { event_id: None, no_wait: self.no_wait, dry_run: self.dry_run }
    }
}

#[derive(Debug, clap::Args)]
pub struct CreateSetArgs {
    #[command(flatten)]
    pub set: ResourceName,
    /// Number of instances.
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, default_value_t = 2)]
    pub instance_count: u32,
    /// Orchestration mode: individual machines that share one document, or numbered instances in placement groups.
    #[arg(long, value_name = "MODE", default_value = "Flexible", ignore_case = true, value_parser = parse::word::<OrchestrationMode>())]
    pub orchestration_mode: OrchestrationMode,
    /// How instances receive a changed model.
    #[arg(long, value_name = "MODE", default_value = "Manual", ignore_case = true, value_parser = parse::word::<UpgradePolicy>())]
    pub upgrade_policy_mode: UpgradePolicy,
    /// Priority; Spot instances can be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true, value_parser = parse::word::<MachinePriority>())]
    pub priority: Option<MachinePriority>,
    /// Effect of an eviction.
    #[arg(long, value_name = "POLICY", ignore_case = true, value_parser = parse::word::<MachineEvictionPolicy>())]
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Notice period for deletions: 5 to 15 minutes, as a number of minutes or a duration such as 7m30s [default: no notice].
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
    /// Zones to spread instances over.
    #[arg(short, long, value_name = "ZONE", num_args = 1..)]
    pub zones: Vec<String>,
    /// Number of update domains.
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// Number of fault domains.
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    /// Maximum number of instances in one placement group of a Uniform set, or none for no limit [default: 100].
    #[arg(long, value_name = "N|none", value_parser = parse::number_or_none)]
    pub placement_group_max: Option<parse::Limit>,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}

#[derive(Debug, clap::Args)]
pub struct UpdateSetArgs {
    #[command(flatten)]
    pub set: ResourceName,
    /// How instances receive a changed model.
    #[arg(long, value_name = "MODE", ignore_case = true, value_parser = parse::word::<UpgradePolicy>())]
    pub upgrade_policy_mode: Option<UpgradePolicy>,
    /// Priority; Spot instances can be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true, value_parser = parse::word::<MachinePriority>())]
    pub priority: Option<MachinePriority>,
    /// Effect of an eviction.
    #[arg(long, value_name = "POLICY", ignore_case = true, value_parser = parse::word::<MachineEvictionPolicy>())]
    pub eviction_policy: Option<MachineEvictionPolicy>,
    #[command(flatten)]
    pub terminate: TerminateChange,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
