//! DHCP query: sends a DHCPDISCOVER and reads option 245 of the offer.
//!
//! The offer is not accepted, so no address is leased; the published samples do the same. The query needs UDP port 68:
//! it fails if a DHCP client holds that port or a firewall blocks the offer.
//!
//! ```text
//!    0  op, htype, hlen, hops      28  MAC            240  options: 53 1 1, 55 1 245, 255
//!    4  transaction                236 63 82 53 63
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::retry::Jitter;

/// Settings of a DHCP query. The default queries every Ethernet interface that is up, one after the other, from port
/// 68.
#[derive(Debug, Clone)]
pub struct DhcpQuery {
    /// Local address to send from.
    pub from: SocketAddr,
    /// Address of the DHCP server.
    pub to: SocketAddr,
    /// Interface to query; `None` for each Ethernet interface that is up.
    pub interface: Option<NetworkInterface>,
    /// Time to wait for an offer, per attempt.
    pub timeout: Duration,
    /// Number of attempts per interface.
    pub attempts: u32,
}

/// Network interface for a [`DhcpQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Interface to send packets through, whatever the routes are; the machine may not have any yet. `None` to use the
    /// routes.
    pub name: Option<String>,
    /// Hardware address.
    pub mac: [u8; 6],
}

impl Default for DhcpQuery {
    fn default() -> DhcpQuery {
        DhcpQuery {
            from: (Ipv4Addr::UNSPECIFIED, 68).into(),
            to: (Ipv4Addr::BROADCAST, 67).into(),
            interface: None,
            timeout: Duration::from_secs(10),
            attempts: 3,
        }
    }
}

