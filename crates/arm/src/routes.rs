//! Every path of the ARM API in one table: method, shape, action and handler. The action determines the role that a
//! request requires.
//!
//! A shape is a path with its names replaced by stars. `T`, `S` and `G` stand for the tenant, a subscription and a resource
//! group, and two slashes for the `providers` segment of an extension:
//!
//! ```text
//!  /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm/restart
//!  G/Microsoft.Compute/virtualMachines/*/restart
//! ```

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use forewarn_wire::arm::id::{Path, Provider, Scope};
use forewarn_wire::arm::types;
use http::{HeaderName, HeaderValue, Method, header};

use super::actions::{self, deallocate, perform_maintenance, power_off, redeploy, reimage, restart, start};
use super::call::Call;
use super::locks::Locks;
use super::{
    acknowledge, apply_updates, assignments, availability_sets, deployments, instances, lookups, machines, maintenance,
    network, operations, resource_groups, scale_sets, scheduled_events, subscriptions,
};
use forewarn_access::{Role, random_guid};
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api::{Action, Actions};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

type Answer = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;
type Handler = fn(Call) -> Answer;

struct Route {
    method: Method,
    shape: &'static str,
    /// None for reading.
    action: Option<Action>,
    handler: Handler,
}

macro_rules! table {
    ($($method:ident $shape:literal $(($action:ident))? => $($handler:ident)::+),+ $(,)?) => {
        const TABLE: &[Route] = &[
            $(Route {
                method: Method::$method,
                shape: $shape,
                action: table!(@action $($action)?),
                handler: |call| Box::pin($($handler)::+(call)),
            }),+
        ];
    };
    (@action) => { None };
    (@action $action:ident) => { Some(Action::$action) };
}

