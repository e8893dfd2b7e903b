//! `serve --link-local`: the metadata address on this computer's loopback interface, as long as the server runs.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::METADATA;
use crate::failure::Failure;

/// Who is there answers at once: it is on this computer or its host.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Takes the address away again when it is dropped.
pub struct LinkLocal(());

impl LinkLocal {
    /// Refused when somebody has the address: on a machine of a cloud, that is the cloud.
    pub fn add() -> Result<LinkLocal, Failure> {
        if is_taken() {
            return Err(Failure::Refused(format!(
                "Somebody answers at {METADATA} already, so --link-local leaves that address alone. Is this a machine of a cloud, \
                 or does another server run? If a killed one left it behind: `ip address del {METADATA}/32 dev lo`."
            )));
        }
        add().map(|()| LinkLocal(())).map_err(|error| Failure::Refused(refusal(&error)))
    }
}

impl Drop for LinkLocal {
    fn drop(&mut self) {
        if let Err(error) = remove() {
            tracing::warn!(%error, "{METADATA} could not be taken away from lo");
        }
    }
}

/// An address that refuses a connection belongs to somebody too.
fn is_taken() -> bool {
    match TcpStream::connect_timeout(&SocketAddr::from((METADATA, 80)), PROBE_MAX) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset),
    }
}

fn refusal(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "That needs root (CAP_NET_ADMIN); `forewarn run` needs none.",
        io::ErrorKind::AlreadyExists => "Take it away first: `ip address del 169.254.169.254/32 dev lo`.",
        _ => "Leave out --link-local, and see docs/run.md for other ways.",
    };
    format!("{METADATA} cannot be given to lo: {error}. {advice}")
}

#[cfg(target_os = "linux")]
fn add() -> io::Result<()> {
    super::netlink::add_to_loopback(METADATA)
}

#[cfg(target_os = "linux")]
fn remove() -> io::Result<()> {
    super::netlink::remove_from_loopback(METADATA)
}

#[cfg(not(target_os = "linux"))]
fn add() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn remove() -> io::Result<()> {
    Ok(())
}
