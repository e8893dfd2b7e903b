//! `applyUpdates`: starts the pending maintenance of a set or a machine, within the windows of its maintenance configurations. It
//! is a rollout over the update domains of the set, or over the machine alone. The state shown is that of the rollout, or of the
//! machine's step in it; nothing is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{MaintenanceWindow, NewRollout, RolloutType, Time, Weekday};
use forewarn_core::{
    Group, GroupId, GroupKind, Machine, MachineId, Membership, Operation, OperationResult, OperationState, Region,
    Request, ResourceGroupRef, Rollout, RolloutState, RolloutStep, RolloutTargets, Status, StepState, StepTarget,
    Target, Timestamp,
};
use forewarn_metadata::{group_resource_id, machine_resource_id};
use forewarn_store::Owner;
use forewarn_wire::arm::maintenance::Window;
use serde_json::{Value, json};

use super::assignments;
use super::call::{Arm, Call};
use super::maintenance::{lifetime, read_window};
use super::page::{self, PageRequest};
use super::resource::{is_in_group, is_same_resource_group, not_found};
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api::full_group_name;

/// A resource that can be updated.
enum Updatable {
    Set(Arc<Group>),
    Machine(Arc<Machine>),
}

/// The newest updates of a resource.
struct UpdateProgress {
    status: &'static str,
    created: Timestamp,
    ended: Option<Timestamp>,
    /// Whether the rollout or operation is still in progress, even if the machine has completed its step.
    is_live: bool,
}

/// `PUT …/applyUpdates/default`. Updates that have not ended are continued, not repeated. The status is 200 in both cases:
/// some releases of the CLI extension accept no other.
pub async fn put(call: Call) -> Result<Response, ApiError> {
    let resource = find(&call)?;
    let _lock = call.arm.lock(&call.id().base()).await;
    if newest_updates(&call.arm.snapshot().region, &resource).is_some_and(|progress| progress.is_live) {
        return Ok(axum::Json(render(&call, &resource)).into_response());
    }
    let Windows { windows, begin } = find_windows(&call.arm, &resource).await?;
    let rollout = NewRollout { windows, at: begin, ..NewRollout::of(RolloutType::Freeze) };
    let rollout = match &resource {
        Updatable::Set(group) => NewRollout { groups: vec![full_group_name(group)], ..rollout },
        Updatable::Machine(machine) => NewRollout { machines: vec![machine.vm_id.to_string()], ..rollout },
    };
    call.arm.actions.start_rollout(rollout).await?;
    Ok(axum::Json(render(&call, &resource)).into_response())
}

/// The windows in which a resource may be maintained. Without any, maintenance can happen at any time.
#[derive(Default)]
struct Windows {
    windows: Vec<MaintenanceWindow>,
    /// When the first of them opens for the first time, if none has opened yet.
    begin: Option<Time>,
}

/// The windows of a resource. A machine without assignments has those of its set.
async fn find_windows(arm: &Arm, resource: &Updatable) -> Result<Windows, ApiError> {
    for owner in resource.owners() {
        let configurations = assignments::configurations(arm, owner).await?;
        if !configurations.is_empty() {
            let windows = configurations.iter().filter_map(|body| read_window(body).transpose());
            return choose_windows(windows.collect::<Result<_, _>>()?, arm.actions.engine().now());
        }
    }
    Ok(Windows::default())
}

/// The windows that have begun and not expired or, if there are none, those that begin first.
fn choose_windows(windows: Vec<Window>, now: Timestamp) -> Result<Windows, ApiError> {
    let mut alive = Vec::new();
    let had_any = !windows.is_empty();
    for window in windows {
        let (begins, expires) = lifetime(&window)?;
        if expires.is_none_or(|expires| now < expires) {
            alive.push((begins.max(now), window));
        }
    }
    if had_any && alive.is_empty() {
        let message = "All maintenance windows of the resource have expired. Change their expirationDateTime.";
        return Err(ApiError::new(ErrorCode::OperationNotAllowed, message));
    }
    let first = alive.iter().map(|(begins, _)| *begins).min();
    let windows = alive.into_iter().filter(|(begins, _)| Some(*begins) == first).map(|(_, window)| to_api(window));
    Ok(Windows { windows: windows.collect(), begin: first.filter(|first| *first > now).map(|at| Time(at.0)) })
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let resource = find(&call)?;
    Ok(axum::Json(render(&call, &resource)).into_response())
}

