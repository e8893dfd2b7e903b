//! Virtual machines: those on their own, those of availability sets, and the instances of Flexible scale sets. Instances of
//! Uniform sets are in `instances`.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{
    AddressWish, Answer, Command, Details, EvictionPolicy, GroupId, Home, Machine, MachineChange, MachineId,
    NewMachine, Place, Priority, Region, Request, Seat,
};
use forewarn_store::Owner;
use forewarn_wire::arm::id::ResourceId;
use serde_json::Value;

use super::call::{Arm, Call, home_of};
use super::fields::{self, at, invalid, missing, text, word};
use super::groups::{self, Kind};
use super::network;
use super::operations::Ticket;
use super::page::{self, Wanted};
use super::profile::{self, EVICTIONS, PRIORITIES};
use super::render::{self, Form, View};
use super::resource_groups::{is_home, same_location};
use super::write::{How, Identity, Written, stored};
use forewarn_access::random_guid;
use forewarn_api::Note;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::text::Word;
use forewarn_api::values::When;

pub async fn put(call: Call) -> Result<Response, ApiError> {
    Ok(write(&call.arm, call.id(), &call.json()?, How::Put).await?.into_response(&call))
}

pub async fn patch(call: Call) -> Result<Response, ApiError> {
    Ok(write(&call.arm, call.id(), &call.json()?, How::Patch).await?.into_response(&call))
}

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, how: How) -> Result<Written, ApiError> {
    profile::check_version(&arm.version, at(given, "properties"), "VirtualMachineProperties")?;
    let turn = arm.turn(id).await?;
    let name = last_name(id);
    let existing = arm.snapshot().region.machine_at(&turn.home, name).cloned();
    match existing {
        Some(machine) if is_virtual_machine(&machine) => change(arm, &machine, given, how).await,
        Some(machine) => {
            let message = format!("The name '{}' belongs to an instance of a Uniform scale set.", machine.name);
            Err(ApiError::new(Refusal::OperationNotAllowed, message).about(name))
        }
        None if how == How::Patch => Err(not_found(id)),
        None => create(arm, turn.home.clone(), name, given).await,
    }
}

async fn create(arm: &Arm, home: Home, name: &str, given: &Value) -> Result<Written, ApiError> {
    let mut body = How::Put.merged(&Value::Null, given);
    text(&body, "location")?.ok_or_else(|| missing("location"))?;
    fields::put(&mut body, "properties.timeCreated", When(arm.api.engine().now()).to_string());
    let snapshot = arm.snapshot();
    let properties = at(&body, "properties").cloned().unwrap_or_default();
    let new = NewMachine {
        vm_id: random_guid(),
        name: Word::new(name.to_owned()).map_err(|why| invalid("name", why))?.into(),
        home,
        place: place(&snapshot.region, &properties)?,
        host: None,
        update_domain: None,
        fault_domain: None,
        zone: zone(&body)?,
        priority: word(&properties, "priority", PRIORITIES)?.unwrap_or(Priority::Regular),
        eviction: word(&properties, "evictionPolicy", EVICTIONS)?.unwrap_or(EvictionPolicy::Deallocate),
        addresses: AddressWish::FromPool,
        terminate: profile::terminate(&properties)?,
        policy: profile::policy(&properties)?,
        details: Arc::new(details(&body, &properties, &Details::default())?),
    };
    let identity = Identity::wanted(arm, &body, None, new.vm_id)?;
    let cards = network::cards_of(&properties);
    let _cards_held = arm.locks.of_cards(&cards).await;
    let mut attachments = network::attached_to(arm, &cards, &new.home, &new.name).await?;
    let note = Note::new("vm.create", name);
    let attach = move |answers: &[Answer]| {
        let Some(Answer::Machine(id)) = answers.first() else { return Vec::new() };
        attachments.extend([stored(Owner::Machine(*id), &body), identity.attachment(Owner::Machine(*id))]);
        attachments
    };
    let done = arm.commit(vec![Command::RegisterMachine(Box::new(new))], note, attach).await?;
    let region = &done.snapshot.region;
    let made = match done.answers.first() {
        Some(Answer::Machine(id)) => region.machine(*id),
        Some(Answer::Done | Answer::Group { .. } | Answer::Operation(_) | Answer::Scaled { .. }) | None => None,
    };
    let machine = made.ok_or_else(|| gone(name))?;
    let resource = render::machine(arm, region, machine, Form::VirtualMachine, View::Without).await?;
    Ok(Written { is_new: true, resource, pending: None })
}

