//! `forewarn availability-set` and `forewarn cloud-service`: groups whose machines are added one by one.

use clap::Subcommand;

use super::traits::PolicyArgs;
use super::{Asking, Named, Within};
use crate::words;

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// All of them.
    List(Within),
    /// One of them.
    Show(Named),
    /// Make one; machines are put into it when they are created.
    Create(CreateGroupArgs),
    /// Change what is approved without asking; the rest stays.
    Update {
        #[command(flatten)]
        group: Named,
        #[command(flatten)]
        policy: PolicyArgs,
    },
    /// Delete it and its machines, with notice where they have it.
    Delete {
        #[command(flatten)]
        group: Named,
        #[command(flatten)]
        asking: Asking,
    },
}

#[derive(Debug, clap::Args)]
pub struct CreateGroupArgs {
    #[command(flatten)]
    pub group: Named,
    /// How many update domains.
    #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true, visible_alias = "platform-update-domain-count")]
    pub update_domains: Option<u32>,
    /// How many fault domains.
    #[arg(long, value_name = "N", value_parser = words::whole, allow_negative_numbers = true, visible_alias = "platform-fault-domain-count")]
    pub fault_domains: Option<u32>,
    #[command(flatten)]
    pub policy: PolicyArgs,
}
