//! Resources of `Microsoft.Network`: kept and shown again, because clients make them on the way to a machine. Nothing is
//! done with them. What a network card says of its machine's addresses is the region's.

use std::net::IpAddr;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Home, Machine, Name, Region};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader};
use forewarn_wire::arm::id::{Path, ResourceId};
use forewarn_wire::arm::types;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call, group_id, home_of, is_in_group};
use super::fields::{self, at, missing, text};
use super::machines::{last_name, not_found};
use super::page::{self, Wanted};
use super::resource_groups;
use super::write::{How, Written};
use forewarn_api::Note;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_wire::arm::compute::mac_address;

/// Network resources of one resource group. As many as the original allows of one type.
const RESOURCES_MAX: usize = 800;
const _: () = assert!(RESOURCES_MAX < ATTACHMENTS_PAGE_MAX as usize, "they fit one page of the store");

/// Network cards of one machine: the largest sizes of the original have eight.
const CARDS_MAX: usize = 64;

/// What the attachments are named that hold them; the id follows.
const RECORD: &str = "arm/network";

fn record_of(id: &ResourceId) -> String {
    format!("{RECORD}{}", id.key())
}

/// A type that templates and requests may have.
pub fn is_known(path: &Path) -> bool {
    let kind = path.id.kind().unwrap_or_default();
    let kind = match &path.tail {
        Some(tail) => format!("{kind}/{tail}"),
        None => kind,
    };
    kind.get(..18).is_some_and(|start| start.eq_ignore_ascii_case("Microsoft.Network/")) && types::find(&kind).is_some()
}

pub async fn put(call: Call) -> Result<Response, ApiError> {
    Ok(write(&call.arm, call.id(), &call.json()?, How::Put).await?.into_response(&call))
}

pub async fn patch(call: Call) -> Result<Response, ApiError> {
    Ok(write(&call.arm, call.id(), &call.json()?, How::Patch).await?.into_response(&call))
}

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, how: How) -> Result<Written, ApiError> {
    let home = resource_groups::home(arm, id).await?;
    let _lock = arm.lock(id).await;
    let existing = arm.attached(Owner::Region, record_of(id)).await?;
    match (&existing, how) {
        (None, How::Patch) => return Err(not_found(id)),
        (None, How::Put) => check_new(arm, id, given).await?,
        (Some(_), _) => {}
    }
    let mut merged = how.merged(existing.as_ref().unwrap_or(&Value::Null), given);
    fields::tags(&merged)?;
    // As it was spelt first.
    let spelt = existing.as_ref().and_then(|existing| existing.get("id")).cloned();
    fields::put(&mut merged, "id", spelt.unwrap_or_else(|| id.to_string().into()));
    let resource = shown(&arm.snapshot().region, merged.clone());
    let attachment = Attachment::put(Owner::Region, record_of(id), merged.to_string());
    let note = Note::new("network.put", format!("{}/{}", home.resource_group, last_name(id)));
    arm.commit(Vec::new(), note, move |_| vec![attachment]).await?;
    Ok(Written { is_new: existing.is_none(), resource, pending: None })
}

async fn check_new(arm: &Arm, id: &ResourceId, given: &Value) -> Result<(), ApiError> {
    match id.parent() {
        Some(parent) => {
            arm.attached(Owner::Region, record_of(&parent)).await?.ok_or_else(|| not_found(&parent))?;
        }
        None => {
            text(given, "location")?.ok_or_else(|| missing("location"))?;
        }
    }
    let count = below(arm, format!("{RECORD}{}/", group_id(id).key()), None).await?.len();
    match count < RESOURCES_MAX {
        true => Ok(()),
        false => {
            let message = format!("A resource group may have {RESOURCES_MAX} network resources. Delete one first.");
            Err(ApiError::new(Refusal::QuotaExceeded, message))
        }
    }
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?.ok_or_else(|| not_found(call.id()))?;
    Ok(axum::Json(found).into_response())
}

pub async fn find(arm: &Arm, id: &ResourceId) -> Result<Option<Value>, ApiError> {
    let body = arm.attached(Owner::Region, record_of(id)).await?;
    Ok(body.map(|body| shown(&arm.snapshot().region, body)))
}

/// `…/Microsoft.Network/virtualNetworks`, of a group or of the subscription, or children of one resource.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&call)?;
    let kind = format!("{}/{}", call.id().kind().unwrap_or_default(), tail(&call));
    let prefix = match is_in_group(call.id()) {
        true => format!("{RECORD}{}/", call.path.to_string().to_ascii_lowercase()),
        false => format!("{RECORD}/subscriptions/{}/", call.subscription().to_ascii_lowercase()),
    };
    let is_wanted = |body: &Value| {
        let id = text(body, "id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
        id.and_then(|id| id.kind()).is_some_and(|found| found.eq_ignore_ascii_case(&kind))
    };
    let (mut found, mut after) = (Vec::new(), wanted.after.clone());
    while found.len() <= wanted.limit {
        let page = below(&call.arm, prefix.clone(), after.take()).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.into_iter().filter(|(_, body)| is_wanted(body)));
    }
    let next = wanted.cut(&mut found, |(name, _)| name.clone());
    let region = &call.arm.snapshot().region;
    Ok(page::shown(&call, found.into_iter().map(|(_, body)| shown(region, body)).collect(), next))
}

