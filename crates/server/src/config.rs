//! The configuration of a server. Files, environment variables and flags are read by the command line.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forewarn_access::tls::hostname;
use forewarn_core::Settings;

pub use forewarn_access::Auth;
pub use forewarn_access::oidc::{OidcConfig, OidcConfigError, OidcSecret, RoleRule};
pub use forewarn_access::tls::Certificate;
pub use forewarn_drivers::libvirt::{KnownPeers, Peer};
pub use forewarn_drivers::{CommandDriver, Impacts, RebootMode};
pub use forewarn_engine::clock::ClockSetting;
use forewarn_metadata::{CONNECTIONS_PER_SOURCE_DEFAULT, HELD_PER_SOURCE_DEFAULT};
pub use forewarn_metadata::{ListenAddress, MarkMask, MetadataListener};

#[derive(Clone, Debug)]
pub struct Config {
    pub store: StoreChoice,
    pub metadata: Vec<MetadataListener>,
    pub management: SocketAddr,
    /// The https listener of the management API.
    pub management_tls: ManagementTls,
    pub certificate: Certificate,
    /// The listener for host agents.
    pub hosts: Option<SocketAddr>,
    /// A host whose agent is silent for this long is unreachable.
    pub host_silence_max: Duration,
    pub auth: Auth,
    /// The identity provider with which people sign in to the portal.
    pub oidc: Option<OidcConfig>,
    pub clock: ClockSetting,
    /// The settings of the rules, including the notice scale.
    pub rules: Settings,
    /// How long the GET that turns an event group on is held, and those that arrive meanwhile. At most 120 s.
    pub first_call_delay: Duration,
    /// Requests per second and machine; None: no limit.
    pub rate_limit: Option<u32>,
    /// Connections to the metadata listeners per source.
    pub connections_per_source: usize,
    pub guests_by: GuestsBy,
    /// The bits of a connection's mark that stand for a guest.
    pub mark_mask: MarkMask,
    /// Requests per source that wait for a change at the same time.
    pub held_per_source: usize,
    /// Show machine names without the `_` that version 2017-03-01 puts before them.
    pub plain_names: bool,
    /// Serve api-version 2024-07-09, which Azure has not released, and accept rebalance recommendations.
    pub preview_version: bool,
    pub history_days: u32,
    /// The time for a webhook delivery, from name resolution to the head of the response.
    pub webhook_timeout: Duration,
    pub driver: DriverChoice,
    /// None: a single server.
    pub cluster: Option<ClusterConfig>,
    /// The machine that loopback callers are treated as; a name as in `/vm/…`. None: the first machine.
    pub default_machine: Option<String>,
    /// The name of the first machine, which an empty store starts with; None: this computer's name.
    pub first_machine: Option<String>,
}

/// Credentials for etcd, and the authority that etcd is verified with.
#[derive(Clone, Debug, Default)]
pub struct EtcdAccess {
    /// The authority of etcd's certificates, PEM. Turns TLS on.
    pub authority: Option<PathBuf>,
    /// Client certificate and key, PEM. Turn TLS on.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
}

/// The place of a server in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// `etcd://HOST:PORT,…/REGION`.
    pub address: String,
    /// The name of this server, unique in the region.
    pub node: String,
    /// The address at which the other servers reach this one's management API.
    pub advertise: String,
    pub etcd: EtcdAccess,
    /// The file with the key of the region's secrets. None: there are none, because no token is required.
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// The directory of `forewarn.db`, `token` and the lock.
    Directory(PathBuf),
    Memory,
}

/// How guests are identified on listeners that are for no machine in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestsBy {
    Address,
    /// The mark of the connection, which stands for the guest's network interface.
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementTls {
    Off,
    /// Skipped with a warning if the address is taken.
    IfFree(SocketAddr),
    At(SocketAddr),
}

impl ManagementTls {
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            ManagementTls::Off => None,
            ManagementTls::IfFree(address) | ManagementTls::At(address) => Some(address),
        }
    }
}

#[derive(Clone, Debug)]
pub enum DriverChoice {
    Simulated(Impacts),
    Command(CommandDriver),
    Libvirt(LibvirtChoice),
    Qemu(QemuChoice),
    /// The agents of the hosts.
    Agents,
}

/// The settings of the libvirt driver.
#[derive(Clone, Debug)]
pub struct LibvirtChoice {
    /// The name of this host.
    pub host: String,
    /// The socket of its libvirtd.
    pub socket: PathBuf,
    pub reboot: RebootMode,
    /// Storage pools from which Terminate may delete disks.
    pub pools: Vec<String>,
    /// Other hosts. Those with a socket are driven by this server too.
    pub peers: KnownPeers,
}

/// The settings of the QEMU driver.
#[derive(Clone, Debug)]
pub struct QemuChoice {
    /// The name of this host.
    pub host: String,
    /// The file that names the machines.
    pub machines: PathBuf,
    pub reboot: RebootMode,
}

impl Default for LibvirtChoice {
    fn default() -> Self {
        LibvirtChoice {
            host: hostname(),
            socket: "/run/libvirt/libvirt-sock".into(),
            reboot: RebootMode::Hard,
            pools: Vec::new(),
            peers: KnownPeers::default(),
        }
    }
}

impl LibvirtChoice {
    /// The hosts that this server drives, with their sockets.
    pub fn hosts(&self) -> BTreeMap<String, PathBuf> {
        let peers = self.peers.0.iter().filter_map(|(name, peer)| Some((name.clone(), peer.socket.clone()?)));
        peers.chain([(self.host.clone(), self.socket.clone())]).collect()
    }
}

impl Default for Config {
    /// In memory, on the default ports.
    fn default() -> Self {
        Config {
            store: StoreChoice::Memory,
            metadata: vec![MetadataListener::new(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 8169).into()))],
            management: (Ipv4Addr::LOCALHOST, 8170).into(),
            management_tls: ManagementTls::Off,
            certificate: Certificate::Made { names: Vec::new() },
            hosts: None,
            host_silence_max: forewarn_core::settings::HOST_SILENCE_MAX,
            auth: Auth::Token,
            oidc: None,
            clock: ClockSetting::Real,
            rules: Settings::default(),
            first_call_delay: Duration::ZERO,
            rate_limit: None,
            connections_per_source: CONNECTIONS_PER_SOURCE_DEFAULT,
            guests_by: GuestsBy::Address,
            mark_mask: MarkMask::DEFAULT,
            held_per_source: HELD_PER_SOURCE_DEFAULT,
            plain_names: false,
            preview_version: false,
            history_days: 30,
            // The Standard Webhooks specification recommends 15 to 30 seconds.
            webhook_timeout: Duration::from_secs(20),
            driver: DriverChoice::Simulated(Impacts::default()),
            cluster: None,
            default_machine: None,
            first_machine: None,
        }
    }
}
