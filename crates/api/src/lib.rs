//! The native management API: actions that Azure Resource Manager does not have, and the interface of Forewarn's own
//! tools.
//!
//! ```text
//!  request ─▶ guard (Host, Origin, token, role) ─▶ routes (the table) ─▶ one module per resource
//!                                          snapshot ◀─ render ◀─ read ─┤
//!                                 portal, ARM, scenarios ─▶ actions ◀──┘ write
//!                                                             │ role, names → IDs, API types → core types
//!                                                             └─▶ Engine::submit
//! ```
//!
//! - `action`: the table of all actions with their roles; `actions`: one typed function for each.
//! - Handlers: `machines`, `groups`, `scale_sets`, `hosts`, `events`, `operations`, `faults`, `webhooks`, …
//! - Shared: `extract` and `into_core` (requests), `names` (lookups), `error` (statuses).
//! - Protection: `guard`, `failed_sign_ins`, `dry_run`, `idempotency`.
//! - Reports: `health`, `metrics`, `history`, `changes`, `waits`, `deadline`, `audit_detail`.
//! - Background work: `scenario`, `recorded_faults`, and `handlers`, which decides whether a handler polls or is silent.
//!
//! The API makes no decisions: the rules are in `core`, and one function in `error` maps each rejection to a status. Its
//! only state is the sessions of `access`, the runs of scenarios and the number of open streams.

mod action;
mod actions;
mod addresses;
mod agents;
mod any_handler;
mod audit_detail;
mod changes;
mod clock;
mod deadline;
mod dry_run;
pub mod error;
mod events;
pub mod extract;
mod failed_sign_ins;
mod faults;
mod fencing;
mod groups;
mod guard;
mod handlers;
mod health;
pub mod history;
mod host_domains;
mod host_joins;
mod hosts;
mod idempotency;
mod into_core;
mod listeners;
mod machine_actions;
mod machine_identity;
mod machines;
mod maintenance;
mod metrics;
mod names;
mod openapi;
mod operation_filter;
mod operations;
mod portal_links;
mod portal_sessions;
mod recorded_faults;
mod render_fault;
mod requests;
mod rollouts;
mod routes;
mod scale_sets;
pub mod scenario;
mod scenario_routes;
mod sign_in;
mod smallest;
mod waits;
mod webhook_messages;
mod webhooks;
mod windows;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use forewarn_access::{Access, HostAccess, Principal};
use forewarn_api_types::ClusterReport;
use forewarn_core::Name;
use forewarn_engine::Engine;
use forewarn_metadata::{EndpointState, ListenerInfo};
use forewarn_webhooks::Webhooks;
use forewarn_wire::document::NameStyle;
use http::Extensions;
use http::request::Parts as RequestParts;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

pub use action::{Action, AuditNote, Permit};
pub use actions::{
    GroupDeletion, PLACEMENT_GROUP_DEFAULT, PlainGroup, Registration, ZONES_MAX, build_plan, delete_action,
    name_machines,
};
pub use addresses::{ManagementAddresses, token_issuer};
pub use agents::AgentContacts;
pub use audit_detail::AuditDetail;
pub use changes::ChannelBody;
pub use deadline::next_deadline;
pub use dry_run::ROUTES as DRY_RUN_ROUTES;
pub use error::{ApiError, rejection_status};
pub use extract::{BODY_BYTES_MAX, read_body};
pub use fencing::find_fencing;
pub use forewarn_api_types::PREFIX;
pub use forewarn_listener::{ConnectionUse, Scheme, Transport, serve};
pub use guard::check_host_and_origin;
pub use handlers::{HandlerRecord, Handlers};
pub use health::HealthProblems;
pub use host_domains::HostDomains;
pub use metrics::{ApiMetrics, render_metrics};
pub use names::{
    GroupTarget, GroupType, MachineTarget, find_any_group, find_machine, full_group_name, parse_event_id,
    parse_operation_id,
};
pub use portal_sessions::{RegionSessions, SessionWriter, refuse_session};
pub use recorded_faults::{AddFaultError, RecordedFaults};
pub use render_fault::render_fault;
pub use rollouts::forecast_rollout;
pub use routes::{Route, add_guard, is_api_path, not_found, routes, table};

use dry_run::Execution;
use error::ErrorCode;
use failed_sign_ins::FailedSignIns;
use idempotency::RequestKey;
use scenario::{Progress, Runs};

/// Subscription and resource group of resources that are created without them.
pub const SUBSCRIPTION_DEFAULT: &str = "00000000-0000-0000-0000-000000000000";
pub const RESOURCE_GROUP_DEFAULT: &str = "default";

/// Open change streams and held requests. Each occupies a connection and one page of history.
pub const STREAMS_MAX: usize = 256;

/// The state that all requests share.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// The service as one caller sees it, with the actions that the caller may perform (in `actions`).
#[derive(Clone)]
pub struct Actions {
    service: Service,
    principal: Principal,
    execution: Execution,
    /// Of a request that the caller may repeat.
    request_key: Option<RequestKey>,
}

struct Inner {
    parts: ServiceParts,
    faults: RecordedFaults,
    failed_sign_ins: FailedSignIns,
    streams: Arc<Semaphore>,
    runs: Runs,
}