fn tail(call: &Call) -> &str {
    call.path.tail.as_ref().map_or("", |tail| tail.as_str())
}

/// One page of the store, of what is named so and comes after.
async fn below(arm: &Arm, prefix: String, after: Option<String>) -> Result<Vec<(String, Value)>, ApiError> {
    let read =
        move |reader: &dyn Reader| reader.attachments(Owner::Region, &prefix, after.as_deref(), ATTACHMENTS_PAGE_MAX);
    let found = arm.read(read).await?;
    Ok(found.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap_or_default())).collect())
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let (arm, id) = (&call.arm, call.id());
    let _lock = arm.lock(id).await;
    if arm.attached(Owner::Region, record_of(id)).await?.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let children = below(arm, format!("{}/", record_of(id)), None).await?.into_iter().map(|(name, _)| name);
    let gone: Vec<String> = children.chain([record_of(id)]).collect();
    let remove = |name| Attachment::remove(Owner::Region, name);
    arm.commit(Vec::new(), Note::new("network.delete", last_name(id)), move |_| gone.into_iter().map(remove).collect())
        .await?;
    Ok(StatusCode::OK.into_response())
}

impl Arm {
    /// The attachments of the region that belong to a resource group.
    pub async fn names_below(&self, id: &ResourceId) -> Result<Vec<String>, ApiError> {
        let mut names = Vec::new();
        for record in [RECORD, super::deployments::RECORD] {
            let prefix = format!("{record}{}/", group_id(id).key());
            names.extend(below(self, prefix, None).await?.into_iter().map(|(name, _)| name));
        }
        Ok(names)
    }
}

/// The network cards that a machine's body names.
pub fn cards_of(properties: &Value) -> Vec<ResourceId> {
    let cards = at(properties, "networkProfile.networkInterfaces").and_then(Value::as_array);
    let ids = cards.into_iter().flatten().take(CARDS_MAX).filter_map(|card| card.get("id")?.as_str());
    ids.filter_map(|id| ResourceId::parse(id).ok()).collect()
}

/// These cards come to know their new machine. Their locks must be held until that is written.
pub async fn attached_to(
    arm: &Arm,
    cards: &[ResourceId],
    home: &Home,
    name: &Name,
) -> Result<Vec<Attachment>, ApiError> {
    let mut attachments = Vec::new();
    for id in cards {
        let Some(mut body) = arm.attached(Owner::Region, record_of(id)).await? else { continue };
        let machine = format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachines/{name}",
            home.subscription, home.resource_group
        );
        fields::put(&mut body, "properties.virtualMachine", json!({ "id": machine }));
        attachments.push(Attachment::put(Owner::Region, record_of(id), body.to_string()));
    }
    Ok(attachments)
}

fn shown(region: &Region, mut body: Value) -> Value {
    let id = text(&body, "id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
    let Some(id) = id else { return body };
    fields::put(&mut body, "name", last_name(&id));
    fields::put(&mut body, "type", id.kind().unwrap_or_default());
    fields::put(&mut body, "properties.provisioningState", "Succeeded");
    match id.kind().as_deref() {
        Some("Microsoft.Network/networkInterfaces") => show_machine(region, &mut body),
        Some("Microsoft.Network/publicIPAddresses") => {
            fields::put(&mut body, "properties.ipAddress", made_up_public(&id).to_string());
        }
        Some(_) | None => {}
    }
    body
}

/// A card's addresses are those of its machine.
fn show_machine(region: &Region, card: &mut Value) {
    let id = text(card, "properties.virtualMachine.id").ok().flatten().and_then(|id| ResourceId::parse(id).ok());
    let machine = id.and_then(|id| region.machine_at(&home_of(&id), last_name(&id)));
    let Some(machine) = machine else {
        fields::remove(card, "properties.virtualMachine");
        return;
    };
    fields::put(card, "properties.macAddress", mac(machine));
    let address = machine.addresses.iter().find(|address| address.ip.is_ipv4()).map(|address| address.ip.to_string());
    let configurations = card.pointer_mut("/properties/ipConfigurations").and_then(Value::as_array_mut);
    if let (Some(address), Some(first)) = (address, configurations.and_then(|list| list.first_mut())) {
        fields::put(first, "properties.privateIPAddress", address);
    }
}

/// `00-0D-3A-…`, as the original writes it here.
fn mac(machine: &Machine) -> String {
    let digits =
        if machine.details.mac.is_empty() { mac_address(machine.vm_id.0) } else { machine.details.mac.clone() };
    let digits: Vec<char> = digits.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| pair.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// Nobody is reached by it: an address of the range for documentation, always the same for one resource.
fn made_up_public(id: &ResourceId) -> IpAddr {
    let sum = id.key().bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    IpAddr::from([203, 0, 113, sum])
}
