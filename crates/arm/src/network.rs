//! Handlers of `Microsoft.Network` resources. They are stored and returned, because clients create them before a machine,
//! and have no other effect. The addresses of a network interface are those of its machine in the region.

mod children;

use std::net::IpAddr;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Machine, Name, Region, ResourceGroupRef};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::id::{Path, ResourceId};
use forewarn_wire::arm::types;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call};
use super::fields::{self, at, missing, read_text};
use super::page::{self, PageRequest};
use super::resource::{group_id, is_in_group, last_name, not_found, resource_group_of};
use super::write::{WriteMode, WriteResult, merge_record, write_handlers};
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_wire::arm::compute::mac_address;

/// Network resources of one resource group: the number that Azure allows of one type.
const RESOURCES_MAX: usize = 800;
const _: () = assert!(RESOURCES_MAX < ATTACHMENTS_PAGE_MAX as usize, "all resources fit one page of the store");

/// Network interfaces of one machine; the largest Azure sizes have eight.
const INTERFACES_MAX: usize = 64;

/// Prefix of the attachments that hold network resources; the resource ID follows.
pub const RECORD: &str = "arm/network";

pub fn record_name(id: &ResourceId) -> String {
    format!("{RECORD}{}", id.key())
}

/// Whether a path names a supported type of `Microsoft.Network`.
pub fn is_known(path: &Path) -> bool {
    let kind = path.id.kind().unwrap_or_default();
    let kind = match &path.tail {
        Some(tail) => format!("{kind}/{tail}"),
        None => kind,
    };
    kind.get(..18).is_some_and(|start| start.eq_ignore_ascii_case("Microsoft.Network/")) && types::find(&kind).is_some()
}

write_handlers!(new: CREATED);

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let lock = arm.lock_for_write(id).await?;
    let mut merged = merge_record(arm, id, record_name(id), given, mode, check_new(arm, id, given)).await?;
    let children = match children::take(&mut merged.body, id)? {
        Some(listed) => children::replace(arm, id, listed).await?,
        None => Vec::new(),
    };
    let attachment = Attachment::put(Owner::Region, record_name(id), merged.body.to_string());
    let note =
        arm.actions.permit(Action::PutNetworkResource)?.note(format!("{}/{}", lock.home.resource_group, last_name(id)));
    arm.actions.commit(Vec::new(), note, move |_| children.into_iter().chain([attachment]).collect()).await?;
    let resource = complete(arm, vec![merged.body]).await?.pop().unwrap_or_default();
    Ok(WriteResult { is_new: merged.is_new, resource, pending: None })
}

async fn check_new(arm: &Arm, id: &ResourceId, given: &Value) -> Result<(), ApiError> {
    match id.parent() {
        Some(parent) => {
            arm.read_attachment(Owner::Region, record_name(&parent)).await?.ok_or_else(|| not_found(&parent))?;
        }
        None => {
            read_text(given, "location")?.ok_or_else(|| missing("location"))?;
        }
    }
    let count = arm.read_attachments_below(format!("{RECORD}{}/", group_id(id).key()), None).await?.len();
    match count < RESOURCES_MAX {
        true => Ok(()),
        false => {
            let message =
                format!("A resource group can have at most {RESOURCES_MAX} network resources. Delete one first.");
            Err(ApiError::new(ErrorCode::QuotaExceeded, message))
        }
    }
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?.ok_or_else(|| not_found(call.id()))?;
    Ok(axum::Json(found).into_response())
}

pub async fn find(arm: &Arm, id: &ResourceId) -> Result<Option<Value>, ApiError> {
    match arm.read_attachment(Owner::Region, record_name(id)).await? {
        Some(body) => Ok(complete(arm, vec![body]).await?.pop()),
        None => Ok(None),
    }
}

/// Stored bodies of one type as GET shows them: with the state of the region and what other resources say about them.
async fn complete(arm: &Arm, bodies: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let related = children::RelatedResources::read(arm, &bodies).await?;
    let region = &arm.snapshot().region;
    Ok(bodies.into_iter().map(|body| related.render(render(region, body), |child| render(region, child))).collect())
}

/// Lists the resources of one type in a group or subscription, or the children of one resource.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let kind = format!("{}/{}", call.id().kind().unwrap_or_default(), tail(&call));
    let prefix = match is_in_group(call.id()) {
        true => format!("{RECORD}{}/", call.path.to_string().to_ascii_lowercase()),
        false => format!("{RECORD}/subscriptions/{}/", call.subscription().to_ascii_lowercase()),
    };
    let is_wanted = |body: &Value| {
        let id = read_text(body, "id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
        id.and_then(|id| id.kind()).is_some_and(|found| found.eq_ignore_ascii_case(&kind))
    };
    let (mut found, mut after) = (Vec::new(), request.after.clone());
    while found.len() <= request.limit {
        let page = call.arm.read_attachments_below(prefix.clone(), after.take()).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.into_iter().filter(|(_, body)| is_wanted(body)));
    }
    let next = request.cut(&mut found, |(name, _)| name.clone());
    let bodies = found.into_iter().map(|(_, body)| body).collect();
    Ok(page::respond(&call, complete(&call.arm, bodies).await?, next))
}

