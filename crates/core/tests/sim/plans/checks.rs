//! Invariants of hosts, drains and rollouts, computed from the entities in the simplest way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::*;

use super::{contact, orders, retry};
use crate::invariants::Step;

/// Facts about the past that an invariant needs.
#[derive(Clone, Debug, Default)]
pub struct PlanMemory {
    /// When all agents had confirmed an event. Moves with downtime while notice is still due.
    pub(super) seen_at: BTreeMap<EventId, Timestamp>,
    /// When the agent of each host was heard from again after a loss of contact.
    pub(super) back_at: BTreeMap<Name, Timestamp>,
    /// Machines on which a rollout over update domains or machines has completed an event.
    pub(super) completed: BTreeMap<RolloutId, BTreeSet<MachineId>>,
    /// Machines whose last event of such a rollout failed.
    pub(super) failed: BTreeMap<RolloutId, BTreeSet<MachineId>>,
}

type Check = fn(&PlanMemory, &Step<'_>) -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    ("no more steps or moves than in parallel", parallel_holds),
    ("a group keeps enough available machines", availability_holds),
    ("targets have room for the machines that move there", memory_holds),
    ("machines move only to active hosts of the right pool", targets_are_active),
    ("no event of a rollout starts outside its windows", windows_hold),
    ("events of a rollout are scheduled only within its windows", announced_within_windows),
    ("a rollout is not announced long before its time", announced_in_time),
    ("a rollout waits for its start until its notice begins", start_is_not_late),
    ("no event of a rollout starts before its time unless approved", start_holds),
    ("a paused rollout announces nothing", paused_is_quiet),
    ("a paused rollout stays paused", paused_stays_paused),
    ("a host, group or machine belongs to one rollout", one_owner),
    ("a group is shared only by rollouts over machines", groups_shared_by_machines),
    ("a drained host is empty", drained_is_empty),
    ("a canceled drain gives its host back", canceled_drain_gives_back),
    ("the step of a drain lasts until its host is active again", drain_steps_last),
    ("steps begin in order", steps_are_in_order),
    ("steps begin after the pause", pause_holds),
    ("a rollout finishes after its last step", finished_is_complete),
    ("a repeated request changes nothing", repeats_change_nothing),
    ("failures end a rollout", failures_end_rollouts),
    ("a machine goes through a step once", once_per_machine),
    ("a step is retried only on request", retry::retried_on_request),
    ("a requested retry takes place", retry::retries_stay),
    ("a retry leaves out machines that are done", retry::done_machines_stay_out),
    ("a retry leaves out no machine that failed", retry::failed_machines_are_not_left_out),
    ("a retry changes no earlier step", retry::earlier_steps_stay),
    ("failures keep counting", retry::failures_keep_counting),
    ("maintenance ends with its rollout", maintenance_ends_with_its_rollout),
    ("a step fails by its own events", steps_fail_alone),
    ("notice counts from the confirmation by every agent", contact::notice_is_confirmed),
    ("nothing starts on an unreachable host", contact::unreachable_waits),
    ("nothing times out on an unreachable host", contact::unreachable_never_times_out),
    ("an event group with an unreachable host stays on", contact::unreachable_stays_on),
    ("fencing ends the events in progress", contact::fencing_ends_events),
    ("fencing fails the step of the host", contact::fencing_fails_steps),
    ("deletions and evictions complete on a fenced host", contact::fenced_hosts_remove),
    ("machines of fenced hosts have results", contact::fenced_machines_have_results),
    ("nothing waits for a fenced host", contact::fenced_hosts_delay_nothing),
    ("machines run where their only claimant says", contact::claims_beat_fences),
    ("a machine's host changes only as hosts and operators state", orders::hosts_change_by_report),
    ("a machine that is started or stopped gets an order", orders::power_changes_are_ordered),
    ("machines stop by report", orders::machines_stop_by_report),
    ("an event ends with the report of its last machine", orders::events_end_by_machine),
    ("only the host of a machine reports on it", orders::reports_come_from_the_host),
    ("nothing starts before the last order has ended", orders::nothing_starts_meanwhile),
    ("the term rises with every start of the server", orders::terms_rise_at_starts),
    ("results of machines stay", orders::results_stay),
];

