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

use crate::retry::Jitter;

/// How to ask. The default asks the whole link from port 68.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Where to ask from.
    pub from: SocketAddr,
    /// Whom to ask.
    pub to: SocketAddr,
    /// The hardware address of the interface; that of the first Ethernet interface that is up when
    /// it is `None`.
    pub mac: Option<[u8; 6]>,
    /// How long to wait for an offer, each time.
    pub timeout: Duration,
    /// How often to ask.
    pub attempts: u32,
}

impl Default for Asking {
    fn default() -> Asking {
        Asking {
            from: (Ipv4Addr::UNSPECIFIED, 68).into(),
            to: (Ipv4Addr::BROADCAST, 67).into(),
            mac: None,
            timeout: Duration::from_secs(10),
            attempts: 3,
        }
    }
}

impl Asking {
    /// The address in option 245 of the first offer that has one.
    pub(super) fn ask(&self) -> io::Result<Ipv4Addr> {
        let mac = match self.mac {
            Some(mac) => mac,
            None => first_mac(Path::new("/sys/class/net"))
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no Ethernet interface that is up"))?,
        };
        let socket = UdpSocket::bind(self.from)?;
        socket.set_broadcast(true)?;
        let mut jitter = Jitter::random();
        for _ in 0..self.attempts {
            let transaction = (jitter.draw() * f64::from(u32::MAX)) as u32;
            socket.send_to(&discover(transaction, mac), self.to)?;
            if let Some(address) = self.offer(&socket, transaction, mac)? {
                return Ok(address);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no DHCP server offered option 245"))
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

/// By name, so that it is always the same one.
fn first_mac(interfaces: &Path) -> Option<[u8; 6]> {
    let mut paths: Vec<_> = std::fs::read_dir(interfaces).ok()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().find_map(|path| {
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        // 1 is Ethernet; loopback is 772.
        let is_usable = read("type").trim() == "1" && read("operstate").trim() != "down";
        let mac = read("address");
        let bytes: Option<Vec<u8>> = mac.trim().split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
        bytes.filter(|_| is_usable)?.try_into().ok()
    })
}
