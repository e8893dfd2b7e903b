//! Starts the agent, and stops it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forewarn_access::{SignIn, TokenIssuer, random_guid};
use forewarn_core::Name;
use forewarn_drivers::{MachineFollower, OrderRunner};
use forewarn_metadata::{
    self as metadata, BoundAddress, BoundListener, CONNECTIONS_PER_SOURCE_DEFAULT, DefaultMachine, EndpointState,
    HELD_PER_SOURCE_DEFAULT, Limits,
};
use forewarn_wire::document::NameStyle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::HostConfig;
use crate::copy::Copy;
use crate::copy_file::{CopyFile, StoredCopy};
use crate::domains::DomainReporter;
use crate::enroll::Identity;
use crate::health::{self, Health};
use crate::host_driver::OpenDriver;
use crate::link::Link;
use crate::local_source::LocalSource;
use crate::orders::{DepartureDriver, ServerOrderBook};
use crate::renew::Renewer;
use crate::servers::Servers;
use crate::status::Status;
use crate::upstream::Upstream;

/// How long connections can take to finish when the agent stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// A running agent.
pub struct RunningAgent {
    /// The metadata listeners, in the order of the configuration.
    pub metadata: Vec<BoundAddress>,
    /// The listener for health checks and metrics.
    pub health: Option<SocketAddr>,
    pub endpoint: Arc<EndpointState>,
    pub status: Arc<Status>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Starts an agent on the current runtime, from its last copy if it has one. It connects to a server in the background.
///
/// `driver`: the driver of its machines; none if another program drives them.
pub async fn start(config: HostConfig, driver: OpenDriver) -> anyhow::Result<RunningAgent> {
    let identity = Arc::new(Identity::read(&config.data)?);
    let host = Name::from(identity.host.as_str());
    let file = Arc::new(CopyFile::in_directory(&config.data));
    let StoredCopy { copy, age } = read_copy(&file, &host);
    let status = Arc::new(Status::new(host, copy, age));
    let upstream = Arc::new(Upstream::default());
    let endpoint = Arc::new(EndpointState::new(config.rate_limit).with_preview(config.preview_version));
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());

    let listeners = bind(&config)?;
    let metadata = listeners.iter().map(BoundListener::address).collect::<io::Result<_>>()?;
    let source = Arc::new(LocalSource::new(status.clone(), upstream.clone()));
    let listeners = match config.taps.clone() {
        Some(settings) => forewarn_taps::start(settings, listeners, &stop, &tasks).await?,
        None => listeners,
    };
    metadata::serve(listeners, source, endpoint.clone(), options(&config), stop.clone(), &tasks);

    let health = match config.health {
        Some(address) => Some(health::bind(address).await?),
        None => None,
    };
    let health_address = health.as_ref().map(|listener| listener.local_addr()).transpose()?;
    if let Some(listener) = health {
        let health = Arc::new(Health::new(status.clone(), &endpoint));
        tasks.spawn(health::serve(listener, health, stop.clone()));
    }

    let book = Arc::new(ServerOrderBook::new(status.clone(), upstream.clone(), config.reboot, config.peers.clone()));
    if let Some(driver) = driver.watched.clone() {
        let observer = DomainReporter::new(status.clone(), upstream.clone());
        tasks.spawn(MachineFollower { host: status.host.clone(), driver, observer }.run(stop.clone()));
    }
    if let Some(driver) = driver.machines {
        let driver = Arc::new(DepartureDriver { status: status.clone(), driver });
        tasks.spawn(OrderRunner { driver, book: book.clone() }.run(stop.clone()));
    }
    let servers = Servers::open(&config.data, &identity.server);
    let (renewals, identity) = watch::channel(identity);
    let renewer = Renewer { dir: config.data.clone(), upstream: upstream.clone(), identity: renewals };
    tasks.spawn(renewer.run(stop.clone()));
    let link = Link {
        status: status.clone(),
        upstream,
        file,
        plain_names: config.plain_names,
        timing: config.timing,
        identity,
        servers,
        book,
    };
    tasks.spawn(link.run(stop.clone()));
    Ok(RunningAgent { metadata, health: health_address, endpoint, status, stop, tasks })
}

impl RunningAgent {
    /// Stops: held requests are answered, connections closed. Orders in progress are taken up at the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and were closed");
        }
    }
}

/// The copy on disk. A damaged one is left where it is and replaced by the next one.
fn read_copy(file: &CopyFile, host: &Name) -> StoredCopy {
    let nothing = || StoredCopy { copy: Copy::empty(host.clone()), age: Duration::ZERO };
    file.read(host)
        .unwrap_or_else(|error| {
            tracing::error!(%error, "cannot use the stored copy; guests get 503 until the server is reached");
            None
        })
        .unwrap_or_else(nothing)
}

fn bind(config: &HostConfig) -> anyhow::Result<Vec<BoundListener>> {
    config.metadata.iter().map(|listener| BoundListener::new(listener, &DefaultMachine::None)).collect()
}

fn options(config: &HostConfig) -> metadata::Options {
    metadata::Options {
        names: if config.plain_names { NameStyle::Plain } else { NameStyle::Underscored },
        first_call_delay: Duration::ZERO,
        seed: random_guid(),
        // The server issues tokens, and decides for which audiences.
        issuer: TokenIssuer { sign_in: Arc::new(SignIn::in_memory()), is_audience: Arc::new(|_| true) },
        // Its key does not leave the server.
        tls: None,
        limits: Limits::new(CONNECTIONS_PER_SOURCE_DEFAULT, HELD_PER_SOURCE_DEFAULT, None),
    }
}
