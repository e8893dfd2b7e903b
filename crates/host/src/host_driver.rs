//! The driver of this host's machines, as the configuration names it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use forewarn_drivers::libvirt::{KnownPeers, LibvirtConfig, LibvirtDriver, Target};
use forewarn_drivers::qemu::{QemuConfig, QemuDriver};
use forewarn_drivers::{MachineDriver, SimulatedMachines, WatchedDriver, default_hook};

/// The socket of libvirtd on most systems.
pub const LIBVIRT_SOCKET: &str = "/run/libvirt/libvirt-sock";

/// The length of simulated orders.
const SIMULATED_LENGTH: Duration = Duration::from_secs(5);

/// The directory of the journal in the data directory.
pub const JOURNAL: &str = "journal";

/// An open driver.
#[derive(Clone, Default)]
pub struct OpenDriver {
    pub machines: Option<Arc<dyn MachineDriver>>,
    /// The same driver, if the agent is to report the machines that it finds.
    pub watched: Option<Arc<dyn WatchedDriver>>,
}

impl OpenDriver {
    /// A driver whose machines the agent need not follow.
    pub fn of(machines: Option<Arc<dyn MachineDriver>>) -> OpenDriver {
        OpenDriver { machines, watched: None }
    }

    /// A driver whose machines the agent follows and reports.
    pub fn watched(driver: Arc<dyn WatchedDriver>) -> OpenDriver {
        OpenDriver { machines: Some(driver.clone()), watched: Some(driver) }
    }
}

/// The kind of a driver, by its name in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDriver {
    Libvirt,
    /// QEMU without libvirt.
    Qemu,
    /// Machines that do not exist, for trials.
    Simulated,
    /// Another program drives the machines.
    None,
}

/// The settings of the drivers.
#[derive(Clone, Debug, Default)]
pub struct DriverOptions {
    /// The socket of libvirtd.
    pub socket: PathBuf,
    /// Storage pools from which the disks of deleted machines are deleted.
    pub pools: Vec<String>,
    /// The file that names the machines of the QEMU driver.
    pub machines: Option<PathBuf>,
    /// Hosts that libvirt moves machines to.
    pub peers: KnownPeers,
}

impl HostDriver {
    pub fn parse(word: &str) -> anyhow::Result<HostDriver> {
        Ok(match word {
            "libvirt" => HostDriver::Libvirt,
            "qemu" => HostDriver::Qemu,
            "simulated" => HostDriver::Simulated,
            "none" => HostDriver::None,
            _ => bail!("invalid driver '{word}': use libvirt, qemu, simulated or none"),
        })
    }

    /// Opens the driver. `host`: the name of this host.
    pub fn open(self, host: &str, data: &std::path::Path, options: DriverOptions) -> anyhow::Result<OpenDriver> {
        let DriverOptions { socket, pools, machines, peers } = options;
        Ok(match self {
            HostDriver::None => OpenDriver::default(),
            HostDriver::Qemu => {
                let machines = machines.context("the qemu driver needs a file with machines: set driver_machines")?;
                let config = QemuConfig { machines, journal: data.join(JOURNAL), hook: default_hook() };
                OpenDriver::watched(Arc::new(QemuDriver::open(config).map_err(|error| anyhow!(error))?))
            }
            HostDriver::Simulated => OpenDriver::of(Some(Arc::new(SimulatedMachines::new(SIMULATED_LENGTH)))),
            HostDriver::Libvirt => {
                let journal = data.join(JOURNAL);
                let config = LibvirtConfig {
                    host: host.to_owned(),
                    target: Target::qemu(socket),
                    journal: journal.clone(),
                    pools,
                    peers: Arc::new(peers),
                    hook: default_hook(),
                };
                let driver = LibvirtDriver::open(config);
                let driver = driver.with_context(|| format!("cannot open the journal in {}", journal.display()))?;
                OpenDriver::watched(Arc::new(driver))
            }
        })
    }
}
