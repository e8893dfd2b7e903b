//! `serve --link-local`: adds the metadata address to the loopback interface while the server runs.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::METADATA;

/// Timeout of the probe; a metadata service answers from this host or its hypervisor.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Removes the address when dropped.
pub struct LinkLocal(());

impl LinkLocal {
    /// Fails if the address is in use: on a cloud VM it belongs to the cloud.
    pub fn add() -> Result<LinkLocal, String> {
        if is_address_used() {
            return Err(format!(
                "{METADATA} is already in use, so --link-local does not add it: this host may be a cloud VM or run another server; \
                 if a killed server left the address behind, run `ip address del {METADATA}/32 dev lo`"
            ));
        }
        add().map(|()| LinkLocal(())).map_err(|error| describe_error(&error))
    }
}

impl Drop for LinkLocal {
    fn drop(&mut self) {
        if let Err(error) = remove() {
            tracing::warn!(%error, "cannot remove {METADATA} from lo");
        }
    }
}

/// An address that refuses connections is in use, too.
fn is_address_used() -> bool {
    match TcpStream::connect_timeout(&SocketAddr::from((METADATA, 80)), PROBE_MAX) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset),
    }
}

fn describe_error(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root (CAP_NET_ADMIN), or use `forewarn run`, which does not need root"
        }
        io::ErrorKind::AlreadyExists => "remove it first with `ip address del 169.254.169.254/32 dev lo`",
        _ => "see docs/run.md for alternatives to --link-local",
    };
    format!("cannot add {METADATA} to lo: {error}; {advice}")
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
