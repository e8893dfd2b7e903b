//! Every path of the ARM-shaped API, in one table: method, shape, handler.
//!
//! A shape is a path whose names are stars. `T`, `S` and `G` stand for the tenant, a subscription and a resource group, and
//! two slashes for the `providers` of an extension:
//!
//! ```text
//!  /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm/restart
//!  G/Microsoft.Compute/virtualMachines/*/restart
//! ```

use std::pin::Pin;

use axum::response::Response;
use forewarn_wire::arm::id::{Path, Provider, Scope};
use forewarn_wire::arm::types;
use http::{HeaderValue, Method, header};

use super::actions::{self as act, deallocate, perform_maintenance, power_off, redeploy, reimage, restart, start};
use super::call::Call;
use super::{
    acknowledge, availability_sets, deployments, instances, lookups, machines, network, operations, resource_groups,
    scale_sets, scheduled_events, subscriptions,
};
use forewarn_api::error::{ApiError, Refusal};

type Answer = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;
type Handler = fn(Call) -> Answer;

struct Route {
    method: Method,
    shape: &'static str,
    handler: Handler,
}

macro_rules! table {
    ($($method:ident $shape:literal => $($handler:ident)::+),+ $(,)?) => {
        const TABLE: &[Route] = &[
            $(Route { method: Method::$method, shape: $shape, handler: |call| Box::pin($($handler)::+(call)) }),+
        ];
    };
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
    GET "S/Microsoft.Compute/locations/*/publishers/*/artifacttypes/*/offers/*/skus/*/versions" => lookups::image_versions,
    GET "S/Microsoft.Compute/locations/*/publishers/*/artifacttypes/*/offers/*/skus/*/versions/*" => lookups::image_version,
    GET "S/Microsoft.Compute/locations/*/operations/*" => operations::get,

    GET "S/resourceGroups" => resource_groups::list,
    GET "G" => resource_groups::get,
    HEAD "G" => resource_groups::head,
    PUT "G" => resource_groups::put,
    PATCH "G" => resource_groups::patch,
    DELETE "G" => resource_groups::delete,

    GET "S/Microsoft.Compute/virtualMachines" => machines::list,
    GET "G/Microsoft.Compute/virtualMachines" => machines::list,
    GET "G/Microsoft.Compute/virtualMachines/*" => machines::get,
    PUT "G/Microsoft.Compute/virtualMachines/*" => machines::put,
    PATCH "G/Microsoft.Compute/virtualMachines/*" => machines::patch,
    DELETE "G/Microsoft.Compute/virtualMachines/*" => machines::delete,
    GET "G/Microsoft.Compute/virtualMachines/*/instanceView" => machines::instance_view,
    POST "G/Microsoft.Compute/virtualMachines/*/restart" => restart::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/redeploy" => redeploy::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/reimage" => reimage::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/start" => start::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/powerOff" => power_off::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/deallocate" => deallocate::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/performMaintenance" => perform_maintenance::machine,
    POST "G/Microsoft.Compute/virtualMachines/*/simulateEviction" => act::simulate_eviction::machine,

    GET "S/Microsoft.Compute/virtualMachineScaleSets" => scale_sets::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets" => scale_sets::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*" => scale_sets::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*" => scale_sets::put,
    PATCH "G/Microsoft.Compute/virtualMachineScaleSets/*" => scale_sets::patch,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*" => scale_sets::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/instanceView" => scale_sets::instance_view,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/restart" => restart::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/redeploy" => redeploy::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/reimage" => reimage::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/reimageAll" => reimage::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/start" => start::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/powerOff" => power_off::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/deallocate" => deallocate::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/performMaintenance" => perform_maintenance::set,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/manualUpgrade" => act::upgrade,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/delete" => act::delete_instances,

    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines" => instances::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" => instances::get,
    PUT "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" => instances::put,
    DELETE "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*" => instances::delete,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/instanceView" => instances::instance_view,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/restart" => restart::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/redeploy" => redeploy::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimage" => reimage::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimageAll" => reimage::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/start" => start::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/powerOff" => power_off::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/deallocate" => deallocate::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/performMaintenance" => perform_maintenance::instance,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/simulateEviction" => act::simulate_eviction::instance,

    GET "S/Microsoft.Compute/availabilitySets" => availability_sets::list,
    GET "G/Microsoft.Compute/availabilitySets" => availability_sets::list,
    GET "G/Microsoft.Compute/availabilitySets/*" => availability_sets::get,
    PUT "G/Microsoft.Compute/availabilitySets/*" => availability_sets::put,
    PATCH "G/Microsoft.Compute/availabilitySets/*" => availability_sets::patch,
    DELETE "G/Microsoft.Compute/availabilitySets/*" => availability_sets::delete,

    GET "G/Microsoft.Resources/deployments" => deployments::list,
    GET "G/Microsoft.Resources/deployments/*" => deployments::get,
    PUT "G/Microsoft.Resources/deployments/*" => deployments::put,
    DELETE "G/Microsoft.Resources/deployments/*" => deployments::delete,
    GET "G/Microsoft.Resources/deployments/*/operationStatuses/*" => deployments::status,

    GET "S/Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    GET "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents" => scheduled_events::list,
    POST "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents" => acknowledge::several,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents" => acknowledge::several,
    POST "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents" => acknowledge::several,
    POST "G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" => acknowledge::one,
    POST "G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" => acknowledge::one,
    POST "G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge" => acknowledge::one,

    // What these stand for is looked up in the list of types: they are all alike.
    GET "network/list" => network::list,
    GET "network" => network::get,
    PUT "network" => network::put,
    PATCH "network" => network::patch,
    DELETE "network" => network::delete,
}