/// The newest updates of every resource of a resource group or a subscription that has had any. The resources are found
/// through their rollouts and operations, which are fewer.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let home = call.home();
    let is_wanted = |found: &ResourceGroupRef| {
        found.subscription.eq_ignore_ascii_case(&home.subscription)
            && (!is_in_group(call.id()) || is_same_resource_group(found, &home))
    };
    let of_rollouts = region.rollouts().flat_map(|rollout| match &rollout.targets {
        RolloutTargets::Groups(ids) => ids.iter().filter_map(|id| Updatable::of_group(region, *id)).collect(),
        RolloutTargets::Machines(ids) => ids.iter().filter_map(|id| Updatable::of_machine(region, *id)).collect(),
        RolloutTargets::Hosts(_) | RolloutTargets::MachinesByDomain(_) => Vec::new(),
    });
    let of_operations = region.operations().filter_map(|operation| {
        let machine = maintained_machine(operation)?;
        Updatable::of_machine(region, machine)
    });
    let after = request.after.as_deref();
    let found: BTreeMap<String, Updatable> = of_rollouts
        .chain(of_operations)
        .filter(|resource| is_wanted(resource.home()))
        .map(|resource| (resource.id(region), resource))
        .filter(|(id, _)| after.is_none_or(|after| id.as_str() > after))
        .collect();
    let mut found: Vec<_> = found.into_iter().take(request.limit + 1).collect();
    let next = request.cut(&mut found, |(id, _)| id.clone());
    let value = found.iter().map(|(id, resource)| {
        let name = "default";
        let place = format!("{id}/providers/Microsoft.Maintenance/applyUpdates/{name}");
        render_updates(&place, name, id, newest_updates(region, resource))
    });
    Ok(page::respond(&call, value.collect(), next))
}

/// The updates of a resource that have not ended.
pub async fn list_updates(call: Call) -> Result<Response, ApiError> {
    let resource = find(&call)?;
    let newest = newest_updates(&call.arm.snapshot().region, &resource);
    let open = newest.filter(|progress| progress.ended.is_none());
    let update = |progress: UpdateProgress| {
        json!({
            "maintenanceScope": "Host",
            "impactType": "Freeze",
            "status": progress.status,
            "impactDurationInSec": 30,
            "notBefore": Time(progress.created.0).to_string(),
            "properties": { "resourceId": call.id().base().to_string() },
        })
    };
    Ok(axum::Json(json!({ "value": open.map(update).into_iter().collect::<Vec<_>>() })).into_response())
}

fn find(call: &Call) -> Result<Updatable, ApiError> {
    let region = &call.arm.snapshot().region;
    let found = match assignments::owner(region, call.id())? {
        Owner::Group(id) => region.group(id).cloned().map(Updatable::Set),
        Owner::Machine(id) => region.machine(id).cloned().map(Updatable::Machine),
        Owner::Operation(_) | Owner::Region => None,
    };
    found.ok_or_else(|| not_found(&call.id().base()))
}

impl Updatable {
    /// None for cloud services, which are not resources of this API.
    fn of_group(region: &Region, id: GroupId) -> Option<Updatable> {
        let group = region.group(id)?;
        match group.kind {
            GroupKind::AvailabilitySet | GroupKind::ScaleSet(_) => Some(Updatable::Set(group.clone())),
            GroupKind::CloudService => None,
        }
    }

    fn of_machine(region: &Region, id: MachineId) -> Option<Updatable> {
        let machine = region.machine(id)?;
        match machine.membership {
            Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => {
                Some(Updatable::Machine(machine.clone()))
            }
            Membership::RoleInstance { .. } => None,
        }
    }

    fn home(&self) -> &ResourceGroupRef {
        match self {
            Updatable::Set(group) => &group.home,
            Updatable::Machine(machine) => &machine.home,
        }
    }

    fn id(&self, region: &Region) -> String {
        match self {
            Updatable::Set(group) => group_resource_id(group),
            Updatable::Machine(machine) => machine_resource_id(region, machine),
        }
    }

