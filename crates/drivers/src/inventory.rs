//! The machines that exist on a host, and changes that were made outside Forewarn.

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

/// Learns about changes.
pub trait MachineWatch: Send {
    /// All machines of the host.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be asked.
    fn list(&self) -> Pending<'_, Result<Vec<FoundDomain>, String>>;

    /// Waits for a change. Returns whether the watch still works.
    fn changed(&mut self) -> Pending<'_, bool>;
}

/// A driver whose machines can be watched.
pub trait WatchedDriver: MachineDriver {
    /// Begins to watch the machines, and removes what no order explains.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be reached.
    fn watch_machines(&self) -> Pending<'_, Result<Box<dyn MachineWatch>, String>>;
}
