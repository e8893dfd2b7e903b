//! Handlers of virtual machines: standalone machines, members of availability sets, and instances of Flexible scale sets.
//! Instances of Uniform sets are in `instances`.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{
    AddressRequest, Answer, Command, Details, EvictionPolicy, GroupId, Machine, MachineChange, MachineId, Membership,
    NewMachine, NewMembership, Priority, Region, ResourceGroupRef,
};
use forewarn_store::Owner;
use forewarn_wire::arm::id::ResourceId;
use serde_json::Value;

use super::call::{Arm, Call};
use super::fields::{self, at, invalid, invalid_name, missing, read_keyword, read_text};
use super::groups::{self, GroupType};
use super::network;
use super::operations::OperationTicket;
use super::page::{self, PageRequest};
use super::profile::{self, EVICTIONS, PRIORITIES};
use super::render::{self, ResourceForm, View};
use super::resource::{
    immutable, is_in_group, is_same_location, is_same_resource_group, last_name, not_found, resource_group_of,
};
use super::write::{WantedIdentity, WriteMode, WriteResult, body_attachment, write_handlers};
use forewarn_access::random_guid;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api::{Action, MachineTarget};
use forewarn_api_types::{ActionOptions, ResourceName, Time};

write_handlers!(new: CREATED);

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    profile::check_version(&arm.version, at(given, "properties"), "VirtualMachineProperties")?;
    let lock = arm.lock_for_write(id).await?;
    let name = last_name(id);
    let existing = arm.snapshot().region.machine_at(&lock.home, name).cloned();
    match existing {
        Some(machine) if is_virtual_machine(&machine) => change(arm, &machine, given, mode).await,
        Some(machine) => {
            let message = format!(
                "The name '{}' is used by an instance of a Uniform scale set. Choose another name.",
                machine.name
            );
            Err(ApiError::new(ErrorCode::OperationNotAllowed, message).with_target(name))
        }
        None if mode == WriteMode::Patch => Err(not_found(id)),
        None => create(arm, lock.home.clone(), name, given).await,
    }
}

async fn create(arm: &Arm, home: ResourceGroupRef, name: &str, given: &Value) -> Result<WriteResult, ApiError> {
    let mut body = WriteMode::Put.merge(&Value::Null, given);
    read_text(&body, "location")?.ok_or_else(|| missing("location"))?;
    fields::put(&mut body, "properties.timeCreated", Time(arm.actions.engine().now().0).to_string());
    let snapshot = arm.snapshot();
    let properties = at(&body, "properties").cloned().unwrap_or_default();
    let new = NewMachine {
        vm_id: random_guid(),
        name: ResourceName::new(name.to_owned()).map_err(|reason| invalid_name("name", reason))?.0.into(),
        home,
        place: place(&snapshot.region, &properties)?,
        host: None,
        update_domain: None,
        fault_domain: None,
        zone: zone(&body)?,
        priority: read_keyword(&properties, "priority", PRIORITIES)?.unwrap_or(Priority::Regular),
        eviction: read_keyword(&properties, "evictionPolicy", EVICTIONS)?.unwrap_or(EvictionPolicy::Deallocate),
        addresses: AddressRequest::FromPool,
        terminate: profile::terminate(&properties)?,
        policy: profile::policy(&properties)?,
        memory_mib: 0,
        live_migratable: true,
        details: Arc::new(details(&body, &properties, &Details::default())?),
    };
    let identity = WantedIdentity::from_body(arm, &body, None, new.vm_id)?;
    let interfaces = network::interfaces_of(&properties);
    let _interface_locks = arm.locks.lock_interfaces(&interfaces).await;
    let mut attachments = network::attach_to_machine(arm, &interfaces, &new.home, &new.name).await?;
    let note = arm.actions.permit(Action::CreateVm)?.note(name);
    let attach = move |answers: &[Answer]| {
        let Some(Answer::Machine(id)) = answers.first() else { return Vec::new() };
        attachments.extend([body_attachment(Owner::Machine(*id), &body), identity.attachment(Owner::Machine(*id))]);
        attachments
    };
    let done = arm.actions.commit(vec![Command::RegisterMachine(Box::new(new))], note, attach).await?;
    let region = &done.snapshot.region;
    let created = match done.answers.first() {
        Some(Answer::Machine(id)) => region.machine(*id),
        Some(
            Answer::Done | Answer::Group { .. } | Answer::Operation(_) | Answer::Rollout(_) | Answer::Scaled { .. },
        )
        | None => None,
    };
    let machine = created.ok_or_else(|| deleted_meanwhile(name))?;
    let resource = render::machine(arm, region, machine, ResourceForm::VirtualMachine, View::Without).await?;
    Ok(WriteResult { is_new: true, resource, pending: None })
}

