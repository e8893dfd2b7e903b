//! The driver of this host's machines, as the configuration names it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use forewarn_drivers::libvirt::{KnownPeers, LibvirtConfig, LibvirtDriver, Target};
use forewarn_drivers::{MachineDriver, SimulatedMachines};

/// The socket of libvirtd on most systems.
pub const LIBVIRT_SOCKET: &str = "/run/libvirt/libvirt-sock";

/// The length of simulated orders.
const SIMULATED_LENGTH: Duration = Duration::from_secs(5);

/// The directory of the journal in the data directory.
const JOURNAL: &str = "journal";

/// The kind of a driver, by its name in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDriver {
    Libvirt,
    /// Machines that do not exist, for trials.
    Simulated,
    /// Another program drives the machines.
    None,
}

impl HostDriver {
    pub fn parse(word: &str) -> anyhow::Result<HostDriver> {
        Ok(match word {
            "libvirt" => HostDriver::Libvirt,
            "simulated" => HostDriver::Simulated,
            "none" => HostDriver::None,
            _ => bail!("invalid driver '{word}': use libvirt, simulated or none"),
        })
    }

    /// Opens the driver. `host`: the name of this host.
    pub fn open(
        self,
        host: &str,
        data: &std::path::Path,
        socket: PathBuf,
        pools: Vec<String>,
    ) -> anyhow::Result<Option<Arc<dyn MachineDriver>>> {
        Ok(match self {
            HostDriver::None => None,
            HostDriver::Simulated => Some(Arc::new(SimulatedMachines::new(SIMULATED_LENGTH))),
            HostDriver::Libvirt => {
                let journal = data.join(JOURNAL);
                let config = LibvirtConfig {
                    host: host.to_owned(),
                    target: Target::qemu(socket),
                    journal: journal.clone(),
                    pools,
                    peers: Arc::new(KnownPeers::default()),
                    hook: Arc::new(|_| {}),
                };
                let driver = LibvirtDriver::open(config);
                Some(Arc::new(driver.with_context(|| format!("cannot open the journal in {}", journal.display()))?))
            }
        })
    }
}
