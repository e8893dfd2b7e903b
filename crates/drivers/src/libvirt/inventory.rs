//! The domains of a host, and changes of their lifecycle.

use forewarn_core::Guid;
use forewarn_libvirt::{Connection, Error, EventKind, Events};

/// A domain, as far as Forewarn wants to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDomain {
    pub vm_id: Guid,
    pub name: String,
    /// Whether it runs, or is paused: in both cases it has a process.
    pub is_active: bool,
    pub memory_mib: u64,
}

/// A connection that learns about changes.
pub struct DomainWatch {
    connection: Connection,
    events: Events,
}

impl DomainWatch {
    pub(super) async fn open(target: &forewarn_libvirt::Target) -> Result<DomainWatch, Error> {
        let (connection, events) = target.connect().await?;
        connection.register(EventKind::Lifecycle, None).await?;
        Ok(DomainWatch { connection, events })
    }

    /// All domains of the host.
    ///
    /// # Errors
    ///
    /// If the connection has ended. Domains that disappear meanwhile are left out.
    pub async fn list(&self) -> Result<Vec<FoundDomain>, Error> {
        let mut found = Vec::new();
        for domain in self.connection.domains().await? {
            let info = match self.connection.domain_info(&domain).await {
                Ok(info) => info,
                Err(error) if super::host::is_connection_lost(&error) => return Err(error),
                Err(_) => continue,
            };
            found.push(FoundDomain {
                vm_id: Guid(u128::from_be_bytes(domain.uuid.0)),
                name: domain.name,
                is_active: info.state.is_active(),
                memory_mib: info.memory_max_kib / 1024,
            });
        }
        Ok(found)
    }

    /// Waits for a change. Returns whether the connection still exists.
    pub async fn changed(&mut self) -> bool {
        self.events.next().await.is_some()
    }
}
