//! Every path of the management listener, in one table: method, path, handler, and what the OpenAPI
//! document says of it.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::handler::Handler;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use http::{Method, StatusCode, Uri};

use super::error::{ApiError, Refusal};
use super::events::{self, Approvals, Approved, Event};
use super::extract::{InGroup, Nothing, Paging};
use super::faults::{self, Cleared, Fault, NewFault};
use super::groups::{Group, NewGroup, PolicyChange, availability_sets, cloud_services};
use super::hosts::Host;
use super::machine_actions::{Action, DeleteQuery, Failure};
use super::machine_identity::{Identity, NewIdentity};
use super::machines::{Machine, MachineChange, NewMachine};
use super::openapi::Doc;
use super::operations::Operation;
use super::scale_sets::{
    DeleteInstances, InstancesQuery, NewScaleSet, ScaleSet, ScaleSetChange, ScaleSetChanged, SomeInstances, Upgrade,
};
use super::webhook_messages::{self, GivenUpMessage, Resend, Resent};
use super::webhook_routes::{self as webhooks, NewWebhook, Webhook, WebhookChange, WebhookTest};
use super::{
    Api, Service, changes, clock, guard, history, hosts, listeners, machine_actions, machine_identity, machines,
    maintenance, operations, portal_links, requests,
};
use super::{scale_sets, scenario_routes as scenarios, service, sign_in, waits};
use forewarn_access::{Needs, Role, is_arm_path};

/// What the API's own paths begin with.
pub const PREFIX: &str = "/api/v1";

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Reading needs a reader, everything else an owner, unless the table says otherwise.
    pub(super) needs: Needs,
    handler: MethodRouter<Service>,
    pub(super) doc: Doc,
}

impl Route {
    /// Operators may, too.
    fn operator(mut self) -> Route {
        self.needs = Needs::Role(Role::Operator);
        self
    }

    /// Whoever may look may.
    fn reader(mut self) -> Route {
        self.needs = Needs::Role(Role::Reader);
        self
    }

    /// Nobody is asked for a token.
    fn open(mut self) -> Route {
        self.needs = Needs::Nothing;
        self
    }
}

/// What a request to a path of the table needs. None: the path does not take this method.
pub(super) fn needs(method: &Method, path: &str) -> Option<Needs> {
    static NEEDS: LazyLock<HashMap<&'static str, Vec<(Method, Needs)>>> = LazyLock::new(|| {
        let mut needs: HashMap<_, Vec<_>> = HashMap::new();
        for Route { method, path, needs: needed, .. } in table() {
            needs.entry(path).or_default().push((method, needed));
        }
        for (path, method, _) in sign_in::routes() {
            needs.entry(path).or_default().push((method, Needs::Nothing));
        }
        needs
    });
    let method = if method == Method::HEAD { &Method::GET } else { method };
    NEEDS.get(path)?.iter().find(|(known, _)| known == method).map(|(_, needed)| *needed)
}

/// The guard in front of everything that is mounted on the router so far.
pub fn guarded(router: Router<Service>, service: &Service) -> Router<Service> {
    router.layer(middleware::from_fn_with_state(service.clone(), guard::check))
}

/// The routes without the guard, for calls by the program itself on behalf of a principal.
pub fn inside(api: Api) -> Router {
    let Api(inner, principal) = api;
    routes().fallback(nothing_here).layer(Extension(principal)).with_state(Service(inner))
}

/// What `inside` offers, to those alone who have the role that the table asks for.
pub(super) fn inside_by_role(api: Api) -> Router {
    let Api(inner, principal) = api;
    let routes = routes().fallback(nothing_here).layer(middleware::from_fn(guard::check_role_of));
    routes.layer(Extension(principal)).with_state(Service(inner))
}

/// The routes of the native API and of sign-in. The caller mounts the rest and sets the fallback.
pub fn routes() -> Router<Service> {
    let mut router = Router::new();
    for route in table() {
        router = router.route(route.path, route.handler);
    }
    for (path, _, handler) in sign_in::routes() {
        router = router.route(path, handler);
    }
    router.method_not_allowed_fallback(not_allowed)
}

