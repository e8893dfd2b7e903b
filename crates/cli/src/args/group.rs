//! `forewarn availability-set` and `forewarn cloud-service`: groups whose machines are added one by one.

use clap::Subcommand;

use super::properties::PolicyArgs;
use super::{GroupFilter, OperationArgs, ResourceName};
use crate::parse;

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// All of them.
    List(GroupFilter),
    /// One of them.
    Show(ResourceName),
    /// Make one; machines are put into it when they are created.
    Create(CreateGroupArgs),
    /// Change what is approved without operation; the rest stays.
    Update {
        #[command(flatten)]
        group: ResourceName,
        #[command(flatten)]
        policy: PolicyArgs,
    },
    /// Delete it and its machines, with notice where they have it.
    Delete {
        #[command(flatten)]
        group: ResourceName,
        #[command(flatten)]
        operation: OperationArgs,
    },
}

#[derive(Debug, clap::Args)]
pub struct CreateGroupArgs {
    #[command(flatten)]
    pub group: ResourceName,
    /// How many update domains.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// How many fault domains.
    #[arg(long, value_name = "N", value_parser = parse::whole, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
