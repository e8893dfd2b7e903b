//! The value of every setting, and the server configuration that they add up to.

use std::collections::HashSet;
use std::env;
use std::ops::Add;
use std::path::PathBuf;
use std::time::Duration;

use forewarn_server::{
    Auth, ClockSetting, ClusterConfig, CommandDriver, Config, DriverChoice, EtcdAccess, Impacts, LibvirtChoice,
    ListenAddress, ManagementTls, QemuChoice, StoreChoice,
};

use super::oidc::OidcChoices;
use super::{ConfigError, executable, settings, tls};

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

    /// Builds the server configuration; fails if settings contradict each other.
    pub fn to_config(&self) -> Result<Config, ConfigError> {
        self.check_auth()?;
        self.check_addresses()?;
        self.check_pool()?;
        let mut config = self.config.clone();
        config.metadata.extend(self.link_local.then(super::listener::link_local));
        config.store = self.store_choice()?;
        config.auth = if self.no_auth { Auth::Off } else { Auth::Token };
        // A server on any free port runs next to others, so it must not take the default HTTPS port.
        if let (ManagementTls::IfFree(_), 0) = (config.management_tls, config.management.port()) {
            config.management_tls = ManagementTls::Off;
        }
        config.certificate = tls::certificate(self.tls_certificate.as_ref(), self.tls_key.as_ref(), &self.tls_names)?;
        config.oidc = self.oidc.to_config(self.no_auth)?;
        config.clock = self.clock_kind()?;
        config.driver = self.driver_choice()?;
        config.cluster = self.cluster_place()?;
        Ok(config)
    }

    fn store_choice(&self) -> Result<StoreChoice, ConfigError> {
        if self.memory {
            return Ok(StoreChoice::Memory);
        }
        data_directory(self.data.clone()).map(StoreChoice::Directory)
    }

    /// The name of a setting in a message: the flag if `subject` was set by a flag, else the key.
    fn setting_name(&self, key: &str, subject: &str) -> String {
        let flag = settings::by_key(key).filter(|_| self.set_by_flag.iter().any(|typed| typed == subject));
        flag.map_or(key.into(), |setting| format!("--{}", setting.flag))
    }

    fn check_auth(&self) -> Result<(), ConfigError> {
        if self.memory && !self.no_auth {
            let setting_name = |key| self.setting_name(key, "memory");
            return Err(ConfigError(format!(
                "{memory} requires {}, because there is no file to store a token in: add it, or remove {memory}",
                setting_name("no_auth"),
                memory = setting_name("memory"),
            )));
        }
        let listeners =
            [("management", Some(self.config.management)), ("management_tls", self.config.management_tls.address())];
        for (key, address) in listeners {
            let Some(address) = address.filter(|address| self.no_auth && !address.ip().is_loopback()) else { continue };
            let setting_name = |key| self.setting_name(key, "no_auth");
            return Err(ConfigError(format!(
                "{no_auth} requires a management listener on loopback, but {address} is not: remove {no_auth}, or set {} \
                 to 127.0.0.1",
                setting_name(key),
                no_auth = setting_name("no_auth"),
            )));
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::from([self.config.management.to_string()]);
        if let ManagementTls::At(address) = self.config.management_tls
            && address.port() != 0
            && !seen.insert(address.to_string())
        {
            return Err(ConfigError(format!("two listeners use the address {address}: give each its own address")));
        }
        for listener in &self.config.metadata {
            let text = super::listener::address_text(&listener.address);
            let any_port = matches!(&listener.address, ListenAddress::Tcp(address) if address.port() == 0);
            if !any_port && !seen.insert(text.clone()) {
                return Err(ConfigError(format!("two listeners use the address {text}: give each its own address")));
            }
        }
        Ok(())
    }

    fn check_pool(&self) -> Result<(), ConfigError> {
        let pool = &self.config.rules.pool;
        if u32::from(pool.first).checked_add(pool.count - 1).is_some() {
            return Ok(());
        }
        Err(ConfigError(format!(
            "the address pool is too large: there are fewer than {} addresses starting at {}; reduce pool.count",
            pool.count, pool.first
        )))
    }

    fn clock_kind(&self) -> Result<ClockSetting, ConfigError> {
        match (self.clock, self.clock_start) {
            (ClockMode::Real, None) => Ok(ClockSetting::Real),
            (ClockMode::Real, Some(_)) => Err(ConfigError(
                "clock_start requires a manual clock: set clock to manual, or remove clock_start".into(),
            )),
            (ClockMode::Manual, start) => Ok(ClockSetting::Manual { start: start.map(to_rules_time).transpose()? }),
        }
    }

    fn cluster_place(&self) -> Result<Option<ClusterConfig>, ConfigError> {
        let Some(address) = self.cluster.clone() else {
            let unused = [("node", &self.node), ("advertise", &self.advertise)].into_iter();
            let unused = unused.filter(|(_, value)| value.is_some()).map(|(key, _)| key).next();
            return unused.map_or(Ok(None), |key| {
                Err(ConfigError(format!(
                    "{key} requires a cluster: set cluster to etcd://HOST/REGION, or remove {key}"
                )))
            });
        };
        if self.advertise.is_none() && self.config.management.port() == 0 {
            return Err(ConfigError("a cluster requires a fixed port: set management or advertise".into()));
        }
        if self.cluster_key.is_none() && !self.no_auth {
            return Err(ConfigError(
                "a cluster requires cluster_key, the file with the key of its secrets: set it, or use no_auth for a trial on \
                 loopback"
                    .into(),
            ));
        }
        let node = self.node.clone().unwrap_or_else(forewarn_access::tls::hostname);
        let advertise = self.advertise.clone().unwrap_or_else(|| format!("http://{}", self.config.management));
        Ok(Some(ClusterConfig { address, node, advertise, etcd: self.etcd.clone(), key: self.cluster_key.clone() }))
    }

    fn driver_choice(&self) -> Result<DriverChoice, ConfigError> {
        match (self.driver_mode(), &self.driver_command) {
            (DriverMode::Simulated, Some(_)) => Err(ConfigError(
                "driver.kind is simulated, but driver.command is set: remove one of them (--driver, --driver-command)"
                    .into(),
            )),
            (DriverMode::Command, None) => Err(ConfigError(
                "driver.kind is command, but driver.command is not set: set it to an executable".into(),
            )),
            (DriverMode::Simulated, None) if !self.driver_arguments.is_empty() => {
                Err(ConfigError("driver.arguments requires driver.command: set it with --driver-command".into()))
            }
            (DriverMode::Simulated, None) => Ok(DriverChoice::Simulated(self.impacts.clone())),
            (DriverMode::Agents, None) => Ok(DriverChoice::Agents),
            (DriverMode::Agents, Some(_)) => {
                Err(ConfigError("driver.kind is agents, but driver.command is set: remove one of them".into()))
            }
            (DriverMode::Libvirt, Some(_)) => {
                Err(ConfigError("driver.kind is libvirt, but driver.command is set: remove one of them".into()))
            }
            (DriverMode::Libvirt, None) => {
                let peers = self.libvirt_peers.as_deref().map(forewarn_server::read_peers).transpose();
                let peers = peers.map_err(|error| ConfigError(format!("{error:#}")))?.unwrap_or_default();
                let host = self.driver_host.clone().unwrap_or_else(|| self.libvirt.host.clone());
                Ok(DriverChoice::Libvirt(LibvirtChoice { host, peers, ..self.libvirt.clone() }))
            }
            (DriverMode::Qemu, Some(_)) => {
                Err(ConfigError("driver.kind is qemu, but driver.command is set: remove one of them".into()))
            }
            (DriverMode::Qemu, None) => {
                let machines = self.driver_machines.clone().ok_or_else(|| {
                    ConfigError(
                        "the qemu driver needs a file that names its machines: add --driver-machines FILE".into(),
                    )
                })?;
                forewarn_server::read_qemu_machines(&machines).map_err(|error| ConfigError(format!("{error:#}")))?;
                let host = self.driver_host.clone().unwrap_or_else(|| self.libvirt.host.clone());
                Ok(DriverChoice::Qemu(QemuChoice { host, machines, reboot: self.libvirt.reboot }))
            }
            (DriverMode::Command, Some(program)) => {
                executable::check(program)?;
                Ok(DriverChoice::Command(CommandDriver {
                    program: program.clone(),
                    arguments: self.driver_arguments.clone(),
                    timeout: self.driver_command_timeout,
                }))
            }
        }
    }
}

