//! Invariants of hosts, drains and rollouts, computed from the entities in the simplest way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forewarn_core::*;

use crate::invariants::Step;
use crate::model::notice;

/// Facts about the past that an invariant needs.
#[derive(Clone, Debug, Default)]
pub struct PlanMemory {
    /// When all agents had confirmed an event. Moves with downtime while notice is still due.
    seen_at: BTreeMap<EventId, Timestamp>,
    /// Machines on which a rollout over update domains has completed an event.
    completed: BTreeMap<RolloutId, BTreeSet<MachineId>>,
}

type Check = fn(&PlanMemory, &Step<'_>) -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    ("no more steps or moves than in parallel", parallel_holds),
    ("a group keeps enough available machines", availability_holds),
    ("targets have room for the machines that move there", memory_holds),
    ("machines move only to active hosts of the right pool", targets_are_active),
    ("no event of a rollout starts outside its windows", windows_hold),
    ("a paused rollout announces nothing", paused_is_quiet),
    ("a host or group belongs to one rollout", one_owner),
    ("a drained host is empty", drained_is_empty),
    ("steps begin in order", steps_are_in_order),
    ("failures end a rollout", failures_end_rollouts),
    ("a machine goes through a step once", once_per_machine),
    ("notice counts from the confirmation by every agent", notice_is_confirmed),
    ("nothing starts on an unreachable host", unreachable_waits),
];

impl PlanMemory {
    pub fn check(&self, step: &Step<'_>) -> Result<(), String> {
        for (name, check) in CHECKS {
            check(self, step).map_err(|what| format!("invariant \"{name}\": {what}"))?;
        }
        Ok(())
    }

    pub fn remember(&mut self, step: &Step<'_>) {
        if *step.command == Command::Resume && step.before.now() != Timestamp::default() {
            let (before, down) = (step.before.now(), step.after.now().since(step.before.now()));
            for (id, at) in &mut self.seen_at {
                let span = step.before.event(*id).map_or(Default::default(), |event| least_notice(step, event));
                if *at + span > before {
                    *at = *at + down;
                }
            }
        }
        for event in step.after.events().filter(|event| event.is_shown() && event.status == Status::Scheduled) {
            if is_confirmed(step.after, event) {
                self.seen_at.entry(event.id).or_insert(step.after.now());
            }
        }
        self.seen_at.retain(|id, _| step.after.event(*id).is_some());
        for (rollout, machine) in completions(step) {
            self.completed.entry(rollout).or_default().insert(machine);
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn operation_of<'a>(region: &'a Region, event: &Event) -> Option<&'a Arc<Operation>> {
    region.operation(*event.operations.first()?)
}

fn new_events<'a>(step: &'a Step<'_>) -> impl Iterator<Item = &'a Arc<Event>> {
    step.after.events().filter(|event| step.before.event(event.id).is_none())
}

fn newly_started<'a>(step: &'a Step<'_>) -> impl Iterator<Item = &'a Arc<Event>> {
    let is_started = |event: &Event| matches!(event.status, Status::Started { .. });
    step.after
        .events()
        .filter(move |event| is_started(event) && !step.before.event(event.id).is_some_and(|before| is_started(before)))
}

fn parallel_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts() {
        let active = rollout.steps.iter().filter(|it| it.state == StepState::InProgress).count();
        ensure(active <= rollout.plan.parallel as usize, || format!("{active} steps of {}", rollout.id))?;
    }
    for operation in step.after.operations() {
        let (Request::Drain(plan), Some(_)) = (&operation.request, &operation.drain) else { continue };
        let moving = operation.parts.iter().filter(|part| part.outcome.is_none()).count();
        ensure(moving <= plan.parallel as usize, || format!("{moving} moves from {}", plan.host))?;
    }
    Ok(())
}

/// The limit of the plan behind an operation. None: the operation has no limits.
fn limit_of(region: &Region, operation: &Operation) -> Option<Option<u32>> {
    match (&operation.request, operation.rollout.and_then(|id| region.rollout(id))) {
        (Request::Drain(plan), _) => Some(plan.unavailable_max),
        (_, Some(rollout)) => Some(rollout.plan.unavailable_max),
        _ => None,
    }
}