async fn change(arm: &Arm, machine: &Arc<Machine>, given: &Value, how: How) -> Result<Written, ApiError> {
    let snapshot = arm.snapshot();
    let shown = render::machine(arm, &snapshot.region, machine, Form::VirtualMachine, View::Without).await?;
    let merged = how.merged(&shown, given);
    check_fixed(&snapshot.region, machine, &shown, &merged)?;
    let properties = at(&merged, "properties").cloned().unwrap_or_default();
    let terminate = profile::terminate(&properties)?;
    let policy = profile::policy(&properties)?;
    let details = details(&merged, &properties, &machine.details)?;
    let zone = zone(&merged)?;
    let change = MachineChange {
        terminate: (terminate != machine.terminate).then_some(terminate),
        policy: (policy != machine.policy).then_some(policy),
        details: (details != *machine.details).then(|| Arc::new(details)),
        zone: (zone != machine.zone).then_some(zone),
        ..MachineChange::default()
    };
    let id = machine.id;
    let commands = match change == MachineChange::default() {
        true => Vec::new(),
        false => vec![Command::ChangeMachine { machine: id, change: Box::new(change) }],
    };
    let identity = Identity::wanted(arm, &merged, arm.identity(Owner::Machine(id)).await?, machine.vm_id)?;
    let attach = move |_: &[Answer]| vec![stored(Owner::Machine(id), &merged), identity.attachment(Owner::Machine(id))];
    let done = arm.commit(commands, Note::new("vm.change", machine.name.as_ref()), attach).await?;
    let region = &done.snapshot.region;
    let machine = region.machine(id).ok_or_else(|| gone(&machine.name))?;
    let resource = render::machine(arm, region, machine, Form::VirtualMachine, View::Without).await?;
    Ok(Written { is_new: false, resource, pending: None })
}

/// What a machine is made with stays for its life.
fn check_fixed(region: &Region, machine: &Machine, shown: &Value, merged: &Value) -> Result<(), ApiError> {
    let (before, after) = (text(shown, "location")?.unwrap_or_default(), text(merged, "location")?.unwrap_or_default());
    if !same_location(before, after) {
        return Err(fixed("location"));
    }
    let properties = at(merged, "properties").cloned().unwrap_or_default();
    if word(&properties, "priority", PRIORITIES)?.is_some_and(|priority| priority != machine.priority) {
        return Err(fixed("properties.priority"));
    }
    let eviction = word(&properties, "evictionPolicy", EVICTIONS)?;
    if eviction.is_some_and(|eviction| eviction != machine.eviction) {
        return Err(fixed("properties.evictionPolicy"));
    }
    for (kind, place) in MEMBERSHIPS {
        if set_in(region, &properties, kind, place)?.is_some_and(|given| machine.seat.group() != Some(given)) {
            return Err(fixed(&format!("properties.{place}")));
        }
    }
    Ok(())
}

pub fn fixed(place: &str) -> ApiError {
    let message = format!("Changing property '{place}' is not allowed. Delete the resource and make it again.");
    ApiError::new(Refusal::PropertyChangeNotAllowed, message).about(place)
}

fn place(region: &Region, properties: &Value) -> Result<Place, ApiError> {
    let [one, other] = MEMBERSHIPS.map(|(kind, place)| set_in(region, properties, kind, place));
    match (one?, other?) {
        (None, None) => Ok(Place::Standalone),
        (Some(set), None) => Ok(Place::AvailabilitySet(set)),
        (None, Some(set)) => Ok(Place::FlexibleSet(set)),
        (Some(_), Some(_)) => {
            let message = "A machine is in an availability set or in a scale set. Leave one of them out.";
            Err(ApiError::new(Refusal::OperationNotAllowed, message).about("properties.virtualMachineScaleSet"))
        }
    }
}

/// Where a body says what its machine is a member of.
const MEMBERSHIPS: [(Kind, &str); 2] =
    [(Kind::AvailabilitySet, "availabilitySet"), (Kind::ScaleSet, "virtualMachineScaleSet")];

fn set_in(region: &Region, properties: &Value, kind: Kind, place: &str) -> Result<Option<GroupId>, ApiError> {
    let Some(given) = text(properties, &format!("{place}.id"))? else { return Ok(None) };
    let place = format!("properties.{place}.id");
    let id = ResourceId::parse(given).map_err(|error| invalid(&place, error))?;
    match groups::find(region, &id, kind) {
        Ok(group) if id.kind().as_deref() == Some(kind.resource_type()) => Ok(Some(group.id)),
        Ok(_) | Err(_) => {
            let message = format!("There is no {} '{given}'. Create it first.", kind.words());
            Err(ApiError::new(Refusal::ResourceNotFound, message).about(place))
        }
    }
}

fn zone(body: &Value) -> Result<Option<forewarn_core::Name>, ApiError> {
    Ok(fields::names(body, "zones", 1)?.first().map(|zone| (*zone).into()))
}

