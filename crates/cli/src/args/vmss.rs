//! `forewarn vmss`: scale sets.

use clap::{Subcommand, ValueEnum};

use super::traits::{DetailArgs, EvictionPolicy, PolicyArgs, Priority, TerminateChange};
use super::{Asking, Named, Within};
use crate::words;

#[derive(Debug, Subcommand)]
pub enum VmssCommand {
    /// All scale sets.
    List(Within),
    /// One scale set.
    Show(Named),
    /// Make a scale set and its instances.
    Create(Box<CreateSetArgs>),
    /// Change the model, the upgrade mode or what is approved; the rest stays.
    Update(Box<UpdateSetArgs>),
    /// Make or delete instances until there are so many.
    Scale {
        #[command(flatten)]
        set: Named,
        /// How many instances there shall be.
        #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true)]
        new_capacity: u32,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Delete the set and its instances, with notice where they have it.
    Delete {
        #[command(flatten)]
        set: Named,
        #[command(flatten)]
        asking: Asking,
    },
    /// The instances of a set.
    ListInstances(Named),
    /// Bring instances to the latest model; all of them unless ids are given.
    UpdateInstances {
        #[command(flatten)]
        set: Named,
        #[command(flatten)]
        instances: MaybeInstances,
    },
    /// Delete instances, with notice where they have it.
    DeleteInstances {
        #[command(flatten)]
        set: Named,
        #[command(flatten)]
        instances: Instances,
        #[command(flatten)]
        asking: Asking,
    },
    /// Restart instances, after the notice; all of them unless ids are given.
    Restart(SomeInstances),
    /// Move instances to other hosts, after the notice; all of them unless ids are given.
    Redeploy(SomeInstances),
    /// Do now the maintenance that instances would get later; all of them unless ids are given.
    PerformMaintenance(SomeInstances),
    /// Evict Spot instances.
    SimulateEviction {
        #[command(flatten)]
        set: Named,
        #[command(flatten)]
        instances: Instances,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Switch instances on; all of them unless ids are given.
    Start(SwitchedInstances),
    /// Switch instances off; all of them unless ids are given.
    Stop(SwitchedInstances),
    /// Switch instances off and give up their places; all of them unless ids are given.
    Deallocate(SwitchedInstances),
}

#[derive(Debug, clap::Args)]
pub struct SomeInstances {
    #[command(flatten)]
    pub set: Named,
    #[command(flatten)]
    pub instances: MaybeInstances,
    #[command(flatten)]
    pub waiting: Waiting,
}

#[derive(Debug, clap::Args)]
pub struct SwitchedInstances {
    #[command(flatten)]
    pub set: Named,
    #[command(flatten)]
    pub instances: MaybeInstances,
}

#[derive(Debug, clap::Args)]
pub struct Instances {
    /// Instances by their ids or names; `*` for all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1.., required = true)]
    pub ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct MaybeInstances {
    /// Instances by their ids or names; `*` for all.
    #[arg(long = "instance-ids", visible_alias = "instance-id", value_name = "ID", num_args = 1..)]
    pub ids: Vec<String>,
}

/// How several operations are asked for.
#[derive(Debug, clap::Args)]
pub struct Waiting {
    /// Do not wait for the end.
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, clap::Args)]
pub struct CreateSetArgs {
    #[command(flatten)]
    pub set: Named,
    /// How many instances.
    #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true, default_value_t = 2)]
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
    #[arg(long, value_name = "MINUTES", value_parser = words::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
    /// The zones that instances are spread over.
    #[arg(short, long, value_name = "ZONE", num_args = 1..)]
    pub zones: Vec<String>,
    /// How many update domains.
    #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// How many fault domains.
    #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    /// Of a Uniform set: the most instances of one placement group, or none for no limit; without it 100.
    #[arg(long, value_name = "N|none", value_parser = words::number_or_none)]
    pub placement_group_max: Option<words::Limit>,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
}

#[derive(Debug, clap::Args)]
pub struct UpdateSetArgs {
    #[command(flatten)]
    pub set: Named,
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
