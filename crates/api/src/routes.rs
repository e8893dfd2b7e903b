//! Every path of the native API in one table: method, path, handler, required role and OpenAPI description.

use std::sync::{Arc, LazyLock, OnceLock};

use axum::Router;
use axum::handler::Handler;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;
use forewarn_access::{RequiredAccess, Role, is_arm_path};
use forewarn_api_types::{
    ActionOptions, AdvanceClock, Approvals, Approved, ClearedFaults, Clock, DeleteInstances, DrainPreview, EmptyBody,
    Event, FailureOptions, Fault, Group, Health, HistoryRow, Host, HostChange, HostDomain, HostToken, Identity,
    InstanceSelection, JoinResponse, Listeners, Machine, MachineChange, NewDrain, NewFault, NewGroup, NewIdentity,
    NewJoin, NewMachine, NewMaintenance, NewRollout, NewRun, NewScaleSet, NewWebhook, Operation, PREFIX, PauseOptions,
    PolicyChange, PortalLink, Readiness, Requests, Resend, Resent, Rollout, RolloutPreview, Run, RunPreview, ScaleSet,
    ScaleSetChange, ScaleSetChanged, ScenarioFile, ScenarioSummary, SetClock, StepSelection, UndeliveredMessage,
    Upgrade, WaitAnswer, Webhook, WebhookChange, WebhookTest,
};
use http::{Method, StatusCode, Uri, header};

use super::action::Action;
use super::any_handler::{AnyHandler, ResponseFuture};
use super::error::{ApiError, ErrorCode};
use super::extract::{GroupQuery, NoQuery, Paging, Params};
use super::groups::{availability_sets, cloud_services};
use super::guard::RouteAccess;
use super::machine_actions::DeleteQuery;
use super::openapi::{self, DocumentedRoute, RouteDoc};
use super::operation_filter::OperationsQuery;
use super::scale_sets::InstancesQuery;
use super::scenario_routes::RunQuery;
use super::{
    Service, changes, clock, dry_run, events, faults, guard, health, history, host_joins, hosts, listeners,
    machine_actions, machine_identity, machines, maintenance, operations, portal_links, requests, rollouts, scale_sets,
    scenario_routes as scenarios, sign_in, waits, webhook_messages, webhooks,
};

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Reading requires the role reader, everything else the role of the action.
    needs: RequiredAccess,
    handler: MethodRouter<Service>,
    doc: RouteDoc,
}

impl Route {
    /// Requires no token.
    fn open(mut self) -> Route {
        self.needs = RequiredAccess::Nothing;
        self
    }
}

/// The access that each route requires.
static ACCESS: LazyLock<Arc<RouteAccess>> = LazyLock::new(|| {
    let listed = table().into_iter().map(|route| (route.path, route.method, route.needs));
    let open = sign_in::routes().into_iter().map(|(path, method, _)| (path, method, RequiredAccess::Nothing));
    Arc::new(RouteAccess::new(listed.chain(open)))
});

/// Puts the guard in front of everything that is mounted on the router so far.
pub fn add_guard(router: Router<Service>, service: &Service) -> Router<Service> {
    router.layer(middleware::from_fn_with_state((service.clone(), ACCESS.clone()), guard::check))
}

/// The routes of the native API and of sign-in. The caller mounts other routes and sets the fallback.
pub fn routes() -> Router<Service> {
    let mut router = Router::new();
    for route in table() {
        router = router.route(route.path, route.handler);
    }
    for (path, _, handler) in sign_in::routes() {
        router = router.route(path, handler);
    }
    router.method_not_allowed_fallback(answer_method_not_allowed)
}

/// Whether a path belongs to an API even if no route matches it, so that the response is a JSON error.
pub fn is_api_path(path: &str) -> bool {
    is_arm_path(path) || path.starts_with(PREFIX)
}

pub fn not_found(path: &str) -> ApiError {
    let message = format!("Nothing was found at '{path}'. See /openapi.json for the paths.");
    ApiError::new(ErrorCode::NotFound, message).with_target(path)
}

async fn answer_method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let message =
        format!("'{}' does not support {method}. See the Allow header for the supported methods.", uri.path());
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}

