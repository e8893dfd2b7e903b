//! The domains of a host, their network interfaces, and changes of their lifecycle.

use forewarn_core::Guid;
use forewarn_libvirt::{Connection, Error, ErrorCode, EventKind, Events, Target, XmlFlags};

use super::describe::describe_all;
use super::host::is_connection_lost;
use super::mark::attribute;
use crate::inventory::{DomainDescription, FoundDomain, MachineWatch};
use crate::order::Pending;

/// A connection that learns about changes.
pub struct DomainWatch {
    connection: Connection,
    events: Events,
}

impl DomainWatch {
    /// Connects, and registers for changes before anything is read.
    ///
    /// # Errors
    ///
    /// If libvirtd cannot be reached.
    pub async fn open(target: &Target) -> Result<DomainWatch, Error> {
        let (connection, events) = target.connect().await?;
        for kind in [EventKind::Lifecycle, EventKind::DeviceAdded, EventKind::DeviceRemoved] {
            connection.register(kind, None).await?;
        }
        Ok(DomainWatch { connection, events })
    }

    /// All domains of the host. Domains that disappear meanwhile are left out.
    async fn domains(&self) -> Result<Vec<FoundDomain>, Error> {
        let mut found = Vec::new();
        for domain in self.connection.domains().await? {
            let info = match self.connection.domain_info(&domain).await {
                Ok(info) => info,
                Err(error) if is_connection_lost(&error) => return Err(error),
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

    /// The taps of running domains, with the VM ID of their owner.
    ///
    /// # Errors
    ///
    /// If the connection has ended. Domains that disappear meanwhile are left out.
    pub async fn taps(&self) -> Result<Vec<(String, Guid)>, Error> {
        let mut taps = Vec::new();
        for domain in self.connection.domains().await? {
            let machine = Guid(u128::from_be_bytes(domain.uuid.0));
            let is_active = match self.connection.state(&domain).await {
                Ok(state) => state.state.is_active(),
                Err(error) if is_connection_lost(&error) => return Err(error),
                Err(_) => continue,
            };
            if !is_active {
                continue;
            }
            match self.connection.xml(&domain, XmlFlags::NONE).await {
                Ok(xml) => taps.extend(find_taps(&xml).into_iter().map(|tap| (tap, machine))),
                Err(error) if is_connection_lost(&error) => return Err(error),
                Err(error) if error.is(ErrorCode::NO_DOMAIN) => {}
                Err(error) => {
                    tracing::warn!(domain = domain.name, %error, "skipping the domain: cannot read its description");
                }
            }
        }
        Ok(taps)
    }
}

impl MachineWatch for DomainWatch {
    fn list(&self) -> Pending<'_, Result<Vec<FoundDomain>, String>> {
        Box::pin(async move { self.domains().await.map_err(|error| error.to_string()) })
    }

    fn describe(&self) -> Pending<'_, Result<Vec<DomainDescription>, String>> {
        Box::pin(async move { describe_all(&self.connection).await.map_err(|error| error.to_string()) })
    }

    fn changed(&mut self) -> Pending<'_, bool> {
        Box::pin(async move { self.events.next().await.is_some() })
    }
}

/// The taps of interfaces on bridges, in live XML. Interfaces of other kinds have no port of a bridge.
fn find_taps(xml: &str) -> Vec<String> {
    // The last one: metadata, which comes before, may contain anything.
    let devices = xml.rsplit_once("<devices>").map_or("", |(_, devices)| devices);
    let interfaces = devices.split("<interface ").skip(1);
    let inside = interfaces.filter_map(|rest| rest.split_once("</interface>").map(|(inside, _)| inside));
    let bridged = inside.filter(|inside| {
        let kind = attribute(&format!("<interface {inside}"), "type");
        matches!(kind.as_deref(), Some("bridge" | "network" | "ethernet"))
    });
    bridged.filter_map(|inside| attribute(&inside[inside.find("<target ")?..], "dev")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_the_targets_of_bridged_interfaces() {
        let xml = "<domain type='kvm' id='3'>\n<metadata><devices><interface type='bridge'><target dev='forged'/></interface></devices></metadata>\
            <devices>\n<disk type='file'><target dev='vda' bus='virtio'/></disk>\n\
            <interface type='bridge'>\n<mac address='52:54:00:00:00:01'/><source bridge='br0'/>\n<target dev='vnet3'/>\n</interface>\
            <interface type='network'><source network='default' bridge='virbr0'/><target dev=\"vnet4\"/></interface>\
            <interface type='direct'><source dev='eth0' mode='bridge'/><target dev='macvtap0'/></interface>\
            <interface type='user'></interface></devices></domain>";
        assert_eq!(find_taps(xml), ["vnet3", "vnet4"]);
        assert_eq!(find_taps("<domain/>"), Vec::<String>::new());
    }
}
