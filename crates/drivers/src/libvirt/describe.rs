//! Describes the domains of a host, for their import as machines.

use std::net::IpAddr;

use forewarn_core::Guid;
use forewarn_libvirt::{AddressSource, Affect, Connection, Domain, Error, ErrorCode, Target, XmlFlags};

use super::host::is_connection_lost;
use super::mark::{attribute, attributes};
use crate::inventory::DomainDescription;

/// The namespace of the labels of a domain: `<labels tier="web"/>`.
pub const LABELS_URI: &str = "https://forewarn.dev/labels";

/// Describes all domains, in the order of their names.
///
/// # Errors
///
/// If libvirtd cannot be reached, or the connection ends. Domains that disappear meanwhile are left out.
pub async fn describe_domains(target: &Target) -> Result<Vec<DomainDescription>, Error> {
    let (connection, _events) = target.connect().await?;
    describe_all(&connection).await
}

pub async fn describe_all(connection: &Connection) -> Result<Vec<DomainDescription>, Error> {
    let mut found = Vec::new();
    for domain in connection.domains().await? {
        match describe(connection, &domain).await {
            Ok(description) => found.push(description),
            Err(error) if is_connection_lost(&error) => return Err(error),
            Err(error) if error.is(ErrorCode::NO_DOMAIN) => {}
            Err(error) => {
                tracing::warn!(domain = domain.name, %error, "skipping the domain: cannot read its description");
            }
        }
    }
    found.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(found)
}

async fn describe(connection: &Connection, domain: &Domain) -> Result<DomainDescription, Error> {
    let info = connection.domain_info(domain).await?;
    let xml = connection.xml(domain, XmlFlags::NONE).await?;
    let is_active = info.state.is_active();
    let addresses = if is_active { find_addresses(connection, domain).await? } else { Vec::new() };
    Ok(DomainDescription {
        vm_id: Guid(u128::from_be_bytes(domain.uuid.0)),
        name: domain.name.clone(),
        is_active,
        memory_mib: info.memory_max_kib / 1024,
        macs: find_macs(&xml),
        addresses,
        labels: connection
            .metadata(domain, LABELS_URI, Affect::NONE)
            .await?
            .map(|xml| attributes(&xml))
            .unwrap_or_default(),
    })
}

/// Addresses of the guest, without those of its loopback and link.
async fn find_addresses(connection: &Connection, domain: &Domain) -> Result<Vec<IpAddr>, Error> {
    for source in [AddressSource::Lease, AddressSource::Agent] {
        let interfaces = match connection.interface_addresses(domain, source).await {
            Ok(interfaces) => interfaces,
            Err(error) if is_connection_lost(&error) => return Err(error),
            // Most guests have no agent.
            Err(_) => continue,
        };
        let texts = interfaces.iter().flat_map(|interface| &interface.addresses);
        let mut addresses: Vec<IpAddr> = texts.filter_map(|(text, _)| text.parse().ok()).filter(is_routable).collect();
        addresses.sort_unstable();
        addresses.dedup();
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    Ok(Vec::new())
}

fn is_routable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// The MAC addresses of the interfaces, in their order.
fn find_macs(xml: &str) -> Vec<String> {
    let interfaces = xml.split("<interface ").skip(1);
    let inside = interfaces.map(|rest| rest.split_once("</interface>").map_or(rest, |(inside, _)| inside));
    inside.filter_map(|xml| attribute(&xml[xml.find("<mac ")?..], "address")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_those_of_interfaces() {
        let xml = "<mac address='no'/><interface type='bridge'>\n<mac address='52:54:00:00:00:01'/></interface>\
                   <interface type='user'></interface><interface type='network'><mac address=\"52:54:00:00:00:02\"/></interface>";
        assert_eq!(find_macs(xml), ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
        assert_eq!(find_macs("<domain/>"), Vec::<String>::new());
    }

    #[test]
    fn loopback_and_link_addresses_are_left_out() {
        let addresses = ["127.0.0.1", "169.254.3.4", "10.0.0.4", "::1", "fe80::1", "fd00::4"];
        let kept = addresses.iter().filter(|text| is_routable(&text.parse().unwrap()));
        assert_eq!(kept.collect::<Vec<_>>(), [&"10.0.0.4", &"fd00::4"]);
    }
}