fn details(body: &Value, properties: &Value, before: &Details) -> Result<Details, ApiError> {
    profile::details(body, properties, text(properties, "hardwareProfile.vmSize")?, before)
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    shown(&call, find, Form::VirtualMachine).await
}

pub async fn instance_view(call: Call) -> Result<Response, ApiError> {
    view_shown(&call, find)
}

/// How a machine is found by the id that it has here: on its own, or as an instance.
pub type Find = fn(&Region, &ResourceId) -> Result<Arc<Machine>, ApiError>;

pub async fn shown(call: &Call, find: Find, form: Form) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let machine = find(&snapshot.region, call.id())?;
    let shown = render::machine(&call.arm, &snapshot.region, &machine, form, View::asked(call)).await?;
    Ok(axum::Json(shown).into_response())
}

pub fn view_shown(call: &Call, find: Find) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let machine = find(&snapshot.region, call.id())?;
    Ok(axum::Json(render::instance_view(&snapshot.region, &machine)).into_response())
}

/// Of a resource group, or of the whole subscription.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&call)?;
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let set = call.query("$filter").map(|filter| set_of_filter(region, filter)).transpose()?;
    let view = match call.query("statusOnly") {
        Some(only) if only.eq_ignore_ascii_case("true") => View::With,
        Some(_) | None => View::Without,
    };
    let home = call.home();
    let in_group = super::call::is_in_group(call.id());
    let is_wanted = |machine: &&Arc<Machine>| {
        is_virtual_machine(machine)
            && machine.home.subscription.eq_ignore_ascii_case(&home.subscription)
            && (!in_group || is_home(&machine.home, &home))
            && set.is_none_or(|set| machine.seat.group() == Some(set))
    };
    let after = wanted.after_number()?.map(MachineId);
    let mut found: Vec<_> = region.machines_after(after).filter(is_wanted).take(wanted.limit + 1).cloned().collect();
    let next = wanted.cut(&mut found, |machine| machine.id.0.to_string());
    Ok(page::shown(&call, render::machines(&call.arm, region, &found, Form::VirtualMachine, view).await?, next))
}

/// `'virtualMachineScaleSet/id' eq '…'`.
fn set_of_filter(region: &Region, filter: &str) -> Result<GroupId, ApiError> {
    let quoted =
        filter.split_once(" eq ").map(|(what, id)| (what.trim_matches([' ', '\'']), id.trim_matches([' ', '\''])));
    let id = match quoted {
        Some((what, id)) if what.eq_ignore_ascii_case("virtualMachineScaleSet/id") => id,
        Some(_) | None => {
            return Err(ApiError::query("$filter", "only 'virtualMachineScaleSet/id' eq '<id>' is understood"));
        }
    };
    let id = ResourceId::parse(id).map_err(|error| ApiError::query("$filter", error))?;
    Ok(groups::find(region, &id, Kind::ScaleSet)?.id)
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    delete_found(&call, find).await
}

/// With notice where there is some to give.
pub async fn delete_found(call: &Call, find: Find) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let Ok(machine) = find(&snapshot.region, call.id()) else { return Ok(groups::nothing_to_delete()) };
    let request = Request::Delete { machines: vec![machine.id], group: None };
    let (ticket, commands) = Ticket::of_requests(&call.arm, vec![request]);
    call.arm.commit(commands, Note::new("delete", machine.name.as_ref()), |_| Vec::new()).await?;
    Ok(ticket.accepted(call))
}

/// The machine that an id names.
pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Machine>, ApiError> {
    let id = id.base();
    let machine = region.machine_at(&home_of(&id), last_name(&id)).filter(|machine| is_virtual_machine(machine));
    machine.cloned().ok_or_else(|| not_found(&id))
}

/// Instances of Uniform sets and role instances are not.
fn is_virtual_machine(machine: &Machine) -> bool {
    match machine.seat {
        Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { number: None, .. } => true,
        Seat::Instance { number: Some(_), .. } | Seat::RoleInstance { .. } => false,
    }
}

pub fn last_name(id: &ResourceId) -> &str {
    let pair = id.provider.as_ref().and_then(|provider| provider.pairs.last());
    pair.map_or("", |pair| pair.name.as_str())
}

pub fn not_found(id: &ResourceId) -> ApiError {
    let kind = id.kind().unwrap_or_default();
    let message = format!(
        "The Resource '{kind}/{}' under resource group '{}' was not found.",
        last_name(id),
        id.group().map_or("", |group| group.as_str())
    );
    ApiError::new(Refusal::ResourceNotFound, message).about(id.to_string())
}

fn gone(name: &str) -> ApiError {
    let message = format!("'{name}' was written, and deleted by somebody else at once.");
    ApiError::new(Refusal::ResourceNotFound, message).about(name)
}