/// Converts a time to the time type of the rules, whose default is the Unix epoch.
fn to_rules_time<T: Default + Add<Duration, Output = T>>(time: jiff::Timestamp) -> Result<T, ConfigError> {
    let since_zero = Duration::try_from(time.as_duration());
    let since_zero = since_zero.map_err(|_| ConfigError("clock_start must be after 1970".into()))?;
    Ok(T::default() + since_zero)
}

/// The given data directory, or the default one of this user.
pub fn data_directory(named: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named
        .or_else(|| Some(absolute("XDG_DATA_HOME")?.join("forewarn")))
        .or_else(|| Some(absolute("HOME")?.join(".local/share/forewarn")))
        .ok_or_else(|| ConfigError("HOME is not set: choose a data directory with --data".into()))
}

/// Why a value is invalid. The caller adds the origin.
#[derive(Debug)]
pub enum ValueError {
    /// Description of a valid value.
    Expected(String),
    /// The same for a field of a table.
    Field { name: String, text: String, line: usize, expected: String },
    /// The table has no such field.
    Unknown { name: String, line: usize, known: &'static str },
}

impl ValueError {
    pub fn expected(expected: impl Into<String>) -> ValueError {
        ValueError::Expected(expected.into())
    }

    pub fn unknown(name: &str, known: &'static str, line: usize) -> ValueError {
        ValueError::Unknown { name: name.into(), line, known }
    }

    pub fn in_field(self, name: &str, text: &str, line: usize) -> ValueError {
        match self {
            ValueError::Expected(expected) => {
                ValueError::Field { name: name.into(), text: text.into(), line, expected }
            }
            other => other,
        }
    }
}

impl From<String> for ValueError {
    fn from(expected: String) -> ValueError {
        ValueError::Expected(expected)
    }
}

impl From<&str> for ValueError {
    fn from(expected: &str) -> ValueError {
        ValueError::Expected(expected.into())
    }
}
