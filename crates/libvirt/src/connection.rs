//! A connection to libvirtd: opens it, makes calls, and keeps it alive.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::event::Events;
use crate::packet;
use crate::procedure::Procedure;
use crate::shared::{EVENTS_MAX, OUTGOING_MAX, Shared};
use crate::tasks::Tasks;
use crate::xdr::{Decoder, Encoder, XdrResult};

/// The socket of libvirtd on a host, for users who may change something.
pub const SYSTEM_SOCKET: &str = "/run/libvirt/libvirt-sock";

/// Default time limit of a call. libvirt itself waits 30 s for another job on the same domain.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A libvirtd and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// The driver, such as `qemu:///system`.
    pub uri: String,
    /// Time limit of calls other than [`Connection::migrate`].
    pub call_timeout: Duration,
    /// Detects a libvirtd that hangs. None leaves that to the time limits.
    pub keepalive: Option<Keepalive>,
}

/// How a silent connection is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time of silence after which a ping is sent.
    pub interval: Duration,
    /// Pings without an answer after which the connection is closed.
    pub count: u32,
}

impl Default for Keepalive {
    /// The values of libvirt: a ping after 5 s, closed after 30 s.
    fn default() -> Keepalive {
        Keepalive { interval: Duration::from_secs(5), count: 5 }
    }
}

impl Target {
    /// The QEMU driver of the libvirtd with this socket.
    pub fn qemu(socket: impl Into<PathBuf>) -> Target {
        Target::new(socket, "qemu:///system")
    }

    /// Another driver, with default settings.
    pub fn new(socket: impl Into<PathBuf>, uri: impl Into<String>) -> Target {
        Target {
            socket: socket.into(),
            uri: uri.into(),
            call_timeout: CALL_TIMEOUT,
            keepalive: Some(Keepalive::default()),
        }
    }

    /// Opens a connection. Events of all registrations arrive through [`Events`]; drop it if none are wanted.
    ///
    /// # Errors
    ///
    /// If the socket cannot be opened, libvirtd requires authentication that a Unix socket cannot carry, or libvirt
    /// refuses the URI.
    pub async fn connect(&self) -> Result<(Connection, Events)> {
        let stream = open_socket(&self.socket).await?;
        let (connection, events) = Connection::from_stream(stream, self.call_timeout);
        connection.authenticate().await?;
        let arguments = Encoder::new().optional_string(Some(&self.uri)).u32(0);
        connection.call_empty(Procedure::ConnectOpen, arguments).await?;
        if let Some(keepalive) = self.keepalive
            && connection.supports_feature(FEATURE_KEEPALIVE).await?
        {
            connection.tasks.push(tokio::spawn(keep_alive(connection.shared.clone(), keepalive)));
        }
        Ok((connection, events))
    }
}

async fn open_socket(socket: &Path) -> Result<UnixStream> {
    UnixStream::connect(socket).await.map_err(|source| Error::Connect { socket: socket.to_owned(), source })
}

/// Asking for this feature makes libvirtd send pings, and answer ours.
const FEATURE_KEEPALIVE: i32 = 10;

/// Kinds of authentication, as libvirtd lists them.
const AUTH_NONE: i32 = 0;
const AUTH_POLKIT: i32 = 2;
const AUTH_TYPES_MAX: usize = 20;

/// An open connection. Clones share it; it ends when the last clone and its [`Events`] are dropped.
///
/// Calls can be made from several tasks at once. libvirtd works on five of them at a time, so use a connection of its
/// own for calls that last long.
#[derive(Clone)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
    tasks: Arc<Tasks>,
    call_timeout: Duration,
}

impl Connection {
    fn from_stream(stream: UnixStream, call_timeout: Duration) -> (Connection, Events) {
        let (reader, writer) = stream.into_split();
        let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let shared = Arc::new(Shared::new(outgoing, sender));
        let tasks = Arc::new(Tasks::default());
        tasks.push(tokio::spawn(read_messages(shared.clone(), reader)));
        tasks.push(tokio::spawn(write_messages(shared.clone(), writer, messages)));
        let events = Events::new(receiver, tasks.clone());
        (Connection { shared, tasks, call_timeout }, events)
    }

