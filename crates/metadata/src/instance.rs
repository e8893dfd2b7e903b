//! Instance metadata: converts a machine into the instance document.

use std::net::IpAddr;
use std::sync::Arc;

use forewarn_core::{EvictionPolicy, GroupKind, Machine, MachineId, Membership, Orchestration, Priority, Region};
use forewarn_wire::arm::compute::{LOCATION_DEFAULT, SIZE_DEFAULT, mac_address};
use forewarn_wire::error::MetadataError;
use forewarn_wire::instance::{self, Format, Image, InstanceResponse, InstanceView, Interface, Ipv4, Subnet};
use forewarn_wire::version::InstanceVersion;

use serde_json::Value;

use super::ids::{group_resource_id, machine_resource_id};
use super::request::{Endpoint, InstanceRequest};
use super::respond::CompletedRequest;
use super::response::Response;

pub async fn respond(endpoint: Arc<Endpoint>, request: InstanceRequest) -> CompletedRequest {
    match try_respond(&endpoint, &request).await {
        Ok(response) => response.into(),
        Err(refusal) => endpoint.responses.refusal(&refusal).into(),
    }
}

async fn try_respond(endpoint: &Endpoint, request: &InstanceRequest) -> Result<Response, MetadataError> {
    let InstanceRequest { machine, version, below, format } = request;
    let properties = read_properties(endpoint, machine.id).await?;
    let snapshot = endpoint.source.snapshot();
    let answer = answer(&snapshot.region, machine, properties.as_ref(), *version, below, *format)?;
    Ok(endpoint.responses.instance(answer))
}

/// The properties that a machine was given through the ARM API.
pub async fn read_properties(endpoint: &Endpoint, machine: MachineId) -> Result<Option<Value>, MetadataError> {
    let _turn = endpoint.identity_reads.acquire().await.map_err(|_| MetadataError::Internal)?;
    endpoint.source.properties(machine).await.map_err(|_| MetadataError::Internal)
}

/// The value at `path` below `/metadata/instance`.
fn answer(
    region: &Region,
    machine: &Machine,
    properties: Option<&Value>,
    version: InstanceVersion,
    path: &str,
    format: Format,
) -> Result<InstanceResponse, MetadataError> {
    let details = &machine.details;
    let set = ScaleSetFacts::of(region, machine);
    let resource_id = machine_resource_id(region, machine);
    let host_id = machine.host.as_deref().unwrap_or_default();
    let (fault_domain, update_domain) = (machine.fault_domain.to_string(), machine.update_domain.to_string());
    let (ipv4, ipv6) = addresses(machine);
    let ipv4: Vec<_> = ipv4.iter().map(|ip| Ipv4 { private: ip, public: "" }).collect();
    let ipv6: Vec<_> = ipv6.iter().map(String::as_str).collect();
    let subnet = subnet(machine);
    let subnets: Vec<_> = subnet.iter().map(|address| Subnet { address, prefix: "24" }).collect();
    let mac = if details.mac.is_empty() { mac_address(machine.vm_id.0) } else { details.mac.to_string() };
    let tags: Vec<_> = details.tags.iter().map(|(name, value)| (&**name, &**value)).collect();
    let (priority, eviction_policy) = priority(machine);
    let view = InstanceView {
        name: &machine.name,
        computer_name: or(&details.computer_name, &machine.name),
        vm_id: machine.vm_id.0,
        resource_id: &resource_id,
        subscription_id: &machine.home.subscription,
        resource_group_name: &machine.home.resource_group,
        location: or(&details.location, LOCATION_DEFAULT),
        zone: machine.zone.as_deref().unwrap_or_default(),
        physical_zone: "",
        vm_size: or(&details.size, SIZE_DEFAULT),
        os_type: or(&details.os_type, OS_TYPE),
        image: Image {
            publisher: &details.publisher,
            offer: &details.offer,
            sku: &details.sku,
            version: &details.image_version,
        },
        fault_domain: &fault_domain,
        sub_fault_domain: "",
        update_domain: &update_domain,
        placement_group_id: &set.placement_group,
        scale_set_name: &set.name,
        scale_set_id: &set.id,
        host_id,
        host_group_id: "",
        priority,
        eviction_policy,
        environment: "AzurePublicCloud",
        provider: "Microsoft.Compute",
        properties,
        tags: &tags,
        interfaces: &[Interface { mac_address: &mac, ipv4: &ipv4, ipv4_subnets: &subnets, ipv6: &ipv6 }],
    };
    instance::navigate(&instance::tree(version, &view), path, format)
}

const OS_TYPE: &str = "Linux";

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

#[derive(Default)]
struct ScaleSetFacts {
    name: String,
    id: String,
    placement_group: String,
}

impl ScaleSetFacts {
    fn of(region: &Region, machine: &Machine) -> ScaleSetFacts {
        let Membership::Instance { set, .. } = machine.membership else { return ScaleSetFacts::default() };
        let Some(group) = region.group(set) else { return ScaleSetFacts::default() };
        let GroupKind::ScaleSet(model) = &group.kind else { return ScaleSetFacts::default() };
        let id = group_resource_id(group);
        match model.orchestration {
            Orchestration::Flexible => ScaleSetFacts { name: group.name.to_string(), id, ..Default::default() },
            Orchestration::Uniform => ScaleSetFacts {
                name: group.name.to_string(),
                id: String::new(),
                placement_group: forewarn_core::Guid(u128::from(set.0)).derive(machine.scope.0).to_string(),
            },
        }
    }
}

fn addresses(machine: &Machine) -> (Vec<String>, Vec<String>) {
    let (v4, v6): (Vec<_>, Vec<_>) = machine.addresses.iter().partition(|address| address.ip.is_ipv4());
    let text = |addresses: Vec<&forewarn_core::Address>| addresses.iter().map(|a| a.ip.to_string()).collect();
    (text(v4), text(v6))
}

/// The region has no subnets, so this is the /24 network of the first address.
fn subnet(machine: &Machine) -> Option<String> {
    machine.addresses.iter().find_map(|address| match address.ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            Some(format!("{a}.{b}.{c}.0"))
        }
        IpAddr::V6(_) => None,
    })
}

fn priority(machine: &Machine) -> (&'static str, &'static str) {
    match (machine.priority, machine.eviction) {
        (Priority::Regular, _) => ("Regular", ""),
        (Priority::Spot, EvictionPolicy::Deallocate) => ("Spot", "Deallocate"),
        (Priority::Spot, EvictionPolicy::Delete) => ("Spot", "Delete"),
    }
}