/// Whether a path belongs to an API even if no route matches it, so that the response is an error in JSON.
pub fn is_api_path(path: &str) -> bool {
    is_arm_path(path) || path.starts_with(PREFIX)
}

async fn nothing_here(uri: Uri) -> ApiError {
    not_found(uri.path())
}

pub fn not_found(path: &str) -> ApiError {
    let message = format!("There is nothing at '{path}'. The paths are in /openapi.json.");
    ApiError::new(Refusal::NotFound, message).about(path)
}

async fn not_allowed(method: Method, uri: Uri) -> ApiError {
    let message = format!("'{}' does not take {method}. The header Allow says what it takes.", uri.path());
    ApiError::new(Refusal::MethodNotAllowed, message)
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

fn doc(id: &'static str, summary: &'static str) -> Doc {
    Doc::new(id, summary)
}

/// An action on one machine that makes an operation.
fn action(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<InGroup>().may_body::<Action>().answer::<Operation>(ACCEPTED)
}

/// An action on instances of a scale set.
fn set_action(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<InGroup>().may_body::<SomeInstances>().answer::<Operation>(ACCEPTED)
}

/// A turn of a machine's power switch.
fn power(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).query::<InGroup>().may_body::<Nothing>().answer::<Machine>(OK)
}

/// An action on one event.
fn event_action(id: &'static str, summary: &'static str) -> Doc {
    doc(id, summary).may_body::<Nothing>().answer::<Event>(OK)
}

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
        get("/api/v1/machines", machines::list, doc("listMachines", "Machines, in order of registration").query::<machines::ListQuery>().page::<Machine>()),
        post("/api/v1/machines", machines::register, doc("registerMachine", "Registers a machine").body::<NewMachine>().answer::<Machine>(CREATED)),
        get("/api/v1/machines/{machine}", machines::get, doc("getMachine", "One machine").query::<InGroup>().answer::<Machine>(OK)),
        patch("/api/v1/machines/{machine}", machines::change, doc("changeMachine", "Changes a machine; what is left out stays").query::<InGroup>().body::<MachineChange>().answer::<Machine>(OK)),
        delete("/api/v1/machines/{machine}", act::delete, doc("deleteMachine", "Deletes a machine, with notice where it has a terminate notification").query::<DeleteQuery>().answer::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/requests", requests::list, doc("listRequests", "What a machine asked of the metadata endpoint lately").query::<requests::RequestsQuery>().answer::<requests::Requests>(OK)),
        post("/api/v1/machines/{machine}/restart", act::restart, action("restartMachine", "Restarts a machine: a Reboot event")).operator(),
        post("/api/v1/machines/{machine}/redeploy", act::redeploy, action("redeployMachine", "Moves a machine to another host: a Redeploy event")).operator(),
        post("/api/v1/machines/{machine}/perform-maintenance", act::perform_maintenance, action("performMaintenance", "Self-service maintenance: a Redeploy event")).operator(),
        post("/api/v1/machines/{machine}/evict", act::evict, action("evictMachine", "Evicts a Spot machine: a Preempt event")),
        post("/api/v1/machines/{machine}/hardware-failure", act::fail, doc("failMachine", "The machine's hardware breaks: an event without notice").query::<InGroup>().may_body::<Failure>().answer::<Operation>(ACCEPTED)),
        get("/api/v1/machines/{machine}/identity", identity::get, doc("getMachineIdentity", "The identity that a machine was given").query::<InGroup>().answer::<Identity>(OK)),
        put("/api/v1/machines/{machine}/identity", identity::put, doc("putMachineIdentity", "Gives a machine an identity, so that it gets tokens for this API").query::<InGroup>().may_body::<NewIdentity>().answer::<Identity>(OK)),
        delete("/api/v1/machines/{machine}/identity", identity::delete, doc("deleteMachineIdentity", "Takes a machine's identity away").query::<InGroup>().no_content()),
        post("/api/v1/machines/{machine}/start", act::start, power("startMachine", "Switches a machine on")),
        post("/api/v1/machines/{machine}/stop", act::stop, power("stopMachine", "Switches a machine off; it stays on its host")),
        post("/api/v1/machines/{machine}/deallocate", act::deallocate, power("deallocateMachine", "Switches a machine off and gives up its place")),
    ]
}

