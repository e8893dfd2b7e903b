//! Addresses of guests: from DHCP leases of libvirt's networks, from the agent in the guest, or from the host's ARP table.

use crate::connection::Connection;
use crate::domain::Domain;
use crate::error::Result;
use crate::procedure::Procedure;
use crate::uuid::Uuid;
use crate::xdr::{Decoder, Encoder, XdrResult};

/// Interfaces of one domain, and addresses of one interface.
const INTERFACES_MAX: usize = 2048;

/// Leases in one file.
const LEASES_MAX: usize = 65_536;

/// Where libvirt looks for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// DHCP leases of libvirt's own networks.
    Lease = 0,
    /// The agent in the guest.
    Agent = 1,
    /// The ARP table of the host.
    Arp = 2,
}

/// An interface of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name: of the tap on the host, or as the guest calls it.
    pub name: String,
    /// The MAC address.
    pub mac: Option<String>,
    /// IP addresses with the length of their prefix.
    pub addresses: Vec<(String, u32)>,
}

/// A virtual network of libvirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The name, such as `default`.
    pub name: String,
    /// The identity.
    pub uuid: Uuid,
}

/// A DHCP lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The bridge.
    pub interface: String,
    /// End of the lease in seconds since 1970.
    pub expiry: i64,
    /// The MAC address.
    pub mac: Option<String>,
    /// The IP address.
    pub address: String,
    /// Length of the prefix.
    pub prefix: u32,
    /// The name that the guest sent.
    pub hostname: Option<String>,
}

impl Connection {
    /// Interfaces of a running domain with their addresses.
    ///
    /// # Errors
    ///
    /// [`OPERATION_INVALID`](crate::ErrorCode::OPERATION_INVALID) if the domain does not run;
    /// [`AGENT_UNRESPONSIVE`](crate::ErrorCode::AGENT_UNRESPONSIVE) if the agent is asked and does not answer.
    pub async fn interface_addresses(&self, domain: &Domain, source: AddressSource) -> Result<Vec<Interface>> {
        let arguments = domain.encode(Encoder::new()).u32(source as u32).u32(0);
        let read = |decoder: &mut Decoder<'_>| decoder.list(INTERFACES_MAX, Interface::decode);
        self.call(Procedure::DomainInterfaceAddresses, arguments, read).await
    }

    /// The virtual network with this name.
    ///
    /// # Errors
    ///
    /// [`NO_NETWORK`](crate::ErrorCode::NO_NETWORK) if there is none.
    pub async fn network_by_name(&self, name: &str) -> Result<Network> {
        let read = |decoder: &mut Decoder<'_>| Ok(Network { name: decoder.string()?, uuid: Uuid(decoder.fixed()?) });
        self.call(Procedure::NetworkLookupByName, Encoder::new().string(name), read).await
    }

    /// Leases of a network, of all guests or of one MAC address.
    ///
    /// # Errors
    ///
    /// As for every call.
    pub async fn dhcp_leases(&self, network: &Network, mac: Option<&str>) -> Result<Vec<Lease>> {
        let arguments = Encoder::new().string(&network.name).fixed(&network.uuid.0).optional_string(mac);
        let read = |decoder: &mut Decoder<'_>| {
            let leases = decoder.list(LEASES_MAX, Lease::decode)?;
            decoder.u32()?;
            Ok(leases)
        };
        self.call(Procedure::NetworkGetDhcpLeases, arguments.i32(1).u32(0), read).await
    }
}

impl Interface {
    fn decode(decoder: &mut Decoder<'_>) -> XdrResult<Interface> {
        let (name, mac) = (decoder.string()?, decoder.optional_string()?);
        let addresses = decoder.list(INTERFACES_MAX, |decoder| {
            decoder.i32()?;
            Ok((decoder.string()?, decoder.u32()?))
        })?;
        Ok(Interface { name, mac, addresses })
    }
}

impl Lease {
    fn decode(decoder: &mut Decoder<'_>) -> XdrResult<Lease> {
        let (interface, expiry) = (decoder.string()?, decoder.i64()?);
        // The family, which the address shows too.
        decoder.i32()?;
        let mac = decoder.optional_string()?;
        decoder.optional_string()?;
        let (address, prefix, hostname) = (decoder.string()?, decoder.u32()?, decoder.optional_string()?);
        decoder.optional_string()?;
        Ok(Lease { interface, expiry, mac, address, prefix, hostname })
    }
}