async fn change(arm: &Arm, machine: &Arc<Machine>, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let snapshot = arm.snapshot();
    let current = render::machine(arm, &snapshot.region, machine, ResourceForm::VirtualMachine, View::Without).await?;
    let merged = mode.merge(&current, given);
    check_immutable(&snapshot.region, machine, &current, &merged)?;
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
    let identity =
        WantedIdentity::from_body(arm, &merged, arm.read_identity(Owner::Machine(id)).await?, machine.vm_id)?;
    let attach =
        move |_: &[Answer]| vec![body_attachment(Owner::Machine(id), &merged), identity.attachment(Owner::Machine(id))];
    let done =
        arm.actions.commit(commands, arm.actions.permit(Action::ChangeVm)?.note(machine.name.as_str()), attach).await?;
    let region = &done.snapshot.region;
    let machine = region.machine(id).ok_or_else(|| deleted_meanwhile(&machine.name))?;
    let resource = render::machine(arm, region, machine, ResourceForm::VirtualMachine, View::Without).await?;
    Ok(WriteResult { is_new: false, resource, pending: None })
}

/// Refuses changes of properties that are fixed at creation.
fn check_immutable(region: &Region, machine: &Machine, current: &Value, merged: &Value) -> Result<(), ApiError> {
    let (before, after) =
        (read_text(current, "location")?.unwrap_or_default(), read_text(merged, "location")?.unwrap_or_default());
    if !is_same_location(before, after) {
        return Err(immutable("location"));
    }
    let properties = at(merged, "properties").cloned().unwrap_or_default();
    if read_keyword(&properties, "priority", PRIORITIES)?.is_some_and(|priority| priority != machine.priority) {
        return Err(immutable("properties.priority"));
    }
    let eviction = read_keyword(&properties, "evictionPolicy", EVICTIONS)?;
    if eviction.is_some_and(|eviction| eviction != machine.eviction) {
        return Err(immutable("properties.evictionPolicy"));
    }
    for (kind, place) in MEMBERSHIPS {
        if find_membership(region, &properties, kind, place)?
            .is_some_and(|given| machine.membership.group() != Some(given))
        {
            return Err(immutable(&format!("properties.{place}")));
        }
    }
    Ok(())
}

fn place(region: &Region, properties: &Value) -> Result<NewMembership, ApiError> {
    let [one, other] = MEMBERSHIPS.map(|(kind, place)| find_membership(region, properties, kind, place));
    match (one?, other?) {
        (None, None) => Ok(NewMembership::Standalone),
        (Some(set), None) => Ok(NewMembership::AvailabilitySet(set)),
        (None, Some(set)) => Ok(NewMembership::FlexibleSet(set)),
        (Some(_), Some(_)) => {
            let message = "A machine can be in an availability set or in a scale set, not in both. Omit one of them.";
            Err(ApiError::new(ErrorCode::OperationNotAllowed, message).with_target("properties.virtualMachineScaleSet"))
        }
    }
}

/// The properties that name the group of a machine.
const MEMBERSHIPS: [(GroupType, &str); 2] =
    [(GroupType::AvailabilitySet, "availabilitySet"), (GroupType::ScaleSet, "virtualMachineScaleSet")];

fn find_membership(
    region: &Region,
    properties: &Value,
    kind: GroupType,
    place: &str,
) -> Result<Option<GroupId>, ApiError> {
    let Some(given) = read_text(properties, &format!("{place}.id"))? else { return Ok(None) };
    let place = format!("properties.{place}.id");
    let id = ResourceId::parse(given).map_err(|error| invalid(&place, error))?;
    match groups::find(region, &id, kind) {
        Ok(group) if id.kind().as_deref() == Some(kind.resource_type()) => Ok(Some(group.id)),
        Ok(_) | Err(_) => {
            let message = format!("The {} '{given}' was not found. Create it first.", kind.name());
            Err(ApiError::new(ErrorCode::ResourceNotFound, message).with_target(place))
        }
    }
}

