//! Options that machines and scale sets have in common.

use forewarn_config::parse;

/// Instance metadata and tags.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Instance metadata")]
pub struct DetailArgs {
    /// Azure location, such as westeurope.
    #[arg(short, long, value_name = "LOCATION")]
    pub location: Option<String>,
    /// VM size, such as Standard_D2s_v3.
    #[arg(long, value_name = "SIZE", visible_alias = "vm-sku")]
    pub size: Option<String>,
    /// Image, as PUBLISHER:OFFER:SKU:VERSION.
    #[arg(long, value_name = "URN", value_parser = parse::image)]
    pub image: Option<parse::Image>,
    /// Operating system: Linux or Windows.
    #[arg(long, value_name = "TYPE")]
    pub os_type: Option<String>,
    /// Host name inside the guest.
    #[arg(long, value_name = "NAME")]
    pub computer_name: Option<String>,
    /// MAC address of the guest, such as 52:54:00:12:34:56.
    #[arg(long, value_name = "MAC", value_parser = parse::mac)]
    pub mac: Option<String>,
    /// Tag; repeatable.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tag: Vec<String>,
    /// Several tags.
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub tags: Vec<String>,
}

/// Events that are approved automatically.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Automatic approval")]
pub struct PolicyArgs {
    /// Approve restarts requested by a user.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no, visible_alias = "enable-user-reboot-scheduled-events")]
    pub approve_user_reboot: Option<bool>,
    /// Approve redeployments requested by a user.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no, visible_alias = "enable-user-redeploy-scheduled-events")]
    pub approve_user_redeploy: Option<bool>,
    /// Approve all events while every machine of the group is down.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub approve_all_instances_down: Option<bool>,
}

/// Changes to terminate notification of an existing machine or set.
#[derive(Debug, clap::Args)]
pub struct TerminateChange {
    /// Enable terminate notification; without it, machines are deleted immediately.
    #[arg(long, value_name = "true|false", value_parser = parse::yes_or_no)]
    pub enable_terminate_notification: Option<bool>,
    /// Notice period for deletions: 5 to 15 minutes, as a number of minutes or a duration such as 7m30s.
    #[arg(long, value_name = "MINUTES", value_parser = parse::terminate_timeout, allow_hyphen_values = true)]
    pub terminate_notification_time: Option<String>,
}