    /// The resources whose configurations apply, the most specific first.
    fn owners(&self) -> Vec<Owner> {
        match self {
            Updatable::Set(group) => vec![Owner::Group(group.id)],
            Updatable::Machine(machine) => {
                let set = machine.membership.group().map(Owner::Group);
                [Owner::Machine(machine.id)].into_iter().chain(set).collect()
            }
        }
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

fn newest_updates(region: &Region, resource: &Updatable) -> Option<UpdateProgress> {
    match resource {
        Updatable::Set(group) => {
            let is_of = |rollout: &&Arc<Rollout>| matches!(&rollout.targets, RolloutTargets::Groups(ids) if ids.contains(&group.id));
            let newest = region.rollouts().filter(is_of).max_by_key(|rollout| rollout.seq)?;
            Some(rollout_progress(newest))
        }
        Updatable::Machine(machine) => {
            let rollouts = region.rollouts().filter(|rollout| visits(&rollout.targets, machine));
            let by_rollout = rollouts.max_by_key(|rollout| rollout.seq);
            let by_rollout = by_rollout.map(|rollout| machine_progress(region, rollout, machine));
            let is_of = |operation: &&Arc<Operation>| maintained_machine(operation) == Some(machine.id);
            let by_operation = region.operations().filter(is_of).max_by_key(|operation| operation.requested_at);
            let by_operation = by_operation.map(|operation| operation_progress(region, operation));
            by_operation.into_iter().chain(by_rollout).max_by_key(|progress| (progress.is_live, progress.created))
        }
    }
}

/// Whether a rollout with these targets maintains the machine. Rollouts over hosts are not maintenance of their machines.
fn visits(targets: &RolloutTargets, machine: &Machine) -> bool {
    match targets {
        RolloutTargets::Hosts(_) => false,
        RolloutTargets::Groups(groups) => machine.membership.group().is_some_and(|group| groups.contains(&group)),
        RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
            machines.contains(&machine.id)
        }
    }
}

/// The machine of an operation that maintains one machine without a rollout.
fn maintained_machine(operation: &Operation) -> Option<MachineId> {
    let Request::Maintain { target: Target::Machines(ids), .. } = &operation.request else { return None };
    let [machine] = ids[..] else { return None };
    operation.rollout.is_none().then_some(machine)
}

fn rollout_progress(rollout: &Rollout) -> UpdateProgress {
    let (status, ended) = match rollout.state {
        RolloutState::Planned | RolloutState::Waiting | RolloutState::Paused => ("Pending", None),
        RolloutState::Running => ("InProgress", None),
        RolloutState::Finished { at } => ("Completed", Some(at)),
        RolloutState::Stopped { at, .. } => ("Cancelled", Some(at)),
        RolloutState::Failed { at } => ("RetryLater", Some(at)),
    };
    UpdateProgress { status, created: rollout.created, ended, is_live: rollout.is_live() }
}

/// The progress of one machine in a rollout. If no step covers the machine, it is that of the rollout.
fn machine_progress(region: &Region, rollout: &Rollout, machine: &Machine) -> UpdateProgress {
    let of_rollout = rollout_progress(rollout);
    let Some(step) = rollout.steps.iter().rev().find(|step| is_step_of(step, machine)) else { return of_rollout };
    let has_started = region.events_of(machine.id).any(|event| {
        matches!(event.status, Status::Started { .. })
            && step.operation.is_some_and(|id| event.operations.contains(&id))
    });
    let status = match step.state {
        StepState::InProgress if has_started => "InProgress",
        StepState::Pending | StepState::InProgress => {
            return UpdateProgress { status: "Pending", ended: None, ..of_rollout };
        }
        StepState::Succeeded | StepState::Skipped => "Completed",
        StepState::Failed => "RetryLater",
        StepState::Canceled => "Cancelled",
    };
    UpdateProgress { status, ended: step.ended.or(of_rollout.ended), ..of_rollout }
}

fn is_step_of(step: &RolloutStep, machine: &Machine) -> bool {
    match &step.target {
        StepTarget::Host(_) => false,
        StepTarget::Domain { group, domain } => {
            machine.membership.group() == Some(*group) && machine.update_domain == *domain
        }
        StepTarget::Machine(id) => *id == machine.id,
        StepTarget::Machines { machines, .. } => machines.contains(&machine.id),
    }
}

fn operation_progress(region: &Region, operation: &Operation) -> UpdateProgress {
    let mut events = operation.parts.iter().filter_map(|part| region.event(part.event));
    let (status, ended) = match &operation.state {
        OperationState::Running if events.any(|event| matches!(event.status, Status::Started { .. })) => {
            ("InProgress", None)
        }
        OperationState::Running => ("Pending", None),
        OperationState::Ended { at, result } => match result {
            OperationResult::Succeeded => ("Completed", Some(*at)),
            OperationResult::Canceled { .. } => ("Cancelled", Some(*at)),
            OperationResult::Failed(_) => ("RetryLater", Some(*at)),
        },
    };
    UpdateProgress { status, created: operation.requested_at, ended, is_live: ended.is_none() }
}

fn render(call: &Call, resource: &Updatable) -> Value {
    let name = call.id().name().map_or("default", |name| name.as_str());
    let progress = newest_updates(&call.arm.snapshot().region, resource);
    render_updates(&call.id().to_string(), name, &call.id().base().to_string(), progress)
}

fn render_updates(id: &str, name: &str, resource: &str, progress: Option<UpdateProgress>) -> Value {
    let mut properties = json!({ "resourceId": resource });
    properties["status"] = progress.as_ref().map_or("NoUpdatesPending", |progress| progress.status).into();
    if let Some(UpdateProgress { created, ended, .. }) = progress {
        properties["lastUpdateTime"] = Time(ended.unwrap_or(created).0).to_string().into();
    }
    json!({ "id": id, "name": name, "type": "Microsoft.Maintenance/applyUpdates", "properties": properties })
}
