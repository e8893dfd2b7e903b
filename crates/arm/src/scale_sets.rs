//! Handlers of scale sets. Instances are in `instances`, actions in `actions`.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{
    Answer, Command, Details, Group, GroupChange, GroupId, GroupKind, MachineId, NewGroupKind, OperationState,
    Orchestration, Region, Rejection, ResourceGroupRef, ScaleSet, UpgradeMode,
};
use forewarn_core::{Scale, SharedName};
use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use serde_json::Value;

use super::call::{Arm, Call};
use super::fields::{self, at, missing, read_bool, read_keyword, read_number, read_text};
use super::groups::{self, GroupType};
use super::operations::OperationTicket;
use super::page;
use super::profile::{self, ORCHESTRATIONS, UPGRADES};
use super::render;
use super::resource::{immutable, is_same_location, last_name};
use super::write::{WantedIdentity, WriteMode, WriteResult, body_attachment, write_handlers};
use forewarn_access::random_guid;
use forewarn_api::error::ApiError;
use forewarn_api::{Action, PLACEMENT_GROUP_DEFAULT, ZONES_MAX};
use forewarn_api_types::Time;

write_handlers!(new: CREATED);

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let profile = at(given, "properties.virtualMachineProfile");
    profile::check_version(&arm.version, profile, "VirtualMachineProfile")?;
    let lock = arm.lock_for_write(id).await?;
    match mode.require_existing(find(&arm.snapshot().region, id))? {
        Some(group) => change(arm, &group, given, mode).await,
        None => create(arm, lock.home.clone(), last_name(id), given).await,
    }
}

async fn create(arm: &Arm, home: ResourceGroupRef, name: &str, given: &Value) -> Result<WriteResult, ApiError> {
    let mut body = WriteMode::Put.merge(&Value::Null, given);
    fields::put(&mut body, "properties.timeCreated", Time(arm.actions.engine().now().0).to_string());
    let domains = [None, read_number(&body, "properties.platformFaultDomainCount")?];
    let new = groups::new_group(name, home, new_kind(&body)?, &body["properties"], domains)?;
    let identity = WantedIdentity::from_body(arm, &body, None, new.salt)?;
    let attach = move |answers: &[Answer]| {
        let Some(group) = groups::created_group(answers) else { return Vec::new() };
        let mut attachments = vec![body_attachment(Owner::Group(group), &body)];
        attachments.extend(identities(&identity, group, created_machines(answers)));
        attachments
    };
    let note = arm.actions.permit(Action::CreateScaleSet)?.note(name);
    let done = arm.actions.commit(vec![Command::CreateGroup(Box::new(new))], note, attach).await?;
    let group = groups::created_group(&done.answers).ok_or(Rejection::UnknownGroup)?;
    render_written(arm, &done.snapshot.region, group, true, None).await
}

fn new_kind(body: &Value) -> Result<NewGroupKind, ApiError> {
    read_text(body, "location")?.ok_or_else(|| missing("location"))?;
    let orchestration =
        read_keyword(body, "properties.orchestrationMode", ORCHESTRATIONS)?.unwrap_or(Orchestration::Uniform);
    // Machines are added later to a Flexible set without a profile.
    let needs_sku = orchestration == Orchestration::Uniform || at(body, "properties.virtualMachineProfile").is_some();
    let capacity = match (at(body, "sku"), read_number(body, "sku.capacity")?) {
        (_, Some(capacity)) => capacity,
        (None, None) if needs_sku => return Err(missing("sku")),
        (Some(_), None) if needs_sku => return Err(missing("sku.capacity")),
        (_, None) => 0,
    };
    let single = read_bool(body, "properties.singlePlacementGroup")?.unwrap_or(false);
    let placement_group_max = match (orchestration, single) {
        (Orchestration::Uniform, false) => Some(PLACEMENT_GROUP_DEFAULT),
        (Orchestration::Uniform, true) | (Orchestration::Flexible, _) => None,
    };
    Ok(NewGroupKind::ScaleSet {
        orchestration,
        upgrade_mode: upgrade_mode(body)?.unwrap_or(UpgradeMode::Manual),
        capacity,
        placement_group_max,
        zones: fields::read_names(body, "zones", ZONES_MAX)?.into_iter().map(SharedName::from).collect(),
        model: profile::model(body, &Details::default())?,
    })
}

fn upgrade_mode(body: &Value) -> Result<Option<UpgradeMode>, ApiError> {
    read_keyword(body, "properties.upgradePolicy.mode", UPGRADES)
}

