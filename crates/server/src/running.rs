//! A running server, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forewarn_access::Access;
use forewarn_api::{self as api, ApiMetrics, RecordedFaults};
use forewarn_engine::Engine;
use forewarn_metadata::{BoundAddress, EndpointState};
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long connections can take to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// How long the last commit can take.
const STOP_COMMIT: Duration = Duration::from_millis(1500);

/// A running server.
pub struct Running {
    /// The metadata listeners, in the order of the configuration.
    pub metadata: Vec<BoundAddress>,
    pub management: SocketAddr,
    /// The https listener.
    pub management_tls: Option<SocketAddr>,
    /// The listener for host agents.
    pub hosts: Option<SocketAddr>,
    pub engine: Engine,
    pub endpoint: Arc<EndpointState>,
    pub faults: RecordedFaults,
    pub metrics: Arc<ApiMetrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) writer: JoinHandle<()>,
    pub(crate) access: Arc<Access>,
}

impl Running {
    /// Everything that is counted, as OpenMetrics text.
    pub fn render_metrics(&self) -> String {
        api::render_metrics(&self.registry)
    }

    /// A single-use link that signs a browser in to the portal as the owner. It is a secret: show it only on a terminal. None
    /// in a cluster, whose links need a leader.
    pub fn portal_link(&self) -> Option<String> {
        let link = || format!("{}{}", self.portal_address(), self.access.portal_link(&self.access.owner()));
        self.engine.cluster().is_none().then(link)
    }

    /// The address of the portal for a browser on this host.
    pub fn portal_address(&self) -> String {
        let address = match self.management {
            address if address.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
            address => address,
        };
        format!("http://{address}")
    }

    /// Stops within five seconds: held requests are answered, connections closed, the time stored. Drivers resume their work
    /// at the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and were closed");
        }
        self.engine.begin_stop();
        let writer = tokio::task::spawn_blocking(move || self.writer.join());
        if timeout(STOP_COMMIT, writer).await.is_err() {
            tracing::warn!("the last commit did not finish in time");
        }
    }

    /// Returns when the writer has ended unexpectedly: no further change is possible.
    pub async fn wait_for_failure(&self) {
        let mut revisions = self.engine.subscribe();
        while !self.writer.is_finished() {
            let _ = timeout(Duration::from_secs(1), revisions.changed()).await;
        }
    }
}