fn availability_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let region = step.after;
    for event in new_events(step) {
        let Some(limit) = operation_of(region, event).and_then(|operation| limit_of(region, operation)) else {
            continue;
        };
        for resource in event.resources.iter() {
            let Some(machine) = region.machine(resource.machine) else { continue };
            let Some(group) = machine.seat.group().and_then(|id| region.group(id)) else { continue };
            if machine.power != Power::Running {
                continue;
            }
            let members: Vec<_> = region.group_members(group).collect();
            let down = members.iter().filter(|it| is_unavailable(region, it)).count();
            let mut domains: BTreeMap<u32, u32> = BTreeMap::new();
            members.iter().for_each(|it| *domains.entry(it.update_domain).or_default() += 1);
            let max = limit.unwrap_or_else(|| domains.into_values().max().unwrap_or(1));
            ensure(down <= max as usize, || {
                format!("{down} machines of {} are unavailable, {max} may be", group.name)
            })?;
        }
    }
    Ok(())
}

fn is_unavailable(region: &Region, machine: &Machine) -> bool {
    let host = machine.host.as_ref().and_then(|host| region.host(host));
    let is_lost = host.is_some_and(|host| host.is_unreachable() || host.state == HostState::Failed);
    is_lost || machine.power == Power::Running && region.events_of(machine.id).next().is_some()
}

/// Moves that were not there before the step.
fn new_moves<'a>(step: &'a Step<'_>) -> impl Iterator<Item = (&'a Arc<Event>, &'a Move)> {
    let live = step.after.events().filter(|event| event.is_live());
    live.flat_map(|event| event.moves.iter().map(move |one| (event, one)))
        .filter(move |(event, one)| step.before.event(event.id).is_none_or(|before| !before.moves.contains(one)))
}

fn memory_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (_, one) in new_moves(step) {
        let Some(host) = step.after.host(&one.to) else { return Err(format!("{} does not exist", one.to)) };
        let Some(memory) = host.memory_mib else { continue };
        let there: u64 = step.after.machines_on(&host.name).map(|machine| machine.memory_mib).sum();
        let live = step.after.events().filter(|event| event.is_live()).flat_map(|event| &event.moves);
        let coming = live.filter(|other| other.to == host.name).filter_map(|other| step.after.machine(other.machine));
        let needed = there + coming.map(|machine| machine.memory_mib).sum::<u64>();
        ensure(needed <= memory, || format!("{} has {memory} MiB, but {needed} are needed", host.name))?;
    }
    Ok(())
}

fn targets_are_active(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (event, one) in new_moves(step) {
        let Some(host) = step.after.host(&one.to) else { return Err(format!("{} does not exist", one.to)) };
        let is_usable = |host: &Host| host.state == HostState::Active && !host.is_unreachable();
        // The host may have changed in the same step, after the machine was placed.
        let usable = is_usable(host) || step.before.host(&one.to).is_some_and(|host| is_usable(host));
        ensure(usable, || format!("{} is {:?}", host.name, host.state))?;
        let wanted = operation_of(step.after, event).and_then(|operation| match &operation.request {
            Request::Drain(plan) => plan.to.clone().or_else(|| Some(step.after.host(&plan.host)?.pool.clone())),
            _ => None,
        });
        ensure(wanted.is_none_or(|pool| pool == host.pool), || format!("{} is in pool {}", host.name, host.pool))?;
    }
    Ok(())
}

fn windows_hold(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step) {
        let rollout = operation_of(step.after, event).and_then(|operation| step.after.rollout(operation.rollout?));
        let Some(rollout) = rollout else { continue };
        let now = step.after.now();
        let outside = current_or_next(&rollout.plan.windows, now).is_some_and(|span| !span.contains(now));
        ensure(!outside, || format!("{} started outside the windows of {}", event.id, rollout.id))?;
    }
    Ok(())
}

fn paused_is_quiet(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let is_paused =
        |region: &Region, id: RolloutId| region.rollout(id).is_some_and(|it| it.state == RolloutState::Paused);
    for event in new_events(step) {
        let Some(id) = operation_of(step.after, event).and_then(|operation| operation.rollout) else { continue };
        let paused = is_paused(step.before, id) && is_paused(step.after, id);
        ensure(!paused, || format!("{id} is paused, but announced {}", event.id))?;
    }
    Ok(())
}

fn one_owner(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let mut owned: BTreeSet<&StepTarget> = BTreeSet::new();
    for rollout in step.after.live_rollouts() {
        for it in &rollout.steps {
            ensure(owned.insert(&it.target), || format!("{:?} has two owners", it.target))?;
        }
    }
    Ok(())
}

