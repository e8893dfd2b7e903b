//! The server configuration that the settings add up to, and the contradictions between settings.

use std::collections::HashSet;
use std::ops::Add;
use std::time::Duration;

use forewarn_server::{
    Auth, ClockSetting, ClusterConfig, CommandDriver, Config, DriverChoice, LibvirtChoice, ListenAddress,
    ManagementTls, QemuChoice, StoreChoice,
};

use crate::choices::{Choices, ClockMode, DriverMode, data_directory};
use crate::error::ConfigError;
use crate::{executable, listener, settings, tls};

impl Choices {
    /// Builds the server configuration; fails if settings contradict each other.
    pub fn to_config(&self) -> Result<Config, ConfigError> {
        self.check_auth()?;
        self.check_addresses()?;
        self.check_pool()?;
        let mut config = self.config.clone();
        config.metadata.extend(self.link_local.then(listener::link_local));
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
            let text = listener::address_text(&listener.address);
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
