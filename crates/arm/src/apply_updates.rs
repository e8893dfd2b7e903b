//! `applyUpdates` of scale sets and availability sets: starts a rollout over the update domains of the set, within the windows
//! of its maintenance configurations. Its state is the state of the rollout; nothing is stored.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{MaintenanceWindow, NewRollout, RolloutType, Time, Weekday};
use forewarn_core::{Group, Region, Rollout, RolloutState, StepTarget, Timestamp};
use forewarn_store::Owner;
use forewarn_wire::arm::maintenance::Window;
use http::StatusCode;
use serde_json::{Value, json};

use super::assignments;
use super::call::Call;
use super::maintenance::read_window;
use super::resource::not_found;
use forewarn_api::error::ApiError;

/// `PUT …/applyUpdates/default`. A rollout of the set that has not ended is continued, not repeated.
pub async fn put(call: Call) -> Result<Response, ApiError> {
    let group = group(&call)?;
    let _lock = call.arm.lock(&call.id().base()).await;
    let running = latest(&call.arm.snapshot().region, &group).filter(|rollout| ended(rollout).is_none());
    if running.is_some() {
        return Ok(axum::Json(render(&call, &group)).into_response());
    }
    let mut windows = Vec::new();
    for body in assignments::configurations(&call.arm, Owner::Group(group.id)).await? {
        windows.extend(read_window(&body)?.map(to_api));
    }
    let groups = vec![format!("{}/{}", group.home.resource_group, group.name)];
    call.arm.actions.start_rollout(NewRollout { groups, windows, ..NewRollout::of(RolloutType::Freeze) }).await?;
    Ok((StatusCode::CREATED, axum::Json(render(&call, &group))).into_response())
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let group = group(&call)?;
    Ok(axum::Json(render(&call, &group)).into_response())
}

/// The updates that a set waits for: the rollout that has not ended.
pub async fn list_updates(call: Call) -> Result<Response, ApiError> {
    let group = group(&call)?;
    let region = &call.arm.snapshot().region;
    let open = latest(region, &group).filter(|rollout| ended(rollout).is_none());
    let update = |rollout: Arc<Rollout>| {
        json!({
            "maintenanceScope": "Host",
            "impactType": "Freeze",
            "status": status(&rollout),
            "impactDurationInSec": 30,
            "notBefore": Time(rollout.created.0).to_string(),
            "properties": { "resourceId": call.id().base().to_string() },
        })
    };
    Ok(axum::Json(json!({ "value": open.map(update).into_iter().collect::<Vec<_>>() })).into_response())
}

fn group(call: &Call) -> Result<Arc<Group>, ApiError> {
    let region = &call.arm.snapshot().region;
    match assignments::owner(region, call.id())? {
        Owner::Group(id) => region.group(id).cloned().ok_or_else(|| not_found(&call.id().base())),
        Owner::Machine(_) | Owner::Operation(_) | Owner::Region => Err(not_found(&call.id().base())),
    }
}

fn to_api(window: Window) -> MaintenanceWindow {
    let day = |name: &&str| Weekday::ALL.iter().copied().find(|day| day.as_str() == *name);
    MaintenanceWindow {
        days: window.days.iter().filter_map(day).collect(),
        start: window.start,
        end: window.end,
        time_zone: Some(window.time_zone),
    }
}

/// The newest rollout over a group.
fn latest(region: &Region, group: &Group) -> Option<Arc<Rollout>> {
    let is_of = |rollout: &&Arc<Rollout>| {
        rollout.steps.iter().any(|step| matches!(step.target, StepTarget::Domain { group: id, .. } if id == group.id))
    };
    region.rollouts().filter(is_of).max_by_key(|rollout| rollout.seq).cloned()
}

fn ended(rollout: &Rollout) -> Option<Timestamp> {
    match &rollout.state {
        RolloutState::Planned | RolloutState::Running | RolloutState::Waiting | RolloutState::Paused => None,
        RolloutState::Finished { at } | RolloutState::Stopped { at, .. } | RolloutState::Failed { at } => Some(*at),
    }
}

fn status(rollout: &Rollout) -> &'static str {
    match rollout.state {
        RolloutState::Planned | RolloutState::Waiting | RolloutState::Paused => "Pending",
        RolloutState::Running => "InProgress",
        RolloutState::Finished { .. } => "Completed",
        RolloutState::Stopped { .. } => "Cancelled",
        RolloutState::Failed { .. } => "RetryLater",
    }
}

fn render(call: &Call, group: &Group) -> Value {
    let (id, base) = (call.id().to_string(), call.id().base().to_string());
    let name = call.id().name().map_or("default", |name| name.as_str());
    let rollout = latest(&call.arm.snapshot().region, group);
    let mut properties = json!({ "resourceId": base });
    properties["status"] = rollout.as_ref().map_or("NoUpdatesPending", |rollout| status(rollout)).into();
    if let Some(rollout) = rollout {
        properties["lastUpdateTime"] = Time(ended(&rollout).unwrap_or(rollout.created).0).to_string().into();
    }
    json!({ "id": id, "name": name, "type": "Microsoft.Maintenance/applyUpdates", "properties": properties })
}
