//! A server in a cluster: opens the log, forwards writes to the leader, copies snapshots, and starts what only a leader does.
//!
//! ```text
//!   follower:  request ─▶ guard ─▶ forward ──HTTP──▶ leader ─▶ engine ─▶ log
//!                                     ▲                                   │
//!                                     └── the local copy has it ◀─────────┘
//! ```
//!
//! Reads are answered from the local copy.

mod connections;
mod contact;
mod etcd;
mod forward;
mod guest_queue;
mod guests;
mod init;
mod leader;
mod leading;
mod node_report;
mod operators;
mod peer;
mod secrets;
mod sessions;
mod token;
mod transfer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use axum::Router;
use forewarn_access::Access;
use forewarn_access::tls::node_client_config;
use forewarn_api::{self as api, ConnectionUse, SessionWriter};
use forewarn_cluster::machine::Settings;
use forewarn_cluster::{EtcdLog, EtcdOptions, Key, Log, LogError, MemberList};
use forewarn_engine::{ClusterMonitor, ClusterOptions, Engine, LeaderAddress};
use forewarn_store::{Replicated, SnapshotWriter};
use http::Extensions;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config::ClusterConfig;
pub use forward::{forward, forward_form};
use guest_queue::GuestQueue;
pub use guests::{GuestAction, GuestCommand};
pub use init::{create_cluster_key, init_region};
pub use leader::{LeaderRequest, LeaderResponse};
pub use leading::supervise;
use peer::PeerClient;
pub use secrets::share_secrets;
pub use transfer::remove_left_over;

/// The longest time for which a change waits for a leader. A takeover takes about 1.5 s.
const LEADER_WAIT_MAX: Duration = Duration::from_secs(4);

/// Guests get no answer from a copy whose leader was last heard of longer ago than this: events may have started meanwhile.
const GUEST_STALE_MAX: Duration = Duration::from_secs(10);

/// How often a waiting request looks for a leader.
const LEADER_POLL: Duration = Duration::from_millis(50);

/// How often a read that needs a current copy checks whether it is current. A follower reads the log every 200 ms, and a
/// leader sends a heartbeat every 400 ms.
const COPY_POLL: Duration = Duration::from_millis(20);

/// How long a forwarded change waits until the local copy has it.
const COPY_WAIT_MAX: Duration = Duration::from_secs(5);

/// The paths that servers of a cluster use among themselves.
pub const PEER_PREFIX: &str = "/cluster/v1/";

/// This server's place in its cluster, for requests.
pub struct Cluster {
    region: String,
    node: String,
    engine: Engine,
    monitor: Arc<ClusterMonitor>,
    peers: PeerClient,
    /// A connection of its own, for operators: the writer's must not wait.
    log: Mutex<EtcdLog>,
    last_roster: ArcSwap<MemberList>,
    copier: Arc<dyn SnapshotWriter>,
    /// Held while a copy of the region is written for another server.
    copying: Arc<Semaphore>,
    sessions: SessionWriter,
    /// Commands of guests on their way to the leader.
    guests: GuestQueue,
    /// The key of the region's secrets. None: the servers require no token.
    key: Option<Arc<Key>>,
    /// The data directory. Also where copies are kept while they are sent or received.
    scratch: PathBuf,
}

/// The parts that exist before the engine does.
pub struct Preparation {
    config: ClusterConfig,
    etcd: EtcdOptions,
    copier: Arc<dyn SnapshotWriter>,
    peers: PeerClient,
    access: Arc<Access>,
    key: Option<Arc<Key>>,
    scratch: PathBuf,
}

impl Preparation {
    pub fn new(
        config: &ClusterConfig,
        store: &dyn Replicated,
        access: &Arc<Access>,
        scratch: PathBuf,
    ) -> anyhow::Result<Preparation> {
        let etcd = etcd::options(&config.address, &config.etcd)?;
        let address = peer::parse_address(&config.advertise)?;
        let is_safe = if config.key.is_some() { address.is_tls } else { address.is_loopback() };
        if !is_safe {
            bail!(
                "{} is not a safe address for other servers: use --advertise https://HOST:PORT with the address of \
                 --management-tls, or a loopback address with --no-auth",
                config.advertise
            );
        }
        let tls = config.key.is_some().then(|| node_client_config(&scratch, &config.node)).transpose()?;
        let peers = PeerClient::new(&config.node, access.clone(), tls);
        let key = config.key.as_deref().map(Key::read).transpose()?.map(Arc::new);
        let (config, access) = (config.clone(), access.clone());
        Ok(Preparation { config, etcd, copier: store.copier(), peers, access, key, scratch })
    }

