//! Availability sets.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Answer, Command, Group, GroupChange, GroupId, Home, NewGroup, NewGroupKind, Region, Rejection};
use forewarn_store::Owner;
use forewarn_wire::arm::id::ResourceId;
use http::StatusCode;
use serde_json::Value;

use super::call::{Arm, Call};
use super::fields::{at, invalid, missing, number, tags, text};
use super::groups::{self, Kind};
use super::machines::{fixed, last_name};
use super::write::{How, Written, stored};
use super::{page, profile, render};
use forewarn_access::random_guid;
use forewarn_api::Note;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::text::Word;

/// Clients take nothing but 200 for one, new or not.
pub async fn put(call: Call) -> Result<Response, ApiError> {
    let written = write(&call.arm, call.id(), &call.json()?, How::Put).await?;
    Ok(Written { is_new: false, ..written }.into_response(&call))
}

pub async fn patch(call: Call) -> Result<Response, ApiError> {
    Ok(write(&call.arm, call.id(), &call.json()?, How::Patch).await?.into_response(&call))
}

pub async fn write(arm: &Arm, id: &ResourceId, given: &Value, how: How) -> Result<Written, ApiError> {
    let turn = arm.turn(id).await?;
    match how.found(find(&arm.snapshot().region, id))? {
        Some(group) => change(arm, &group, given, how).await,
        None => create(arm, turn.home.clone(), last_name(id), given).await,
    }
}

async fn create(arm: &Arm, home: Home, name: &str, given: &Value) -> Result<Written, ApiError> {
    let body = How::Put.merged(&Value::Null, given);
    text(&body, "location")?.ok_or_else(|| missing("location"))?;
    tags(&body)?;
    let properties = at(&body, "properties").cloned().unwrap_or_default();
    let new = NewGroup {
        name: Word::new(name.to_owned()).map_err(|why| invalid("name", why))?.into(),
        home,
        kind: NewGroupKind::AvailabilitySet,
        policy: profile::policy(&properties)?.unwrap_or_default(),
        update_domains: number(&properties, "platformUpdateDomainCount")?,
        fault_domains: number(&properties, "platformFaultDomainCount")?,
        salt: random_guid(),
    };
    let attach = move |answers: &[Answer]| {
        groups::made(answers).map(|group| stored(Owner::Group(group), &body)).into_iter().collect()
    };
    let note = Note::new("availability-set.create", name);
    let done = arm.commit(vec![Command::CreateGroup(Box::new(new))], note, attach).await?;
    let made = groups::made(&done.answers).ok_or(Rejection::UnknownGroup)?;
    written(arm, &done.snapshot.region, made, true).await
}

async fn change(arm: &Arm, group: &Group, given: &Value, how: How) -> Result<Written, ApiError> {
    let shown = render::availability_set(&arm.snapshot().region, group, arm.body(Owner::Group(group.id)).await?);
    let merged = how.merged(&shown, given);
    tags(&merged)?;
    let properties = at(&merged, "properties").cloned().unwrap_or_default();
    for (place, count) in
        [("platformUpdateDomainCount", group.update_domains), ("platformFaultDomainCount", group.fault_domains)]
    {
        if number(&properties, place)?.is_some_and(|given| given != count) {
            return Err(fixed(&format!("properties.{place}")));
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
    let note = Note::new("availability-set.change", group.name.as_ref());
    let done = arm.commit(commands, note, move |_| vec![stored(Owner::Group(id), &merged)]).await?;
    written(arm, &done.snapshot.region, id, false).await
}

async fn written(arm: &Arm, region: &Region, id: GroupId, is_new: bool) -> Result<Written, ApiError> {
    let group = region.group(id).ok_or(Rejection::UnknownGroup)?;
    let resource = render::availability_set(region, group, arm.body(Owner::Group(id)).await?);
    Ok(Written { is_new, resource, pending: None })
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let group = find(&snapshot.region, call.id())?;
    let body = call.arm.body(Owner::Group(group.id)).await?;
    Ok(axum::Json(render::availability_set(&snapshot.region, &group, body)).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let (found, next) = groups::list(&call, Kind::AvailabilitySet)?;
    let bodies = call.arm.bodies(found.iter().map(|group| Owner::Group(group.id)).collect()).await?;
    let region = &call.arm.snapshot().region;
    let shown = found.iter().zip(bodies).map(|(group, (body, _))| render::availability_set(region, group, body));
    Ok(page::shown(&call, shown.collect(), next))
}

/// Only an empty one goes.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let snapshot = call.arm.snapshot();
    let Ok(group) = find(&snapshot.region, call.id()) else { return Ok(groups::nothing_to_delete()) };
    if let Some(member) = snapshot.region.group_members(&group).next() {
        let message = format!("'{}' still has machines, '{}' for one. Delete them first.", group.name, member.name);
        return Err(ApiError::new(Refusal::OperationNotAllowed, message).about(group.name.as_ref()));
    }
    groups::delete(&call, &group, "availability-set.delete").await?;
    Ok(StatusCode::OK.into_response())
}

pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Group>, ApiError> {
    groups::find(region, id, Kind::AvailabilitySet)
}
