//! Asking the network: a DHCPDISCOVER, and option 245 of the offer.
//!
//! Nothing is accepted and no address is taken: the offer is read and forgotten. This is what the
//! published samples do. It needs port 68, so a DHCP client that holds it stands in the way, and the
//! offer must be let in by the firewall.
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

/// How to ask. The default asks from port 68, on every network card that is up, one after the other.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Where to ask from.
    pub from: SocketAddr,
    /// Whom to ask.
    pub to: SocketAddr,
    /// The network card to ask on; when it is `None`, each Ethernet card that is up.
    pub card: Option<Card>,
    /// How long to wait for an offer, each time.
    pub timeout: Duration,
    /// How often to ask.
    pub attempts: u32,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Packets go out by this interface whatever the routes say: a machine that asks has perhaps none. `None`
    /// to go by the routes.
    pub interface: Option<String>,
    /// Its hardware address.
    pub mac: [u8; 6],
}

impl Default for Asking {
    fn default() -> Asking {
        Asking {
            from: (Ipv4Addr::UNSPECIFIED, 68).into(),
            to: (Ipv4Addr::BROADCAST, 67).into(),
            card: None,
            timeout: Duration::from_secs(10),
            attempts: 3,
        }
    }
}

impl Asking {
    /// The address in option 245 of the first offer that has one.
    pub(super) fn ask(&self) -> io::Result<Ipv4Addr> {
        let cards = match &self.card {
            Some(card) => vec![card.clone()],
            None => cards(Path::new("/sys/class/net")),
        };
        let mut problem = io::Error::new(io::ErrorKind::NotFound, "there is no Ethernet card that is up");
        for card in &cards {
            match self.ask_on(card) {
                Ok(address) => return Ok(address),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    fn ask_on(&self, card: &Card) -> io::Result<Ipv4Addr> {
        let socket = self.socket(card)?;
        let mut jitter = Jitter::random();
        for _ in 0..self.attempts {
            let transaction = (jitter.draw() * f64::from(u32::MAX)) as u32;
            socket.send_to(&discover(transaction, card.mac), self.to)?;
            if let Some(address) = self.offer(&socket, transaction, card.mac)? {
                return Ok(address);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no DHCP server offered option 245"))
    }

    fn socket(&self, card: &Card) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(self.from), Type::DGRAM, None)?;
        socket.set_broadcast(true)?;
        #[cfg(target_os = "linux")]
        if let Some(interface) = &card.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        socket.bind(&self.from.into())?;
        Ok(socket.into())
    }

    fn offer(&self, socket: &UdpSocket, transaction: u32, mac: [u8; 6]) -> io::Result<Option<Ipv4Addr>> {
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

/// Offers fit into one frame.
const PACKET_BYTES_MAX: usize = 1500;

const COOKIE: [u8; 4] = [0x63, 0x82, 0x53, 0x63];
const COOKIE_AT: usize = 0xEC;
const OPTIONS_AT: usize = 0xF0;

/// Relays drop shorter packets.
const DISCOVER_BYTES: usize = 300;

fn discover(transaction: u32, mac: [u8; 6]) -> Vec<u8> {
    let mut packet = vec![0; DISCOVER_BYTES];
    packet[..4].copy_from_slice(&[1, 1, 6, 0]);
    packet[4..8].copy_from_slice(&transaction.to_be_bytes());
    // The answer is to be broadcast: the address that is offered is perhaps not ours.
    packet[0x0A] = 0x80;
    packet[0x1C..0x22].copy_from_slice(&mac);
    packet[COOKIE_AT..OPTIONS_AT].copy_from_slice(&COOKIE);
    packet[OPTIONS_AT..OPTIONS_AT + 7].copy_from_slice(&[53, 1, 1, 55, 1, 245, 255]);
    packet
}

/// `None` also for offers that are not meant for us.
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

/// A machine with more of them is no guest that waits to be told.
const CARDS_MAX: usize = 8;

/// By name, so that the order is always the same.
fn cards(interfaces: &Path) -> Vec<Card> {
    let mut names: Vec<String> = std::fs::read_dir(interfaces)
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    let card = |name: &String| Some(Card { interface: Some(name.clone()), mac: usable_mac(&interfaces.join(name))? });
    names.iter().filter_map(card).take(CARDS_MAX).collect()
}

fn usable_mac(path: &Path) -> Option<[u8; 6]> {
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    // 1 is Ethernet; loopback is 772. Behind a bridge there are only machines of this machine's own.
    let is_bridge = path.join("bridge").exists() || path.join("brport").exists();
    let is_usable = read("type").trim() == "1" && read("operstate").trim() != "down" && !is_bridge;
    let mac = read("address");
    let bytes: Option<Vec<u8>> = mac.trim().split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.filter(|_| is_usable)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(root: &Path, name: &str, kind: &str, state: &str, mac: &str, directories: &[&str]) {
        let path = root.join(name);
        std::fs::create_dir(&path).unwrap();
        for (file, text) in [("type", kind), ("operstate", state), ("address", mac)] {
            std::fs::write(path.join(file), format!("{text}\n")).unwrap();
        }
        directories.iter().for_each(|directory| std::fs::create_dir(path.join(directory)).unwrap());
    }

    #[test]
    fn every_ethernet_card_that_is_up_is_asked_and_no_bridge() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        interface(root, "lo", "772", "unknown", "00:00:00:00:00:00", &[]);
        interface(root, "eth1", "1", "unknown", "52:54:00:00:00:02", &[]);
        interface(root, "eth0", "1", "up", "52:54:00:00:00:0a", &[]);
        interface(root, "eth2", "1", "down", "52:54:00:00:00:03", &[]);
        interface(root, "br0", "1", "up", "52:54:00:00:00:04", &["bridge"]);
        interface(root, "vnet0", "1", "up", "52:54:00:00:00:05", &["brport"]);
        interface(root, "ib0", "32", "up", "80:00:02:08:fe:80:00:00:00:00:00:00:00:02", &[]);
        let card = |name: &str, last| Card { interface: Some(name.into()), mac: [0x52, 0x54, 0, 0, 0, last] };
        assert_eq!(cards(root), [card("eth0", 0x0a), card("eth1", 2)]);
        assert_eq!(cards(&root.join("nowhere")), []);
    }
}
