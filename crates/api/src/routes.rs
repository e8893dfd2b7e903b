//! Every path of the native API in one table: method, path, handler, required role and OpenAPI description.

use std::sync::{Arc, LazyLock, OnceLock};

use axum::handler::Handler;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use bytes::Bytes;
use forewarn_access::{Needs, Principal, Role, is_arm_path};
use http::{Method, StatusCode, Uri, header};

use super::error::{ApiError, ErrorCode};
use super::events::{self, Approvals, Approved, Event};
use super::extract::{EmptyBody, GroupQuery, NoQuery, Paging, Params};
use super::faults::{self, Cleared, Fault, NewFault};
use super::groups::{Group, NewGroup, PolicyChange, availability_sets, cloud_services};
use super::guard::RouteAccess;
use super::hosts::Host;
use super::machine_actions::{ActionOptions, DeleteQuery, FailureOptions};
use super::machine_identity::{Identity, NewIdentity};
use super::machines::{Machine, MachineChange, NewMachine};
use super::openapi::{self, Doc, DocumentedRoute};
use super::operations::Operation;
use super::scale_sets::{
    DeleteInstances, InstancesQuery, NewScaleSet, ScaleSet, ScaleSetChange, ScaleSetChanged, SomeInstances, Upgrade,
};
use super::webhook_messages::{self, GivenUpMessage, Resend, Resent};
use super::webhook_routes::{self as webhooks, NewWebhook, Webhook, WebhookChange, WebhookTest};
use super::{
    PREFIX, Service, changes, clock, guard, health, history, hosts, listeners, machine_actions, machine_identity,
    machines, maintenance, operations, portal_links, requests,
};
use super::{scale_sets, scenario_routes as scenarios, sign_in, waits};

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// By default, reading requires the role reader and everything else the role owner.
    needs: Needs,
    handler: MethodRouter<Service>,
    doc: Doc,
}

impl Route {
    /// Requires the role operator.
    fn operator(mut self) -> Route {
        self.needs = Needs::Role(Role::Operator);
        self
    }

    /// Requires the role reader.
    fn reader(mut self) -> Route {
        self.needs = Needs::Role(Role::Reader);
        self
    }

    /// Requires no token.
    fn open(mut self) -> Route {
        self.needs = Needs::Nothing;
        self
    }
}

/// The access that each route requires.
static ACCESS: LazyLock<Arc<RouteAccess>> = LazyLock::new(|| {
    let listed = table().into_iter().map(|route| (route.path, route.method, route.needs));
    let open = sign_in::routes().into_iter().map(|(path, method, _)| (path, method, Needs::Nothing));
    Arc::new(RouteAccess::new(listed.chain(open)))
});

/// Puts the guard in front of everything that is mounted on the router so far.
pub fn guarded(router: Router<Service>, service: &Service) -> Router<Service> {
    router.layer(middleware::from_fn_with_state((service.clone(), ACCESS.clone()), guard::check))
}

