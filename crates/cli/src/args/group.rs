//! Arguments of `forewarn availability-set` and `forewarn cloud-service`.

use clap::Subcommand;
use forewarn_config::parse;

use super::properties::PolicyArgs;
use super::{DeletionArgs, GroupFilter, ResourceName};

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List groups.
    List(GroupFilter),
    /// Show the details of a group.
    Show(ResourceName),
    /// Create a group; machines join it when they are created.
    Create(CreateGroupArgs),
    /// Change which events are approved automatically.
    Update {
        #[command(flatten)]
        group: ResourceName,
        #[command(flatten)]
        policy: PolicyArgs,
    },
    /// Delete a group; with --with-machines, also its machines after their notice period.
    Delete {
        #[command(flatten)]
        group: ResourceName,
        /// Delete the machines too; without this option, a group with machines is not deleted.
        #[arg(long)]
        with_machines: bool,
        #[command(flatten)]
        deletion: DeletionArgs,
    },
}

#[derive(Debug, clap::Args)]
pub struct CreateGroupArgs {
    #[command(flatten)]
    pub group: ResourceName,
    /// Number of update domains.
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// Number of fault domains.
    #[arg(long, value_name = "N", value_parser = parse::count, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
