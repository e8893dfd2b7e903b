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
        let is_lost = |host: &Host| host.is_unreachable() && host.state != HostState::Failed;
        let lost = hosts.any(|host| is_lost(host) && step.after.host(&host.name).is_some_and(|it| is_lost(it)));
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
        let hosts = machines.filter_map(|machine| step.before.host(machine.placed_on()?));
        for host in hosts.filter(|host| host.state != HostState::Failed) {
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
            let is_elsewhere = step.after.machine(machine.id).is_some_and(|it| it.host.as_ref() != Some(name));
            let goes_on = matches!(event.kind, EventKind::Terminate | EventKind::Preempt) && is_elsewhere;
            ensure(!live || goes_on, || format!("{} is in progress on {name}, which was fenced", event.id))?;
        }
    }
    Ok(())
}

/// The maintenance of a fenced host did not happen: its step has failed, and its machines count as failures.
pub fn fencing_fails_steps(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::FenceHost { name } = step.command else { return Ok(()) };
    for before in step.before.live_rollouts() {
        let is_of_host = |it: &RolloutStep| it.target == StepTarget::Host(name.clone());
        let Some(number) = before.steps.iter().position(|it| is_of_host(it) && it.state == StepState::InProgress)
        else {
            continue;
        };
        let is_affected = match before.plan.action {
            RolloutAction::Drain { .. } => {
                // Machines that had left may still arrive. The step fails after them.
                let operation = before.steps[number].operation.and_then(|id| step.after.operation(id));
                let is_over = operation.is_some_and(|operation| operation.state != OperationState::Running);
                is_over && has_machines_to_move(step.before, name, &before.steps[number])
            }
            RolloutAction::Freeze | RolloutAction::Reboot | RolloutAction::Redeploy => {
                is_only_on_fenced_hosts(step, name, &before.steps[number])
            }
        };
        let Some(after) = step.after.rollout(before.id).filter(|_| is_affected) else { continue };
        let state = after.steps[number].state;
        ensure(state == StepState::Failed, || format!("the step of {name} is {state:?}, but {name} was fenced"))?;
        ensure(after.failures > before.failures, || format!("{} does not count the failure of {name}", before.id))?;
        let failure = step.after.failure_of_step(after, &after.steps[number]);
        ensure(failure.is_some(), || format!("the step of {name} failed without a reason"))?;
    }
    Ok(())
}

/// Whether no event of a step can go on, because its machines are on fenced hosts. An operator may have moved some of them.
fn is_only_on_fenced_hosts(step: &Step<'_>, fenced: &Name, of: &RolloutStep) -> bool {
    let Some(operation) = of.operation.and_then(|id| step.before.operation(id)) else { return false };
    let is_off = |machine: &Machine| {
        let host = machine.placed_on().and_then(|host| step.after.host(host));
        host.is_some_and(|host| host.state == HostState::Failed)
    };
    let live = operation.parts.iter().filter_map(|part| step.before.event(part.event)).filter(|event| event.is_live());
    live.into_iter().all(|event| {
        let mut machines = event.resources.iter().filter_map(|resource| step.before.machine(resource.machine));
        if is_started(event) {
            machines.any(|it| it.placed_on() == Some(fenced))
        } else {
            machines.all(|it| is_off(it))
        }
    })
}

/// Whether the drain of a step had yet to move a machine of the host.
fn has_machines_to_move(region: &Region, host: &Name, of: &RolloutStep) -> bool {
    let operation = region.drain_of(host).filter(|operation| of.operation == Some(operation.id));
    let Some(drain) = operation.and_then(|operation| operation.drain.as_ref()) else { return false };
    let is_removed = |event: &Event| matches!(event.kind, EventKind::Terminate | EventKind::Preempt);
    let mut machines = region.machines_on(host).filter(|machine| machine.placed_on() == Some(host));
    machines.any(|machine| {
        !drain.settled.contains(&machine.id) && !region.events_of(machine.id).any(|event| is_removed(event))
    })
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

/// A fenced host gets no orders and reports nothing, so its machines have their results at once.
pub fn fenced_machines_have_results(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    if !step.after.settings().machine_orders {
        return Ok(());
    }
    for event in step.after.events().filter(|event| is_started(event)) {
        let mut open = event.resources.iter().filter(|it| event.progress.iter().all(|done| done.machine != it.machine));
        // A machine that other hosts have is removed there, once it is known which of them it is on.
        let is_removal = matches!(event.kind, EventKind::Terminate | EventKind::Preempt);
        let is_elsewhere =
            |id: MachineId| is_removal && step.after.machine(id).is_some_and(|machine| !machine.claims().is_empty());
        let waiting = open.find(|it| {
            let is_fenced = host_of(step.after, it.machine).is_some_and(|host| host.state == HostState::Failed);
            is_fenced && !is_elsewhere(it.machine)
        });
        ensure(waiting.is_none(), || format!("{} waits for a report of a fenced host: {waiting:?}", event.id))?;
    }
    Ok(())
}

/// Events over several hosts go on when one of them was fenced.
pub fn fenced_hosts_delay_nothing(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let is_free = |machine: MachineId| {
        let host = host_of(step.after, machine);
        let is_waiting = host.is_some_and(|host| host.is_unreachable() && host.state != HostState::Failed);
        let is_busy = step.after.events_of(machine).any(|event| is_started(event));
        !is_waiting && !is_busy && step.after.machine(machine).is_some_and(|machine| machine.transfer.is_none())
    };
    let starts_alone = |event: &Event| {
        let is_of_rollout = |id: &OperationId| step.after.operation(*id).is_some_and(|it| it.rollout.is_some());
        let has_impact = matches!(event.kind, EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy);
        has_impact && event.cohort.is_none() && !event.operations.iter().any(is_of_rollout)
    };
    let ready = step.after.events().filter(|event| event.status == Status::Scheduled && event.is_ready());
    for event in ready.filter(|event| starts_alone(event)) {
        let is_blocked = !event.resources.iter().all(|it| is_free(it.machine));
        ensure(is_blocked, || format!("{} is ready, but did not start", event.id))?;
    }
    Ok(())
}

/// A machine that runs on one host while its own host is certainly off is on that host.
pub fn claims_beat_fences(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for machine in step.after.machines_in_transfer().filter(|machine| machine.claims().len() == 1) {
        let host = host_of(step.after, machine.id);
        let is_fenced = host.is_some_and(|host| host.state == HostState::Failed);
        ensure(!is_fenced, || format!("{} stays on a fenced host, but {:?} has it", machine.name, machine.claims()))?;
    }
    let Command::FenceHost { name } = step.command else { return Ok(()) };
    let elsewhere = |machine: &&std::sync::Arc<Machine>| {
        machine.placed_on() == Some(name) && machine.claims().iter().any(|host| host != name)
    };
    for machine in step.before.machines_in_transfer().filter(elsewhere) {
        let is_there = step.after.machine(machine.id).is_some();
        ensure(is_there, || format!("{} was removed, but {:?} has it", machine.name, machine.claims()))?;
    }
    Ok(())
}

fn host_of(region: &Region, machine: MachineId) -> Option<&std::sync::Arc<Host>> {
    region.host(region.machine(machine)?.placed_on()?)
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