/// The routes for calls in process by a principal: only the role is checked.
pub fn in_process(service: Service, principal: Principal) -> Router {
    let check_role = middleware::from_fn_with_state(ACCESS.clone(), guard::check_role_only);
    let router = routes().fallback(answer_not_found).layer(check_role);
    router.layer(Extension(principal)).with_state(service)
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

async fn answer_not_found(uri: Uri) -> ApiError {
    not_found(uri.path())
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

macro_rules! verb {
    ($name:ident, $method:ident, $role:ident) => {
        fn $name<H: Handler<T, Service>, T: 'static>(path: &'static str, handler: H, doc: Doc) -> Route {
            let handler = on(MethodFilter::$method, handler);
            Route { method: Method::$method, path, needs: Needs::Role(Role::$role), handler, doc }
        }
    };
}

verb!(get, GET, Reader);
verb!(put, PUT, Owner);
verb!(post, POST, Owner);
verb!(patch, PATCH, Owner);
verb!(delete, DELETE, Owner);

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

fn doc(id: &'static str, summary: &'static str) -> Doc {
    Doc::new(id, summary)
}

/// An action on one machine that starts an operation.
fn action(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<GroupQuery>().optional_body::<ActionOptions>().response::<Operation>(ACCEPTED)
}

/// An action on instances of a scale set.
fn set_action(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<GroupQuery>().optional_body::<SomeInstances>().response::<Operation>(ACCEPTED)
}

/// A change of a machine's power state.
fn power(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<GroupQuery>().optional_body::<EmptyBody>().response::<Machine>(OK)
}

/// An action on one event.
fn event_action(id: &'static str, summary: &'static str) -> Doc {
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
    .collect()
}

#[rustfmt::skip]
fn machine_routes() -> Vec<Route> {
    use {machine_actions as act, machine_identity as identity};
    vec![
        get("/api/v1/machines", machines::list, doc("listMachines", "List machines in order of registration").query::<machines::ListQuery>().page::<Machine>()),
        post("/api/v1/machines", machines::register, doc("registerMachine", "Register a machine").body::<NewMachine>().response::<Machine>(CREATED)),
        get("/api/v1/machines/{machine}", machines::get, doc("getMachine", "Get a machine").query::<GroupQuery>().response::<Machine>(OK)),
        patch("/api/v1/machines/{machine}", machines::change, doc("changeMachine", "Change a machine; omitted fields keep their values").query::<GroupQuery>().body::<MachineChange>().response::<Machine>(OK)),
        delete("/api/v1/machines/{machine}", act::delete, doc("deleteMachine", "Delete a machine, with notice if it has a terminate notification").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/requests", requests::list, doc("listRequests", "List recent metadata requests of a machine").query::<requests::RequestsQuery>().response::<requests::Requests>(OK)),
        post("/api/v1/machines/{machine}/restart", act::restart, action("restartMachine", "Restart a machine after its notice period (Reboot event)")).operator(),
        post("/api/v1/machines/{machine}/redeploy", act::redeploy, action("redeployMachine", "Move a machine to another host after its notice period (Redeploy event)")).operator(),
        post("/api/v1/machines/{machine}/perform-maintenance", act::perform_maintenance, action("performMaintenance", "Start self-service maintenance (Redeploy event)")).operator(),
        post("/api/v1/machines/{machine}/evict", act::evict, action("evictMachine", "Evict a Spot machine (Preempt event)")),
        post("/api/v1/machines/{machine}/hardware-failure", act::fail, doc("failMachine", "Simulate a hardware failure of a machine (event without notice)").query::<GroupQuery>().optional_body::<FailureOptions>().response::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/identity", identity::get, doc("getMachineIdentity", "Get the managed identity of a machine").query::<GroupQuery>().response::<Identity>(OK)),
        put("/api/v1/machines/{machine}/identity", identity::put, doc("putMachineIdentity", "Assign a managed identity to a machine, so that it can get tokens for this API").query::<GroupQuery>().optional_body::<NewIdentity>().response::<Identity>(OK)),
        delete("/api/v1/machines/{machine}/identity", identity::delete, doc("deleteMachineIdentity", "Remove the managed identity of a machine").query::<GroupQuery>().no_content()),
        post("/api/v1/machines/{machine}/start", act::start, power("startMachine", "Start a machine")),
        post("/api/v1/machines/{machine}/stop", act::stop, power("stopMachine", "Stop a machine; it keeps its host")),
        post("/api/v1/machines/{machine}/deallocate", act::deallocate, power("deallocateMachine", "Stop a machine and release its host")),
    ]
}

#[rustfmt::skip]
fn group_routes() -> Vec<Route> {
    use {availability_sets as sets, cloud_services as services};
    vec![
        get("/api/v1/availability-sets", sets::list, doc("listAvailabilitySets", "List availability sets").query::<Paging>().page::<Group>()),
        post("/api/v1/availability-sets", sets::create, doc("createAvailabilitySet", "Create an availability set").body::<NewGroup>().response::<Group>(CREATED)),
        get("/api/v1/availability-sets/{set}", sets::get, doc("getAvailabilitySet", "Get an availability set").query::<GroupQuery>().response::<Group>(OK)),
        patch("/api/v1/availability-sets/{set}", sets::change, doc("changeAvailabilitySet", "Change an availability set").query::<GroupQuery>().body::<PolicyChange>().response::<Group>(OK)),
        delete("/api/v1/availability-sets/{set}", sets::delete, doc("deleteAvailabilitySet", "Delete an availability set and its machines").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/cloud-services", services::list, doc("listCloudServices", "List cloud services").query::<Paging>().page::<Group>()),
        post("/api/v1/cloud-services", services::create, doc("createCloudService", "Create a cloud service").body::<NewGroup>().response::<Group>(CREATED)),
        get("/api/v1/cloud-services/{service}", services::get, doc("getCloudService", "Get a cloud service").query::<GroupQuery>().response::<Group>(OK)),
        patch("/api/v1/cloud-services/{service}", services::change, doc("changeCloudService", "Change a cloud service").query::<GroupQuery>().body::<PolicyChange>().response::<Group>(OK)),
        delete("/api/v1/cloud-services/{service}", services::delete, doc("deleteCloudService", "Delete a cloud service and its role instances").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn scale_set_routes() -> Vec<Route> {
    use scale_sets as sets;
    vec![
        get("/api/v1/scale-sets", sets::list, doc("listScaleSets", "List scale sets").query::<Paging>().page::<ScaleSet>()),
        post("/api/v1/scale-sets", sets::create, doc("createScaleSet", "Create a scale set and its instances").body::<NewScaleSet>().response::<ScaleSet>(CREATED)),
        get("/api/v1/scale-sets/{set}", sets::get, doc("getScaleSet", "Get a scale set").query::<GroupQuery>().response::<ScaleSet>(OK)),
        patch("/api/v1/scale-sets/{set}", sets::change, doc("changeScaleSet", "Change the capacity, model, upgrade mode or policy of a scale set").query::<GroupQuery>().body::<ScaleSetChange>().response::<ScaleSetChanged>(OK)),
        delete("/api/v1/scale-sets/{set}", sets::delete, doc("deleteScaleSet", "Delete a scale set and its instances").query::<DeleteQuery>().response::<Operation>(ACCEPTED)),
        get("/api/v1/scale-sets/{set}/instances", sets::instances, doc("listInstances", "List the instances of a scale set").query::<InstancesQuery>().page::<Machine>()),
        post("/api/v1/scale-sets/{set}/upgrade", sets::upgrade, doc("upgradeInstances", "Upgrade instances to the latest model").query::<GroupQuery>().optional_body::<Upgrade>().response::<ScaleSet>(OK)),
        post("/api/v1/scale-sets/{set}/restart", sets::restart, set_action("restartInstances", "Restart instances (one Reboot event each)")).operator(),
        post("/api/v1/scale-sets/{set}/redeploy", sets::redeploy, set_action("redeployInstances", "Move instances to other hosts (one Redeploy event each)")).operator(),
        post("/api/v1/scale-sets/{set}/perform-maintenance", sets::perform_maintenance, set_action("performMaintenanceOfInstances", "Start self-service maintenance of instances (one Redeploy event each)")).operator(),
        post("/api/v1/scale-sets/{set}/delete-instances", sets::delete_instances, doc("deleteInstances", "Delete instances, with notice if they have a terminate notification").query::<GroupQuery>().body::<DeleteInstances>().response::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn host_routes() -> Vec<Route> {
    vec![
        get("/api/v1/hosts", hosts::list, doc("listHosts", "List hosts by name").query::<hosts::ListQuery>().page::<Host>()),
        get("/api/v1/hosts/{host}", hosts::get, doc("getHost", "Get a host").response::<Host>(OK)),
        put("/api/v1/hosts/{host}", hosts::put, doc("registerHost", "Register a host").response::<Host>(OK).response::<Host>(CREATED)),
        delete("/api/v1/hosts/{host}", hosts::delete, doc("removeHost", "Remove a host without machines").no_content()),
        post("/api/v1/hosts/{host}/hardware-failure", hosts::fail, doc("failHost", "Simulate a hardware failure of a host (events without notice for all its machines)").optional_body::<FailureOptions>().response::<Operation>(ACCEPTED)),
        post("/api/v1/maintenance", maintenance::start, doc("startMaintenance", "Start or plan maintenance of machines, a host or a group").body::<maintenance::NewMaintenance>().response::<Operation>(ACCEPTED)).operator(),
    ]
}

#[rustfmt::skip]
fn event_routes() -> Vec<Route> {
    vec![
        get("/api/v1/events", events::list, doc("listEvents", "List unfinished events in order of appearance").query::<events::ListQuery>().page::<Event>()),
        post("/api/v1/events/approve", events::approve_many, doc("approveEvents", "Approve events, all or none").body::<Approvals>().response::<Approved>(OK)).operator(),
        get("/api/v1/events/wait", waits::wait, doc("waitForEvent", "Wait for an event to reach a status").query::<waits::WaitQuery>().response::<waits::WaitAnswer>(OK)),
        get("/api/v1/events/{event}", events::get, doc("getEvent", "Get an event").response::<Event>(OK)),
        post("/api/v1/events/{event}/approve", events::approve, event_action("approveEvent", "Approve an event")).operator(),
        post("/api/v1/events/{event}/cancel", events::cancel, event_action("cancelEvent", "Cancel the operations behind an event")).operator(),
        get("/api/v1/operations", operations::list, doc("listOperations", "List current operations, oldest first").query::<operations::ListQuery>().page::<Operation>()),
        get("/api/v1/operations/{operation}", operations::get, doc("getOperation", "Get an operation, current or from history").response::<Operation>(OK)),
        post("/api/v1/operations/{operation}/cancel", operations::cancel, doc("cancelOperation", "Cancel the part of an operation that has not started").optional_body::<EmptyBody>().response::<Operation>(OK)).operator(),
    ]
}

#[rustfmt::skip]
fn scenario_routes() -> Vec<Route> {
    use scenarios::{NewRun, Run, RunQuery, ScenarioFile, ScenarioSummary};
    vec![
        get("/api/v1/scenarios", scenarios::list, doc("listScenarios", "List the built-in scenarios").page::<ScenarioSummary>()),
        get("/api/v1/scenarios/{scenario}", scenarios::get, doc("getScenario", "Get a built-in scenario and its file").response::<ScenarioFile>(OK)),
        get("/api/v1/scenario-runs", scenarios::runs, doc("listRuns", "List scenario runs, oldest first").page::<Run>()),
        post("/api/v1/scenario-runs", scenarios::begin, doc("runScenario", "Run a scenario").body::<NewRun>().response::<Run>(ACCEPTED)),
        get("/api/v1/scenario-runs/{run}", scenarios::run, doc("getRun", "Get a scenario run; with `wait`, when it has made progress").query::<RunQuery>().response::<Run>(OK)),
        delete("/api/v1/scenario-runs/{run}", scenarios::stop, doc("stopRun", "Stop a scenario run").no_content()),
    ]
}

#[rustfmt::skip]
fn fault_routes() -> Vec<Route> {
    vec![
        get("/api/v1/faults", faults::list, doc("listFaults", "List faults of the metadata endpoint, oldest first").query::<faults::ListQuery>().page::<Fault>()),
        post("/api/v1/faults", faults::add, doc("addFault", "Add a fault to the metadata endpoint").body::<NewFault>().response::<Fault>(CREATED)),
        delete("/api/v1/faults", faults::clear_all, doc("clearFaults", "Clear all faults, or those of one machine").query::<faults::ClearQuery>().response::<Cleared>(OK)),
        get("/api/v1/faults/{fault}", faults::get, doc("getFault", "Get a fault").response::<Fault>(OK)),
        delete("/api/v1/faults/{fault}", faults::clear, doc("clearFault", "Clear a fault").response::<Fault>(OK)),
    ]
}

#[rustfmt::skip]
fn webhook_routes() -> Vec<Route> {
    vec![
        get("/api/v1/webhooks", webhooks::list, doc("listWebhooks", "List webhooks by name, with their delivery state").page::<Webhook>()),
        post("/api/v1/webhooks", webhooks::create, doc("createWebhook", "Create a webhook").body::<NewWebhook>().response::<Webhook>(CREATED)),
        get("/api/v1/webhooks/{webhook}", webhooks::get, doc("getWebhook", "Get a webhook and its delivery state").response::<Webhook>(OK)),
        patch("/api/v1/webhooks/{webhook}", webhooks::change, doc("changeWebhook", "Change a webhook; omitted fields keep their values").body::<WebhookChange>().response::<Webhook>(OK)),
        delete("/api/v1/webhooks/{webhook}", webhooks::delete, doc("deleteWebhook", "Delete a webhook").no_content()),
        post("/api/v1/webhooks/{webhook}/test", webhooks::test, doc("testWebhook", "Send a test message once").optional_body::<EmptyBody>().response::<WebhookTest>(OK)),
        get("/api/v1/webhooks/{webhook}/given-up", webhook_messages::given_up, doc("listGivenUp", "List messages that could not be delivered, oldest first").page::<GivenUpMessage>()),
        post("/api/v1/webhooks/{webhook}/resend", webhook_messages::resend, doc("resendGivenUp", "Resend undelivered messages, each once").optional_body::<Resend>().response::<Resent>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn other_routes() -> Vec<Route> {
    vec![
        get("/api/v1/history", history::list, doc("listHistory", "List history").query::<history::ListQuery>().page::<history::HistoryRow>()),
        get("/api/v1/changes", changes::stream, doc("streamChanges", "Stream changes as Server-Sent Events").query::<changes::ChangesQuery>().header("Last-Event-ID", "Number of the last row received; the stream continues after it").text("text/event-stream")),
        get("/api/v1/clock", clock::get, doc("getClock", "Get the server's clock").response::<clock::Clock>(OK)),
        put("/api/v1/clock", clock::set, doc("setClock", "Set a manual clock").body::<clock::SetTo>().response::<clock::Clock>(OK)),
        post("/api/v1/clock/advance", clock::advance, doc("advanceClock", "Advance a manual clock, processing every deadline on the way").body::<clock::AdvanceBy>().response::<clock::Clock>(OK)),
        get("/api/v1/listeners", listeners::list, doc("listListeners", "List the metadata listeners in the order of the configuration").response::<listeners::Listeners>(OK)),
        post("/api/v1/portal-links", portal_links::create, doc("createPortalLink", "Create a one-time link that signs a browser in to the portal").optional_body::<EmptyBody>().response::<portal_links::PortalLink>(CREATED)).reader(),
        get("/healthz", health::get_health, doc("getHealth", "Check whether the server accepts changes").response::<health::Health>(OK)).open(),
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