impl PlanMemory {
    pub fn check(&self, step: &Step<'_>) -> Result<(), String> {
        for (name, check) in CHECKS {
            check(self, step).map_err(|what| format!("invariant \"{name}\": {what}"))?;
        }
        Ok(())
    }

    pub fn remember(&mut self, step: &Step<'_>) {
        contact::remember(self, step);
        // A request that is repeated after its rollout was forgotten starts another one.
        if let Command::StartRollout(new) = step.command
            && step.before.rollout(new.id).is_none()
        {
            self.completed.remove(&new.id);
            self.failed.remove(&new.id);
        }
        for (rollout, machine) in completions(step) {
            self.completed.entry(rollout).or_default().insert(machine);
            self.failed.entry(rollout).or_default().remove(&machine);
        }
        for (rollout, machine) in failures(step) {
            self.failed.entry(rollout).or_default().insert(machine);
        }
    }
}

pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

pub(super) fn operation_of<'a>(region: &'a Region, event: &Event) -> Option<&'a Arc<Operation>> {
    region.operation(*event.operations.first()?)
}

pub(super) fn new_events<'a>(step: &'a Step<'_>) -> impl Iterator<Item = &'a Arc<Event>> {
    step.after.events().filter(|event| step.before.event(event.id).is_none())
}

pub(super) fn is_started(event: &Event) -> bool {
    matches!(event.status, Status::Started { .. })
}

pub(super) fn newly_started<'a>(step: &'a Step<'_>) -> impl Iterator<Item = &'a Arc<Event>> {
    step.after
        .events()
        .filter(|event| is_started(event) && !step.before.event(event.id).is_some_and(|before| is_started(before)))
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

/// The limits of all drains and rollouts that concern a group before and after the step.
fn limits_on<'a>(step: &'a Step<'_>, group: &'a Group) -> impl Iterator<Item = Option<u32>> + 'a {
    let is_on =
        |region: &Region, host: &Name| region.machines_on(host).any(|it| it.membership.group() == Some(group.id));
    let stays_on = move |host: &Name| is_on(step.before, host) && is_on(step.after, host);
    let drains = step.after.operations().filter_map(move |operation| {
        let is_draining = |it: &Arc<Operation>| it.drain.is_some();
        let lasts = is_draining(operation) && step.before.operation(operation.id).is_some_and(is_draining);
        match &operation.request {
            Request::Drain(plan) if lasts && stays_on(&plan.host) => Some(plan.unavailable_max),
            _ => None,
        }
    });
    let known = |rollout: &&Arc<Rollout>| step.before.rollout(rollout.id).is_some();
    let rollouts = step.after.live_rollouts().filter(known).filter(move |rollout| {
        let is_member =
            |id: &MachineId| step.after.machine(*id).is_some_and(|it| it.membership.group() == Some(group.id));
        match &rollout.targets {
            RolloutTargets::Hosts(hosts) => hosts.iter().any(stays_on),
            RolloutTargets::Groups(groups) => groups.contains(&group.id),
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().any(is_member)
            }
        }
    });
    drains.chain(rollouts.map(|rollout| rollout.plan.unavailable_max))
}

fn availability_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let region = step.after;
    for event in new_events(step) {
        let Some(limit) = operation_of(region, event).and_then(|operation| limit_of(region, operation)) else {
            continue;
        };
        for resource in event.resources.iter() {
            let Some(machine) = region.machine(resource.machine) else { continue };
            let Some(group) = machine.membership.group().and_then(|id| region.group(id)) else { continue };
            if machine.power != Power::Running {
                continue;
            }
            let members: Vec<_> = region.group_members(group).collect();
            let down = members.iter().filter(|it| is_unavailable(region, it)).count();
            let mut domains: BTreeMap<u32, u32> = BTreeMap::new();
            members.iter().for_each(|it| *domains.entry(it.update_domain).or_default() += 1);
            let default = domains.into_values().max().unwrap_or(1);
            let limits = limits_on(step, group).chain([limit]);
            let max = limits.map(|limit| limit.unwrap_or(default)).min().unwrap_or(default);
            ensure(down <= max as usize, || {
                format!("{down} machines of {} are unavailable, {max} may be", group.name)
            })?;
        }
    }
    Ok(())
}