/// The components that a service is made of.
pub struct ServiceParts {
    pub engine: Engine,
    pub access: Arc<Access>,
    pub addresses: Arc<ManagementAddresses>,
    pub metadata_listeners: Vec<ListenerInfo>,
    pub endpoint: Arc<EndpointState>,
    pub webhooks: Arc<Webhooks>,
    pub handlers: Arc<Handlers>,
    pub metrics: Arc<ApiMetrics>,
    pub problems: HealthProblems,
    /// Contact with host agents.
    pub agents: AgentContacts,
    /// None: a single server.
    pub cluster: Option<Arc<dyn ClusterReporter>>,
    /// Enrollment of host agents; None without a listener for them.
    pub enrollment: Option<HostEnrollment>,
    /// The portal sessions of the region, in a cluster.
    pub region_sessions: Option<Arc<dyn RegionSessions>>,
    /// Domains that host agents have reported.
    pub domains: Arc<HostDomains>,
    /// All metrics of the process.
    pub registry: Arc<Registry>,
    /// How metadata documents spell machine names.
    pub names: NameStyle,
    /// Ends streams and runs when the server stops.
    pub stop: CancellationToken,
}

/// Describes the servers of a cluster.
pub trait ClusterReporter: Send + Sync {
    /// The response to `GET /api/v1/cluster`.
    fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClusterReport> + Send>>;
}

/// How hosts join.
pub struct HostEnrollment {
    pub access: Arc<HostAccess>,
    /// Port of the listener for hosts.
    pub port: u16,
    /// Addresses of the listeners for hosts of all servers of a cluster; empty for a single server.
    pub servers: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Service {
    pub fn new(parts: ServiceParts) -> Service {
        let faults = RecordedFaults::new(parts.engine.clone(), parts.endpoint.clone());
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let failed_sign_ins = FailedSignIns::default();
        Service(Arc::new(Inner { parts, faults, failed_sign_ins, streams, runs: Runs::default() }))
    }

    pub fn engine(&self) -> &Engine {
        &self.0.parts.engine
    }

    pub fn addresses(&self) -> &ManagementAddresses {
        &self.0.parts.addresses
    }

    pub fn access(&self) -> &Access {
        &self.0.parts.access
    }

    pub fn webhooks(&self) -> &Webhooks {
        &self.0.parts.webhooks
    }

    pub fn stopping(&self) -> &CancellationToken {
        &self.0.parts.stop
    }

    pub fn names(&self) -> NameStyle {
        self.0.parts.names
    }

    pub fn faults(&self) -> &RecordedFaults {
        &self.0.faults
    }

    /// How the handlers of machines poll.
    pub fn handlers(&self) -> &Handlers {
        &self.0.parts.handlers
    }

    /// Contact with host agents.
    pub fn agents(&self) -> &AgentContacts {
        &self.0.parts.agents
    }

    /// The servers of the cluster, as `GET /api/v1/cluster` describes them. None: a single server.
    pub async fn report_cluster(&self) -> Option<ClusterReport> {
        Some(self.0.parts.cluster.clone()?.report().await)
    }

    pub fn endpoint(&self) -> &Arc<EndpointState> {
        &self.0.parts.endpoint
    }

    fn host_domains(&self) -> &HostDomains {
        &self.0.parts.domains
    }

    fn enrollment(&self) -> Option<&HostEnrollment> {
        self.0.parts.enrollment.as_ref()
    }

    /// Counts and logs a failed sign-in, and delays its answer if there were many from the same source. `attempt` names the
    /// way of signing in.
    pub async fn record_failed_sign_in(&self, extensions: &Extensions, attempt: &'static str) {
        self.0.parts.metrics.sign_in_failures.inc();
        if let Some(connection) = extensions.get::<ConnectionUse>() {
            let delays = &self.0.parts.metrics.sign_in_delays;
            self.0.failed_sign_ins.record(connection.peer, attempt, delays).await;
        }
    }

    /// Runs of scenarios, oldest first.
    pub fn list_runs(&self) -> Vec<Progress> {
        self.0.runs.list()
    }

    /// Reserves one of the streams for as long as the permit lives.
    pub fn acquire_stream(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.0.streams.clone().try_acquire_owned().map_err(|_| {
            let message = format!("All {STREAMS_MAX} streams are in use. Close one, or try again later.");
            ApiError::new(ErrorCode::TooManyStreams, message)
        })
    }

    /// The service as a principal sees it.
    pub fn actions(&self, principal: Principal) -> Actions {
        Actions { service: self.clone(), principal, execution: Execution::Real, request_key: None }
    }
}

/// The guard has put the principal into the extensions, except on paths that require no token.
impl FromRequestParts<Service> for Actions {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut RequestParts, service: &Service) -> Result<Actions, Infallible> {
        let principal = parts.extensions.get::<Principal>().cloned().unwrap_or_else(Principal::anonymous);
        let execution = dry_run::take(parts);
        let key = RequestKey::find(parts, &principal);
        Ok(Actions { service: service.clone(), principal, execution, request_key: key })
    }
}

impl Actions {
    pub fn service(&self) -> &Service {
        &self.service
    }

    pub fn engine(&self) -> &Engine {
        self.service.engine()
    }

    fn webhooks(&self) -> &Webhooks {
        &self.service.0.parts.webhooks
    }

    /// The ID of the only tenant.
    pub fn tenant(&self) -> &str {
        self.service.access().sign_in().tenant()
    }

    /// The name of the caller, as events and operations record it.
    pub fn principal_name(&self) -> Name {
        self.principal.name.clone()
    }
}
