//! The reasons why an operation waits, and for which machines. Describes the state of the region; the rules decide when events
//! start.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api_types::{WaitFor, WaitReason};
use forewarn_core::{
    Event, EventKind, Name, Operation, OperationState, Outcome, Region, RolloutState, Status, Timestamp, Wait,
    current_or_next,
};

use super::rollout::render_wait;
use crate::convert::Convert;

/// Everything that an operation waits for, most important first. Empty if it has ended or is in progress.
pub fn render_waits(region: &Region, operation: &Operation) -> Vec<WaitFor> {
    if operation.state != OperationState::Running {
        return Vec::new();
    }
    let events: Vec<&Arc<Event>> = operation.parts.iter().filter_map(|part| region.event(part.event)).collect();
    let scheduled: Vec<&Arc<Event>> =
        events.iter().copied().filter(|event| event.status == Status::Scheduled).collect();
    let mut waits: Vec<WaitFor> = missing_approvals(&events, &scheduled).into_iter().collect();
    waits.extend(planned_times(region, &scheduled));
    waits.extend(unreachable_hosts(region, &scheduled));
    waits.extend(blocking_events(region, &scheduled));
    waits.extend(other_deletions(region, operation, &scheduled));
    waits.extend(closed_window(region, operation, &scheduled));
    waits.extend(obstacle_of_maintenance(region, operation));
    let drain = operation.drain.as_ref().and_then(|drain| drain.waits_for.as_ref()).map(render_wait);
    waits.extend(drain.filter(|wait| waits.iter().all(|other| other.reason != wait.reason)));
    waits
}

/// The machines whose events are visible and neither approved nor due, out of all whose events were not canceled.
fn missing_approvals(events: &[&Arc<Event>], scheduled: &[&Arc<Event>]) -> Option<WaitFor> {
    let missing: Vec<&Arc<Event>> =
        scheduled.iter().copied().filter(|event| event.is_shown() && !event.is_ready()).collect();
    let total: Vec<&Arc<Event>> =
        events.iter().copied().filter(|event| event.is_shown() && !is_canceled(event)).collect();
    let until = missing.iter().map(|event| end_of_notice(event)).max()?;
    Some(
        WaitFor {
            until: Some(until.convert()),
            approvals_missing: Some(count_machines(&missing)),
            approvals_total: Some(count_machines(&total)),
            ..WaitFor::of(WaitReason::Approvals)
        }
        .with_machines(names(&missing)),
    )
}

/// Hidden events: no handler is connected, so only their time starts them. Those of a host start together with the visible
/// ones, as soon as these are ready.
fn planned_times(region: &Region, scheduled: &[&Arc<Event>]) -> Option<WaitFor> {
    let waits_for_others = |event: &Event| region.cohort(event).any(|other| other.is_shown());
    let is_waiting = |event: &&Arc<Event>| !event.is_shown() && !event.is_ready() && !waits_for_others(event);
    let hidden: Vec<&Arc<Event>> = scheduled.iter().copied().filter(is_waiting).collect();
    let until = hidden.iter().map(|event| end_of_notice(event)).min()?;
    let wait = WaitFor { until: Some(until.convert()), ..WaitFor::of(WaitReason::Notice) };
    Some(wait.with_machines(names(&hidden)))
}

/// One entry for each unreachable host that was not fenced.
fn unreachable_hosts(region: &Region, scheduled: &[&Arc<Event>]) -> Vec<WaitFor> {
    let mut machines: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for resource in scheduled.iter().flat_map(|event| event.resources.iter()) {
        let host = region.machine(resource.machine).and_then(|machine| region.host(machine.host.as_ref()?));
        if let Some(host) = host.filter(|host| host.holds_up_events()) {
            machines.entry(host.name.clone()).or_default().push(resource.name.to_string());
        }
    }
    let wait = |(host, machines): (Name, Vec<String>)| {
        WaitFor { host: Some(host.to_string()), ..WaitFor::of(WaitReason::Host) }.with_machines(machines)
    };
    machines.into_iter().map(wait).collect()
}

/// Machines on which another event is in progress, although theirs could start.
fn blocking_events(region: &Region, scheduled: &[&Arc<Event>]) -> Option<WaitFor> {
    let has_started = |event: &Arc<Event>| matches!(event.status, Status::Started { .. });
    let ready = scheduled.iter().filter(|event| event.is_ready());
    let resources = ready.flat_map(|event| event.resources.iter());
    let blocked: Vec<String> = resources
        .filter(|resource| region.events_of(resource.machine).any(has_started))
        .map(|resource| resource.name.to_string())
        .collect();
    (!blocked.is_empty()).then(|| WaitFor::of(WaitReason::Event).with_machines(blocked))
}

/// Approved deletions wait until the other deletions of their event group are approved or due.
fn other_deletions(region: &Region, operation: &Operation, scheduled: &[&Arc<Event>]) -> Option<WaitFor> {
    let is_deletion = |event: &Event| event.kind == EventKind::Terminate && event.status == Status::Scheduled;
    let approved = scheduled.iter().filter(|event| is_deletion(event) && event.is_ready());
    let mut scopes: Vec<_> = approved.map(|event| event.scope).collect();
    scopes.dedup();
    let others = scopes.into_iter().flat_map(|scope| region.document(scope));
    let others: Vec<&Arc<Event>> = others
        .filter(|event| is_deletion(event) && !event.is_ready() && !event.operations.contains(&operation.id))
        .collect();
    let until = others.iter().map(|event| end_of_notice(event)).max()?;
    Some(
        WaitFor {
            until: Some(until.convert()),
            approvals_missing: Some(count_machines(&others)),
            approvals_total: Some(count_machines(&others)),
            ..WaitFor::of(WaitReason::Approvals)
        }
        .with_machines(names(&others)),
    )
}

fn closed_window(region: &Region, operation: &Operation, scheduled: &[&Arc<Event>]) -> Option<WaitFor> {
    let rollout = region.rollout(operation.rollout?).filter(|_| !scheduled.is_empty())?;
    let span = current_or_next(&rollout.plan.windows, region.now()).filter(|span| !span.contains(region.now()))?;
    Some(WaitFor { until: Some(span.start.convert()), ..WaitFor::of(WaitReason::Window) })
}

/// Why maintenance by update domain does not go on with the next update domain.
fn obstacle_of_maintenance(region: &Region, operation: &Operation) -> Option<WaitFor> {
    let rollout = region.rollout_of_maintenance(operation)?;
    match (&rollout.state, &rollout.waits_for) {
        (RolloutState::Paused, _) => Some(WaitFor::of(WaitReason::Paused)),
        (_, None | Some(Wait::Approvals)) => None,
        (_, Some(wait)) => Some(render_wait(wait)),
    }
}

/// When an event starts without approval.
fn end_of_notice(event: &Event) -> Timestamp {
    event.not_before.max(event.notice_end)
}

fn is_canceled(event: &Event) -> bool {
    matches!(event.status, Status::Ended { outcome: Outcome::Canceled { .. }, .. })
}

fn names(events: &[&Arc<Event>]) -> Vec<String> {
    events.iter().flat_map(|event| event.resources.iter()).map(|resource| resource.name.to_string()).collect()
}

fn count_machines(events: &[&Arc<Event>]) -> u32 {
    u32::try_from(events.iter().map(|event| event.resources.len()).sum::<usize>()).unwrap_or(u32::MAX)
}
