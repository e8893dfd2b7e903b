//! Rollouts and their previews as the API shows them.

use forewarn_api_types as types;
use forewarn_api_types::{
    AvailableMachines, ConflictingOperation, ExpectedWait, GroupAvailability, MaintenanceWindow, RolloutPhase,
    RolloutStepPhase, WaitFor, WaitReason, Weekday,
};
use forewarn_core as core;
use forewarn_core::{GroupKey, Outcome, Region, RolloutState, StepState, StepTarget, Wait};

use super::titles::name_operation;
use crate::convert::Convert;

/// Maximum number of machines that a step lists.
const WAITING_MACHINES_MAX: usize = 20;

pub fn render_rollout(region: &Region, rollout: &core::Rollout) -> types::Rollout {
    types::Rollout {
        id: rollout.id.convert(),
        kind: rollout.plan.action.convert(),
        state: render_state(&rollout.state),
        waits_for: rollout.waits_for.as_ref().map(render_wait),
        requested_by: rollout.requested_by.to_string(),
        created: rollout.created.convert(),
        ended: rollout.ended_at().map(Convert::convert),
        expected_end: None,
        stopped_by: match &rollout.state {
            RolloutState::Stopped { by, .. } => Some(by.to_string()),
            _ => None,
        },
        at: rollout.plan.at.map(Convert::convert),
        parallel: rollout.plan.parallel,
        pause_seconds: rollout.plan.pause.as_secs(),
        windows: rollout.plan.windows.iter().map(render_window).collect(),
        max_unavailable: rollout.plan.unavailable_max.and_then(render_limit),
        max_failures: render_limit(rollout.plan.failures_max),
        failures: rollout.failures,
        description: rollout.plan.description.as_ref().map(ToString::to_string),
        operation: rollout.operation.map(Convert::convert),
        steps: render_steps(region, rollout),
    }
}

/// None: there is no limit.
fn render_limit(limit: u32) -> Option<u32> {
    (limit != core::UNLIMITED).then_some(limit)
}

/// A rollout with the expected times of the steps that have not ended.
pub fn render_rollout_with_forecast(
    region: &Region,
    rollout: &core::Rollout,
    forecast: &core::RolloutPreview,
) -> types::Rollout {
    let mut rendered = render_rollout(region, rollout);
    let expected = &forecast.rollout.steps;
    for ((step, now), later) in rendered.steps.iter_mut().zip(&rollout.steps).zip(expected) {
        step.expected_start = later.started.filter(|_| now.started.is_none()).map(Convert::convert);
        step.expected_end = later.ended.filter(|_| now.ended.is_none()).map(Convert::convert);
    }
    let ends = expected.iter().filter_map(|step| step.ended).max();
    rendered.expected_end = ends.filter(|_| rollout.is_live() && forecast.is_complete).map(Convert::convert);
    rendered
}

pub fn render_rollout_preview(region: &Region, preview: &core::RolloutPreview) -> types::RolloutPreview {
    let steps = render_steps(region, &preview.rollout).into_iter().zip(&preview.rollout.steps);
    let steps = steps.map(|(step, planned)| types::RolloutStep {
        machine_count: u32::try_from(count_machines(region, &planned.target)).ok(),
        state: match step.state {
            // Nothing has begun yet.
            RolloutStepPhase::InProgress | RolloutStepPhase::Succeeded => RolloutStepPhase::Pending,
            other => other,
        },
        operation: None,
        waiting_machines: Vec::new(),
        ..step
    });
    types::RolloutPreview {
        is_complete: preview.is_complete,
        steps: steps.collect(),
        ends: preview.rollout.steps.iter().filter_map(|step| step.ended).max().map(Convert::convert),
        waits: preview
            .waits
            .iter()
            .map(|(at, wait)| ExpectedWait { at: at.convert(), waits_for: render_wait(wait) })
            .collect(),
        conflicts: preview.conflicts.iter().map(|id| id.convert()).collect(),
        conflicting_operations: preview
            .conflicts
            .iter()
            .filter_map(|id| region.operation(*id))
            .map(|operation| ConflictingOperation {
                id: operation.id.convert(),
                title: name_operation(region, operation),
                requested_by: operation.requested_by.to_string(),
            })
            .collect(),
        groups: preview
            .groups
            .iter()
            .map(|group| GroupAvailability {
                name: group.name.to_string(),
                group_id: match group.key {
                    GroupKey::Group(id) => Some(id.0),
                    GroupKey::Machine(_) => None,
                },
                machine_id: match group.key {
                    GroupKey::Group(_) => None,
                    GroupKey::Machine(id) => Some(id.0),
                },
                machines: group.machines,
                min_available: group.available_min,
                available: group
                    .available
                    .iter()
                    .map(|(at, machines)| AvailableMachines { at: at.convert(), machines: *machines })
                    .collect(),
                has_handler: !group.has_no_handler,
            })
            .collect(),
    }
}

fn render_steps(region: &Region, rollout: &core::Rollout) -> Vec<types::RolloutStep> {
    let retries = rollout.retries();
    let retry_of = |number: usize| retries.get(&number).copied();
    let steps = rollout.steps.iter().map(|step| render_step(region, rollout, step)).enumerate();
    steps.map(|(number, step)| types::RolloutStep { retry_of: retry_of(number), ..step }).collect()
}