/// Method and shape of every route, for who wants to try them all.
pub fn shapes() -> impl Iterator<Item = (Method, &'static str)> {
    TABLE.iter().map(|route| (route.method.clone(), route.shape))
}

pub async fn answer(call: Call) -> Result<Response, ApiError> {
    let shape = shape(&call.path);
    let fitting: Vec<&Route> = TABLE.iter().filter(|route| route.shape.eq_ignore_ascii_case(&shape)).collect();
    match fitting.iter().find(|route| route.method == call.method) {
        Some(route) => (route.handler)(call).await,
        None if fitting.is_empty() => Err(unknown(&call)),
        None => Ok(not_allowed(&call, &fitting)),
    }
}

fn unknown(call: &Call) -> ApiError {
    let path = call.path.to_string();
    let why = why_unknown(&call.path).map_or_else(String::new, |why| format!(": {why}"));
    ApiError::new(Refusal::InvalidResourceType, format!("There is nothing at '{path}'{why}.")).about(path)
}

/// None: not a path of a provider.
fn why_unknown(path: &Path) -> Option<String> {
    let kind = path.id.kind()?;
    let is_known = types::find(&kind).is_some();
    Some(match &path.tail {
        Some(tail) if path.id.name().is_none() => format!("the type '{kind}/{tail}' is not known here"),
        Some(tail) if is_known => format!("'{kind}' has no action or part '{tail}'"),
        None if is_known => format!("no '{kind}' can be asked for there"),
        Some(_) | None => format!("the type '{kind}' is not known here"),
    })
}

fn not_allowed(call: &Call, fitting: &[&Route]) -> Response {
    use axum::response::IntoResponse;
    let allowed = fitting.iter().map(|route| route.method.as_str()).collect::<Vec<_>>().join(", ");
    let message = format!("'{}' does not take {}. It takes {allowed}.", call.path, call.method);
    let mut response = ApiError::new(Refusal::MethodNotAllowed, message).into_response();
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
    let below = |shape: &mut String, slashes: &str, provider: &Provider| {
        *shape += slashes;
        *shape += provider.namespace.as_str();
        for pair in &provider.pairs {
            *shape += &format!("/{}/*", pair.kind);
        }
    };
    path.id.provider.iter().for_each(|provider| below(&mut shape, "/", provider));
    path.id.extension.iter().for_each(|provider| below(&mut shape, "//", provider));
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
    fn no_method_of_a_shape_is_in_the_table_twice() {
        for (n, route) in TABLE.iter().enumerate() {
            let twin = |other: &&Route| other.method == route.method && other.shape.eq_ignore_ascii_case(route.shape);
            assert_eq!(TABLE[n + 1..].iter().find(twin).map(|twin| twin.shape), None);
        }
    }
}