#[rustfmt::skip]
fn group_routes() -> Vec<Route> {
    use {availability_sets as sets, cloud_services as services};
    vec![
        get("/api/v1/availability-sets", sets::list, doc("listAvailabilitySets", "Availability sets").query::<Paging>().page::<Group>()),
        post("/api/v1/availability-sets", sets::create, doc("createAvailabilitySet", "Creates an availability set").body::<NewGroup>().answer::<Group>(CREATED)),
        get("/api/v1/availability-sets/{set}", sets::get, doc("getAvailabilitySet", "One availability set").query::<InGroup>().answer::<Group>(OK)),
        patch("/api/v1/availability-sets/{set}", sets::change, doc("changeAvailabilitySet", "Changes an availability set").query::<InGroup>().body::<PolicyChange>().answer::<Group>(OK)),
        delete("/api/v1/availability-sets/{set}", sets::delete, doc("deleteAvailabilitySet", "Deletes an availability set and its machines").query::<DeleteQuery>().answer::<Operation>(ACCEPTED)),
        get("/api/v1/cloud-services", services::list, doc("listCloudServices", "Cloud services").query::<Paging>().page::<Group>()),
        post("/api/v1/cloud-services", services::create, doc("createCloudService", "Creates a cloud service").body::<NewGroup>().answer::<Group>(CREATED)),
        get("/api/v1/cloud-services/{service}", services::get, doc("getCloudService", "One cloud service").query::<InGroup>().answer::<Group>(OK)),
        patch("/api/v1/cloud-services/{service}", services::change, doc("changeCloudService", "Changes a cloud service").query::<InGroup>().body::<PolicyChange>().answer::<Group>(OK)),
        delete("/api/v1/cloud-services/{service}", services::delete, doc("deleteCloudService", "Deletes a cloud service and its role instances").query::<DeleteQuery>().answer::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn scale_set_routes() -> Vec<Route> {
    use scale_sets as sets;
    vec![
        get("/api/v1/scale-sets", sets::list, doc("listScaleSets", "Scale sets").query::<Paging>().page::<ScaleSet>()),
        post("/api/v1/scale-sets", sets::create, doc("createScaleSet", "Creates a scale set and its instances").body::<NewScaleSet>().answer::<ScaleSet>(CREATED)),
        get("/api/v1/scale-sets/{set}", sets::get, doc("getScaleSet", "One scale set").query::<InGroup>().answer::<ScaleSet>(OK)),
        patch("/api/v1/scale-sets/{set}", sets::change, doc("changeScaleSet", "Changes capacity, model, upgrade mode or policy").query::<InGroup>().body::<ScaleSetChange>().answer::<ScaleSetChanged>(OK)),
        delete("/api/v1/scale-sets/{set}", sets::delete, doc("deleteScaleSet", "Deletes a scale set and its instances").query::<DeleteQuery>().answer::<Operation>(ACCEPTED)),
        get("/api/v1/scale-sets/{set}/instances", sets::instances, doc("listInstances", "Instances of a scale set").query::<InstancesQuery>().page::<Machine>()),
        post("/api/v1/scale-sets/{set}/upgrade", sets::upgrade, doc("upgradeInstances", "Brings instances to the latest model").query::<InGroup>().may_body::<Upgrade>().answer::<ScaleSet>(OK)),
        post("/api/v1/scale-sets/{set}/restart", sets::restart, set_action("restartInstances", "Restarts instances: a Reboot event for each")).operator(),
        post("/api/v1/scale-sets/{set}/redeploy", sets::redeploy, set_action("redeployInstances", "Moves instances to other hosts: a Redeploy event for each")).operator(),
        post("/api/v1/scale-sets/{set}/perform-maintenance", sets::perform_maintenance, set_action("performMaintenanceOfInstances", "Does now what maintenance would do to instances later: a Redeploy event for each")).operator(),
        post("/api/v1/scale-sets/{set}/delete-instances", sets::delete_instances, doc("deleteInstances", "Deletes instances, with notice where they have it").query::<InGroup>().body::<DeleteInstances>().answer::<Operation>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn host_routes() -> Vec<Route> {
    vec![
        get("/api/v1/hosts", hosts::list, doc("listHosts", "Hosts, by name").query::<hosts::ListQuery>().page::<Host>()),
        get("/api/v1/hosts/{host}", hosts::get, doc("getHost", "One host").answer::<Host>(OK)),
        put("/api/v1/hosts/{host}", hosts::put, doc("registerHost", "Registers a host").answer::<Host>(OK).answer::<Host>(CREATED)),
        delete("/api/v1/hosts/{host}", hosts::delete, doc("removeHost", "Removes a host that no machine is on").no_content()),
        post("/api/v1/hosts/{host}/hardware-failure", hosts::fail, doc("failHost", "The host breaks: events without notice for all on it").may_body::<Failure>().answer::<Operation>(ACCEPTED)),
        post("/api/v1/maintenance", maintenance::start, doc("startMaintenance", "Starts or plans maintenance of a machine, a host or a group").body::<maintenance::NewMaintenance>().answer::<Operation>(ACCEPTED)).operator(),
    ]
}

#[rustfmt::skip]
fn event_routes() -> Vec<Route> {
    vec![
        get("/api/v1/events", events::list, doc("listEvents", "Events that are not over, in order of appearance").query::<events::ListQuery>().page::<Event>()),
        post("/api/v1/events/approve", events::approve_many, doc("approveEvents", "Approves events, all or none").body::<Approvals>().answer::<Approved>(OK)).operator(),
        get("/api/v1/events/wait", waits::wait, doc("waitForEvent", "Holds until an event has come so far, or the time is over").query::<waits::WaitQuery>().answer::<waits::WaitAnswer>(OK)),
        get("/api/v1/events/{event}", events::get, doc("getEvent", "One event").answer::<Event>(OK)),
        post("/api/v1/events/{event}/approve", events::approve, event_action("approveEvent", "Approves an event")).operator(),
        post("/api/v1/events/{event}/cancel", events::cancel, event_action("cancelEvent", "Cancels what the event comes from")).operator(),
        get("/api/v1/operations", operations::list, doc("listOperations", "Operations that are not forgotten, oldest first").query::<operations::ListQuery>().page::<Operation>()),
        get("/api/v1/operations/{operation}", operations::get, doc("getOperation", "One operation; from history when it is forgotten").answer::<Operation>(OK)),
        post("/api/v1/operations/{operation}/cancel", operations::cancel, doc("cancelOperation", "Cancels what has not started").may_body::<Nothing>().answer::<Operation>(OK)).operator(),
    ]
}

#[rustfmt::skip]
fn scenario_routes() -> Vec<Route> {
    use scenarios::{NewRun, Run, RunQuery, ScenarioFile, ScenarioSummary};
    vec![
        get("/api/v1/scenarios", scenarios::list, doc("listScenarios", "The scenarios that come with the program").page::<ScenarioSummary>()),
        get("/api/v1/scenarios/{scenario}", scenarios::get, doc("getScenario", "One of them, with its file").answer::<ScenarioFile>(OK)),
        get("/api/v1/scenario-runs", scenarios::runs, doc("listRuns", "Runs of scenarios, oldest first").page::<Run>()),
        post("/api/v1/scenario-runs", scenarios::begin, doc("runScenario", "Runs a scenario").body::<NewRun>().answer::<Run>(ACCEPTED)),
        get("/api/v1/scenario-runs/{run}", scenarios::run, doc("getRun", "One run; with `wait`, when it has gone on").query::<RunQuery>().answer::<Run>(OK)),
        delete("/api/v1/scenario-runs/{run}", scenarios::stop, doc("stopRun", "Stops a run").no_content()),
    ]
}

#[rustfmt::skip]
fn fault_routes() -> Vec<Route> {
    vec![
        get("/api/v1/faults", faults::list, doc("listFaults", "Faults of the metadata endpoint, oldest first").query::<faults::ListQuery>().page::<Fault>()),
        post("/api/v1/faults", faults::add, doc("addFault", "Lets requests go wrong").body::<NewFault>().answer::<Fault>(CREATED)),
        delete("/api/v1/faults", faults::clear_all, doc("clearFaults", "Ends all faults, or those of one machine").query::<faults::ClearQuery>().answer::<Cleared>(OK)),
        get("/api/v1/faults/{fault}", faults::get, doc("getFault", "One fault").answer::<Fault>(OK)),
        delete("/api/v1/faults/{fault}", faults::clear, doc("clearFault", "Ends a fault").answer::<Fault>(OK)),
    ]
}

#[rustfmt::skip]
fn webhook_routes() -> Vec<Route> {
    vec![
        get("/api/v1/webhooks", webhooks::list, doc("listWebhooks", "Web hooks, by name, and how they fare").page::<Webhook>()),
        post("/api/v1/webhooks", webhooks::create, doc("createWebhook", "Lets a program be told what happens to events").body::<NewWebhook>().answer::<Webhook>(CREATED)),
        get("/api/v1/webhooks/{webhook}", webhooks::get, doc("getWebhook", "One web hook, and how it fares").answer::<Webhook>(OK)),
        patch("/api/v1/webhooks/{webhook}", webhooks::change, doc("changeWebhook", "Changes a web hook; what is left out stays").body::<WebhookChange>().answer::<Webhook>(OK)),
        delete("/api/v1/webhooks/{webhook}", webhooks::delete, doc("deleteWebhook", "Deletes a web hook").no_content()),
        post("/api/v1/webhooks/{webhook}/test", webhooks::test, doc("testWebhook", "Sends a message that is about nothing, once").may_body::<Nothing>().answer::<WebhookTest>(OK)),
        get("/api/v1/webhooks/{webhook}/given-up", webhook_messages::given_up, doc("listGivenUp", "The last messages that a web hook was not told, oldest first").page::<GivenUpMessage>()),
        post("/api/v1/webhooks/{webhook}/resend", webhook_messages::resend, doc("resendGivenUp", "Sends messages again that were given up, each once").may_body::<Resend>().answer::<Resent>(ACCEPTED)),
    ]
}

#[rustfmt::skip]
fn other_routes() -> Vec<Route> {
    vec![
        get("/api/v1/history", history::list, doc("listHistory", "What happened").query::<history::ListQuery>().page::<history::HistoryRow>()),
        get("/api/v1/changes", changes::stream, doc("streamChanges", "What happens, as Server-Sent Events").query::<changes::ChangesQuery>().header("Last-Event-ID", "Begin with the row after this one").text("text/event-stream")),
        get("/api/v1/clock", clock::get, doc("getClock", "The program's clock").answer::<clock::Clock>(OK)),
        put("/api/v1/clock", clock::set, doc("setClock", "Sets a manual clock").body::<clock::SetTo>().answer::<clock::Clock>(OK)),
        post("/api/v1/clock/advance", clock::advance, doc("advanceClock", "Advances a manual clock past every deadline on the way").body::<clock::AdvanceBy>().answer::<clock::Clock>(OK)),
        get("/api/v1/listeners", listeners::list, doc("listListeners", "Where machines ask: the metadata listeners, in the order of the configuration").answer::<listeners::Listeners>(OK)),
        post("/api/v1/portal-links", portal_links::create, doc("createPortalLink", "A link that signs a browser in at the portal, once").may_body::<Nothing>().answer::<portal_links::PortalLink>(CREATED)).reader(),
        get(service::HEALTH_PATH, service::health, doc("getHealth", "Whether the server takes changes").answer::<service::Health>(OK)).open(),
        get("/metrics", service::metrics, doc("getMetrics", "What the server counts").text("application/openmetrics-text")),
        get("/openapi.json", service::openapi, doc("getOpenApi", "This document").any_json()),
    ]
}