fn render_step(region: &Region, rollout: &core::Rollout, step: &core::RolloutStep) -> types::RolloutStep {
    let failure = region.failure_of_step(rollout, step);
    let name = |id: &core::MachineId| region.machine(*id).map(|machine| machine.name.to_string());
    let (host, group, machine, machines) = match &step.target {
        StepTarget::Host(host) => (Some(host.to_string()), None, None, Vec::new()),
        StepTarget::Domain { group, .. } => {
            (None, region.group(*group).map(|group| group.name.to_string()), None, Vec::new())
        }
        StepTarget::Machine(id) => (None, None, name(id), Vec::new()),
        StepTarget::Machines { machines, .. } => {
            (None, None, None, machines.iter().filter_map(name).take(WAITING_MACHINES_MAX).collect())
        }
    };
    types::RolloutStep {
        host,
        group,
        update_domain: step.target.domain(),
        machine,
        machines,
        state: render_step_state(step.state),
        outcome: failure.as_ref().map(Convert::convert),
        reason: failure.as_ref().and_then(Outcome::failure_reason).map(ToString::to_string),
        retry_of: None,
        operation: step.operation.map(Convert::convert),
        started: step.started.map(Convert::convert),
        ended: step.ended.map(Convert::convert),
        expected_start: None,
        expected_end: None,
        waiting_machines: waiting_machines(region, step),
        machine_count: None,
    }
}

/// The number of machines that a step has now.
pub fn count_machines(region: &Region, target: &StepTarget) -> usize {
    match target {
        StepTarget::Host(host) => region.machines_on(host).count(),
        StepTarget::Domain { group, domain } => region
            .group(*group)
            .map_or(0, |group| region.group_members(group).filter(|machine| machine.update_domain == *domain).count()),
        StepTarget::Machine(id) => usize::from(region.machine(*id).is_some()),
        StepTarget::Machines { machines, .. } => machines.iter().filter(|id| region.machine(**id).is_some()).count(),
    }
}

pub fn render_step_state(state: StepState) -> RolloutStepPhase {
    match state {
        StepState::Pending => RolloutStepPhase::Pending,
        StepState::InProgress => RolloutStepPhase::InProgress,
        StepState::Succeeded => RolloutStepPhase::Succeeded,
        StepState::Failed => RolloutStepPhase::Failed,
        StepState::Skipped => RolloutStepPhase::Skipped,
        StepState::Canceled => RolloutStepPhase::Canceled,
    }
}

/// The machines of a step whose events have not ended.
fn waiting_machines(region: &Region, step: &core::RolloutStep) -> Vec<String> {
    let operation = step.operation.filter(|_| step.state == StepState::InProgress);
    let parts = operation.and_then(|id| region.operation(id)).map_or(&[][..], |operation| &operation.parts);
    let live = parts.iter().filter_map(|part| region.event(part.event)).filter(|event| event.is_live());
    let names = live.flat_map(|event| event.resources.iter().map(|resource| resource.name.to_string()));
    names.take(WAITING_MACHINES_MAX).collect()
}

pub fn render_wait(wait: &Wait) -> WaitFor {
    let plain = WaitFor::of;
    match wait {
        Wait::Window { opens } => WaitFor { until: Some(opens.convert()), ..plain(WaitReason::Window) },
        Wait::Start { until } => WaitFor { until: Some(until.convert()), ..plain(WaitReason::Start) },
        Wait::Pause { until } => WaitFor { until: Some(until.convert()), ..plain(WaitReason::Pause) },
        Wait::Availability { group, unavailable, max } => WaitFor {
            group: Some(group.to_string()),
            unavailable: Some(*unavailable),
            max_unavailable: Some(*max),
            ..plain(WaitReason::Availability)
        },
        Wait::Capacity { machine } => WaitFor { machine: Some(machine.to_string()), ..plain(WaitReason::Capacity) },
        Wait::Approvals => plain(WaitReason::Approvals),
        Wait::Host(host) => WaitFor { host: Some(host.to_string()), ..plain(WaitReason::Host) },
        Wait::Paused => plain(WaitReason::Paused),
    }
}

fn render_state(state: &RolloutState) -> RolloutPhase {
    match state {
        RolloutState::Planned => RolloutPhase::Planned,
        RolloutState::Running => RolloutPhase::Running,
        RolloutState::Waiting => RolloutPhase::Waiting,
        RolloutState::Paused => RolloutPhase::Paused,
        RolloutState::Finished { .. } => RolloutPhase::Finished,
        RolloutState::Stopped { .. } => RolloutPhase::Stopped,
        RolloutState::Failed { .. } => RolloutPhase::Failed,
    }
}

fn render_window(window: &core::Window) -> MaintenanceWindow {
    let time = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    let days: Vec<Weekday> = window.days.days().filter_map(|day| Weekday::ALL.get(usize::from(day)).copied()).collect();
    MaintenanceWindow {
        days: if days.len() == Weekday::ALL.len() { Vec::new() } else { days },
        start: time(window.start_minute),
        end: time(window.end_minute),
        time_zone: Some(window.zone.name.to_string()),
    }
}
