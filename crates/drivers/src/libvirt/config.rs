//! Settings of the driver, and what it needs to know about other hosts.

use std::path::PathBuf;
use std::sync::Arc;

use forewarn_core::Guid;
use forewarn_libvirt::Target;

use crate::journaled::StepHook;
use crate::order::Pending;

/// Settings of the driver.
pub struct LibvirtConfig {
    /// The name of this host.
    pub host: String,
    /// The libvirtd of this host.
    pub target: Target,
    /// The directory of the journal.
    pub journal: PathBuf,
    /// Storage pools from which Terminate may delete disks.
    pub pools: Vec<String>,
    /// How the state of a machine on another host is found out.
    pub peers: Arc<dyn Peers>,
    /// Called before each step.
    pub hook: StepHook,
}

/// Knows machines on other hosts, for the recovery of a migration.
pub trait Peers: Send + Sync {
    fn state_of(&self, host: &str, machine: Guid) -> Pending<'_, PeerState>;
}

/// The state of a machine on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    Absent,
    /// Not running, or paused: a migration is not finished.
    Paused,
    Running,
    /// The other host cannot be asked.
    Unknown,
}
