//! The bridges of this computer: their ports, and which of them have the address of the endpoint. Reads sysfs, and asks the
//! kernel for addresses by rtnetlink.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use forewarn_metadata::PortName;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const INTERFACES: &str = "/sys/class/net";

/// Constants of linux/netlink.h and linux/rtnetlink.h.
const GET_ADDRESS: u16 = 22;
const NEW_ADDRESS: u16 = 20;
const REQUEST_DUMP: u16 = 0x1 | 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;

const HEADER_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ATTRIBUTE_BYTES: usize = 4;

/// The kernel sends at most this much at once to readers with a buffer of this size.
const ANSWER_BYTES_MAX: usize = 32 * 1024;

/// A port of a bridge with the address of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    pub index: u32,
    pub bridge_mac: String,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The index of the interface.
    pub index: u32,
    pub ip: IpAddr,
}

/// Whether this computer has a Linux bridge.
pub fn has_bridge() -> bool {
    let interfaces = fs::read_dir(INTERFACES).into_iter().flatten().flatten();
    interfaces.into_iter().any(|entry| entry.path().join("bridge").is_dir())
}

/// The ports of all Linux bridges.
///
/// # Errors
///
/// If the interfaces cannot be read.
pub fn list_ports() -> io::Result<Vec<PortName>> {
    let found = ports_below(Path::new(INTERFACES))?;
    Ok(found.into_iter().map(|found| found.port).collect())
}

/// The ports of the bridges that have one of these addresses.
///
/// # Errors
///
/// If interfaces or addresses cannot be read.
pub fn list_endpoint_ports(endpoints: &[IpAddr]) -> io::Result<Vec<EndpointPort>> {
    let addresses = list_addresses()?;
    Ok(select_endpoint_ports(ports_below(Path::new(INTERFACES))?, &addresses, endpoints))
}

/// The addresses of all interfaces.
///
/// # Errors
///
/// If the kernel does not answer.
pub fn list_addresses() -> io::Result<Vec<InterfaceAddress>> {
    // The default protocol is NETLINK_ROUTE, which is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut answer, mut addresses) = (vec![0; ANSWER_BYTES_MAX], Vec::new());
    loop {
        let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        if decode(&answer[..received], &mut addresses)? {
            return Ok(addresses);
        }
    }
}

/// A port, with the bridge that it belongs to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BridgePort {
    port: PortName,
    bridge: u32,
    bridge_mac: String,
}

fn ports_below(interfaces: &Path) -> io::Result<Vec<BridgePort>> {
    let mut ports = Vec::new();
    for entry in fs::read_dir(interfaces)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // The interface may disappear at any time.
        ports.extend(bridge_port(&entry.path(), name));
    }
    ports.sort();
    Ok(ports)
}

fn bridge_port(interface: &Path, name: String) -> Option<BridgePort> {
    let read = |file: &str| Some(fs::read_to_string(interface.join(file)).ok()?.trim().to_owned());
    let bridge = read("brport/bridge/ifindex")?.parse().ok()?;
    let index = read("ifindex")?.parse().ok()?;
    Some(BridgePort { port: PortName { index, name }, bridge, bridge_mac: read("brport/bridge/address")? })
}

fn select_endpoint_ports(
    ports: Vec<BridgePort>,
    addresses: &[InterfaceAddress],
    endpoints: &[IpAddr],
) -> Vec<EndpointPort> {
    let has_endpoint =
        |bridge: u32| addresses.iter().any(|address| address.index == bridge && endpoints.contains(&address.ip));
    let own = ports.into_iter().filter(|port| has_endpoint(port.bridge));
    own.map(|port| EndpointPort { index: port.port.index, bridge_mac: port.bridge_mac }).collect()
}

/// Asks for the addresses of all families and interfaces.
fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + ADDRESS_BYTES);
    message.extend(24_u32.to_ne_bytes());
    message.extend(GET_ADDRESS.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.resize(HEADER_BYTES + ADDRESS_BYTES, 0);
    message
}

