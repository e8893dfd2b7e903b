//! The machines that exist on a host, and changes that were made outside Forewarn.

use std::collections::BTreeMap;
use std::net::IpAddr;

use forewarn_core::Guid;

use crate::order::{MachineDriver, Pending};

/// A machine of a host, as far as Forewarn wants to know it: a libvirt domain, or a machine of the QEMU driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDomain {
    pub vm_id: Guid,
    pub name: String,
    /// Whether it runs, or is paused: in both cases it has a process.
    pub is_active: bool,
    pub memory_mib: u64,
}

/// A machine of a host as it is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainDescription {
    pub vm_id: Guid,
    pub name: String,
    pub is_active: bool,
    pub memory_mib: u64,
    pub macs: Vec<String>,
    /// With libvirt, from DHCP leases, or else from the agent in the guest; with QEMU, from the file. Empty if unknown.
    pub addresses: Vec<IpAddr>,
    pub labels: BTreeMap<String, String>,
}

/// Learns about changes.
pub trait MachineWatch: Send {
    /// All machines of the host.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be asked.
    fn list(&self) -> Pending<'_, Result<Vec<FoundDomain>, String>>;

    /// All machines of the host with what is known of them, in the order of their names.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be asked.
    fn describe(&self) -> Pending<'_, Result<Vec<DomainDescription>, String>>;

    /// Waits for a change. Returns whether the watch still works.
    fn changed(&mut self) -> Pending<'_, bool>;
}

/// A driver whose machines can be watched.
pub trait WatchedDriver: MachineDriver {
    /// Begins to watch the machines.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be reached.
    fn watch_machines(&self) -> Pending<'_, Result<Box<dyn MachineWatch>, String>>;

    /// Removes records of orders that the journal does not contain, and returns the names of their machines.
    ///
    /// # Errors
    ///
    /// If the hypervisor or the journal cannot be read. Records may have been removed by then.
    fn remove_unknown_records(&self) -> Pending<'_, Result<Vec<String>, String>>;
}
