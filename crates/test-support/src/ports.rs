//! Ports for servers whose address must be known before they start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that Linux gives to outgoing connections (32768 and above), which would otherwise be taken by a client between
/// the choice of a port and the start of its server.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port on 127.0.0.1 that is free and that this process gives away once.
pub fn free_port() -> u16 {
    // Test programs that run at the same time begin at different ports.
    let begin = std::process::id().wrapping_mul(613);
    (0..COUNT)
        .map(|_| FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a port of 20,000 is free")
}
