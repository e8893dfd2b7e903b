//! What a server is started with: meant, not typed. Reading files, environment and flags is the
//! command line's business.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forewarn_core::{Settings, Timestamp};

#[derive(Clone, Debug)]
pub struct Config {
    pub store: StoreChoice,
    pub metadata: Vec<MetadataListener>,
    pub management: SocketAddr,
    /// The same API over https.
    pub management_tls: ManagementTls,
    pub certificate: Certificate,
    pub auth: Auth,
    pub clock: ClockKind,
    /// The rules' own settings, the notice scale among them.
    pub rules: Settings,
    /// Holds every GET that arrives so soon after the one that turned a scope on. At most 120 s.
    pub first_call_delay: Duration,
    /// Requests per second and machine; None: no limit.
    pub rate_limit: Option<u32>,
    /// Show machine names without the `_` that version 2017-03-01 puts before them.
    pub plain_names: bool,
    pub history_days: u32,
    /// From the resolution of a web hook's name to the head of its receiver's answer.
    pub webhook_timeout: Duration,
    pub driver: DriverChoice,
    /// The machine that loopback callers are when nothing else says who they are; a name as in `/vm/…`.
    /// None: the one that an empty store starts with.
    pub default_machine: Option<String>,
    /// What the machine is called that an empty store starts with; None: as this computer.
    pub first_machine: Option<String>,
}

#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// `forewarn.db`, `token` and the lock live in this directory.
    Directory(PathBuf),
    Memory,
}

#[derive(Clone, Debug)]
pub struct MetadataListener {
    pub address: ListenAddress,
    /// Every caller is this machine (a name as in `/vm/…`).
    pub machine: Option<String>,
    /// Source addresses are looked up on this network.
    pub network: String,
    /// Whether `/vm/{name}/…` is allowed; None: only on loopback.
    pub prefix: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementTls {
    Off,
    /// When the address can be opened; else a warning.
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

/// What the https listener shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// One of an authority of our own, both made at first start and kept in the data directory.
    Made,
    /// The user's, PEM.
    Own { certificate: PathBuf, key: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// A bearer token, made at first start, kept with mode 0600 in the data directory.
    Token,
    /// Anybody who reaches the (loopback) listener.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    Real,
    /// Stands still until advanced. `start` is where a new store begins; None: at the real time, whole seconds.
    Manual {
        start: Option<Timestamp>,
    },
}

#[derive(Clone, Debug)]
pub enum DriverChoice {
    Simulated(Impacts),
    Command(CommandDriver),
}

/// How long simulated impacts last, before the notice scale divides them.
#[derive(Clone, Debug)]
pub struct Impacts {
    pub live_migration: Duration,
    pub freeze: Duration,
    pub reboot: Duration,
    pub redeploy: Duration,
    pub hardware_failure: Duration,
    pub eviction: Duration,
    pub deletion: Duration,
}

/// The operator's executable, run once for each machine of an event that starts.
#[derive(Clone, Debug)]
pub struct CommandDriver {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub timeout: Duration,
}

impl Default for Impacts {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Impacts {
            live_migration: minutes(5),
            freeze: minutes(10),
            reboot: minutes(10),
            redeploy: minutes(10),
            hardware_failure: minutes(10),
            eviction: Duration::ZERO,
            deletion: Duration::ZERO,
        }
    }
}

impl Default for Config {
    /// In memory, on the default ports. The command line puts a directory in.
    fn default() -> Self {
        Config {
            store: StoreChoice::Memory,
            metadata: vec![MetadataListener {
                address: ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 8169).into()),
                machine: None,
                network: "default".into(),
                prefix: None,
            }],
            management: (Ipv4Addr::LOCALHOST, 8170).into(),
            management_tls: ManagementTls::Off,
            certificate: Certificate::Made,
            auth: Auth::Token,
            clock: ClockKind::Real,
            rules: Settings::default(),
            first_call_delay: Duration::ZERO,
            rate_limit: None,
            plain_names: false,
            history_days: 30,
            // The specification of the signatures wants 15 to 30 seconds.
            webhook_timeout: Duration::from_secs(20),
            driver: DriverChoice::Simulated(Impacts::default()),
            default_machine: None,
            first_machine: None,
        }
    }
}