/// Reads the messages of one datagram. Returns whether it was the last one.
fn decode(mut datagram: &[u8], addresses: &mut Vec<InterfaceAddress>) -> io::Result<bool> {
    let malformed = || io::Error::other("unexpected answer from the kernel");
    while let Some(length) = u32_at(datagram, 0) {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let message = datagram.get(..length).filter(|message| message.len() >= HEADER_BYTES).ok_or_else(malformed)?;
        match u16_at(message, 4) {
            Some(NEW_ADDRESS) => addresses.extend(decode_address(&message[HEADER_BYTES..])),
            Some(DONE) => return Ok(true),
            Some(ERROR) => return Err(malformed()),
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The body of a message: family and other fields, the index of the interface, and attributes. On a link between two computers,
/// only the local attribute is this computer's address; IPv6 addresses have the other one only.
fn decode_address(body: &[u8]) -> Option<InterfaceAddress> {
    let index = u32_at(body, 4)?;
    let (mut attributes, mut local, mut address) = (body.get(ADDRESS_BYTES..)?, None, None);
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(ATTRIBUTE_BYTES..length)?;
        match kind {
            ATTRIBUTE_LOCAL => local = decode_ip(value),
            ATTRIBUTE_ADDRESS => address = decode_ip(value),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(InterfaceAddress { index, ip: local.or(address)? })
}

fn decode_ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into());
    v4().or_else(|| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()))
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(index: u32, name: &str, bridge: u32) -> BridgePort {
        BridgePort {
            port: PortName { index, name: name.into() },
            bridge,
            bridge_mac: format!("52:54:00:00:00:{bridge}"),
        }
    }

    #[test]
    fn only_ports_of_bridges_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, index, is_port) in
            [("vnet1", "12\n", true), ("eth0", "2\n", false), ("vnet0", "9\n", true), ("bad", "", true)]
        {
            let interface = dir.path().join(name);
            fs::create_dir_all(interface.join(if is_port { "brport/bridge" } else { "queues" })).unwrap();
            fs::write(interface.join("ifindex"), index).unwrap();
            if is_port {
                fs::write(interface.join("brport/bridge/ifindex"), "30\n").unwrap();
                fs::write(interface.join("brport/bridge/address"), "52:54:00:00:00:30\n").unwrap();
            }
        }
        assert_eq!(ports_below(dir.path()).unwrap(), [port(9, "vnet0", 30), port(12, "vnet1", 30)]);
        assert!(ports_below(&dir.path().join("none")).is_err());
    }

    #[test]
    fn guests_of_other_bridges_may_have_another_endpoint() {
        let endpoints = ["169.254.169.254".parse().unwrap(), "fd00::254".parse().unwrap()];
        let address = |index, ip: &str| InterfaceAddress { index, ip: ip.parse().unwrap() };
        let addresses = [
            address(30, "10.99.0.1"),
            address(30, "169.254.169.254"),
            address(31, "10.98.0.1"),
            address(32, "fd00::254"),
        ];
        let ports = vec![port(5, "vnet0", 30), port(6, "vnet1", 31), port(7, "vnet2", 32), port(8, "eth0", 30)];
        let own = select_endpoint_ports(ports, &addresses, &endpoints);
        let own: Vec<_> = own.iter().map(|port| (port.index, port.bridge_mac.as_str())).collect();
        assert_eq!(own, [(5, "52:54:00:00:00:30"), (7, "52:54:00:00:00:32"), (8, "52:54:00:00:00:30")]);
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = u32::try_from(HEADER_BYTES + body.len()).unwrap().to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER_BYTES, 0);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).unwrap();
        let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        attribute.extend(value);
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        attribute
    }

    fn address_body(index: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend(attributes.concat());
        body
    }

    #[test]
    fn addresses_are_read_from_the_messages_of_the_kernel() {
        let (v4, v6) = (Ipv4Addr::new(169, 254, 169, 254), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x254));
        let label = attribute(3, b"br0\0\0");
        let peer = attribute(ATTRIBUTE_ADDRESS, &[10, 0, 0, 2]);
        let first = address_body(30, &[peer, label, attribute(ATTRIBUTE_LOCAL, &v4.octets())]);
        let second = address_body(31, &[attribute(ATTRIBUTE_ADDRESS, &v6.octets())]);
        let datagram = [message(NEW_ADDRESS, &first), message(NEW_ADDRESS, &second)].concat();
        let mut addresses = Vec::new();
        assert!(!decode(&datagram, &mut addresses).unwrap(), "more may come");
        assert!(decode(&message(DONE, &[0; 4]), &mut addresses).unwrap());
        let expected = [(30, IpAddr::from(v4)), (31, IpAddr::from(v6))];
        assert_eq!(addresses, expected.map(|(index, ip)| InterfaceAddress { index, ip }));

        assert!(decode(&message(ERROR, &[0; 4]), &mut addresses).is_err());
        assert!(decode(&datagram[..20], &mut addresses).is_err(), "a message that was cut");
        assert!(decode(&0_u32.to_ne_bytes(), &mut addresses).is_err(), "a message without a length");
    }

    #[test]
    fn this_computer_has_the_loopback_address() {
        let addresses = list_addresses().unwrap();
        assert!(addresses.iter().any(|address| address.ip.is_loopback()), "{addresses:?}");
    }
}