fn zone(body: &Value) -> Result<Option<forewarn_core::SharedName>, ApiError> {
    Ok(fields::read_names(body, "zones", 1)?.first().map(|zone| (*zone).into()))
}

fn details(body: &Value, properties: &Value, before: &Details) -> Result<Details, ApiError> {
    profile::details(body, properties, read_text(properties, "hardwareProfile.vmSize")?, before)
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    respond(&call, find, ResourceForm::VirtualMachine).await
}

pub async fn instance_view(call: Call) -> Result<Response, ApiError> {
    respond_view(&call, find)
}

/// Finds a machine by its resource ID, as a virtual machine or as an instance.
pub type MachineFinder = fn(&Region, &ResourceId) -> Result<Arc<Machine>, ApiError>;

pub async fn respond(call: &Call, find: MachineFinder, form: ResourceForm) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let machine = find(&snapshot.region, call.id())?;
    let resource = render::machine(&call.arm, &snapshot.region, &machine, form, View::of(call)).await?;
    Ok(axum::Json(resource).into_response())
}

pub fn respond_view(call: &Call, find: MachineFinder) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let machine = find(&snapshot.region, call.id())?;
    Ok(axum::Json(render::instance_view(&snapshot.region, &machine)).into_response())
}

/// Lists the machines of a resource group or of the subscription.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let set = call.query("$filter").map(|filter| parse_set_filter(region, filter)).transpose()?;
    let view = match call.query("statusOnly") {
        Some(only) if only.eq_ignore_ascii_case("true") => View::With,
        Some(_) | None => View::Without,
    };
    let home = call.home();
    let in_group = is_in_group(call.id());
    let is_wanted = |machine: &&Arc<Machine>| {
        is_virtual_machine(machine)
            && machine.home.subscription.eq_ignore_ascii_case(&home.subscription)
            && (!in_group || is_same_resource_group(&machine.home, &home))
            && set.is_none_or(|set| machine.membership.group() == Some(set))
    };
    let after = request.after_number()?.map(MachineId);
    let mut found: Vec<_> = region.machines_after(after).filter(is_wanted).take(request.limit + 1).cloned().collect();
    let next = request.cut(&mut found, |machine| machine.id.0.to_string());
    Ok(page::respond(
        &call,
        render::machines(&call.arm, region, &found, ResourceForm::VirtualMachine, view).await?,
        next,
    ))
}

/// `'virtualMachineScaleSet/id' eq '…'`.
fn parse_set_filter(region: &Region, filter: &str) -> Result<GroupId, ApiError> {
    let quoted =
        filter.split_once(" eq ").map(|(key, id)| (key.trim_matches([' ', '\'']), id.trim_matches([' ', '\''])));
    let id = match quoted {
        Some((key, id)) if key.eq_ignore_ascii_case("virtualMachineScaleSet/id") => id,
        Some(_) | None => {
            return Err(ApiError::query("$filter", "only 'virtualMachineScaleSet/id' eq '<id>' is supported"));
        }
    };
    let id = ResourceId::parse(id).map_err(|error| ApiError::query("$filter", error))?;
    Ok(groups::find(region, &id, GroupType::ScaleSet)?.id)
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    delete_found(&call, find).await
}

/// Deletes a machine, with notice if it has a terminate notification.
pub async fn delete_found(call: &Call, find: MachineFinder) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let Ok(machine) = find(&snapshot.region, call.id()) else { return Ok(groups::already_deleted()) };
    let target = MachineTarget::Id(machine.id);
    let operation = call.arm.actions.delete_machine(&target, ActionOptions::default()).await?;
    Ok(OperationTicket::of_operation(&operation).accepted(call))
}

/// The virtual machine that an ID names.
pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Machine>, ApiError> {
    let id = id.base();
    let machine =
        region.machine_at(&resource_group_of(&id), last_name(&id)).filter(|machine| is_virtual_machine(machine));
    machine.cloned().ok_or_else(|| not_found(&id))
}

/// Whether a machine is a virtual machine resource; instances of Uniform sets and role instances are not.
fn is_virtual_machine(machine: &Machine) -> bool {
    match machine.membership {
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { number: None, .. } => true,
        Membership::Instance { number: Some(_), .. } | Membership::RoleInstance { .. } => false,
    }
}

fn deleted_meanwhile(name: &str) -> ApiError {
    let message = format!("'{name}' was written, but another request has already deleted it.");
    ApiError::new(ErrorCode::ResourceNotFound, message).with_target(name)
}