fn drained_is_empty(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for host in step.after.hosts().filter(|host| host.state == HostState::Drained) {
        if step.before.host(&host.name).is_some_and(|before| before.state == HostState::Drained) {
            continue;
        }
        let left: Vec<_> = step.after.machines_on(&host.name).collect();
        let stays = |machine: &Arc<Machine>| !machine.live_migratable || machine.power != Power::Running;
        ensure(left.iter().all(|machine| stays(machine)), || format!("{} still has {left:?}", host.name))?;
    }
    Ok(())
}

fn steps_are_in_order(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts() {
        let Some(before) = step.before.rollout(rollout.id) else { continue };
        for (n, now) in rollout.steps.iter().enumerate() {
            let begins = now.started.is_some() && before.steps[n].started.is_none();
            let skipped = rollout.steps[..n].iter().any(|it| it.state == StepState::Pending && it.started.is_none());
            ensure(!begins || !skipped, || format!("step {n} of {} began before an earlier one", rollout.id))?;
        }
    }
    Ok(())
}

fn failures_end_rollouts(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.rollouts() {
        let many = rollout.failures > rollout.plan.failures_max;
        ensure(!many || !rollout.is_live(), || format!("{} goes on after {} failures", rollout.id, rollout.failures))?;
    }
    for fact in &step.transition.facts {
        let What::Ended(event) = &fact.what else { continue };
        let failed = matches!(&event.status, Status::Ended { outcome: Outcome::Failed(_) | Outcome::TimedOut, .. });
        let operation = operation_of(step.after, event).filter(|_| failed);
        let Some(operation) = operation.filter(|it| it.state != OperationState::Running) else { continue };
        let Some(rollout) = operation.rollout.and_then(|id| step.after.rollout(id)) else { continue };
        let counted = step.before.rollout(rollout.id).is_none_or(|before| rollout.failures > before.failures);
        let is_drain = matches!(operation.request, Request::Drain(_));
        ensure(counted || is_drain, || format!("a failure of {} is not counted", rollout.id))?;
    }
    Ok(())
}

/// Machines on which a step of a rollout over update domains was completed in this step.
fn completions(step: &Step<'_>) -> Vec<(RolloutId, MachineId)> {
    let mut completions = Vec::new();
    for fact in &step.transition.facts {
        let What::Ended(event) = &fact.what else { continue };
        let done = matches!(&event.status, Status::Ended { outcome: Outcome::Completed, .. });
        let operation = operation_of(step.after, event).filter(|_| done);
        let Some(rollout) = operation.and_then(|operation| step.after.rollout(operation.rollout?)) else { continue };
        if matches!(rollout.steps.first().map(|it| &it.target), Some(StepTarget::Domain { .. })) {
            completions.extend(event.resources.iter().map(|resource| (rollout.id, resource.machine)));
        }
    }
    completions
}

fn once_per_machine(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (rollout, machine) in completions(step) {
        let again = memory.completed.get(&rollout).is_some_and(|machines| machines.contains(&machine));
        ensure(!again, || format!("{machine:?} went through {rollout} twice"))?;
    }
    Ok(())
}

fn least_notice(step: &Step<'_>, event: &Event) -> std::time::Duration {
    match event.kind {
        EventKind::Terminate => event.notice,
        kind => notice(step.after.settings(), kind),
    }
}

fn is_confirmed(region: &Region, event: &Event) -> bool {
    let machines = event.resources.iter().filter_map(|resource| region.machine(resource.machine));
    let hosts = machines.filter_map(|machine| region.host(machine.host.as_ref()?));
    hosts.into_iter().all(|host| match host.contact {
        Contact::None => true,
        Contact::Confirmed { revision } | Contact::Lost { revision, .. } => revision >= event.revision,
    })
}

fn notice_is_confirmed(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
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

fn unreachable_waits(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step) {
        let mandatory = matches!(event.kind, EventKind::Terminate | EventKind::Preempt) && event.due;
        let machines = event.resources.iter().filter_map(|resource| step.after.machine(resource.machine));
        let mut hosts = machines.filter_map(|machine| step.before.host(machine.host.as_ref()?));
        let lost = hosts
            .any(|host| host.is_unreachable() && step.after.host(&host.name).is_some_and(|it| it.is_unreachable()));
        ensure(mandatory || !lost, || format!("{} started on an unreachable host", event.id))?;
    }
    Ok(())
}
