//! The native management API: what Azure has no words for, and what our own tools speak.
//!
//! ```text
//!  request ─▶ guard (Host, Origin, token, role) ─▶ routes (the table) ─▶ one file per resource
//!                                                                    │ names → ids, words → types
//!                                             snapshot ◀── read ─────┤
//!                                             Engine::submit ◀─ act ─┘
//! ```
//!
//! It holds no state of its own but what it takes to know who is asking, and it decides nothing: rules are the core's, and a
//! refusal of the rules becomes a status in one place, `error`.

mod changes;
mod clock;
pub mod error;
pub mod events;
pub mod extract;
mod fault_keeper;
mod fault_kind;
mod faults;
mod groups;
mod guard;
pub mod history;
mod hosts;
mod inside;
mod listener;
mod listeners;
mod machine_actions;
mod machine_identity;
mod machines;
mod maintenance;
mod metrics;
mod names;
mod object;
mod openapi;
pub mod operations;
mod parts;
mod portal_links;
mod requests;
mod routes;
mod scale_sets;
pub mod scenario;
mod scenario_routes;
mod service;
mod sign_in;
pub mod text;
pub mod values;
mod waits;
mod webhook_messages;
mod webhook_routes;
pub mod webhooks;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use forewarn_core::{Answer, Command, EventId, Machine, Name, Region, Request};
use forewarn_wire::document::Names;
use http::request::Parts as RequestParts;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::scenario::Runs;
use crate::webhooks::Webhooks;
use error::Refusal;
use forewarn_access::random_guid;
use forewarn_access::tls::Tls;
use forewarn_access::{Access, Principal};
use forewarn_engine::{Asked, Done, Engine};
use forewarn_metadata::{EndpointState, ListenerInfo};

/// A machine as paths and bodies name it.
pub fn machine_named(region: &Region, name: &str) -> Result<Arc<Machine>, ApiError> {
    names::machine(region, name, None)
}

/// The bodies that scenarios have in their files.
pub mod bodies {
    pub use super::faults::NewFault;
    pub use super::groups::NewGroup;
    pub use super::machines::NewMachine;
    pub use super::maintenance::NewMaintenance;
    pub use super::scale_sets::NewScaleSet;
    pub use super::text::Word;
}

pub use changes::Pages;
pub use clock::next as next_deadline;
pub use error::ApiError;
pub use error::of_rejection;
pub use extract::BODY_BYTES_MAX;
pub use fault_keeper::{AddFaultError, FaultKeeper};
pub use guard::{check_door, token_issuer};
pub use history::KINDS as HISTORY_KINDS;
pub use inside::Refused;
pub use listener::{Transport, Via, serve};
pub use metrics::ApiMetrics;
pub use names::any_group as any_group_named;
pub use routes::{PREFIX, Route, guarded, is_api_path, not_found, routes, table};
pub use scale_sets::{PLACEMENT_GROUP_DEFAULT, ZONES_MAX};
pub use service::render_metrics;
pub use text::Word;
pub use values::When;
pub use webhooks::RETRY_MAX as WEBHOOK_RETRY_MAX;

/// Where resources are kept that do not say.
pub const SUBSCRIPTION_DEFAULT: &str = "00000000-0000-0000-0000-000000000000";
pub const RESOURCE_GROUP_DEFAULT: &str = "default";

/// Streams of changes and requests that wait, at once. Each holds a connection and one page of history.
pub const STREAMS_MAX: usize = 256;

/// What all requests share.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// The API as one request sees it: the service, and who is asking.
#[derive(Clone)]
pub struct Api(Arc<Inner>, Principal);

struct Inner {
    parts: Parts,
    faults: FaultKeeper,
    streams: Arc<Semaphore>,
    runs: Runs,
}