impl DhcpQuery {
    /// Returns the address in option 245 of the first offer that has one.
    pub(super) fn run(&self) -> io::Result<Ipv4Addr> {
        let interfaces = match &self.interface {
            Some(interface) => vec![interface.clone()],
            None => list_interfaces(Path::new("/sys/class/net")),
        };
        let mut problem = io::Error::new(io::ErrorKind::NotFound, "no Ethernet interface is up");
        for interface in &interfaces {
            match self.query_interface(interface) {
                Ok(address) => return Ok(address),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    fn query_interface(&self, interface: &NetworkInterface) -> io::Result<Ipv4Addr> {
        let socket = self.open_socket(interface)?;
        let mut jitter = Jitter::random();
        for _ in 0..self.attempts {
            let transaction = (jitter.draw() * f64::from(u32::MAX)) as u32;
            socket.send_to(&build_discover(transaction, interface.mac), self.to)?;
            if let Some(address) = self.receive_offer(&socket, transaction, interface.mac)? {
                return Ok(address);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no DHCP server offered option 245"))
    }

    fn open_socket(&self, interface: &NetworkInterface) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(self.from), Type::DGRAM, None)?;
        socket.set_broadcast(true)?;
        #[cfg(target_os = "linux")]
        if let Some(name) = &interface.name {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        socket.bind(&self.from.into())?;
        Ok(socket.into())
    }

    fn receive_offer(&self, socket: &UdpSocket, transaction: u32, mac: [u8; 6]) -> io::Result<Option<Ipv4Addr>> {
        let deadline = Instant::now() + self.timeout;
        let mut buffer = [0; PACKET_BYTES_MAX];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            socket.set_read_timeout(Some(left))?;
            match socket.recv(&mut buffer) {
                Ok(count) => {
                    if let Some(address) = read_offer(&buffer[..count], transaction, mac) {
                        return Ok(Some(address));
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// An offer fits into one Ethernet frame.
const PACKET_BYTES_MAX: usize = 1500;

const COOKIE: [u8; 4] = [0x63, 0x82, 0x53, 0x63];
const COOKIE_AT: usize = 0xEC;
const OPTIONS_AT: usize = 0xF0;

/// Relays drop shorter packets.
const DISCOVER_BYTES: usize = 300;

fn build_discover(transaction: u32, mac: [u8; 6]) -> Vec<u8> {
    let mut packet = vec![0; DISCOVER_BYTES];
    packet[..4].copy_from_slice(&[1, 1, 6, 0]);
    packet[4..8].copy_from_slice(&transaction.to_be_bytes());
    // Request a broadcast offer, because this machine may not have the offered address.
    packet[0x0A] = 0x80;
    packet[0x1C..0x22].copy_from_slice(&mac);
    packet[COOKIE_AT..OPTIONS_AT].copy_from_slice(&COOKIE);
    packet[OPTIONS_AT..OPTIONS_AT + 7].copy_from_slice(&[53, 1, 1, 55, 1, 245, 255]);
    packet
}

/// Reads option 245. Returns `None` for packets that are not a reply to this query.
fn read_offer(packet: &[u8], transaction: u32, mac: [u8; 6]) -> Option<Ipv4Addr> {
    let is_ours = packet.first() == Some(&2)
        && packet.get(4..8)? == transaction.to_be_bytes()
        && packet.get(0x1C..0x22)? == mac
        && packet.get(COOKIE_AT..OPTIONS_AT)? == COOKIE;
    let mut options = packet.get(OPTIONS_AT..).filter(|_| is_ours)?;
    loop {
        match options {
            [0, rest @ ..] => options = rest,
            [245, 4, a, b, c, d, ..] => return Some(Ipv4Addr::new(*a, *b, *c, *d)),
            [255, ..] | [] | [_] => return None,
            [_, length, rest @ ..] => options = rest.get(usize::from(*length)..)?,
        }
    }
}

/// Guests have few interfaces, and each one takes up to half a minute.
const INTERFACES_MAX: usize = 8;

/// Lists the usable interfaces, sorted by name.
fn list_interfaces(interfaces: &Path) -> Vec<NetworkInterface> {
    let mut names: Vec<String> = std::fs::read_dir(interfaces)
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    let usable = |name: &String| {
        Some(NetworkInterface { name: Some(name.clone()), mac: read_usable_mac(&interfaces.join(name))? })
    };
    names.iter().filter_map(usable).take(INTERFACES_MAX).collect()
}

fn read_usable_mac(path: &Path) -> Option<[u8; 6]> {
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    // 1 is Ethernet; loopback is 772. Only this machine's own guests are behind a bridge.
    let is_bridge = path.join("bridge").exists() || path.join("brport").exists();
    let is_usable = read("type").trim() == "1" && read("operstate").trim() != "down" && !is_bridge;
    let mac = read("address");
    let bytes: Option<Vec<u8>> = mac.trim().split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.filter(|_| is_usable)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_interface(root: &Path, name: &str, kind: &str, state: &str, mac: &str, directories: &[&str]) {
        let path = root.join(name);
        std::fs::create_dir(&path).unwrap();
        for (file, text) in [("type", kind), ("operstate", state), ("address", mac)] {
            std::fs::write(path.join(file), format!("{text}\n")).unwrap();
        }
        directories.iter().for_each(|directory| std::fs::create_dir(path.join(directory)).unwrap());
    }

    #[test]
    fn ethernet_interfaces_that_are_up_are_listed_without_bridges() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        add_interface(root, "lo", "772", "unknown", "00:00:00:00:00:00", &[]);
        add_interface(root, "eth1", "1", "unknown", "52:54:00:00:00:02", &[]);
        add_interface(root, "eth0", "1", "up", "52:54:00:00:00:0a", &[]);
        add_interface(root, "eth2", "1", "down", "52:54:00:00:00:03", &[]);
        add_interface(root, "br0", "1", "up", "52:54:00:00:00:04", &["bridge"]);
        add_interface(root, "vnet0", "1", "up", "52:54:00:00:00:05", &["brport"]);
        add_interface(root, "ib0", "32", "up", "80:00:02:08:fe:80:00:00:00:00:00:00:00:02", &[]);
        let expected =
            |name: &str, last| NetworkInterface { name: Some(name.into()), mac: [0x52, 0x54, 0, 0, 0, last] };
        assert_eq!(list_interfaces(root), [expected("eth0", 0x0a), expected("eth1", 2)]);
        assert_eq!(list_interfaces(&root.join("nowhere")), []);
    }
}
