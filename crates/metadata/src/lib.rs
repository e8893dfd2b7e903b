//! The metadata endpoint: what machines see.
//!
//! ```text
//!  listener ─▶ limits ─▶ connection ─▶ conversation ─▶ request: the checks ─▶ Visit { caller, outcome }
//!                                          │ at once: documents, instance metadata
//!                                          └ later: respond (turn on, hold, approve), token, attested, faulty_response
//! ```
//!
//! Every machine of a fleet polls it every second, so plain requests are answered without an HTTP library, and hyper serves the
//! others. It decides no rule and reads everything through [`Source`], so a host agent can serve it from a copy. Nothing of the
//! management side can be reached from here.

mod activation;
mod attested;
mod caller;
mod connection;
mod conversation;
mod documents;
pub mod faults;
mod faulty_response;
pub mod head;
mod ids;
mod instance;
mod limits;
mod listener;
mod metrics;
mod ports;
mod request;
pub mod requests;
mod respond;
mod response;
pub mod route;
mod socket;
mod source;
mod token;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forewarn_access::{Tls, TokenIssuer};
use forewarn_core::Guid;
use forewarn_wire::document::NameStyle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use activation::Activation;
pub use caller::{DefaultMachine, FIRST_MACHINE};
use documents::Documents;
pub use documents::render_document;
use faults::Faults;
pub use ids::{group_resource_id, machine_resource_id};
pub use limits::{
    Activity, Admission, CONNECTIONS_PER_SOURCE_DEFAULT, HELD_PER_SOURCE_DEFAULT, LimitCounters, Limits,
    OverflowPolicy, SourceKey, Sources,
};
pub use listener::{
    BoundAddress, BoundListener, LISTENERS_MAX, ListenAddress, ListenerInfo, MetadataListener, listen_error,
};
pub use metrics::{GaugeGuard, MetadataMetrics};
pub use ports::{GuestPort, GuestPorts, MarkMask, PortName, SETTLE_TIME};
use request::Endpoint;
use requests::Requests;
use response::Responses;
pub use source::{BoxFuture, Coverage, DocumentWatch, Source, SourceError, TokenError, TokenRequest};
pub use token::issue_token;

/// The most memory that one connection takes in the program: two buffers for a head, a short body, and the state of its task.
/// Up to [`respond::LONG_BODIES_MAX`] long bodies and the kernel's socket buffers come on top.
pub const CONNECTION_BYTES_MAX: usize = 2 * connection::HEAD_BYTES_MAX + respond::SHORT_BODY_BYTES_MAX + 4 * 1024;

/// The interval at which documents that are no longer used are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// State that the endpoint shares with the management side. It lives in memory and ends with the process.
pub struct EndpointState {
    pub requests: Requests,
    pub faults: Faults,
    pub metrics: MetadataMetrics,
    /// Whether the data is too old to answer guests. Not set: never.
    pub staleness: OnceLock<Staleness>,
    /// Whether guests may request the api-version that Azure has not released.
    pub serves_preview: bool,
}

/// The time between two checks of the data's age while a request is held.
const STALENESS_CHECK: Duration = Duration::from_secs(2);

/// Tells whether the data behind an endpoint is too old to answer guests.
pub type Staleness = Box<dyn Fn() -> bool + Send + Sync>;

impl EndpointState {
    /// When the age of the data is checked next while a request is held until this time.
    pub(crate) fn next_check(&self, until: Instant) -> Instant {
        match self.staleness.get() {
            Some(_) => until.min(Instant::now() + STALENESS_CHECK),
            None => until,
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.staleness.get().is_some_and(|is_stale| is_stale())
    }

    /// `rate_limit`: requests per second and machine; None: no limit.
    pub fn new(rate_limit: Option<u32>) -> EndpointState {
        EndpointState {
            requests: Requests::new(rate_limit),
            faults: Faults::default(),
            metrics: MetadataMetrics::default(),
            staleness: OnceLock::new(),
            serves_preview: false,
        }
    }

    pub fn with_preview(self, serves_preview: bool) -> EndpointState {
        EndpointState { serves_preview, ..self }
    }
}

pub struct Options {
    pub names: NameStyle,
    pub first_call_delay: Duration,
    /// Request IDs are derived from this.
    pub seed: Guid,
    pub issuer: TokenIssuer,
    /// Signs attested documents with a certificate of its authority. None: not available.
    pub tls: Option<Arc<Tls>>,
    pub limits: Limits,
}

/// Serves on all listeners until `stop`; everything it starts is in `tasks`.
pub fn serve(
    listeners: Vec<BoundListener>,
    source: Arc<dyn Source>,
    state: Arc<EndpointState>,
    options: Options,
    stop: CancellationToken,
    tasks: &TaskTracker,
) {
    let endpoint = Arc::new(Endpoint {
        documents: Documents::new(options.names),
        responses: Responses::new(options.seed),
        activation: Activation::new(source.clone(), options.first_call_delay),
        sources: Arc::new(Sources::new(options.limits, "metadata", state.metrics.limits.clone())),
        issuer: options.issuer,
        tls: options.tls,
        identity_reads: Semaphore::new(token::READS_MAX),
        long_bodies: Arc::new(Semaphore::new(respond::LONG_BODIES_MAX)),
        source,
        state,
        stop,
    });
    for listener in listeners {
        tasks.spawn(listener.serve(endpoint.clone(), tasks.clone()));
    }
    tasks.spawn(sweep(endpoint));
}

async fn sweep(endpoint: Arc<Endpoint>) {
    loop {
        tokio::select! {
            () = endpoint.stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP_EVERY) => endpoint.documents.sweep(),
        }
    }
}
