//! The link to a server: one HTTP/2 connection over mutual TLS.
//!
//! ```text
//!  connect ─▶ open the stream ─▶ copy ─▶ disk ─▶ visible ─▶ heartbeat with its revision
//!     ▲                           └── changes, orders ──┐         └─ every few seconds, and after each change
//!     └── next server ◀── the stream ends, heartbeats fail ◀─┘
//! ```
//!
//! While the servers of a cluster have no leader, the stream stays open, but there is no contact: guests see the age of the copy,
//! and no order begins.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::{Bytes, BytesMut};
use forewarn_access::random_guid;
use forewarn_access::tls::now;
use forewarn_api_types::host_link::{
    HeartbeatResponse, HostHeartbeat, LinkRefusal, OpenStream, SeenMachines, StreamLine, USER_AGENT_PREFIX, paths,
};
use forewarn_core::Timestamp;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::de::IgnoredAny;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::config::Timing;
use crate::copy::Copy;
use crate::copy_file::CopyFile;
use crate::enroll::Identity;
use crate::orders::ServerOrderBook;
use crate::servers::Servers;
use crate::status::Status;
use crate::upstream::{Connection, Upstream, UpstreamError, post, read, refusal, url};

/// A whole copy is one line: hundreds of machines with a few kilobytes each.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The pause before a heartbeat that no leader could take is sent again.
const BEAT_RETRY: Duration = Duration::from_millis(200);

/// A server without a leader for this long is left for another one. A takeover takes about 1.5 s.
const LEADERLESS_MAX: Duration = Duration::from_secs(6);

const EXPIRED: &str = "the certificate of this host has expired; join again with a new token";

pub struct Link {
    pub status: Arc<Status>,
    pub upstream: Arc<Upstream>,
    pub file: Arc<CopyFile>,
    pub plain_names: bool,
    pub timing: Timing,
    /// The identity, which changes when the certificate is renewed.
    pub identity: watch::Receiver<Arc<Identity>>,
    pub servers: Servers,
    /// Takes the orders of the host, whenever the server sends them.
    pub book: Arc<ServerOrderBook>,
}

