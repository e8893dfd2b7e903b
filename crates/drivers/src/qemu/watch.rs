//! The machines of a host, and changes of their power.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::file::QemuMachine;
use super::host::{Process, QemuHost};
use super::qmp::QmpError;
use crate::inventory::{DomainDescription, FoundDomain, MachineWatch};
use crate::journaled::POLL_INTERVAL;
use crate::order::Pending;

/// Looks at a machine whose process is just ending. Its socket disappears a moment after its connections.
const POLLS_MAX: u32 = 20;

/// Learns about machines from the events of their QEMU processes.
pub struct QemuWatch {
    host: Arc<QemuHost>,
}

impl QemuWatch {
    pub(super) fn new(host: Arc<QemuHost>) -> QemuWatch {
        QemuWatch { host }
    }
}

impl MachineWatch for QemuWatch {
    /// All machines of the file.
    fn list(&self) -> Pending<'_, Result<Vec<FoundDomain>, String>> {
        Box::pin(async move {
            let described = self.describe().await?;
            let found =
                described.into_iter().map(|DomainDescription { vm_id, name, is_active, memory_mib, .. }| FoundDomain {
                    vm_id,
                    name,
                    is_active,
                    memory_mib,
                });
            Ok(found.collect())
        })
    }

    fn describe(&self) -> Pending<'_, Result<Vec<DomainDescription>, String>> {
        Box::pin(async move {
            self.host.prune();
            let mut looks = JoinSet::new();
            for machine in self.host.file.machines().iter() {
                looks.spawn(find(self.host.clone(), machine.clone()));
            }
            let mut found = looks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
            found.sort_by(|one, two| one.name.cmp(&two.name));
            Ok(found)
        })
    }

    fn changed(&mut self) -> Pending<'_, bool> {
        Box::pin(async move {
            self.host.changed.notified().await;
            true
        })
    }
}

async fn find(host: Arc<QemuHost>, machine: QemuMachine) -> Result<DomainDescription, String> {
    let mut found = host.inspect(&machine).await;
    for _ in 0..POLLS_MAX {
        if !matches!(&found, Err(error) if matches!(error.cause, QmpError::Disconnected(_))) {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        found = host.inspect(&machine).await;
    }
    let is_active = match found {
        Ok(Process::Absent) => false,
        Ok(Process::Present { state, .. }) => state.is_active(),
        Ok(Process::Other(reason)) => {
            tracing::warn!(name = machine.name, reason, "a socket belongs to another machine");
            true
        }
        Err(error) if matches!(error.cause, QmpError::Connect(_)) => return Err(error.to_string()),
        // A process listens, even if it does not answer now.
        Err(error) => {
            tracing::warn!(name = machine.name, %error, "cannot query the state of a machine");
            true
        }
    };
    let QemuMachine { vm_id, name, memory_mib, addresses, mac, .. } = machine;
    let (macs, labels) = (Vec::from_iter(mac), BTreeMap::new());
    Ok(DomainDescription { vm_id, name, is_active, memory_mib, macs, addresses, labels })
}
