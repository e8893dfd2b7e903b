//! Invariants of hosts: contact with their agents, and fencing.

use forewarn_core::*;

use super::checks::{PlanMemory, ensure, is_started, newly_started};
use crate::invariants::Step;
use crate::model::notice;

pub fn notice_is_confirmed(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step).filter(|event| event.is_shown() && event.approval.is_none()) {
        if event.cause == Cause::HardwareFailure {
            continue;
        }
        let Some(seen) = memory.seen_at.get(&event.id) else {
            return Err(format!("{} started, but an agent has not confirmed it", event.id));
        };
        let until = *seen + least_notice(step, event);
        ensure(until <= step.after.now(), || format!("{} started before {until:?}", event.id))?;
    }
    Ok(())
}

pub fn unreachable_waits(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step) {
        let mandatory = matches!(event.kind, EventKind::Terminate | EventKind::Preempt) && event.due;
        let machines = event.resources.iter().filter_map(|resource| step.after.machine(resource.machine));
        let mut hosts = machines.filter_map(|machine| step.before.host(machine.placed_on()?));
        let lost = hosts
            .any(|host| host.is_unreachable() && step.after.host(&host.name).is_some_and(|it| it.is_unreachable()));
        ensure(mandatory || !lost, || format!("{} started on an unreachable host", event.id))?;
    }
    Ok(())
}

/// The driver's timeout counts only while all hosts of the event are reachable, and anew after each loss of contact.
pub fn unreachable_never_times_out(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for fact in &step.transition.facts {
        let FactKind::Ended(event) = &fact.what else { continue };
        if !matches!(event.status, Status::Ended { outcome: Outcome::TimedOut, .. }) {
            continue;
        }
        let machines = event.resources.iter().filter_map(|resource| step.before.machine(resource.machine));
        for host in machines.filter_map(|machine| step.before.host(machine.placed_on()?)) {
            ensure(!host.is_unreachable(), || format!("{} timed out on an unreachable host", event.id))?;
            let until = memory.back_at.get(&host.name).map(|at| *at + step.after.settings().driver_timeout);
            ensure(until.is_none_or(|until| until <= step.after.now()), || {
                format!("{} timed out too soon after {} came back", event.id, host.name)
            })?;
        }
    }
    Ok(())
}

pub fn unreachable_stays_on(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for scope in step.after.scopes().filter(|scope| step.before.is_on(scope.id) && !step.after.is_on(scope.id)) {
        let mut hosts = step.before.members(scope.id).filter_map(|it| step.before.host(it.placed_on()?));
        let lost = hosts.find(|host| host.is_unreachable());
        ensure(lost.is_none(), || format!("scope {} turned off, but {lost:?} is unreachable", scope.id.0))?;
    }
    Ok(())
}

pub fn fencing_ends_events(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::FenceHost { name } = step.command else { return Ok(()) };
    for machine in step.before.machines_on(name).filter(|machine| machine.placed_on() == Some(name)) {
        for event in step.before.events_of(machine.id).filter(|event| is_started(event)) {
            let live = step.after.event(event.id).is_some_and(|event| event.is_live());
            ensure(!live, || format!("{} is in progress on {name}, which was fenced", event.id))?;
        }
    }
    Ok(())
}

/// A fenced host gets no orders, so its deletions and evictions wait for nothing.
pub fn fenced_hosts_remove(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let is_fenced = |region: &Region, machine: MachineId| {
        let host = region.machine(machine).and_then(|machine| region.host(machine.placed_on()?));
        host.is_some_and(|host| host.state == HostState::Failed)
    };
    let all = |region: &Region, event: &Event| event.resources.iter().all(|it| is_fenced(region, it.machine));
    let removes = |event: &Event| matches!(event.kind, EventKind::Terminate | EventKind::Preempt);
    for event in newly_started(step).filter(|event| removes(event)) {
        ensure(!all(step.after, event), || format!("{} waits for a host that was fenced", event.id))?;
    }
    for event in step.after.events().filter(|event| removes(event) && event.is_live()) {
        ensure(!event.unseen || !all(step.after, event), || format!("{} waits for a fenced agent", event.id))?;
    }
    for fact in &step.transition.facts {
        let FactKind::Ended(event) = &fact.what else { continue };
        let is_ignored = matches!(event.status, Status::Ended { outcome: Outcome::NoEffect, .. });
        let was_fenced = removes(event) && all(step.before, event) && all(step.after, event);
        ensure(!is_ignored || !was_fenced, || format!("{} had no effect on a fenced host", event.id))?;
    }
    Ok(())
}

/// Remembers which agents have confirmed which events, and when hosts came back.
pub fn remember(memory: &mut PlanMemory, step: &Step<'_>) {
    if *step.command == Command::Resume && step.before.now() != Timestamp::default() {
        let (before, down) = (step.before.now(), step.after.now().since(step.before.now()));
        for (id, at) in &mut memory.seen_at {
            let span = step.before.event(*id).map_or(Default::default(), |event| least_notice(step, event));
            if *at + span > before {
                *at = *at + down;
            }
        }
    }
    let is_activated = |host: &Host| {
        let was_fenced = step.before.host(&host.name).is_some_and(|before| before.state == HostState::Failed);
        was_fenced && host.state != HostState::Failed
    };
    for host in step.after.hosts().filter(|host| is_activated(host)) {
        let events = step.after.machines_on(&host.name).flat_map(|machine| step.after.events_of(machine.id));
        for event in events.filter(|event| event.status == Status::Scheduled && !is_confirmed(step.after, event)) {
            memory.seen_at.remove(&event.id);
        }
    }
    for event in step.after.events().filter(|event| event.is_shown() && event.status == Status::Scheduled) {
        if is_confirmed(step.after, event) {
            memory.seen_at.entry(event.id).or_insert(step.after.now());
        }
    }
    memory.seen_at.retain(|id, _| step.after.event(*id).is_some());
    let was_lost = |host: &Host| step.before.host(&host.name).is_some_and(|before| before.is_unreachable());
    for host in step.after.hosts().filter(|host| was_lost(host) && !host.is_unreachable()) {
        memory.back_at.insert(host.name.clone(), step.after.now());
    }
}

fn least_notice(step: &Step<'_>, event: &Event) -> std::time::Duration {
    match event.kind {
        EventKind::Terminate => event.notice,
        kind => notice(step.after.settings(), kind),
    }
}

fn is_confirmed(region: &Region, event: &Event) -> bool {
    let machines = event.resources.iter().filter_map(|resource| region.machine(resource.machine));
    let hosts = machines.filter_map(|machine| region.host(machine.placed_on()?));
    hosts.filter(|host| host.state != HostState::Failed).all(|host| match host.contact {
        Contact::None => true,
        Contact::Confirmed { revision } | Contact::Lost { revision, .. } => revision >= event.revision,
    })
}
