//! Listeners: bound first, all of them, and only then asked to accept.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;

use super::caller::{DefaultMachine, Door, Peer};
use super::connection;
use super::metrics::GaugeGuard;
use super::service::Shared;

/// A listener to open.
#[derive(Clone, Debug)]
pub struct MetadataListener {
    pub address: ListenAddress,
    /// Every caller is this machine (a name as in `/vm/…`).
    pub machine: Option<String>,
    /// Source addresses are looked up on this network.
    pub network: String,
    /// Whether `/vm/{name}/…` is allowed; None: only on loopback.
    pub prefix: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The address that a listener was bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundAddress::Tcp(address) => write!(f, "{address}"),
            BoundAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Connections of all metadata listeners together. At each listener one more waits until one closes.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Listeners: each is a task and a socket.
pub const LISTENERS_MAX: usize = 4096;

/// Connections that the system keeps for us until we accept them.
const BACKLOG: u32 = 4096;

/// How long to wait when accepting fails: mostly a lack of file descriptors, which takes time to cure.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

pub struct Bound {
    socket: Socket,
    door: Arc<Door>,
}

/// A listener as seen from outside.
pub struct DoorFacts {
    pub address: BoundAddress,
    pub machine: Option<String>,
    pub network: String,
    pub prefix: bool,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Bound {
    pub fn new(listener: &MetadataListener, default: &DefaultMachine) -> anyhow::Result<Bound> {
        let (socket, is_local) = match &listener.address {
            ListenAddress::Tcp(address) => {
                let socket =
                    bind_tcp(*address).map_err(|error| cannot_open("metadata", "--metadata", *address, &error))?;
                (Socket::Tcp(socket), address.ip().is_loopback())
            }
            ListenAddress::Unix(path) => (Socket::Unix(bind_unix(path)?, path.clone()), true),
        };
        let prefix_allowed = listener.prefix.unwrap_or(is_local && listener.machine.is_none());
        let door = Door {
            machine: listener.machine.clone(),
            network: listener.network.as_str().into(),
            prefix_allowed,
            default: default.clone(),
        };
        Ok(Bound { socket, door: Arc::new(door) })
    }

    pub fn address(&self) -> io::Result<BoundAddress> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(BoundAddress::Tcp),
            Socket::Unix(_, path) => Ok(BoundAddress::Unix(path.clone())),
        }
    }

    /// What the management side tells of it.
    pub fn describe(&self) -> io::Result<DoorFacts> {
        Ok(DoorFacts {
            address: self.address()?,
            machine: self.door.machine.clone(),
            network: self.door.network.to_string(),
            prefix: self.door.prefix_allowed,
        })
    }

    /// Accepts until stopped. Connections live on in `tasks`.
    pub async fn serve(self, shared: Arc<Shared>, room: Arc<Semaphore>, tasks: TaskTracker) {
        loop {
            tokio::select! {
                () = shared.stop.cancelled() => break,
                () = self.accept(&shared, &room, &tasks) => {}
            }
        }
        if let Socket::Unix(_, path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }

    async fn accept(&self, shared: &Arc<Shared>, room: &Arc<Semaphore>, tasks: &TaskTracker) {
        let accepted = match &self.socket {
            Socket::Tcp(listener) => listener.accept().await.map(|(stream, from)| {
                let _ = stream.set_nodelay(true);
                let called = stream.local_addr().ok().map(|address| address.ip());
                (Either::Left(stream), self.door.peer(from.ip(), called))
            }),
            Socket::Unix(listener, _) => {
                listener.accept().await.map(|(stream, _)| (Either::Right(stream), Peer::Local))
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                let Ok(place) = room.clone().acquire_owned().await else { return };
                let (shared, door) = (shared.clone(), self.door.clone());
                tasks.spawn(async move {
                    let _counted = GaugeGuard::new(&shared.state.metrics.connections);
                    match stream {
                        Either::Left(stream) => connection::serve(stream, shared.clone(), door, peer).await,
                        Either::Right(stream) => connection::serve(stream, shared.clone(), door, peer).await,
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Why a listener cannot be opened, and what helps. `flag` is the one that says where it is.
pub fn cannot_open(what: &str, flag: &str, address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "Another program has it: end that, or",
        io::ErrorKind::AddrNotAvailable => "This machine does not have that address: give it one, or",
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024 need the right to open them (CAP_NET_BIND_SERVICE): grant it, or"
        }
        _ => "You may",
    };
    anyhow::anyhow!(
        "The {what} listener cannot be opened at {address} ({error}). {advice} choose another address with {flag} \
         ADDR; port 0 is any that is free."
    )
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A server that was killed leaves its socket's file behind: one that nobody listens at is removed.
fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt;
        if !found.file_type().is_socket() {
            bail!("{} is there and is not a socket. Choose another path with --metadata unix:PATH.", path.display());
        }
        if StdUnixStream::connect(path).is_ok() {
            bail!(
                "Another program listens at {}. End it, or choose another path with --metadata unix:PATH.",
                path.display()
            );
        }
        std::fs::remove_file(path)
            .with_context(|| format!("{} is left from an earlier run and cannot be removed", path.display()))?;
    }
    UnixListener::bind(path).with_context(|| {
        format!(
            "The metadata listener cannot be opened at {}. Is the directory there, and may it be written?",
            path.display()
        )
    })
}
