//! Listeners: all are bound first, and only then do they accept connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;

use super::caller::{Client, DefaultMachine, ListenerPolicy, Peer};
use super::connection;
use super::limits::Activity;
use super::metrics::GaugeGuard;
use super::ports::GuestPorts;
use super::request::Endpoint;

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
    /// Names in the `Host` header that a loopback listener accepts, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// The group of a Unix socket.
    pub group: Option<String>,
    /// The permissions of a Unix socket.
    pub mode: Option<u32>,
}

impl MetadataListener {
    /// A listener with default options.
    pub fn new(address: ListenAddress) -> MetadataListener {
        MetadataListener {
            address,
            machine: None,
            network: "default".into(),
            prefix: None,
            hosts: Vec::new(),
            group: None,
            mode: None,
        }
    }
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

/// Each listener is a task and a socket.
pub const LISTENERS_MAX: usize = 4096;

/// Connections that the system queues until we accept them.
const BACKLOG: u32 = 4096;

/// The pause after a failed accept, mostly for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

pub struct BoundListener {
    socket: ListenSocket,
    policy: Arc<ListenerPolicy>,
}

/// A listener, as the management side describes it.
pub struct ListenerInfo {
    pub address: BoundAddress,
    pub machine: Option<String>,
    pub network: String,
    pub prefix: bool,
}

enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl BoundListener {
    pub fn new(listener: &MetadataListener, default: &DefaultMachine) -> anyhow::Result<BoundListener> {
        let (socket, is_local) = match &listener.address {
            ListenAddress::Tcp(address) => {
                let socket =
                    bind_tcp(*address).map_err(|error| listen_error("metadata", "--metadata", *address, &error))?;
                (ListenSocket::Tcp(socket), address.ip().is_loopback())
            }
            ListenAddress::Unix(path) => {
                let socket = bind_unix(path)?;
                set_access(path, listener.group.as_deref(), listener.mode)?;
                (ListenSocket::Unix(socket, path.clone()), true)
            }
        };
        let prefix_allowed = listener.prefix.unwrap_or(is_local && listener.machine.is_none());
        let policy = ListenerPolicy {
            machine: listener.machine.clone(),
            network: listener.network.as_str().into(),
            prefix_allowed,
            is_local,
            hosts: listener.hosts.clone(),
            default: default.clone(),
            ports: None,
        };
        Ok(BoundListener { socket, policy: Arc::new(policy) })
    }

    /// Whether guests on a bridge use this listener: not programs of this computer, and not one machine only.
    pub fn is_for_bridged_guests(&self) -> bool {
        self.policy.machine.is_none() && !self.policy.is_local
    }

    /// The same listener, with callers identified by their bridge ports.
    ///
    /// # Errors
    ///
    /// If the listener lets callers name machines: a guest could name any.
    pub fn with_ports(self, ports: &Arc<GuestPorts>) -> anyhow::Result<BoundListener> {
        if self.policy.prefix_allowed {
            let address = self.address()?;
            bail!(
                "guests of the listener {address} can name any machine: remove prefix=on, or identify guests by address"
            );
        }
        let policy = ListenerPolicy { ports: Some(ports.clone()), ..Arc::unwrap_or_clone(self.policy) };
        Ok(BoundListener { socket: self.socket, policy: Arc::new(policy) })
    }

    pub fn address(&self) -> io::Result<BoundAddress> {
        match &self.socket {
            ListenSocket::Tcp(listener) => listener.local_addr().map(BoundAddress::Tcp),
            ListenSocket::Unix(_, path) => Ok(BoundAddress::Unix(path.clone())),
        }
    }

    pub fn describe(&self) -> io::Result<ListenerInfo> {
        Ok(ListenerInfo {
            address: self.address()?,
            machine: self.policy.machine.clone(),
            network: self.policy.network.to_string(),
            prefix: self.policy.prefix_allowed,
        })
    }

    /// Accepts connections until the server stops. Connections live on in `tasks`.
    pub async fn serve(self, endpoint: Arc<Endpoint>, tasks: TaskTracker) {
        loop {
            tokio::select! {
                () = endpoint.stop.cancelled() => break,
                accepted = self.accept() => match accepted {
                    Ok((stream, peer, mark)) => self.admit(&endpoint, &tasks, stream, peer, mark),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
            }
        }
        if let ListenSocket::Unix(_, path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The next connection, its peer, and the mark that the firewall put on it.
    async fn accept(&self) -> io::Result<(Either<TcpStream, UnixStream>, Peer, u32)> {
        match &self.socket {
            ListenSocket::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                let called = stream.local_addr().ok().map(|address| address.ip());
                let mark = SockRef::from(&stream).mark().unwrap_or(0);
                Ok((Either::Left(stream), self.policy.peer(from.ip(), called), mark))
            }
            ListenSocket::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                Ok((Either::Right(stream), Peer::Socket(path.clone()), 0))
            }
        }
    }

    /// Serves a connection, unless a limit is reached. Never waits, so that no source can block a listener.
    fn admit(
        &self,
        endpoint: &Arc<Endpoint>,
        tasks: &TaskTracker,
        stream: Either<TcpStream, UnixStream>,
        peer: Peer,
        mark: u32,
    ) {
        let source = self.policy.source(&endpoint.source.peek().region, &peer, mark);
        let activity = Arc::new(Activity::default());
        let admitted = endpoint.sources.admit(source.clone(), activity.clone());
        let Ok(admission) = admitted else { return };
        let port = self.policy.ports.as_ref().and_then(|ports| ports.find(mark));
        let client = Client { policy: self.policy.clone(), peer, port: port.clone(), source, activity };
        let endpoint = endpoint.clone();
        tasks.spawn(async move {
            let _counted = GaugeGuard::new(&endpoint.state.metrics.connections);
            let served = async {
                match stream {
                    Either::Left(stream) => connection::serve(stream, endpoint.clone(), client).await,
                    Either::Right(stream) => connection::serve(stream, endpoint.clone(), client).await,
                }
            };
            match port {
                None => served.await,
                Some(port) => tokio::select! {
                    () = served => {}
                    () = port.wait_until_gone() => {}
                },
            }
            drop(admission);
        });
    }
}

/// The error for a listener that cannot be opened, with advice. `flag` sets its address.
pub fn listen_error(listener: &str, flag: &str, address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "Another program uses it: stop that program, or",
        io::ErrorKind::AddrNotAvailable => "This computer does not have that address: add it, or",
        io::ErrorKind::PermissionDenied => "Ports below 1024 need permission (CAP_NET_BIND_SERVICE): grant it, or",
        _ => "You can",
    };
    anyhow::anyhow!(
        "cannot open the {listener} listener at {address}: {error}. {advice} choose another address with {flag} ADDR; \
         port 0 selects a free port"
    )
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Binds a Unix socket. Removes the file that a killed server left behind, but not a socket in use.
fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt;
        if !found.file_type().is_socket() {
            bail!("{} exists and is not a socket. Choose another path with --metadata unix:PATH", path.display());
        }
        if StdUnixStream::connect(path).is_ok() {
            bail!(
                "another program is listening on {}. Stop it, or choose another path with --metadata unix:PATH",
                path.display()
            );
        }
        std::fs::remove_file(path).with_context(|| format!("cannot remove {} from an earlier run", path.display()))?;
    }
    UnixListener::bind(path).with_context(|| {
        format!(
            "cannot open the metadata listener at {}. Check that the directory exists and is writable",
            path.display()
        )
    })
}

/// Sets the group and the permissions of a socket, so that a hypervisor's user can connect to it.
fn set_access(path: &Path, group: Option<&str>, mode: Option<u32>) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(group) = group {
        let id = group_id(group)?;
        std::os::unix::fs::chown(path, None, Some(id))
            .with_context(|| format!("cannot give {} to the group {group}", path.display()))?;
    }
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot set the permissions of {}", path.display()))?;
    }
    Ok(())
}

/// The ID of a group, by number or by its name in /etc/group.
fn group_id(group: &str) -> anyhow::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let groups = std::fs::read_to_string("/etc/group").context("cannot read /etc/group")?;
    let mut fields = groups.lines().map(|line| line.split(':'));
    let found = fields.find_map(|mut line| (line.next() == Some(group)).then(|| line.nth(1)).flatten()?.parse().ok());
    found.with_context(|| {
        format!("there is no group '{group}' in /etc/group. Create it, or name another with group=NAME")
    })
}
