//! Handlers of availability sets.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Answer, Command, Group, GroupChange, GroupId, NewGroupKind, Region, Rejection, ResourceGroupRef};
use forewarn_store::Owner;
use forewarn_wire::arm::id::ResourceId;
use http::StatusCode;
use serde_json::Value;

use super::call::{Arm, Call};
use super::fields::{at, missing, read_number, read_tags, read_text};
use super::groups::{self, GroupType};
use super::resource::{immutable, last_name};
use super::write::{WriteMode, WriteResult, body_attachment, write_handlers};
use super::{page, profile, render};
use forewarn_access::random_guid;
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};

// Clients accept no other status.
write_handlers!(new: OK);

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let lock = arm.lock_for_write(id).await?;
    match mode.require_existing(find(&arm.snapshot().region, id))? {
        Some(group) => change(arm, &group, given, mode).await,
        None => create(arm, lock.home.clone(), last_name(id), given).await,
    }
}

async fn create(arm: &Arm, home: ResourceGroupRef, name: &str, given: &Value) -> Result<WriteResult, ApiError> {
    let body = WriteMode::Put.merge(&Value::Null, given);
    read_text(&body, "location")?.ok_or_else(|| missing("location"))?;
    read_tags(&body)?;
    let properties = at(&body, "properties").cloned().unwrap_or_default();
    let domains =
        [read_number(&properties, "platformUpdateDomainCount")?, read_number(&properties, "platformFaultDomainCount")?];
    let new = groups::new_group(name, home, NewGroupKind::AvailabilitySet, &properties, domains)?;
    let attach = move |answers: &[Answer]| {
        groups::created_group(answers).map(|group| body_attachment(Owner::Group(group), &body)).into_iter().collect()
    };
    let note = arm.actions.permit(Action::CreateAvailabilitySet)?.note(name);
    let done = arm.actions.commit(vec![Command::CreateGroup(Box::new(new))], note, attach).await?;
    let group = groups::created_group(&done.answers).ok_or(Rejection::UnknownGroup)?;
    render_written(arm, &done.snapshot.region, group, true).await
}

async fn change(arm: &Arm, group: &Group, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let current = render::availability_set(&arm.snapshot().region, group, arm.read_body(Owner::Group(group.id)).await?);
    let merged = mode.merge(&current, given);
    read_tags(&merged)?;
    let properties = at(&merged, "properties").cloned().unwrap_or_default();
    for (place, count) in
        [("platformUpdateDomainCount", group.update_domains), ("platformFaultDomainCount", group.fault_domains)]
    {
        if read_number(&properties, place)?.is_some_and(|given| given != count) {
            return Err(immutable(&format!("properties.{place}")));
        }
    }
    let policy = profile::policy(&properties)?.unwrap_or_default();
    let commands = match policy == group.policy {
        true => Vec::new(),
        false => {
            let change = Box::new(GroupChange { policy: Some(policy), ..GroupChange::default() });
            vec![Command::ChangeGroup { group: group.id, change, salt: random_guid() }]
        }
    };
    let id = group.id;
    let note = arm.actions.permit(Action::ChangeAvailabilitySet)?.note(group.name.as_str());
    let done = arm.actions.commit(commands, note, move |_| vec![body_attachment(Owner::Group(id), &merged)]).await?;
    render_written(arm, &done.snapshot.region, id, false).await
}

async fn render_written(arm: &Arm, region: &Region, id: GroupId, is_new: bool) -> Result<WriteResult, ApiError> {
    let group = region.group(id).ok_or(Rejection::UnknownGroup)?;
    let resource = render::availability_set(region, group, arm.read_body(Owner::Group(id)).await?);
    Ok(WriteResult { is_new, resource, pending: None })
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let group = find(&snapshot.region, call.id())?;
    let body = call.arm.read_body(Owner::Group(group.id)).await?;
    Ok(axum::Json(render::availability_set(&snapshot.region, &group, body)).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let (found, next) = groups::list(&call, GroupType::AvailabilitySet)?;
    let bodies = call.arm.read_bodies(found.iter().map(|group| Owner::Group(group.id)).collect()).await?;
    let region = &call.arm.snapshot().region;
    let value = found.iter().zip(bodies).map(|(group, (body, _))| render::availability_set(region, group, body));
    Ok(page::respond(&call, value.collect(), next))
}

/// Deletes an empty set. A set with machines cannot be deleted.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let Ok(group) = find(&snapshot.region, call.id()) else { return Ok(groups::already_deleted()) };
    if let Some(member) = snapshot.region.group_members(&group).next() {
        let message =
            format!("'{}' still contains machines, such as '{}'. Delete them first.", group.name, member.name);
        return Err(ApiError::new(ErrorCode::OperationNotAllowed, message).with_target(group.name.as_str()));
    }
    groups::delete(&call, &group, Action::DeleteAvailabilitySet).await?;
    Ok(StatusCode::OK.into_response())
}

fn find(region: &Region, id: &ResourceId) -> Result<Arc<Group>, ApiError> {
    groups::find(region, id, GroupType::AvailabilitySet)
}
