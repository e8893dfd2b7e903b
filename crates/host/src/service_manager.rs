//! Messages to systemd: ready, alive, stopping. Without systemd, nothing happens.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

pub struct ServiceManager {
    address: Option<SocketAddr>,
    /// How often to say that the program is alive.
    pub alive_every: Option<Duration>,
}

impl ServiceManager {
    /// The manager that started this program, if it wants messages.
    pub fn from_environment() -> ServiceManager {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let usec = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        ServiceManager {
            address: socket.as_deref().and_then(parse_address),
            // Half of the limit, as systemd recommends.
            alive_every: usec.map(|usec: u64| Duration::from_micros(usec / 2)).filter(|every| !every.is_zero()),
        }
    }

    pub fn notify(&self, message: &str) {
        let Some(address) = &self.address else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(message.as_bytes(), address));
        if let Err(error) = sent {
            tracing::debug!(%error, "cannot notify the service manager");
        }
    }
}

/// A path, or an abstract name that starts with `@`.
fn parse_address(socket: &OsStr) -> Option<SocketAddr> {
    let address: io::Result<SocketAddr> = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => return None,
    };
    address.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager { address: parse_address(path.as_os_str()), alive_every: None };
        manager.notify("READY=1");
        let mut buffer = [0; 16];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        assert!(parse_address(OsStr::new("relative")).is_none());
        assert!(parse_address(OsStr::new("@abstract")).is_some());
    }
}
