//! `forewarn vmss`: scale sets.

use clap::{Subcommand, ValueEnum};

use super::properties::{DetailArgs, EvictionPolicy, PolicyArgs, Priority, TerminateChange};
use super::{GroupFilter, OperationArgs, ResourceName};
use crate::parse;

#[derive(Debug, Subcommand)]
pub enum VmssCommand {
    /// All scale sets.
    List(GroupFilter),
    /// One scale set.
    Show(ResourceName),
    /// Make a scale set and its instances.
    Create(Box<CreateSetArgs>),
    /// Change the model, the upgrade mode or what is approved; the rest stays.
    Update(Box<UpdateSetArgs>),
    /// Make or delete instances until there are so many.
    Scale {
        #[command(flatten)]
        set: ResourceName,
        /// How many instances there shall be.
        #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true)]
        new_capacity: u32,
        #[command(flatten)]
        waiting: NoWaitArgs,
    },
    /// Delete the set and its instances, with notice where they have it.
    Delete {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        operation: OperationArgs,
    },
    /// The instances of a set.
    ListInstances(ResourceName),
    /// Bring instances to the latest model; all of them unless ids are given.
    UpdateInstances {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        instances: OptionalInstances,
    },
    /// Delete instances, with notice where they have it.
    DeleteInstances {
        #[command(flatten)]
        set: ResourceName,
        #[command(flatten)]
        instances: Instances,
        #[command(flatten)]
        operation: OperationArgs,
    },
    /// Restart instances, after the notice; all of them unless ids are given.
    Restart(InstanceOperationArgs),
    /// Move instances to other hosts, after the notice; all of them unless ids are given.
    Redeploy(InstanceOperationArgs),
    /// Do now the maintenance that instances would get later; all of them unless ids are given.
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
    /// Switch instances on; all of them unless ids are given.
    Start(InstancePowerArgs),
    /// Switch instances off; all of them unless ids are given.
    Stop(InstancePowerArgs),
    /// Switch instances off and give up their places; all of them unless ids are given.
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
    /// Instances by their ids or names; `*` for all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1.., required = true)]
    pub ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct OptionalInstances {
    /// Instances by their ids or names; `*` for all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1..)]
    pub ids: Vec<String>,
}

/// How several operations are asked for.
#[derive(Debug, clap::Args)]
pub struct NoWaitArgs {
    /// Do not wait for the end.
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, clap::Args)]
pub struct CreateSetArgs {
    #[command(flatten)]
    pub set: ResourceName,
    /// How many instances.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, default_value_t = 2)]
    pub instance_count: u32,
    /// Flexible: instances are machines of their own, one document for all. Uniform: numbered, in placement groups.
    #[arg(long, value_name = "MODE", default_value = "Flexible", ignore_case = true)]
    pub orchestration_mode: Orchestration,
    /// How a changed model reaches instances.
    #[arg(long, value_name = "MODE", default_value = "Manual", ignore_case = true)]
    pub upgrade_policy_mode: UpgradeMode,
    /// Spot instances may be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true)]
    pub priority: Option<Priority>,
    /// What an eviction does to an instance.
    #[arg(long, value_name = "POLICY", ignore_case = true)]
    pub eviction_policy: Option<EvictionPolicy>,
    /// Announce deletions so long before: 5 to 15 minutes, as a number or such as 7m30s.
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
    /// The zones that instances are spread over.
    #[arg(short, long, value_name = "ZONE", num_args = 1..)]
    pub zones: Vec<String>,
    /// How many update domains.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// How many fault domains.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    /// Of a Uniform set: the most instances of one placement group, or none for no limit; without it 100.
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
    /// How a changed model reaches instances.
    #[arg(long, value_name = "MODE", ignore_case = true)]
    pub upgrade_policy_mode: Option<UpgradeMode>,
    /// Spot instances may be evicted.
    #[arg(long, value_name = "PRIORITY", ignore_case = true)]
    pub priority: Option<Priority>,
    /// What an eviction does to an instance.
    #[arg(long, value_name = "POLICY", ignore_case = true)]
    pub eviction_policy: Option<EvictionPolicy>,
    #[command(flatten)]
    pub terminate: TerminateChange,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Orchestration {
    Flexible,
    Uniform,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum UpgradeMode {
    Manual,
    Automatic,
    Rolling,
}