    async fn authenticate(&self) -> Result<()> {
        let read = |decoder: &mut Decoder<'_>| decoder.list(AUTH_TYPES_MAX, Decoder::i32);
        let kinds = self.call(Procedure::AuthList, Encoder::new(), read).await?;
        if kinds.is_empty() || kinds.contains(&AUTH_NONE) {
            return Ok(());
        }
        if kinds.contains(&AUTH_POLKIT) {
            return self.call(Procedure::AuthPolkit, Encoder::new(), |decoder| decoder.i32()).await.map(drop);
        }
        Err(Error::Authentication("SASL".into()))
    }

    pub(crate) async fn supports_feature(&self, feature: i32) -> Result<bool> {
        let arguments = Encoder::new().i32(feature);
        Ok(self.call(Procedure::ConnectSupportsFeature, arguments, |decoder| decoder.i32()).await? != 0)
    }

    /// Says goodbye and ends the connection, also for its clones. Dropping all clones ends it too.
    ///
    /// # Errors
    ///
    /// If libvirtd did not confirm. The connection is closed nevertheless.
    pub async fn close(self) -> Result<()> {
        let result = self.call_empty(Procedure::ConnectClose, Encoder::new()).await;
        self.shared.close("closed by this program");
        result
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn closed(&self) -> String {
        self.shared.closed().await
    }

    /// Makes a call and reads its answer.
    pub(crate) async fn call<T>(
        &self,
        procedure: Procedure,
        arguments: Encoder,
        read: impl FnOnce(&mut Decoder<'_>) -> XdrResult<T>,
    ) -> Result<T> {
        let name = procedure.name();
        match tokio::time::timeout(self.call_timeout, self.call_unlimited(procedure, arguments, read)).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { procedure: name, after: self.call_timeout }),
        }
    }

    /// Makes a call without a time limit.
    pub(crate) async fn call_unlimited<T>(
        &self,
        procedure: Procedure,
        arguments: Encoder,
        read: impl FnOnce(&mut Decoder<'_>) -> XdrResult<T>,
    ) -> Result<T> {
        let (serial, answer) = self.shared.send(procedure.number(), &arguments.finish()).await?;
        let _waiting = Waiting { shared: &self.shared, serial };
        let payload = answer.await.unwrap_or_else(|_| Err(self.shared.disconnected()))?;
        let mut decoder = Decoder::new(&payload);
        let value = read(&mut decoder).and_then(|value| decoder.end().map(|()| value));
        value.map_err(|source| Error::Malformed { procedure: procedure.name(), source })
    }

    /// Makes a call whose answer is empty.
    pub(crate) async fn call_empty(&self, procedure: Procedure, arguments: Encoder) -> Result<()> {
        self.call(procedure, arguments, |_| Ok(())).await
    }
}

/// A call in progress. Dropped when the answer has arrived, and when the caller gives up.
struct Waiting<'s> {
    shared: &'s Shared,
    serial: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.forget(self.serial);
    }
}

async fn read_messages(shared: Arc<Shared>, reader: OwnedReadHalf) {
    let mut reader = tokio::io::BufReader::new(reader);
    loop {
        match packet::read(&mut reader).await {
            Ok(Some(message)) => shared.receive(message),
            Ok(None) => return shared.close("libvirtd closed it"),
            Err(reason) => return shared.close(&reason),
        }
    }
}

async fn write_messages(shared: Arc<Shared>, mut writer: OwnedWriteHalf, mut messages: mpsc::Receiver<Vec<u8>>) {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            _ = shared.closed() => return,
        };
        let Some(message) = message else { return };
        if let Err(error) = writer.write_all(&message).await {
            return shared.close(&error.to_string());
        }
    }
}

/// Sends pings after a time of silence, and closes the connection when none is answered.
async fn keep_alive(shared: Arc<Shared>, keepalive: Keepalive) {
    let mut unanswered = 0;
    let mut pinged = Instant::now();
    loop {
        let heard = shared.last_heard();
        if heard > pinged {
            unanswered = 0;
        }
        let quiet_until = heard.max(pinged) + keepalive.interval;
        if quiet_until > Instant::now() {
            tokio::time::sleep_until(quiet_until).await;
            continue;
        }
        if unanswered >= keepalive.count {
            return shared.close("libvirtd does not answer keepalive messages");
        }
        unanswered += 1;
        pinged = Instant::now();
        shared.send_keepalive(packet::PING);
    }
}