fn route(
    (method, filter): (Method, MethodFilter),
    path: &'static str,
    role: Role,
    handler: AnyHandler,
    doc: RouteDoc,
) -> Route {
    Route { method, path, needs: RequiredAccess::Role(role), handler: on(filter, handler), doc }
}

fn get<H: Handler<T, Service, Future = ResponseFuture>, T>(path: &'static str, handler: H, doc: RouteDoc) -> Route {
    route((Method::GET, MethodFilter::GET), path, Role::Reader, AnyHandler::new(handler), doc)
}

/// A method that performs an action, whose role it requires.
macro_rules! verb {
    ($name:ident, $method:ident) => {
        fn $name<H: Handler<T, Service, Future = ResponseFuture>, T>(
            path: &'static str,
            action: Action,
            handler: H,
            doc: RouteDoc,
        ) -> Route {
            route((Method::$method, MethodFilter::$method), path, action.role(), AnyHandler::new(handler), doc)
        }
    };
}

verb!(put, PUT);
verb!(post, POST);
verb!(patch, PATCH);
verb!(delete, DELETE);

/// Serves the OpenAPI document of this table.
async fn get_openapi(Params(NoQuery {}): Params<NoQuery>) -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        serde_json::to_vec(&document(&table())).expect("the document consists of strings and numbers").into()
    });
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

fn document(table: &[Route]) -> utoipa::openapi::OpenApi {
    openapi::document(table.iter().map(|Route { method, path, needs, doc, .. }| DocumentedRoute {
        method,
        path,
        needs: *needs,
        doc,
    }))
}

fn doc(id: &'static str, summary: &'static str) -> RouteDoc {
    RouteDoc::new(id, summary)
}

/// An action on one machine that starts an operation.
fn action(id: &'static str, summary: &'static str) -> RouteDoc {
    doc(id, summary).query::<GroupQuery>().optional_body::<ActionOptions>().response::<Operation>(ACCEPTED)
}

/// An action on instances of a scale set.
fn set_action(id: &'static str, summary: &'static str) -> RouteDoc {
    doc(id, summary).query::<GroupQuery>().optional_body::<InstanceSelection>().response::<Operation>(ACCEPTED)
}

/// A change of a machine without an event.
fn power(id: &'static str, summary: &'static str) -> RouteDoc {
    doc(id, summary).query::<GroupQuery>().optional_body::<EmptyBody>().response::<Machine>(OK)
}

/// An action on one event.
fn event_action(id: &'static str, summary: &'static str) -> RouteDoc {
    doc(id, summary).optional_body::<EmptyBody>().response::<Event>(OK)
}

/// All routes of the native API.
pub fn table() -> Vec<Route> {
    [
        machine_routes(),
        group_routes(),
        scale_set_routes(),
        host_routes(),
        event_routes(),
        scenario_routes(),
        fault_routes(),
        webhook_routes(),
        other_routes(),
    ]
    .into_iter()
    .flatten()
    .map(with_dry_run)
    .collect()
}

/// Documents the dry run of a route that has one.
fn with_dry_run(mut route: Route) -> Route {
    if dry_run::ROUTES.iter().any(|(method, path)| *method == route.method && *path == route.path) {
        route.doc = route.doc.with_dry_run();
    }
    route
}

