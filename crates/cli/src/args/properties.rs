//! What machines and sets can be given: domains are beside them, here is what they have in common.

use clap::ValueEnum;

use crate::parse;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Priority {
    Regular,
    Spot,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum EvictionPolicy {
    Deallocate,
    Delete,
}

/// What the guest is told about itself, and its tags.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Description")]
pub struct DetailArgs {
    /// Where it is.
    #[arg(short, long, value_name = "PLACE")]
    pub location: Option<String>,
    /// Its size, such as Standard_D2s_v3.
    #[arg(long, value_name = "SIZE", visible_alias = "vm-sku")]
    pub size: Option<String>,
    /// Its image: PUBLISHER:OFFER:SKU:VERSION.
    #[arg(long, value_name = "URN", value_parser = parse::image)]
    pub image: Option<parse::Image>,
    /// Linux or Windows.
    #[arg(long, value_name = "TYPE")]
    pub os_type: Option<String>,
    /// The name that it calls itself.
    #[arg(long, value_name = "NAME")]
    pub computer_name: Option<String>,
    /// A tag; may be repeated.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tag: Vec<String>,
    /// Several tags.
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub tags: Vec<String>,
}

/// What is approved without operation a machine.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Automatic approval")]
pub struct PolicyArgs {
    /// Restarts that a user asks for.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no, visible_alias = "enable-user-reboot-scheduled-events")]
    pub approve_user_reboot: Option<bool>,
    /// Redeployments that a user asks for.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no, visible_alias = "enable-user-redeploy-scheduled-events")]
    pub approve_user_redeploy: Option<bool>,
    /// Everything while all machines of the group are down.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub approve_all_instances_down: Option<bool>,
}

/// How deletions are announced, for something that is there.
#[derive(Debug, clap::Args)]
pub struct TerminateChange {
    /// Announce deletions, or delete at once and without notice.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub enable_terminate_notification: Option<bool>,
    /// How long before: 5 to 15 minutes, as a number or such as 7m30s.
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
}