async fn change(arm: &Arm, group: &Group, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let set = set_of(group)?;
    let before = arm.read_identity(Owner::Group(group.id)).await?;
    let body = arm.read_body(Owner::Group(group.id)).await?;
    let current = render::scale_set(&arm.snapshot().region, group, set, body, before.as_ref());
    let merged = mode.merge(&current, given);
    check_immutable(group, set, &current, &merged)?;
    let model = profile::model(&merged, &set.model.details)?;
    let policy = profile::policy(&merged["properties"])?.unwrap_or_default();
    let mode = upgrade_mode(&merged)?.unwrap_or(set.upgrade_mode);
    let operation = random_guid();
    let scale = |capacity| Scale { capacity, by: arm.by.clone(), operation };
    let change = GroupChange {
        policy: (policy != group.policy).then_some(policy),
        upgrade_mode: (mode != set.upgrade_mode).then_some(mode),
        model: (model != set.model).then_some(model),
        capacity: read_number(given, "sku.capacity")?.filter(|capacity| *capacity != set.capacity).map(scale),
    };
    let commands = match change == GroupChange::default() {
        true => Vec::new(),
        false => vec![Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() }],
    };
    let identity = WantedIdentity::from_body(arm, &merged, before, random_guid())?;
    let id = group.id;
    let attach = move |answers: &[Answer]| {
        let mut attachments = vec![body_attachment(Owner::Group(id), &merged)];
        attachments.extend(identities(&identity, id, created_machines(answers)));
        attachments
    };
    let done = arm
        .actions
        .commit(commands, arm.actions.permit(Action::ChangeScaleSet)?.note(group.name.as_str()), attach)
        .await?;
    render_written(arm, &done.snapshot.region, id, false, Some(operation)).await
}

fn check_immutable(group: &Group, set: &ScaleSet, current: &Value, merged: &Value) -> Result<(), ApiError> {
    if !is_same_location(
        read_text(current, "location")?.unwrap_or_default(),
        read_text(merged, "location")?.unwrap_or_default(),
    ) {
        return Err(immutable("location"));
    }
    let orchestration = read_keyword(merged, "properties.orchestrationMode", ORCHESTRATIONS)?;
    if orchestration.is_some_and(|orchestration| orchestration != set.orchestration) {
        return Err(immutable("properties.orchestrationMode"));
    }
    let faults = read_number(merged, "properties.platformFaultDomainCount")?;
    if faults.is_some_and(|faults| faults != group.fault_domains) {
        return Err(immutable("properties.platformFaultDomainCount"));
    }
    let zones = fields::read_names(merged, "zones", ZONES_MAX)?;
    if !zones.iter().copied().eq(set.zones.iter().map(|zone| &**zone)) {
        return Err(immutable("zones"));
    }
    Ok(())
}

/// The identity of the set, which new instances share. Without one, no instance is touched.
fn identities(identity: &WantedIdentity, group: GroupId, created: Vec<MachineId>) -> Vec<Attachment> {
    let mut attachments = vec![identity.attachment(Owner::Group(group))];
    if identity.is_some() {
        attachments.extend(created.into_iter().map(|machine| identity.attachment(Owner::Machine(machine))));
    }
    attachments
}

fn created_machines(answers: &[Answer]) -> Vec<MachineId> {
    match answers.first() {
        Some(Answer::Group { machines, .. }) => machines.clone(),
        Some(Answer::Scaled { added, .. }) => added.clone(),
        Some(Answer::Done | Answer::Machine(_) | Answer::Operation(_) | Answer::Rollout(_)) | None => Vec::new(),
    }
}

async fn render_written(
    arm: &Arm,
    region: &Region,
    id: GroupId,
    is_new: bool,
    operation: Option<forewarn_core::OperationId>,
) -> Result<WriteResult, ApiError> {
    let group = region.group(id).ok_or(Rejection::UnknownGroup)?;
    let resource = render_set(arm, region, group).await?;
    let is_running = |id: &forewarn_core::OperationId| {
        region.operation(*id).is_some_and(|operation| operation.state == OperationState::Running)
    };
    Ok(WriteResult { is_new, resource, pending: operation.filter(is_running).map(OperationTicket::One) })
}

/// The set as GET shows it.
async fn render_set(arm: &Arm, region: &Region, group: &Group) -> Result<Value, ApiError> {
    let body = arm.read_body(Owner::Group(group.id)).await?;
    let identity = arm.read_identity(Owner::Group(group.id)).await?;
    Ok(render::scale_set(region, group, set_of(group)?, body, identity.as_ref()))
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let group = find(&snapshot.region, call.id())?;
    Ok(axum::Json(render_set(&call.arm, &snapshot.region, &group).await?).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let (found, next) = groups::list(&call, GroupType::ScaleSet)?;
    let snapshot = call.arm.snapshot();
    let mut value = Vec::with_capacity(found.len());
    for group in &found {
        value.push(render_set(&call.arm, &snapshot.region, group).await?);
    }
    Ok(page::respond(&call, value, next))
}

pub async fn instance_view(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let group = find(&snapshot.region, call.id())?;
    Ok(axum::Json(render::set_view(&snapshot.region, &group)).into_response())
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let Ok(group) = find(&snapshot.region, call.id()) else { return Ok(groups::already_deleted()) };
    Ok(groups::delete(&call, &group, Action::DeleteScaleSet).await?.accepted(&call))
}

/// The set that an ID names, or that the named instance belongs to.
pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Group>, ApiError> {
    groups::find(region, id, GroupType::ScaleSet)
}

/// The scale set of a group that `find` returned.
pub fn set_of(group: &Group) -> Result<&ScaleSet, ApiError> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Ok(set),
        GroupKind::AvailabilitySet | GroupKind::CloudService => Err(Rejection::NotAScaleSet(group.name.clone()).into()),
    }
}