/// What the API is made of.
pub struct Parts {
    pub engine: Engine,
    pub access: Arc<Access>,
    pub doors: Arc<Doors>,
    /// The metadata listeners.
    pub machine_doors: Vec<ListenerInfo>,
    pub endpoint: Arc<EndpointState>,
    pub webhooks: Arc<Webhooks>,
    pub metrics: Arc<ApiMetrics>,
    /// Everything that the program counts.
    pub registry: Arc<Registry>,
    /// How machine names are written in documents.
    pub names: Names,
    /// Streams end when the server stops.
    pub stop: CancellationToken,
}

/// Where the API is served: what the listeners are bound to, for the Host header and for URLs.
pub struct Doors {
    pub http: SocketAddr,
    pub https: Option<(SocketAddr, Arc<Tls>)>,
}

impl Service {
    pub fn new(parts: Parts) -> Service {
        let faults = FaultKeeper::new(parts.engine.clone(), parts.endpoint.clone());
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Service(Arc::new(Inner { parts, faults, streams, runs: Runs::default() }))
    }
}

/// The guard has put the principal there.
impl FromRequestParts<Service> for Api {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut RequestParts, service: &Service) -> Result<Api, Infallible> {
        let principal = parts.extensions.get::<Principal>().cloned();
        Ok(Api(service.0.clone(), principal.unwrap_or_else(Principal::anonymous)))
    }
}

impl Api {
    pub fn engine(&self) -> &Engine {
        &self.0.parts.engine
    }

    fn faults(&self) -> &FaultKeeper {
        &self.0.faults
    }

    fn endpoint(&self) -> &EndpointState {
        &self.0.parts.endpoint
    }

    fn webhooks(&self) -> &Webhooks {
        &self.0.parts.webhooks
    }

    fn metrics(&self) -> &ApiMetrics {
        &self.0.parts.metrics
    }

    /// The one tenant there is.
    pub fn tenant(&self) -> &str {
        self.0.parts.access.sign_in().tenant()
    }

    /// The name of who is asking, as events and operations remember it.
    pub fn by(&self) -> Name {
        self.1.name.clone()
    }

    /// Carries out a command in the asker's name and notes it in the audit trail.
    async fn submit(&self, command: Command, note: Note) -> Result<Done, ApiError> {
        Ok(self.engine().submit(command, Some(self.asked(note))).await?)
    }

    /// Notes in the audit trail what is done beside the rules.
    async fn note(&self, note: Note) -> Result<(), ApiError> {
        Ok(self.engine().note(self.asked(note)).await?)
    }

    /// A place among those who are told what happens, as long as the permit lives.
    fn stream(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.0.streams.clone().try_acquire_owned().map_err(|_| {
            let message = format!(
                "{STREAMS_MAX} streams of changes are open or waited on, which is the limit. Close one, or try again."
            );
            ApiError::new(Refusal::TooManyStreams, message)
        })
    }

    pub fn asked(&self, note: Note) -> Asked {
        Asked {
            actor: self.1.name.to_string(),
            action: note.action.into(),
            target: note.target,
            detail: note.detail.to_string(),
        }
    }

    /// Asks for an operation and answers with it.
    async fn request(&self, request: Request, event: Option<EventId>, note: Note) -> Result<Response, ApiError> {
        let operation = random_guid();
        let command = Command::Request { operation, by: self.by(), request, event };
        let done = self.submit(command, note).await?;
        let operation = match done.answer {
            Answer::Operation(id) => id,
            Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Scaled { .. } => operation,
        };
        let region = &done.snapshot.region;
        match region.operation(operation) {
            Some(found) => Ok(extract::accepted(operations::Operation::of(region, found))),
            None => Err(ApiError::new(
                Refusal::OperationNotFound,
                format!("The operation {operation} was carried out and is over. See the history."),
            )),
        }
    }
}

/// What the audit trail says of a command.
pub struct Note {
    action: &'static str,
    target: String,
    detail: serde_json::Value,
}

impl Note {
    pub fn new(action: &'static str, target: impl Into<String>) -> Note {
        Note { action, target: target.into(), detail: serde_json::json!({}) }
    }

    pub fn with(mut self, detail: serde_json::Value) -> Note {
        self.detail = detail;
        self
    }
}