fn tail(call: &Call) -> &str {
    call.path.tail.as_ref().map_or("", |tail| tail.as_str())
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let (arm, id) = (&call.arm, call.id());
    let _lock = arm.lock(id).await;
    if arm.read_attachment(Owner::Region, record_name(id)).await?.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let children =
        arm.read_attachments_below(format!("{}/", record_name(id)), None).await?.into_iter().map(|(name, _)| name);
    let removed: Vec<String> = children.chain([record_name(id)]).collect();
    let remove = |name| Attachment::remove(Owner::Region, name);
    arm.actions
        .commit(Vec::new(), call.arm.actions.permit(Action::DeleteNetworkResource)?.note(last_name(id)), move |_| {
            removed.into_iter().map(remove).collect()
        })
        .await?;
    Ok(StatusCode::OK.into_response())
}

/// The network interfaces that the body of a machine lists.
pub fn interfaces_of(properties: &Value) -> Vec<ResourceId> {
    let interfaces = at(properties, "networkProfile.networkInterfaces").and_then(Value::as_array);
    let ids =
        interfaces.into_iter().flatten().take(INTERFACES_MAX).filter_map(|interface| interface.get("id")?.as_str());
    ids.filter_map(|id| ResourceId::parse(id).ok()).collect()
}

/// Attachments that record the new machine in its network interfaces. Hold their locks until the commit.
pub async fn attach_to_machine(
    arm: &Arm,
    interfaces: &[ResourceId],
    home: &ResourceGroupRef,
    name: &Name,
) -> Result<Vec<Attachment>, ApiError> {
    let mut attachments = Vec::new();
    for id in interfaces {
        let Some(mut body) = arm.read_attachment(Owner::Region, record_name(id)).await? else { continue };
        let machine = format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachines/{name}",
            home.subscription, home.resource_group
        );
        fields::put(&mut body, "properties.virtualMachine", json!({ "id": machine }));
        attachments.push(Attachment::put(Owner::Region, record_name(id), body.to_string()));
    }
    Ok(attachments)
}

fn render(region: &Region, mut body: Value) -> Value {
    let id = read_text(&body, "id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
    let Some(id) = id else { return body };
    fields::put(&mut body, "name", last_name(&id));
    fields::put(&mut body, "type", id.kind().unwrap_or_default());
    fields::put(&mut body, "properties.provisioningState", "Succeeded");
    match id.kind().as_deref() {
        Some("Microsoft.Network/networkInterfaces") => {
            render_interface(&mut body);
            render_machine(region, &mut body);
        }
        Some("Microsoft.Network/publicIPAddresses") => {
            fields::put(&mut body, "properties.ipAddress", example_public_address(&id).to_string());
        }
        Some(_) | None => {}
    }
    body
}

/// Properties of a network interface that the service fills in.
fn render_interface(interface: &mut Value) {
    for (place, value) in [
        ("dnsSettings.dnsServers", json!([])),
        ("dnsSettings.appliedDnsServers", json!([])),
        ("dnsSettings.internalDomainNameSuffix", json!("internal.cloudapp.net")),
        ("enableAcceleratedNetworking", json!(false)),
        ("enableIPForwarding", json!(false)),
    ] {
        let place = format!("properties.{place}");
        if at(interface, &place).is_none() {
            fields::put(interface, &place, value);
        }
    }
}

/// Renders the addresses of the machine into its network interface.
fn render_machine(region: &Region, interface: &mut Value) {
    let id =
        read_text(interface, "properties.virtualMachine.id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
    let machine = id.and_then(|id| region.machine_at(&resource_group_of(&id), last_name(&id)));
    let Some(machine) = machine else {
        fields::remove(interface, "properties.virtualMachine");
        return;
    };
    fields::put(interface, "properties.macAddress", format_mac(machine));
    let address = machine.addresses.iter().find(|address| address.ip.is_ipv4()).map(|address| address.ip.to_string());
    let configurations = interface.pointer_mut("/properties/ipConfigurations").and_then(Value::as_array_mut);
    if let (Some(address), Some(first)) = (address, configurations.and_then(|list| list.first_mut())) {
        fields::put(first, "properties.privateIPAddress", address);
    }
}

/// The MAC address in Azure's form, `00-0D-3A-…`.
fn format_mac(machine: &Machine) -> String {
    let digits =
        if machine.details.mac.is_empty() { mac_address(machine.vm_id.0) } else { machine.details.mac.to_string() };
    let digits: Vec<char> = digits.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| pair.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// An address from the documentation range, always the same for one resource.
fn example_public_address(id: &ResourceId) -> IpAddr {
    let sum = id.key().bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    IpAddr::from([203, 0, 113, sum])
}