impl Link {
    /// Keeps the link up until the agent stops.
    pub async fn run(self, stop: CancellationToken) {
        let instance = random_guid().to_string();
        let mut pause = PAUSE_MIN;
        // Each reason is logged once until there is contact again.
        let mut known = HashSet::new();
        let mut first = self.servers.current();
        loop {
            let contacts = self.status.contacts();
            let Some(ended) = stop.run_until_cancelled(self.hold(&instance)).await else { return self.disconnect() };
            if self.status.contacts() > contacts {
                pause = PAUSE_MIN;
                known.clear();
                first = self.servers.current();
            }
            self.disconnect();
            let reason = match ended {
                Ok(Ended::Renewed) => continue,
                Ok(Ended::Closed) => "the server closed the stream".to_owned(),
                // The alert of TLS does not say what to do.
                Err(_) if self.identity.borrow().has_expired(now()) => EXPIRED.to_owned(),
                Err(error) => format!("{error:#}"),
            };
            self.status.set_problem(reason.clone());
            if known.insert(reason.clone()) {
                tracing::warn!(host = %self.status.host, %reason, "no contact with the server");
            }
            if !self.servers.advance(&first) {
                continue;
            }
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX.min(self.timing.pause_max));
        }
    }

    fn disconnect(&self) {
        self.upstream.set(None);
        self.book.clear();
        self.status.set_connected(false);
    }

    /// One connection, from its beginning to its end.
    async fn hold(&self, instance: &str) -> anyhow::Result<Ended> {
        let identity = self.identity.borrow().clone();
        let server = self.servers.current();
        let connection = timeout(CONNECT_TIMEOUT, connect(&identity, &server)).await;
        let connection = connection.map_err(|_| anyhow!("{server} does not answer"))??;
        let mut lines = self.open_stream(connection.clone(), instance).await?;
        let first = lines.next().await?.context("the server sent no copy")?;
        self.apply(first).await?;
        self.upstream.set(Some(connection.clone()));
        self.status.set_connected(true);
        tracing::info!(host = %self.status.host, %server, revision = self.status.copy().revision(), "connected");
        let mut renewed = self.identity.clone();
        renewed.mark_unchanged();
        tokio::select! {
            ended = self.follow(&mut lines) => ended.map(|()| Ended::Closed),
            ended = self.send_heartbeats(connection.clone(), instance) => ended.map(|()| Ended::Closed),
            ended = self.report_seen(connection) => ended.map(|()| Ended::Closed),
            _ = renewed.changed() => Ok(Ended::Renewed),
        }
    }

    async fn open_stream(&self, mut connection: Connection, instance: &str) -> anyhow::Result<Lines> {
        let open = OpenStream {
            instance: instance.to_owned(),
            revision: self.status.copy().revision(),
            plain_names: self.plain_names,
        };
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("instance", &open.instance)
            .append_pair("revision", &open.revision.to_string())
            .append_pair("plain_names", &open.plain_names.to_string())
            .finish();
        let request = Request::get(url(&format!("{}?{query}", paths::STREAM)))
            .header(header::USER_AGENT, format!("{USER_AGENT_PREFIX}{}", env!("CARGO_PKG_VERSION")))
            .body(Full::default())?;
        let response = timeout(CONNECT_TIMEOUT, connection.send_request(request)).await??;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let body = read(body).await.unwrap_or_default();
            bail!("{}", refusal(head.status, &body));
        }
        Ok(Lines { body, buffer: BytesMut::new() })
    }

    async fn follow(&self, lines: &mut Lines) -> anyhow::Result<()> {
        while let Some(line) = lines.next().await? {
            self.apply(line).await?;
        }
        Ok(())
    }

    /// Makes a line durable, then visible.
    async fn apply(&self, line: StreamLine) -> anyhow::Result<()> {
        let current = self.status.copy();
        if let Some(copy) = current.apply(&line)? {
            self.store(copy.clone()).await.context("cannot store the copy")?;
            self.status.publish(copy);
            return Ok(());
        }
        match line {
            StreamLine::Unchanged { revision } => self.status.advance(current.at_revision(revision)?),
            StreamLine::Orders { orders, epoch } => self.book.replace(&orders, epoch),
            StreamLine::Copy { .. } | StreamLine::Change { .. } => {}
        }
        Ok(())
    }

    async fn store(&self, copy: Copy) -> anyhow::Result<()> {
        let (file, host, turn) = (self.file.clone(), self.status.host.clone(), self.file.take_turn());
        tokio::task::spawn_blocking(move || file.write(turn, &host, &copy)).await??;
        Ok(())
    }

    /// Sends heartbeats until one fails: after each change of the copy, and regularly.
    async fn send_heartbeats(&self, connection: Connection, instance: &str) -> anyhow::Result<()> {
        let mut leaderless: Option<Instant> = None;
        loop {
            let heartbeat = HostHeartbeat { instance: instance.to_owned(), revision: self.status.copy().revision() };
            match post::<HeartbeatResponse>(connection.clone(), paths::HEARTBEAT, &heartbeat).await {
                Ok(HeartbeatResponse { now_ms, servers }) => {
                    self.status.record_contact(Timestamp(now_ms));
                    if self.status.contacts() == 1 {
                        // Its clock is known from now on.
                        self.book.wake();
                    }
                    self.servers.learn(&servers);
                    if leaderless.take().is_some() {
                        self.status.set_connected(true);
                        self.book.wake();
                    }
                }
                Err(UpstreamError::Refused(refusal @ (LinkRefusal::NoLeader | LinkRefusal::OutcomeUnknown)))
                    if leaderless.is_none_or(|since| since.elapsed() < LEADERLESS_MAX) =>
                {
                    leaderless.get_or_insert_with(Instant::now);
                    self.status.set_connected(false);
                    self.status.set_problem(refusal.to_string());
                    sleep(BEAT_RETRY).await;
                    continue;
                }
                Err(error) => bail!("a heartbeat failed: {error}"),
            }
            if let Err(error) = self.file.touch() {
                tracing::warn!(%error, "cannot record the time of the last contact");
            }
            tokio::select! {
                () = self.status.heartbeat.notified() => {}
                () = sleep(self.timing.heartbeat) => {}
            }
        }
    }

    /// Reports the machines that have asked for their documents, in batches.
    async fn report_seen(&self, connection: Connection) -> anyhow::Result<()> {
        loop {
            sleep(self.timing.seen).await;
            let machines = self.status.take_seen();
            if machines.is_empty() {
                continue;
            }
            let body = SeenMachines { machines: machines.iter().map(|id| id.0).collect() };
            let sent = post::<IgnoredAny>(connection.clone(), paths::SEEN, &body).await;
            let Err(error) = sent else { continue };
            // They are part of the next report.
            machines.into_iter().for_each(|machine| self.status.note_seen(machine));
            match error {
                UpstreamError::Unreachable => bail!("a report failed: {error}"),
                UpstreamError::Unexpected(_) | UpstreamError::Refused(_) => {
                    tracing::debug!(%error, "cannot report the machines that were seen; retrying");
                }
            }
        }
    }
}

/// How a connection ended that did not fail.
enum Ended {
    /// The server closed the stream.
    Closed,
    /// The next connection uses the new certificate.
    Renewed,
}

/// Connects with mutual TLS: the server must have a certificate of the hosts' authority, and wants one from us.
async fn connect(identity: &Identity, server: &str) -> anyhow::Result<Connection> {
    let mut last = None;
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(server).await.with_context(|| format!("cannot find the server {server}"))?.collect();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return secure(stream, identity, server).await,
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
    bail!("cannot connect to {server}: {reason}")
}

async fn secure(stream: TcpStream, identity: &Identity, server: &str) -> anyhow::Result<Connection> {
    stream.set_nodelay(true)?;
    let (config, name) = identity.client_config()?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.with_context(|| format!("the TLS handshake with {server} failed"))?;
    let (connection, driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .handshake(TokioIo::new(stream))
        .await
        .with_context(|| {
            format!(
                "{server} refused the connection. The certificate of this host may have been revoked; if so, join again"
            )
        })?;
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(%error, "the connection to the server ended");
        }
    });
    Ok(connection)
}

/// The lines of a stream.
struct Lines {
    body: Incoming,
    buffer: BytesMut,
}

impl Lines {
    /// The next line; None at the end of the stream.
    async fn next(&mut self) -> anyhow::Result<Option<StreamLine>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(Some(serde_json::from_slice(&line).context("the server sent an unknown message")?));
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                bail!("the server sent a message of more than {LINE_BYTES_MAX} bytes");
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let data: Bytes = frame.context("the stream was interrupted")?.into_data().unwrap_or_default();
                    self.buffer.extend_from_slice(&data);
                }
            }
        }
    }
}