    fn open_log(&self) -> anyhow::Result<EtcdLog> {
        EtcdLog::new(self.etcd.clone()).context("cannot start the connection to etcd")
    }

    pub fn engine_options(&self) -> anyhow::Result<ClusterOptions> {
        let transfer =
            transfer::Transfer::new(self.open_log()?, self.peers.clone(), &self.config.node, self.scratch.clone());
        Ok(ClusterOptions {
            node: self.config.node.clone(),
            address: self.config.advertise.trim_end_matches('/').to_owned(),
            settings: Settings::default(),
            log: Box::new(self.open_log()?),
            transfer: transfer.into_closure(),
            key: self.key.clone(),
        })
    }

    pub fn finish(self, engine: &Engine) -> anyhow::Result<Arc<Cluster>> {
        let monitor = engine.cluster().context("the engine is not in a cluster")?.clone();
        let log = Mutex::new(self.open_log()?);
        Ok(Arc::new(Cluster {
            region: self.etcd.region,
            peers: self.peers,
            node: self.config.node,
            engine: engine.clone(),
            monitor,
            log,
            last_roster: ArcSwap::default(),
            copier: self.copier,
            copying: Arc::new(Semaphore::new(1)),
            key: self.key,
            guests: GuestQueue::default(),
            sessions: SessionWriter::new(engine.clone(), self.access),
            scratch: self.scratch,
        }))
    }
}

impl Cluster {
    /// Whether the local copy is too old to answer guests.
    pub fn is_stale(&self) -> bool {
        self.monitor.heartbeat_age().is_none_or(|age| age > GUEST_STALE_MAX)
    }

    /// Whether a request comes from another server of the region: one with a certificate, or any on a host without
    /// authentication.
    fn is_from_node(&self, extensions: &Extensions) -> bool {
        self.key.is_none() || extensions.get::<ConnectionUse>().is_some_and(|connection| connection.is_node)
    }

    /// The leader, if it is another server.
    fn other_leader(&self) -> Option<LeaderAddress> {
        self.monitor.status().leader.clone().filter(|leader| leader.node != self.node)
    }

    /// Waits until this server leads or knows who does. None: there is no leader.
    async fn find_leader(&self, until: Instant) -> Option<LeaderLocation> {
        loop {
            if self.engine.accepts_commands() {
                return Some(LeaderLocation::Here);
            }
            if let Some(leader) = self.other_leader() {
                return Some(LeaderLocation::At(leader));
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(LEADER_POLL).await;
        }
    }

    /// Waits until a server other than this leader leads.
    async fn wait_until_deposed(&self, leader: &str) {
        let mut changes = self.monitor.changes();
        let is_deposed = || self.monitor.status().leader.as_ref().is_some_and(|current| current.node != leader);
        while !is_deposed() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits until the local copy has everything that was committed before this call. Returns false if the time runs out first.
    pub async fn catch_up(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let waited = begun.elapsed();
            if self.monitor.current_age().is_some_and(|age| age < waited) {
                return true;
            }
            if waited >= limit {
                return false;
            }
            tokio::time::sleep(COPY_POLL).await;
        }
    }

    /// Waits until the local copy has this revision, so that the caller reads what it has written.
    pub async fn wait_for_copy(&self, revision: u64) {
        let mut revisions = self.engine.subscribe();
        let has_it = revisions.wait_for(|newest| *newest >= revision);
        if tokio::time::timeout(COPY_WAIT_MAX, has_it).await.is_err() {
            tracing::warn!(revision, "timed out waiting for a forwarded change in the local copy");
        }
    }

    /// Uses the log on a thread that may block.
    async fn with_log<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut dyn Log) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let cluster = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut *cluster.lock_log())).await;
        done.unwrap_or_else(|_| Err(LogError::Unavailable("the request was interrupted".into())))
    }

    fn lock_log(&self) -> MutexGuard<'_, EtcdLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum LeaderLocation {
    Here,
    At(LeaderAddress),
}

/// The routes of servers and operators.
pub fn routes(cluster: &Arc<Cluster>) -> Router<api::Service> {
    let peers = guests::routes().merge(node_report::routes()).merge(sessions::routes()).merge(transfer::routes());
    operators::routes().merge(peers).with_state(cluster.clone())
}
