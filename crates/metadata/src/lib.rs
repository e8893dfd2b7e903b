//! The metadata endpoint: what machines see.
//!
//! ```text
//!  listen ─▶ connection (hyper) ─▶ service: route, method, headers, query, version, caller
//!                                     │ here and now: documents, instance
//!                                     └ later: turn a scope on (seen), hold, approve, a token (identity), go wrong (faulty)
//! ```
//!
//! It sits on hyper directly: this is the path that every machine of the fleet walks every second.
//! It decides no rule. Nothing of the management side can be reached from here.

mod answer;
mod caller;
mod connection;
mod documents;
pub mod faults;
mod faulty;
mod identity;
mod ids;
mod instance;
mod later;
mod listen;
mod memo;
mod metrics;
pub mod requests;
mod route;
mod seen;
mod service;
mod source;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::Guid;
use forewarn_wire::document::Names;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use caller::{DefaultMachine, FIRST_MACHINE};
pub use documents::Documents;
pub use ids::{group_resource_id, machine_resource_id};
pub use listen::{Bound, DoorFacts, LISTENERS_MAX, cannot_open};
pub use listen::{BoundAddress, ListenAddress, MetadataListener};
pub use metrics::{GaugeGuard, MetadataMetrics};
pub use source::{BoxFuture, DocumentWatch, Source, SourceError};

use crate::faults::Faults;
use crate::requests::Requests;
use answer::Answers;
use forewarn_access::Desk;
use listen::CONNECTIONS_MAX;
use memo::Memo;
use seen::Seen;
use service::Shared;

/// How often documents that nobody asks for are forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// What the endpoint shares with the management side. It lives in memory and ends with the process.
pub struct EndpointState {
    pub requests: Requests,
    pub faults: Faults,
    pub metrics: MetadataMetrics,
}

impl EndpointState {
    /// `rate_limit`: requests per second and machine; None: no limit.
    pub fn new(rate_limit: Option<u32>) -> EndpointState {
        EndpointState {
            requests: Requests::new(rate_limit),
            faults: Faults::default(),
            metrics: MetadataMetrics::default(),
        }
    }
}

pub struct Options {
    pub names: Names,
    pub first_call_delay: Duration,
    /// Request ids are derived from this.
    pub seed: Guid,
    pub desk: Desk,
}

/// Serves on all listeners until `stop`; everything it starts is in `tasks`.
pub fn serve(
    listeners: Vec<Bound>,
    source: Arc<dyn Source>,
    state: Arc<EndpointState>,
    options: Options,
    stop: CancellationToken,
    tasks: &TaskTracker,
) {
    let shared = Arc::new(Shared {
        documents: Documents::new(options.names),
        memo: Memo::new(),
        answers: Answers::new(options.seed),
        seen: Seen::new(source.clone(), options.first_call_delay),
        desk: options.desk,
        identity_reads: Semaphore::new(identity::READS_MAX),
        source,
        state,
        stop,
    });
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for listener in listeners {
        tasks.spawn(listener.serve(shared.clone(), room.clone(), tasks.clone()));
    }
    tasks.spawn(sweep(shared));
}

async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP_EVERY) => shared.documents.sweep(),
        }
    }
}