fn is_unavailable(region: &Region, machine: &Machine) -> bool {
    let host = machine.placed_on().and_then(|host| region.host(host));
    let is_lost = host.is_some_and(|host| host.is_unreachable() || host.state == HostState::Failed);
    is_lost
        || machine.power == Power::Running
            && region.events_of(machine.id).any(|event| event.kind != EventKind::SpotRebalanceRecommendation)
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
        let there: u64 = step.after.machines_on(&host.name).map(|machine| u64::from(machine.memory_mib)).sum();
        let live = step.after.events().filter(|event| event.is_live()).flat_map(|event| &event.moves);
        let coming = live.filter(|other| other.to == host.name).filter_map(|other| step.after.machine(other.machine));
        let needed = there + coming.map(|machine| u64::from(machine.memory_mib)).sum::<u64>();
        ensure(needed <= memory, || format!("{} has {memory} MiB, but {needed} are needed", host.name))?;
    }
    Ok(())
}

fn targets_are_active(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (event, one) in new_moves(step) {
        let Some(host) = step.after.host(&one.to) else { return Err(format!("{} does not exist", one.to)) };
        // The host may have changed in the same step, before or after the machine was placed.
        let states = [Some(host), step.before.host(&one.to)];
        let is_once = |wanted: fn(&Host) -> bool| states.iter().flatten().any(|host| wanted(host));
        let usable = is_once(|host| host.state == HostState::Active) && is_once(|host| !host.is_unreachable());
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

fn announced_within_windows(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let now = step.after.now();
    for event in step.after.events().filter(|event| event.status == Status::Scheduled) {
        let rollout = operation_of(step.after, event).and_then(|operation| step.after.rollout(operation.rollout?));
        let Some(rollout) = rollout else { continue };
        let Some(span) = current_or_next(&rollout.plan.windows, now) else { continue };
        ensure(span.contains(now), || format!("{} is scheduled outside the windows of {}", event.id, rollout.id))?;
        let is_new = event.is_shown() && step.before.event(event.id).is_none();
        let is_late = is_new && event.not_before >= span.end;
        ensure(!is_late, || format!("the notice of {} ends after the window of {}", event.id, rollout.id))?;
    }
    Ok(())
}

fn announced_in_time(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in new_events(step) {
        let Some((rollout, at)) = planned_start(step, event) else { continue };
        // Maintenance of one group is announced at once.
        if rollout.operation.is_some() {
            continue;
        }
        let is_drain = matches!(rollout.plan.action, RolloutAction::Drain { .. });
        let notice = if is_drain { Duration::ZERO } else { step.after.settings().notice_min(event.kind) };
        ensure(step.after.now() + notice >= at, || format!("{} of {} came too early", event.id, rollout.id))?;
    }
    Ok(())
}

fn start_is_not_late(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts().filter(|it| matches!(it.waits_for, Some(Wait::Start { .. }))) {
        let Some(at) = rollout.plan.at else { return Err(format!("{} has no start", rollout.id)) };
        let kind = rollout.plan.action.kind();
        let notice = kind.map_or(Duration::ZERO, |kind| step.after.settings().notice_min(kind));
        ensure(step.after.now() + notice < at, || format!("{} should have been announced", rollout.id))?;
    }
    Ok(())
}

fn start_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step).filter(|event| event.approval.is_none()) {
        let Some((rollout, at)) = planned_start(step, event) else { continue };
        // Events of one host start together, so that one of them may wait for the approval of another.
        let is_alone = event.cohort.is_none();
        ensure(step.after.now() >= at || !is_alone, || format!("{} of {} started too early", event.id, rollout.id))?;
    }
    Ok(())
}

