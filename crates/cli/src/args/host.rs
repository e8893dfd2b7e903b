//! Arguments of `forewarn host`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Subcommand;
use forewarn_config::parse;

use super::HostName;
use super::vm::FailureArgs;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    #[command(flatten)]
    Manage(ManageHostCommand),
    /// Join a server with a token from `host token`, and store the certificate of this host.
    Join(HostJoinArgs),
    /// Run the host agent on this host.
    Run(HostRunArgs),
    /// Check the requirements of the host agent on this host, and show how to fix problems.
    Doctor(HostRunArgs),
}

/// Commands that talk to a server.
#[derive(Debug, Subcommand)]
pub enum ManageHostCommand {
    /// List hosts.
    List,
    /// Show a host and its machines.
    Show(HostName),
    /// Create a host; does nothing if the host exists.
    Create(HostName),
    /// Change the pool, the labels or the memory of a host.
    Update(HostUpdateArgs),
    /// Delete a host that has no machines.
    Delete(HostName),
    /// Move all machines away from a host, with notice.
    Drain(Box<DrainArgs>),
    /// List the libvirt domains of a host or the QEMU machines of this one, or register them as machines.
    Import(ImportArgs),
    /// Stop draining a host, or make a drained host available again.
    Undrain(HostName),
    /// Make a failed or drained host available again, or cancel its drain. Machines that are left on the host are listed, but
    /// neither adopted nor deleted.
    Activate(HostName),
    /// Create a token for a host to join; works once, within an hour.
    Token(HostName),
    /// Simulate a host failure: every machine on the host gets a Started event without notice.
    #[command(visible_alias = "hardware-failure")]
    Fail {
        #[command(flatten)]
        host: HostName,
        /// Confirm that the host is off: its machines count as stopped, and its events end.
        #[arg(long, conflicts_with = "dry_run")]
        fenced: bool,
        #[command(flatten)]
        failure: FailureArgs,
    },
}

#[derive(Debug, clap::Args)]
pub struct HostJoinArgs {
    /// Address of the server's management API, such as https://forewarn.example:8171, or of several servers of a cluster,
    /// separated by commas.
    #[arg(value_name = "URL")]
    pub server: String,
    /// File with the certificate authority of the server (PEM) [default: the authorities of the system, or the
    /// server's own after you confirm its fingerprint].
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// SHA-256 fingerprint of the server's own authority; `forewarn ca fingerprint` on the server prints it.
    #[arg(long, value_name = "SHA256", conflicts_with = "ca")]
    pub fingerprint: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct HostRunArgs {
    /// Configuration file [default: /etc/forewarn/host.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of a metadata listener, as for `forewarn serve`; repeatable.
    #[arg(long, value_name = "ADDR")]
    pub metadata: Vec<String>,
    /// Address for health checks and metrics.
    #[arg(long, value_name = "ADDR", value_parser = parse::socket)]
    pub health: Option<SocketAddr>,
    /// Driver of the machines: libvirt, qemu, simulated or none [default: libvirt].
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<String>,
    /// Socket of this host's libvirtd [default: /run/libvirt/libvirt-sock].
    #[arg(long, value_name = "FILE")]
    pub libvirt_socket: Option<PathBuf>,
    /// TOML file that names the machines of the qemu driver.
    #[arg(long, value_name = "FILE")]
    pub driver_machines: Option<PathBuf>,
    /// How guests are identified: by address, or by network interface (mark) [default: address].
    #[arg(long, value_name = "address|mark")]
    pub guests_by: Option<String>,
    /// Packet-mark bits used to identify guests [default: 0x7ff00000].
    #[arg(long, value_name = "MASK")]
    pub mark_mask: Option<String>,
    /// Omit the _ before resource names in api-version 2017-03-01; must match the setting of the server.
    #[arg(long)]
    pub plain_names: bool,
    /// Serve api-version 2024-07-09 with rebalance recommendations; Azure has not released it.
    #[arg(long)]
    pub preview_version: bool,
}

#[derive(Debug, clap::Args)]
pub struct HostUpdateArgs {
    #[command(flatten)]
    pub host: HostName,
    /// Pool; machines move only between hosts of one pool.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Label; repeatable, replaces all labels.
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Memory for machines in MiB, or 'none' for no limit.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub host: HostName,
    /// Register the domains as machines on the host.
    #[arg(long)]
    pub adopt: bool,
    /// Select domains with this label in their metadata.
    #[arg(long, value_name = "KEY=VALUE")]
    pub selector: Option<String>,
    /// Socket of a libvirtd on this computer [default: the domains that the host's agent reports; without an agent,
    /// /run/libvirt/libvirt-sock].
    #[arg(long, value_name = "FILE")]
    pub libvirt_socket: Option<PathBuf>,
    /// TOML file of the qemu driver; its machines are listed instead of domains.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["libvirt_socket", "selector"])]
    pub driver_machines: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct DrainArgs {
    #[command(flatten)]
    pub host: HostName,
    /// Pool to which machines move [default: the pool of the host].
    #[arg(long, value_name = "POOL")]
    pub to: Option<String>,
    /// Maximum number of machines that move at a time [default: 1].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub parallel: Option<u32>,
    /// Maximum number of unavailable machines in each group [default: the size of its largest update domain].
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub max_unavailable: Option<u32>,
    /// Notice period of at least 15 minutes, such as 1h.
    #[arg(long, value_name = "DURATION", value_parser = parse::whole_seconds)]
    pub notice: Option<u64>,
    /// Restart machines that cannot be migrated live on their host, instead of redeploying them to another one.
    #[arg(long)]
    pub wait_in_place: bool,
    /// Description that machines see.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Show where each machine would go, without draining the host.
    #[arg(long)]
    pub dry_run: bool,
    /// Return immediately instead of waiting until the host is empty.
    #[arg(long)]
    pub no_wait: bool,
}
