//! `forewarn vm`.

use clap::Subcommand;

use super::Asking;
use crate::words;

#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// All machines.
    List,
    /// Add a machine.
    Register(Box<RegisterArgs>),
    /// Restart it, after the notice.
    Restart(OneVm),
    /// Move it to another host, after the notice.
    Redeploy(OneVm),
    /// Evict a Spot machine.
    Evict(OneVm),
    /// Delete it; at once and without notice unless it was registered with --terminate-notice.
    Delete(OneVm),
    /// Switch it on.
    Start {
        /// A name, or GROUP/NAME where several machines have it, or a vmId.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Switch it off.
    Stop {
        /// A name, or GROUP/NAME where several machines have it, or a vmId.
        #[arg(value_name = "NAME")]
        name: String,
        /// And give up its place on its host.
        #[arg(long)]
        deallocate: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct OneVm {
    /// A name, or GROUP/NAME where several machines have it, or a vmId.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub asking: Asking,
}

#[derive(Debug, clap::Args)]
pub struct RegisterArgs {
    /// What it is called.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it asks from; may be repeated. Without it, it gets one from the pool.
    #[arg(long = "address", value_name = "[NETWORK=]IP")]
    pub addresses: Vec<String>,
    /// It is known by its listener or its path.
    #[arg(long, conflicts_with = "addresses")]
    pub no_address: bool,
    /// Its resource group, `default` without it.
    #[arg(long, value_name = "NAME")]
    pub resource_group: Option<String>,
    /// The availability set that it belongs to.
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_service")]
    pub availability_set: Option<String>,
    /// The cloud service that it belongs to; its name is ROLE_IN_NUMBER then.
    #[arg(long, value_name = "NAME")]
    pub cloud_service: Option<String>,
    /// The host that it is on.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Its update domain; without it the next in turn.
    #[arg(long, value_name = "N")]
    pub update_domain: Option<u32>,
    /// Its fault domain; without it the next in turn.
    #[arg(long, value_name = "N")]
    pub fault_domain: Option<u32>,
    /// Its availability zone.
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// It may be evicted.
    #[arg(long)]
    pub spot: bool,
    /// Announce its deletion so long before, 5m to 15m; without it, it is deleted at once, without notice.
    #[arg(long, value_name = "SPAN", value_parser = words::whole_seconds, allow_hyphen_values = true)]
    pub terminate_notice: Option<u64>,
    /// A tag; may be repeated.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
}
