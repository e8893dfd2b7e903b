//! The value of every setting.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use forewarn_server::{Config, EtcdAccess, Impacts, LibvirtChoice};

use crate::error::ConfigError;
use crate::oidc::OidcChoices;
use crate::tls;

/// All settings with their values. The defaults are those of the server.
#[derive(Clone, Debug)]
pub struct Choices {
    pub data: Option<PathBuf>,
    pub memory: bool,
    pub no_auth: bool,
    pub link_local: bool,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_names: Vec<String>,
    pub oidc: OidcChoices,
    pub clock: ClockMode,
    pub clock_start: Option<jiff::Timestamp>,
    pub cluster: Option<String>,
    pub node: Option<String>,
    pub advertise: Option<String>,
    pub cluster_key: Option<PathBuf>,
    pub etcd: EtcdAccess,
    pub driver: Option<DriverMode>,
    pub driver_command: Option<PathBuf>,
    pub driver_arguments: Vec<String>,
    pub driver_command_timeout: Duration,
    pub libvirt: LibvirtChoice,
    pub driver_host: Option<String>,
    pub libvirt_peers: Option<PathBuf>,
    pub driver_machines: Option<PathBuf>,
    pub impacts: Impacts,
    pub log: LogFormat,
    pub log_level: String,
    /// Keys that were set by flags, so that messages name the flag.
    pub set_by_flag: Vec<String>,
    /// Settings that the server configuration holds as they are.
    pub config: Config,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMode {
    Real,
    Manual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverMode {
    Simulated,
    Command,
    Libvirt,
    Qemu,
    Agents,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            data: None,
            memory: false,
            no_auth: false,
            link_local: false,
            tls_certificate: None,
            tls_key: None,
            tls_names: Vec::new(),
            oidc: OidcChoices::default(),
            clock: ClockMode::Real,
            clock_start: None,
            cluster: None,
            node: None,
            advertise: None,
            cluster_key: None,
            etcd: EtcdAccess::default(),
            driver: None,
            driver_command: None,
            driver_arguments: Vec::new(),
            driver_command_timeout: Duration::from_secs(10 * 60),
            libvirt: LibvirtChoice::default(),
            driver_host: None,
            libvirt_peers: None,
            driver_machines: None,
            impacts: Impacts::default(),
            log: LogFormat::Text,
            log_level: "info".into(),
            set_by_flag: Vec::new(),
            config: Config { management_tls: tls::default(), ..Config::default() },
        }
    }
}

impl Choices {
    /// The driver, which defaults to `command` if a driver command is set.
    pub fn driver_mode(&self) -> DriverMode {
        let implied = if self.driver_command.is_some() { DriverMode::Command } else { DriverMode::Simulated };
        self.driver.unwrap_or(implied)
    }
}

/// The given data directory, or the default one of this user.
pub fn data_directory(named: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named
        .or_else(|| Some(absolute("XDG_DATA_HOME")?.join("forewarn")))
        .or_else(|| Some(absolute("HOME")?.join(".local/share/forewarn")))
        .ok_or_else(|| ConfigError("HOME is not set: choose a data directory with --data".into()))
}