#[rustfmt::skip]
table! {
    GET "T/subscriptions" => subscriptions::list,
    GET "T/tenants" => subscriptions::tenants,
    GET "S" => subscriptions::get,
    GET "S/locations" => lookups::locations,
    GET "S/providers" => lookups::providers,
    GET "S/Microsoft.Compute" => lookups::provider,
    GET "S/Microsoft.Network" => lookups::provider,
    GET "S/Microsoft.Resources" => lookups::provider,
    GET "S/Microsoft.Maintenance" => lookups::provider,
    GET "T/Microsoft.Compute/operations" => lookups::operations,
    GET "T/Microsoft.Network/operations" => lookups::operations,
    GET "T/Microsoft.Resources/operations" => lookups::operations,
    GET "T/Microsoft.Maintenance/operations" => lookups::operations,
    GET "S/Microsoft.Compute/skus" => lookups::skus,
    GET "S/Microsoft.Compute/locations/*/vmSizes" => lookups::vm_sizes,
    GET "G/Microsoft.Compute/virtualMachines/*/vmSizes" => lookups::vm_sizes,
    GET "G/Microsoft.Compute/availabilitySets/*/vmSizes" => lookups::vm_sizes,
    GET "S/Microsoft.Compute/locations/*/publishers/*/artifacttypes/*/offers/*/skus/*/versions" => lookups::image_versions,
    GET "S/Microsoft.Compute/locations/*/publishers/*/artifacttypes/*/offers/*/skus/*/versions/*" => lookups::image_version,
    GET "S/Microsoft.Compute/locations/*/operations/*" => operations::get,

    GET "S/resourceGroups" => resource_groups::list,
    GET "G" => resource_groups::get,
    HEAD "G" => resource_groups::head,
    PUT "G" (PutResourceGroup) => resource_groups::put,
    PATCH "G" (PutResourceGroup) => resource_groups::patch,
    DELETE "G" (DeleteResourceGroup) => resource_groups::delete,

    GET "S/Microsoft.Compute/virtualMachines" => machines::list,
    GET "G/Microsoft.Compute/virtualMachines" => machines::list,
    GET "G/Microsoft.Compute/virtualMachines/*" => machines::get,
    PUT "G/Microsoft.Compute/virtualMachines/*" (CreateVm) => machines::put,
    PATCH "G/Microsoft.Compute/virtualMachines/*" (ChangeVm) => machines::patch,
    DELETE "G/Microsoft.Compute/virtualMachines/*" (DeleteMachine) => machines::delete,
    GET "G/Microsoft.Compute/virtualMachines/*/instanceView" => machines::instance_view,
    POST "G/Microsoft.Compute/virtualMachines/*/restart" (RestartMachine) => restart::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/redeploy" (RedeployMachine) => redeploy::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/reimage" (ReimageMachine) => reimage::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/start" (StartMachine) => start::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/powerOff" (StopMachine) => power_off::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/deallocate" (DeallocateMachine) => deallocate::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/performMaintenance" (PerformMaintenance) => perform_maintenance::act_on_machine,
    POST "G/Microsoft.Compute/virtualMachines/*/simulateEviction" (EvictMachine) => actions::simulate_eviction::act_on_machine,

    GET "S/Microsoft.Compute/virtualMachineScaleSets" => scale_sets::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets" => scale_sets::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*" => scale_sets::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*" (CreateScaleSet) => scale_sets::put,
    PATCH "G/Microsoft.Compute/virtualMachineScaleSets/*" (ChangeScaleSet) => scale_sets::patch,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*" (DeleteScaleSet) => scale_sets::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/instanceView" => scale_sets::instance_view,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/restart" (RestartMachine) => restart::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/redeploy" (RedeployMachine) => redeploy::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/reimage" (ReimageMachine) => reimage::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/reimageAll" (ReimageMachine) => reimage::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/start" (StartMachine) => start::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/powerOff" (StopMachine) => power_off::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/deallocate" (DeallocateMachine) => deallocate::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/performMaintenance" (PerformMaintenance) => perform_maintenance::act_on_set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/manualUpgrade" (UpgradeInstances) => actions::upgrade,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/delete" (DeleteInstances) => actions::delete_instances,

    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines" => instances::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" => instances::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" (ChangeMachine) => instances::put,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" (DeleteMachine) => instances::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/instanceView" => instances::instance_view,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/restart" (RestartMachine) => restart::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/redeploy" (RedeployMachine) => redeploy::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimage" (ReimageMachine) => reimage::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimageAll" (ReimageMachine) => reimage::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/start" (StartMachine) => start::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/powerOff" (StopMachine) => power_off::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/deallocate" (DeallocateMachine) => deallocate::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/performMaintenance" (PerformMaintenance) => perform_maintenance::act_on_instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/simulateEviction" (EvictMachine) => actions::simulate_eviction::act_on_instance,

    GET "S/Microsoft.Compute/availabilitySets" => availability_sets::list,
    GET "G/Microsoft.Compute/availabilitySets" => availability_sets::list,
    GET "G/Microsoft.Compute/availabilitySets/*" => availability_sets::get,
    PUT "G/Microsoft.Compute/availabilitySets/*" (CreateAvailabilitySet) => availability_sets::put,
    PATCH "G/Microsoft.Compute/availabilitySets/*" (ChangeAvailabilitySet) => availability_sets::patch,
    DELETE "G/Microsoft.Compute/availabilitySets/*" (DeleteAvailabilitySet) => availability_sets::delete,

    GET "G/Microsoft.Resources/deployments" => deployments::list,
    GET "G/Microsoft.Resources/deployments/*" => deployments::get,
    PUT "G/Microsoft.Resources/deployments/*" (PutDeployment) => deployments::put,
    DELETE "G/Microsoft.Resources/deployments/*" (DeleteDeployment) => deployments::delete,
    GET "G/Microsoft.Resources/deployments/*/operationStatuses/*" => deployments::status,

    GET "S/Microsoft.Maintenance/maintenanceConfigurations" => maintenance::list,
    GET "G/Microsoft.Maintenance/maintenanceConfigurations" => maintenance::list,
    GET "G/Microsoft.Maintenance/maintenanceConfigurations/*" => maintenance::get,
    PUT "G/Microsoft.Maintenance/maintenanceConfigurations/*" (PutMaintenanceConfiguration) => maintenance::put,
    PATCH "G/Microsoft.Maintenance/maintenanceConfigurations/*" (PutMaintenanceConfiguration) => maintenance::patch,
    DELETE "G/Microsoft.Maintenance/maintenanceConfigurations/*" (DeleteMaintenanceConfiguration) => maintenance::delete,
    GET "S/Microsoft.Maintenance/applyUpdates" => apply_updates::list,
    GET "G/Microsoft.Maintenance/applyUpdates" => apply_updates::list,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments" => assignments::list,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" => assignments::get,
    PUT "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" (PutMaintenanceConfiguration) => assignments::put,
    DELETE "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" (DeleteMaintenanceConfiguration) => assignments::delete,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/updates" => apply_updates::list_updates,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*" => apply_updates::get,
    PUT "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*" (StartRollout) => apply_updates::put,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments" => assignments::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*" => assignments::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*" (PutMaintenanceConfiguration) => assignments::put,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*" (DeleteMaintenanceConfiguration) => assignments::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/updates" => apply_updates::list_updates,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/applyUpdates/*" => apply_updates::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/applyUpdates/*" (StartRollout) => apply_updates::put,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments" => assignments::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" => assignments::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" (PutMaintenanceConfiguration) => assignments::put,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*" (DeleteMaintenanceConfiguration) => assignments::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/updates" => apply_updates::list_updates,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*" => apply_updates::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*" (StartRollout) => apply_updates::put,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments" => assignments::list,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*" => assignments::get,
    PUT "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*" (PutMaintenanceConfiguration) => assignments::put,
    DELETE "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*" (DeleteMaintenanceConfiguration) => assignments::delete,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/updates" => apply_updates::list_updates,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/applyUpdates/*" => apply_updates::get,
    PUT "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/applyUpdates/*" (StartRollout) => apply_updates::put,

    GET "S/Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    POST "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents" (ApproveEvents) => acknowledge::approve_many,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents" (ApproveEvents) => acknowledge::approve_many,
    POST "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents" (ApproveEvents) => acknowledge::approve_many,
    POST "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" (ApproveEvents) => acknowledge::approve_one,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" (ApproveEvents) => acknowledge::approve_one,
    POST "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" (ApproveEvents) => acknowledge::approve_one,

    // All types of `Microsoft.Network` are handled alike; `shape` looks them up in the list of types.
    GET "network/list" => network::list,
    GET "network" => network::get,
    PUT "network" (PutNetworkResource) => network::put,
    PATCH "network" (PutNetworkResource) => network::patch,
    DELETE "network" (DeleteNetworkResource) => network::delete,
}

/// Method and shape of every route.
pub fn shapes() -> impl Iterator<Item = (Method, &'static str)> {
    TABLE.iter().map(|route| (route.method.clone(), route.shape))
}

/// Checks the role, reads a request, runs its handler, and adds the request ID to the response.
pub async fn handle_request(actions: Actions, locks: Arc<Locks>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let permitted = actions.require(role_of(&method, uri.path()));
    let mut response = match permitted {
        Ok(()) => match Call::read(actions, locks, request).await {
            Ok(call) => dispatch(call).await.unwrap_or_else(ApiError::into_response),
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    };
    tracing::debug!(%method, %uri, status = response.status().as_u16(), "answered an ARM request");
    if let Ok(id) = HeaderValue::from_str(&random_guid().to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The role of a route's action. Without a route, reading requires the reader and anything else the owner.
fn role_of(method: &Method, path: &str) -> Role {
    let shape = Path::parse(path).map(|path| shape(&path)).unwrap_or_default();
    let action = routes_of(&shape).find(|route| route.method == *method).and_then(|route| route.action);
    match action {
        Some(action) => action.role(),
        None if matches!(*method, Method::GET | Method::HEAD) => Role::Reader,
        None => Role::Owner,
    }
}

/// The routes of a shape, one for each method.
fn routes_of(shape: &str) -> impl Iterator<Item = &'static Route> {
    TABLE.iter().filter(move |route| route.shape.eq_ignore_ascii_case(shape))
}

async fn dispatch(call: Call) -> Result<Response, ApiError> {
    let shape = shape(&call.path);
    let matching: Vec<&Route> = routes_of(&shape).collect();
    match matching.iter().find(|route| route.method == call.method) {
        Some(route) => (route.handler)(call).await,
        None if matching.is_empty() => Err(unknown_path(&call)),
        None => Ok(method_not_allowed(&call, &matching)),
    }
}

fn unknown_path(call: &Call) -> ApiError {
    let path = call.path.to_string();
    let reason = explain_unknown(&call.path).map_or_else(String::new, |reason| format!(": {reason}"));
    ApiError::new(ErrorCode::InvalidResourceType, format!("Nothing was found at '{path}'{reason}.")).with_target(path)
}

/// The reason why a path is unknown, unless it is not below a provider.
fn explain_unknown(path: &Path) -> Option<String> {
    let kind = path.id.kind()?;
    let is_known = types::find(&kind).is_some();
    Some(match &path.tail {
        Some(tail) if path.id.name().is_none() => format!("the resource type '{kind}/{tail}' is not supported"),
        Some(tail) if is_known => format!("'{kind}' has no action or child '{tail}'"),
        None if is_known => format!("'{kind}' is not available at this scope"),
        Some(_) | None => format!("the resource type '{kind}' is not supported"),
    })
}

fn method_not_allowed(call: &Call, matching: &[&Route]) -> Response {
    let allowed = matching.iter().map(|route| route.method.as_str()).collect::<Vec<_>>().join(", ");
    let message = format!("'{}' does not support {}. Supported methods: {allowed}.", call.path, call.method);
    let mut response = ApiError::new(ErrorCode::MethodNotAllowed, message).into_response();
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

fn shape(path: &Path) -> String {
    if network::is_known(path) {
        return if path.tail.is_some() { "network/list" } else { "network" }.to_owned();
    }
    let mut shape = match path.id.scope {
        Scope::Tenant => "T",
        Scope::Subscription(_) => "S",
        Scope::Group { .. } => "G",
    }
    .to_owned();
    let append = |shape: &mut String, slashes: &str, provider: &Provider| {
        *shape += slashes;
        *shape += provider.namespace.as_str();
        for pair in &provider.pairs {
            *shape += &format!("/{}/*", pair.kind);
        }
    };
    path.id.provider.iter().for_each(|provider| append(&mut shape, "/", provider));
    path.id.extension.iter().for_each(|provider| append(&mut shape, "//", provider));
    if let Some(tail) = &path.tail {
        shape += &format!("/{tail}");
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_one_shape_in_any_case() {
        for (path, expected) in [
            ("/subscriptions", "T/subscriptions"),
            ("/TENANTS", "T/tenants"),
            ("/subscriptions/s/resourcegroups", "S/resourceGroups"),
            ("/subscriptions/s/resourcegroups/g/", "G"),
            (
                "//subscriptions/s/RESOURCEGROUPS/g/providers/microsoft.compute//virtualmachines/vm/POWEROFF",
                "G/Microsoft.Compute/virtualMachines/*/POWEROFF",
            ),
            ("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/publicIpAddresses", "network/list"),
            ("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/publicIpAddresses/p", "network"),
            (
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/l/inboundNatRules/r",
                "network",
            ),
            (
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/gateways/x",
                "G/Microsoft.Network/gateways/*",
            ),
            (
                "/subscriptions/s/resourcegroups/g/providers/Microsoft.Compute/virtualMachines/vm/providers/Microsoft.Maintenance/scheduledevents/id/acknowledge",
                "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents/*/acknowledge",
            ),
        ] {
            assert_eq!(shape(&Path::parse(path).unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn requests_require_the_role_of_their_action() {
        let vm = "/subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm1";
        let list = format!("{vm}/providers/Microsoft.Maintenance/scheduledevents");
        for (method, path, role) in [
            (Method::GET, vm.to_owned(), Role::Reader),
            (Method::HEAD, vm.to_owned(), Role::Reader),
            (Method::GET, list.clone(), Role::Reader),
            (Method::POST, list.clone(), Role::Operator),
            (Method::POST, list.to_uppercase(), Role::Operator),
            (Method::POST, format!("{list}/ID/acknowledge"), Role::Operator),
            (Method::POST, format!("{vm}//restart/"), Role::Operator),
            (Method::POST, format!("{vm}/redeploy"), Role::Operator),
            (Method::POST, format!("{vm}/performmaintenance"), Role::Operator),
            (Method::POST, format!("{vm}/simulateEviction"), Role::Owner),
            (Method::POST, format!("{vm}/deallocate"), Role::Owner),
            (Method::POST, format!("{vm}/delete"), Role::Owner),
            (Method::PUT, vm.to_owned(), Role::Owner),
            (Method::PUT, format!("{vm}/restart"), Role::Owner),
            (Method::PATCH, vm.to_owned(), Role::Owner),
            (Method::DELETE, vm.to_owned(), Role::Owner),
            (Method::OPTIONS, vm.to_owned(), Role::Owner),
            (Method::GET, "/subscriptions/nothing/here".to_owned(), Role::Reader),
            (Method::POST, "/subscriptions/nothing/here".to_owned(), Role::Owner),
        ] {
            assert_eq!(role_of(&method, &path), role, "{method} {path}");
        }
    }

    #[test]
    fn every_route_that_changes_something_has_an_action() {
        for route in TABLE {
            let is_read = matches!(route.method, Method::GET | Method::HEAD);
            assert_eq!(route.action.is_none(), is_read, "{} {}", route.method, route.shape);
        }
    }

    #[test]
    fn no_method_of_a_shape_is_in_the_table_twice() {
        for (n, route) in TABLE.iter().enumerate() {
            let twin = |other: &&Route| other.method == route.method && other.shape.eq_ignore_ascii_case(route.shape);
            assert_eq!(TABLE[n + 1..].iter().find(twin).map(|twin| twin.shape), None);
        }
    }
}