/// The rollout of an event, with the start that it asks for.
fn planned_start<'a>(step: &'a Step<'_>, event: &Event) -> Option<(&'a Arc<Rollout>, Timestamp)> {
    let rollout = step.after.rollout(operation_of(step.after, event)?.rollout?)?;
    Some((rollout, rollout.plan.at?))
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

fn paused_stays_paused(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts() {
        let before = step.before.rollout(rollout.id).map(|before| &before.state);
        let expected = match step.command {
            Command::PauseRollout { rollout: id, .. } if *id == rollout.id => true,
            Command::ResumeRollout { rollout: id } if *id == rollout.id => false,
            _ => before == Some(&RolloutState::Paused),
        };
        let is_paused = rollout.state == RolloutState::Paused;
        ensure(is_paused == expected, || format!("{} is {}", rollout.id, rollout.state.as_str()))?;
    }
    Ok(())
}

fn one_owner(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let mut owners: BTreeMap<String, RolloutId> = BTreeMap::new();
    for rollout in step.after.live_rollouts() {
        for owned in list_owned(step.after, &rollout.targets) {
            let owner = *owners.entry(owned.clone()).or_insert(rollout.id);
            ensure(owner == rollout.id, || format!("{owned} has two owners"))?;
        }
    }
    Ok(())
}

/// The hosts, groups or machines that belong to a rollout alone.
fn list_owned(region: &Region, targets: &RolloutTargets) -> Vec<String> {
    match targets {
        RolloutTargets::Hosts(hosts) => hosts.iter().map(|host| format!("host {host}")).collect(),
        RolloutTargets::Groups(groups) => groups.iter().map(|group| format!("{group:?}")).collect(),
        RolloutTargets::Machines(machines) => machines.iter().map(|id| format!("{id:?}")).collect(),
        RolloutTargets::MachinesByDomain(machines) => {
            let owned = |id| group_of(region, id).map_or_else(|| format!("{id:?}"), |group| format!("{group:?}"));
            machines.iter().map(owned).collect()
        }
    }
}

fn group_of(region: &Region, machine: &MachineId) -> Option<GroupId> {
    region.machine(*machine).and_then(|machine| machine.membership.group())
}

fn groups_shared_by_machines(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let shared = |rollout: &Arc<Rollout>| match &rollout.targets {
        RolloutTargets::Machines(machines) => machines.iter().filter_map(|id| group_of(step.after, id)).collect(),
        RolloutTargets::Hosts(_) | RolloutTargets::Groups(_) | RolloutTargets::MachinesByDomain(_) => Vec::new(),
    };
    let shared: BTreeSet<String> =
        step.after.live_rollouts().flat_map(shared).map(|group| format!("{group:?}")).collect();
    let alone = step.after.live_rollouts().filter(|rollout| !matches!(rollout.targets, RolloutTargets::Machines(_)));
    let twice = alone.flat_map(|rollout| list_owned(step.after, &rollout.targets)).find(|group| shared.contains(group));
    ensure(twice.is_none(), || format!("{twice:?} belongs to a rollout over machines as well"))
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

fn canceled_drain_gives_back(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for operation in step.after.operations().filter(|operation| operation.canceled.is_some()) {
        let Request::Drain(plan) = &operation.request else { continue };
        let is_new = step.before.operation(operation.id).is_some_and(|before| before.canceled.is_none());
        let Some(host) = step.after.host(&plan.host).filter(|_| is_new) else { continue };
        let kept = host.state == HostState::Draining && step.after.drain_of(&host.name).is_none();
        ensure(!kept, || format!("{} is still draining", host.name))?;
    }
    Ok(())
}

fn drain_steps_last(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts().filter(|it| matches!(it.plan.action, RolloutAction::Drain { .. })) {
        let Some(before) = step.before.rollout(rollout.id) else { continue };
        let steps = rollout.steps.iter().zip(&before.steps);
        for (it, _) in steps.filter(|(it, before)| it.ended.is_some() && before.ended.is_none()) {
            let StepTarget::Host(host) = &it.target else { continue };
            let is_out = |host: &Arc<Host>| match host.state {
                HostState::Active => false,
                HostState::Failed => it.state != StepState::Failed,
                HostState::Draining | HostState::Drained => true,
            };
            ensure(!step.after.host(host).is_some_and(is_out), || {
                format!("the step of {host} has ended, but the host is not active")
            })?;
        }
    }
    Ok(())
}

fn steps_are_in_order(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts() {
        let Some(before) = step.before.rollout(rollout.id) else { continue };
        for (n, now) in rollout.steps.iter().enumerate() {
            let begins = now.started.is_some() && before.steps.get(n).is_none_or(|it| it.started.is_none());
            let skipped = rollout.steps[..n].iter().any(|it| it.state == StepState::Pending && it.started.is_none());
            ensure(!begins || !skipped, || format!("step {n} of {} began before an earlier one", rollout.id))?;
        }
    }
    Ok(())
}

fn pause_holds(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.live_rollouts() {
        let Some(before) = step.before.rollout(rollout.id) else { continue };
        let steps = || rollout.steps.iter().zip(&before.steps);
        let count_begun = |steps: &[RolloutStep]| steps.iter().filter(|it| it.started.is_some()).count();
        if count_begun(&rollout.steps) == count_begun(&before.steps) {
            continue;
        }
        // Steps that both begin and end now do not count: those that begin together with them do not wait for them.
        let carried_out = steps().filter(|(it, before)| {
            let is_new = before.ended.is_none() && before.state != StepState::InProgress;
            it.state != StepState::Skipped && it.operation == before.operation && !is_new
        });
        let pause = step.after.settings().scaled(rollout.plan.pause);
        let until = carried_out.filter_map(|(it, _)| it.ended).max().map(|ended| ended + pause);
        ensure(until.is_none_or(|until| until <= step.after.now()), || {
            format!("a step of {} began before the pause ended at {until:?}", rollout.id)
        })?;
    }
    Ok(())
}

fn finished_is_complete(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.rollouts().filter(|it| matches!(it.state, RolloutState::Finished { .. })) {
        let open = rollout.steps.iter().position(|it| it.ended.is_none());
        ensure(open.is_none(), || format!("{} finished without step {open:?}", rollout.id))?;
    }
    Ok(())
}

/// Everything that was due happened in a step of its own, so an accepted repetition leaves everything as it is.
fn repeats_change_nothing(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    match step.command {
        Command::Request { operation, .. } => {
            let Some(before) = step.before.operation(*operation) else { return Ok(()) };
            ensure(step.after.operation(*operation) == Some(before), || format!("{operation} was requested anew"))?;
        }
        Command::StartRollout(new) => {
            let Some(before) = step.before.rollout(new.id) else { return Ok(()) };
            ensure(step.after.rollout(new.id) == Some(before), || format!("{} was started anew", new.id))?;
        }
        Command::RetrySteps { rollout, operation, .. } => {
            let Some(before) = step.before.rollout(*rollout) else { return Ok(()) };
            if !before.steps.iter().any(|it| [it.operation, it.retry].contains(&Some(*operation))) {
                return Ok(());
            }
            ensure(step.after.rollout(*rollout) == Some(before), || format!("steps of {rollout} were retried anew"))?;
        }
        _ => return Ok(()),
    }
    ensure(new_events(step).next().is_none(), || "a repeated request created an event".into())
}

/// Failed events of the maintenance that a rollout has carried out, forgotten events included.
fn count_failed_events(region: &Region, rollout: RolloutId) -> usize {
    let operations = region.operations().filter(|operation| {
        let is_drain = matches!(operation.request, Request::Drain(_));
        operation.rollout == Some(rollout) && operation.state != OperationState::Running && !is_drain
    });
    let parts = operations.flat_map(|operation| &operation.parts);
    parts.filter(|part| matches!(part.outcome, Some(Outcome::Failed(_) | Outcome::TimedOut))).count()
}

fn failures_end_rollouts(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for rollout in step.after.rollouts() {
        let many = rollout.failures > rollout.plan.failures_max;
        ensure(!many || !rollout.is_live(), || format!("{} goes on after {} failures", rollout.id, rollout.failures))?;
        let failed = count_failed_events(step.after, rollout.id);
        ensure(rollout.failures as usize >= failed, || {
            format!("{} has {failed} failed events, but {} failures", rollout.id, rollout.failures)
        })?;
    }
    for fact in &step.transition.facts {
        let FactKind::Ended(event) = &fact.what else { continue };
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

/// Operations of maintenance by update domain, with their rollouts.
fn maintenance(region: &Region) -> impl Iterator<Item = (&Arc<Operation>, &Arc<Rollout>)> {
    let rollouts = region.rollouts().filter_map(|rollout| Some((region.operation(rollout.operation?)?, rollout)));
    rollouts.filter(|(operation, rollout)| operation.rollout == Some(rollout.id))
}

fn maintenance_ends_with_its_rollout(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (operation, rollout) in maintenance(step.after) {
        let is_open = operation.parts.iter().any(|part| part.outcome.is_none());
        let is_running = operation.state == OperationState::Running;
        ensure(is_running == (rollout.is_live() || is_open), || {
            format!("{} is {}, but its operation is {:?}", rollout.id, rollout.state.as_str(), operation.state)
        })?;
        let OperationState::Ended { result, .. } = &operation.state else { continue };
        let is_canceled = matches!(result, OperationResult::Canceled { .. });
        let is_stopped = matches!(rollout.state, RolloutState::Stopped { .. });
        ensure(is_canceled == is_stopped, || format!("{} is {}: {result:?}", rollout.id, rollout.state.as_str()))?;
    }
    Ok(())
}

fn steps_fail_alone(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (operation, rollout) in maintenance(step.after) {
        let failed = |part: &&OperationEvent| matches!(part.outcome, Some(Outcome::Failed(_) | Outcome::TimedOut));
        let events = operation.parts.iter().filter(failed).count();
        let steps = rollout.steps.iter().filter(|it| it.state == StepState::Failed).count();
        ensure(steps <= events, || format!("{steps} steps of {} failed by {events} events", rollout.id))?;
    }
    Ok(())
}

/// Machines on which a step of a rollout over update domains or machines was completed in this step.
fn completions(step: &Step<'_>) -> Vec<(RolloutId, MachineId)> {
    ended_machines(step, |event, _| matches!(&event.status, Status::Ended { outcome: Outcome::Completed, .. }))
}

/// Machines on which such a step failed in this step.
fn failures(step: &Step<'_>) -> Vec<(RolloutId, MachineId)> {
    ended_machines(step, |event, machine| match &event.status {
        Status::Ended { outcome: Outcome::Failed(_) | Outcome::TimedOut, .. } => !event.is_done(machine),
        _ => false,
    })
}

/// The machines of events of rollouts over update domains or machines that ended in this step.
fn ended_machines(step: &Step<'_>, wanted: impl Fn(&Event, MachineId) -> bool) -> Vec<(RolloutId, MachineId)> {
    let mut found = Vec::new();
    for fact in &step.transition.facts {
        let FactKind::Ended(event) = &fact.what else { continue };
        let operation = operation_of(step.after, event);
        let Some(rollout) = operation.and_then(|operation| step.after.rollout(operation.rollout?)) else { continue };
        if !matches!(rollout.targets, RolloutTargets::Hosts(_)) {
            let machines = event.resources.iter().map(|resource| resource.machine);
            found.extend(machines.filter(|machine| wanted(event, *machine)).map(|machine| (rollout.id, machine)));
        }
    }
    found
}

fn once_per_machine(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for (rollout, machine) in completions(step) {
        let again = memory.completed.get(&rollout).is_some_and(|machines| machines.contains(&machine));
        ensure(!again, || format!("{machine:?} went through {rollout} twice"))?;
    }
    Ok(())
}