#[rustfmt::skip]
fn machine_routes() -> Vec<Route> {
    use {machine_actions as act, machine_identity as identity};
    vec![
        get("/api/v1/machines", machines::list, doc("listMachines", "List machines in order of registration").query::<machines::MachinesQuery>().page::<Machine>()),
        post("/api/v1/machines", Action::RegisterMachine, machines::register, doc("registerMachine", "Register a machine").body::<NewMachine>().response::<Machine>(CREATED)),
        get("/api/v1/machines/{machine}", machines::get, doc("getMachine", "Get a machine").query::<GroupQuery>().response::<Machine>(OK)),
        patch("/api/v1/machines/{machine}", Action::ChangeMachine, machines::change, doc("changeMachine", "Change a machine; omitted fields keep their values").query::<GroupQuery>().body::<MachineChange>().response::<Machine>(OK)),
        delete("/api/v1/machines/{machine}", Action::DeleteMachine, act::delete, doc("deleteMachine", "Delete a machine, with notice if it has a terminate notification").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/document", requests::document, doc("getDocument", "Get the metadata document of a machine, without faults").query::<GroupQuery>().any_json()),
        get("/api/v1/machines/{machine}/requests", requests::list, doc("listRequests", "List recent metadata requests of a machine").query::<requests::RequestsQuery>().response::<Requests>(OK)),
        post("/api/v1/machines/{machine}/restart", Action::RestartMachine, act::restart, action("restartMachine", "Restart a machine after its notice period (Reboot event)")),
        post("/api/v1/machines/{machine}/redeploy", Action::RedeployMachine, act::redeploy, action("redeployMachine", "Move a machine to another host after its notice period (Redeploy event)")),
        post("/api/v1/machines/{machine}/perform-maintenance", Action::PerformMaintenance, act::perform_maintenance, action("performMaintenance", "Start self-service maintenance (Redeploy event)")),
        post("/api/v1/machines/{machine}/evict", Action::EvictMachine, act::evict, action("evictMachine", "Evict a Spot machine (Preempt event)")),
        post("/api/v1/machines/{machine}/recommend-rebalance", Action::RecommendRebalance, act::recommend_rebalance, action("recommendRebalance", "Recommend moving work away from a Spot machine (SpotRebalanceRecommendation event); needs preview_version")),
        post("/api/v1/machines/{machine}/hardware-failure", Action::Fail, act::fail, doc("failMachine", "Simulate a hardware failure of a machine (event without notice)").query::<GroupQuery>().optional_body::<FailureOptions>().response::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/identity", identity::get, doc("getMachineIdentity", "Get the managed identity of a machine").query::<GroupQuery>().response::<Identity>(OK)),
        put("/api/v1/machines/{machine}/identity", Action::AssignIdentity, identity::put, doc("putMachineIdentity", "Assign a managed identity to a machine, so that it can get tokens for this API").query::<GroupQuery>().optional_body::<NewIdentity>().response::<Identity>(OK)),
        delete("/api/v1/machines/{machine}/identity", Action::RemoveIdentity, identity::delete, doc("deleteMachineIdentity", "Remove the managed identity of a machine").query::<GroupQuery>().no_content()),
        post("/api/v1/machines/{machine}/enable-events", Action::EnableEvents, act::enable_events, power("enableEvents", "Turn on the event group of a machine, as the first request of its handler does")),
        post("/api/v1/machines/{machine}/start", Action::StartMachine, act::start, power("startMachine", "Start a machine")),
        post("/api/v1/machines/{machine}/stop", Action::StopMachine, act::stop, power("stopMachine", "Stop a machine; it keeps its host")),
        post("/api/v1/machines/{machine}/deallocate", Action::DeallocateMachine, act::deallocate, power("deallocateMachine", "Stop a machine and release its host")),
    ]
}

#[rustfmt::skip]
fn group_routes() -> Vec<Route> {
    use {availability_sets as sets, cloud_services as services};
    vec![
        get("/api/v1/availability-sets", sets::list, doc("listAvailabilitySets", "List availability sets").query::<Paging>().page::<Group>()),
        post("/api/v1/availability-sets", Action::CreateAvailabilitySet, sets::create, doc("createAvailabilitySet", "Create an availability set").body::<NewGroup>().response::<Group>(CREATED)),
        get("/api/v1/availability-sets/{set}", sets::get, doc("getAvailabilitySet", "Get an availability set").query::<GroupQuery>().response::<Group>(OK)),
        patch("/api/v1/availability-sets/{set}", Action::ChangeAvailabilitySet, sets::change, doc("changeAvailabilitySet", "Change an availability set").query::<GroupQuery>().body::<PolicyChange>().response::<Group>(OK)),
        delete("/api/v1/availability-sets/{set}", Action::DeleteAvailabilitySet, sets::delete, doc("deleteAvailabilitySet", "Delete an availability set, and its machines if `withMachines` is true").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/cloud-services", services::list, doc("listCloudServices", "List cloud services").query::<Paging>().page::<Group>()),
        post("/api/v1/cloud-services", Action::CreateCloudService, services::create, doc("createCloudService", "Create a cloud service").body::<NewGroup>().response::<Group>(CREATED)),
        get("/api/v1/cloud-services/{service}", services::get, doc("getCloudService", "Get a cloud service").query::<GroupQuery>().response::<Group>(OK)),
        patch("/api/v1/cloud-services/{service}", Action::ChangeCloudService, services::change, doc("changeCloudService", "Change a cloud service").query::<GroupQuery>().body::<PolicyChange>().response::<Group>(OK)),
        delete("/api/v1/cloud-services/{service}", Action::DeleteCloudService, services::delete, doc("deleteCloudService", "Delete a cloud service, and its role instances if `withMachines` is true").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn scale_set_routes() -> Vec<Route> {
    use scale_sets as sets;
    vec![
        get("/api/v1/scale-sets", sets::list, doc("listScaleSets", "List scale sets").query::<Paging>().page::<ScaleSet>()),
        post("/api/v1/scale-sets", Action::CreateScaleSet, sets::create, doc("createScaleSet", "Create a scale set and its instances").body::<NewScaleSet>().response::<ScaleSet>(CREATED)),
        get("/api/v1/scale-sets/{set}", sets::get, doc("getScaleSet", "Get a scale set").query::<GroupQuery>().response::<ScaleSet>(OK)),
        patch("/api/v1/scale-sets/{set}", Action::ChangeScaleSet, sets::change, doc("changeScaleSet", "Change the capacity, model, upgrade mode or policy of a scale set").query::<GroupQuery>().body::<ScaleSetChange>().response::<ScaleSetChanged>(OK)),
        delete("/api/v1/scale-sets/{set}", Action::DeleteScaleSet, sets::delete, doc("deleteScaleSet", "Delete a scale set and its instances").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/scale-sets/{set}/instances", sets::instances, doc("listInstances", "List the instances of a scale set").query::<InstancesQuery>().page::<Machine>()),
        post("/api/v1/scale-sets/{set}/upgrade", Action::UpgradeInstances, sets::upgrade, doc("upgradeInstances", "Upgrade instances to the latest model").query::<GroupQuery>().optional_body::<Upgrade>().response::<ScaleSet>(OK)),
        post("/api/v1/scale-sets/{set}/restart", Action::RestartInstances, sets::restart, set_action("restartInstances", "Restart instances (one Reboot event each)")),
        post("/api/v1/scale-sets/{set}/redeploy", Action::RedeployInstances, sets::redeploy, set_action("redeployInstances", "Move instances to other hosts (one Redeploy event each)")),
        post("/api/v1/scale-sets/{set}/perform-maintenance", Action::PerformMaintenanceOfInstances, sets::perform_maintenance, set_action("performMaintenanceOfInstances", "Start self-service maintenance of instances (one Redeploy event each)")),
        post("/api/v1/scale-sets/{set}/delete-instances", Action::DeleteInstances, sets::delete_instances, doc("deleteInstances", "Delete instances, with notice if they have a terminate notification").query::<GroupQuery>().body::<DeleteInstances>().response::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn host_routes() -> Vec<Route> {
    vec![
        get("/api/v1/rollouts", rollouts::list, doc("listRollouts", "List rollouts, newest first").query::<Paging>().page::<Rollout>()),
        post("/api/v1/rollouts", Action::StartRollout, rollouts::start, doc("startRollout", "Start maintenance in steps over hosts, update domains or machines").body::<NewRollout>().response::<Rollout>(ACCEPTED)),
        post("/api/v1/rollouts/preview", Action::StartRollout, rollouts::preview, doc("previewRollout", "Preview a rollout: expected steps, times and waits").body::<NewRollout>().response::<RolloutPreview>(OK)),
        get("/api/v1/rollouts/{rollout}", rollouts::get, doc("getRollout", "Get a rollout").response::<Rollout>(OK)),
        post("/api/v1/rollouts/{rollout}/pause", Action::PauseRollout, rollouts::pause, doc("pauseRollout", "Start no more steps; scheduled events finish, or are canceled with 'now'").optional_body::<PauseOptions>().response::<Rollout>(OK)),
        post("/api/v1/rollouts/{rollout}/resume", Action::ResumeRollout, rollouts::resume, doc("resumeRollout", "Continue a paused rollout").optional_body::<EmptyBody>().response::<Rollout>(OK)),
        post("/api/v1/rollouts/{rollout}/retry", Action::RetrySteps, rollouts::retry, doc("retrySteps", "Retry failed steps of a rollout that has not ended").optional_body::<StepSelection>().response::<Rollout>(OK)),
        post("/api/v1/rollouts/{rollout}/stop", Action::StopRollout, rollouts::stop, doc("stopRollout", "End a rollout; scheduled events are canceled, started events finish").optional_body::<EmptyBody>().response::<Rollout>(OK)),
        get("/api/v1/hosts", hosts::list, doc("listHosts", "List hosts by name").query::<hosts::HostsQuery>().page::<Host>()),
        get("/api/v1/hosts/{host}", hosts::get, doc("getHost", "Get a host").response::<Host>(OK)),
        get("/api/v1/hosts/{host}/domains", hosts::domains, doc("listHostDomains", "List the domains of a host, as its agent has reported them").page::<HostDomain>()),
        put("/api/v1/hosts/{host}", Action::RegisterHost, hosts::put, doc("registerHost", "Register a host").response::<Host>(OK).response::<Host>(CREATED)),
        patch("/api/v1/hosts/{host}", Action::ChangeHost, hosts::change, doc("changeHost", "Change a host; omitted fields keep their values").body::<HostChange>().response::<Host>(OK)),
        post("/api/v1/hosts/{host}/drain", Action::DrainHost, hosts::drain, doc("drainHost", "Move all machines away from a host").optional_body::<NewDrain>().response::<Operation>(ACCEPTED)),
        post("/api/v1/hosts/{host}/drain/preview", Action::DrainHost, hosts::preview_drain, doc("previewDrain", "Show where the machines of a host would go").optional_body::<NewDrain>().response::<DrainPreview>(OK)),
        post("/api/v1/hosts/{host}/activate", Action::ActivateHost, hosts::activate, doc("activateHost", "Make a drained, draining or failed host available again").optional_body::<EmptyBody>().response::<Host>(OK)),
        post("/api/v1/hosts/{host}/fence", Action::FenceHost, hosts::fence, doc("fenceHost", "Record that a host is off; its machines are then stopped").optional_body::<EmptyBody>().response::<Host>(OK)),
        post("/api/v1/hosts/{host}/token", Action::CreateHostToken, host_joins::create_token, doc("createHostToken", "Create a token with which a host joins; it works once, for an hour").optional_body::<EmptyBody>().response::<HostToken>(CREATED)),
        post("/api/v1/host-joins", Action::CreateHostToken, host_joins::join, doc("joinHost", "Join as a host, with a token instead of a role").body::<NewJoin>().response::<JoinResponse>(CREATED)).open(),
        delete("/api/v1/hosts/{host}", Action::RemoveHost, hosts::delete, doc("removeHost", "Remove a host without machines").no_content()),
        post("/api/v1/hosts/{host}/hardware-failure", Action::Fail, hosts::fail, doc("failHost", "Simulate a hardware failure of a host (events without notice for all its machines)").optional_body::<FailureOptions>().response::<Operation>(ACCEPTED)),
        post("/api/v1/maintenance", Action::StartMaintenance, maintenance::start, doc("startMaintenance", "Start or plan maintenance of machines, a host or a group").body::<NewMaintenance>().response::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn event_routes() -> Vec<Route> {
    vec![
        get("/api/v1/events", events::list, doc("listEvents", "List unfinished events in order of appearance").query::<events::EventsQuery>().page::<Event>()),
        post("/api/v1/events/approve", Action::ApproveEvents, events::approve_many, doc("approveEvents", "Approve events, all or none").body::<Approvals>().response::<Approved>(OK)),
        get("/api/v1/events/wait", waits::wait, doc("waitForEvent", "Wait for an event to reach a status").query::<waits::WaitQuery>().response::<WaitAnswer>(OK)),
        get("/api/v1/events/{event}", events::get, doc("getEvent", "Get an event").response::<Event>(OK)),
        post("/api/v1/events/{event}/approve", Action::ApproveEvents, events::approve, event_action("approveEvent", "Approve an event")),
        post("/api/v1/events/{event}/cancel", Action::Cancel, events::cancel, event_action("cancelEvent", "Cancel the operations behind an event")),
        get("/api/v1/operations", operations::list, doc("listOperations", "List operations that are running or ended within the last hour, oldest first").query::<OperationsQuery>().page::<Operation>()),
        get("/api/v1/operations/{operation}", operations::get, doc("getOperation", "Get an operation, current or from history").response::<Operation>(OK)),
        post("/api/v1/operations/{operation}/approve", Action::ApproveOperation, operations::approve, doc("approveOperation", "Approve all scheduled events of an operation").optional_body::<EmptyBody>().response::<Operation>(OK)),
        post("/api/v1/operations/{operation}/cancel", Action::Cancel, operations::cancel, doc("cancelOperation", "Cancel the part of an operation that has not started").optional_body::<EmptyBody>().response::<Operation>(OK)),
    ]
}

#[rustfmt::skip]
fn scenario_routes() -> Vec<Route> {
    vec![
        get("/api/v1/scenarios", scenarios::list, doc("listScenarios", "List the built-in scenarios").page::<ScenarioSummary>()),
        get("/api/v1/scenarios/{scenario}", scenarios::get, doc("getScenario", "Get a built-in scenario and its file").response::<ScenarioFile>(OK)),
        get("/api/v1/scenario-runs", scenarios::runs, doc("listRuns", "List scenario runs, oldest first").page::<Run>()),
        post("/api/v1/scenario-runs", Action::RunScenario, scenarios::begin, doc("runScenario", "Run a scenario").body::<NewRun>().response::<Run>(ACCEPTED)),
        post("/api/v1/scenario-runs/preview", Action::RunScenario, scenarios::preview, doc("previewRun", "Get the steps of a scenario, without running it").body::<NewRun>().response::<RunPreview>(OK)),
        get("/api/v1/scenario-runs/{run}", scenarios::run, doc("getRun", "Get a scenario run; with `wait`, when it has made progress").query::<RunQuery>().response::<Run>(OK)),
        delete("/api/v1/scenario-runs/{run}", Action::StopRun, scenarios::stop, doc("stopRun", "Stop a scenario run").no_content()),
    ]
}

#[rustfmt::skip]
fn fault_routes() -> Vec<Route> {
    vec![
        get("/api/v1/faults", faults::list, doc("listFaults", "List faults of the metadata endpoint, oldest first").query::<faults::FaultsQuery>().page::<Fault>()),
        post("/api/v1/faults", Action::AddFault, faults::add, doc("addFault", "Add a fault to the metadata endpoint").body::<NewFault>().response::<Fault>(CREATED)),
        delete("/api/v1/faults", Action::ClearFault, faults::clear_all, doc("clearFaults", "Clear all faults, or those of one machine").query::<faults::ClearQuery>().response::<ClearedFaults>(OK)),
        get("/api/v1/faults/{fault}", faults::get, doc("getFault", "Get a fault").response::<Fault>(OK)),
        delete("/api/v1/faults/{fault}", Action::ClearFault, faults::clear, doc("clearFault", "Clear a fault").response::<Fault>(OK)),
    ]
}

#[rustfmt::skip]
fn webhook_routes() -> Vec<Route> {
    vec![
        get("/api/v1/webhooks", webhooks::list, doc("listWebhooks", "List webhooks by name, with their delivery state").page::<Webhook>()),
        post("/api/v1/webhooks", Action::CreateWebhook, webhooks::create, doc("createWebhook", "Create a webhook").body::<NewWebhook>().response::<Webhook>(CREATED)),
        get("/api/v1/webhooks/{webhook}", webhooks::get, doc("getWebhook", "Get a webhook and its delivery state").response::<Webhook>(OK)),
        patch("/api/v1/webhooks/{webhook}", Action::ChangeWebhook, webhooks::change, doc("changeWebhook", "Change a webhook; omitted fields keep their values").body::<WebhookChange>().response::<Webhook>(OK)),
        delete("/api/v1/webhooks/{webhook}", Action::DeleteWebhook, webhooks::delete, doc("deleteWebhook", "Delete a webhook").no_content()),
        post("/api/v1/webhooks/{webhook}/test", Action::TestWebhook, webhooks::test, doc("testWebhook", "Send a test message once").optional_body::<EmptyBody>().response::<WebhookTest>(OK)),
        get("/api/v1/webhooks/{webhook}/undelivered", webhook_messages::list_undelivered, doc("listUndelivered", "List messages that could not be delivered, oldest first").page::<UndeliveredMessage>()),
        post("/api/v1/webhooks/{webhook}/resend", Action::ResendMessages, webhook_messages::resend, doc("resendMessages", "Resend undelivered messages, each once").optional_body::<Resend>().response::<Resent>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn other_routes() -> Vec<Route> {
    vec![
        get("/api/v1/history", history::list, doc("listHistory", "List history").query::<history::HistoryFilter>().page::<HistoryRow>()),
        get("/api/v1/changes", changes::stream, doc("streamChanges", "Stream changes as Server-Sent Events").query::<changes::ChangesQuery>().header("Last-Event-ID", "Number of the last row received; the stream continues after it").text("text/event-stream")),
        get("/api/v1/clock", clock::get, doc("getClock", "Get the server's clock").response::<Clock>(OK)),
        put("/api/v1/clock", Action::SetClock, clock::set, doc("setClock", "Set a manual clock").body::<SetClock>().response::<Clock>(OK)),
        post("/api/v1/clock/advance", Action::AdvanceClock, clock::advance, doc("advanceClock", "Advance a manual clock, processing every deadline on the way").body::<AdvanceClock>().response::<Clock>(OK)),
        get("/api/v1/listeners", listeners::list, doc("listListeners", "List the metadata listeners in the order of the configuration").response::<Listeners>(OK)),
        post("/api/v1/portal-links", Action::CreatePortalLink, portal_links::create, doc("createPortalLink", "Create a one-time link that signs a browser in to the portal").optional_body::<EmptyBody>().response::<PortalLink>(CREATED)),
        get("/healthz", health::get_health, doc("getHealth", "Check whether the server accepts changes").response::<Health>(OK)).open(),
        get("/healthz/ready", health::get_ready, doc("getReadiness", "Check whether the server has current data, and its role in its cluster").response::<Readiness>(OK)).open(),
        get("/metrics", health::get_metrics, doc("getMetrics", "Get metrics").text("application/openmetrics-text")),
        get("/openapi.json", get_openapi, doc("getOpenApi", "Get this OpenAPI document").any_json()),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn served() -> BTreeSet<(String, String)> {
        table().iter().map(|route| (route.path.to_owned(), route.method.as_str().to_lowercase())).collect()
    }

    fn documented(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().unwrap();
        let methods = |item: &Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        paths
            .iter()
            .flat_map(|(path, item)| methods(item).into_iter().map(move |method| (path.clone(), method)))
            .collect()
    }

    #[test]
    fn the_document_contains_exactly_the_served_routes() {
        let document = serde_json::to_value(document(&table())).unwrap();
        assert_eq!(documented(&document), served());
        assert_eq!(served().len(), table().len(), "a route is in the table twice");
    }

    #[test]
    fn every_reference_in_the_document_resolves() {
        let document = serde_json::to_value(document(&table())).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer} does not resolve");
        }
    }

    #[test]
    fn dry_runs_are_documented_where_they_exist() {
        let document = serde_json::to_value(document(&table())).unwrap();
        let of = |path: &str, method: &str| document["paths"][path][method].to_string();
        assert!(of("/api/v1/machines/{machine}/restart", "post").contains("\"dryRun\""));
        assert!(of("/api/v1/machines/{machine}/restart", "post").contains("schemas/DryRun"));
        assert!(of("/api/v1/machines/{machine}", "delete").contains("\"dryRun\""));
        assert!(!of("/api/v1/rollouts", "post").contains("\"dryRun\""));
    }

    #[test]
    fn everything_that_creates_events_has_a_dry_run_or_a_preview() {
        let other_work = ["resendMessages"];
        let served = served();
        for route in table().iter().filter(|route| !other_work.contains(&route.doc.id)) {
            let is_accepted = route.doc.responses.iter().any(|(status, _)| *status == ACCEPTED);
            let has_dry_run =
                dry_run::ROUTES.iter().any(|(method, path)| *method == route.method && *path == route.path);
            let has_preview = served.contains(&(format!("{}/preview", route.path), "post".to_owned()));
            assert!(!is_accepted || has_dry_run || has_preview, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let ids: BTreeSet<_> = table().iter().map(|route| route.doc.id).collect();
        assert_eq!(ids.len(), table().len());
    }

    #[test]
    fn every_route_documents_its_success_response() {
        for route in table() {
            assert!(!route.doc.responses.is_empty(), "{} {}", route.method, route.path);
        }
    }
}
