//! The expected progress of a rollout, planned or running, computed by the rules on a copy of the region.
//!
//! The preview assumes that no one approves, that every effect takes as long as announced, and that a drained host is
//! activated at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::command::{ApprovalScope, Command, NewRollout, Report};
use crate::ids::*;
use crate::model::*;
use crate::region::Region;
use crate::rejection::Rejection;
use crate::rollout::*;
use crate::settings::PLAN_AHEAD_MAX;
use crate::time::Timestamp;

/// Maximum number of commands in a preview, so that its cost is bounded.
const COMMANDS_MAX: usize = 200_000;

/// A rollout without progress for this long would wait forever: each of its windows has opened several times.
const STALL_MAX: Duration = Duration::from_secs(28 * 24 * 3600);

/// Changes of the availability of a group that a preview records.
const CHANGES_MAX: usize = 1_000;

/// Assumed duration of an effect that announces none.
const EFFECT_DEFAULT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPreview {
    /// The rollout as it is expected to end. Its steps have the expected times.
    pub rollout: Rollout,
    /// Whether every step is expected to end. Otherwise the rollout waits for the reason in `rollout`.
    pub is_complete: bool,
    /// Reasons for which the rollout is expected to wait, with the time at which each begins.
    pub waits: Vec<(Timestamp, Wait)>,
    /// Other operations with events on the targets that have not ended.
    pub conflicts: Vec<OperationId>,
    pub groups: Vec<GroupPreview>,
}

/// The expected availability of a group, or of a standalone machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPreview {
    pub key: GroupKey,
    pub name: Name,
    pub machines: u32,
    /// The lowest number of machines that run without impact at any time.
    pub available_min: u32,
    /// That number over time: at the beginning, and at each change after it.
    pub available: Vec<(Timestamp, u32)>,
    /// Whether no handler has read its document, so that it gets no notice.
    pub has_no_handler: bool,
}

impl Region {
    /// Simulates a rollout that starts at `now`. Fails where the rollout itself would be refused.
    pub fn preview_rollout(&self, new: &NewRollout, now: Timestamp) -> Result<RolloutPreview, Rejection> {
        let region = self.apply(&Command::StartRollout(Box::new(new.clone())), now)?.region;
        self.simulate_rollout(region, new.id, now)
    }

    /// Simulates the rest of a rollout from its current state. A paused rollout begins no further step.
    pub fn forecast_rollout(&self, id: RolloutId, now: Timestamp) -> Result<RolloutPreview, Rejection> {
        self.simulate_rollout(self.clone(), id, now)
    }

    /// Runs a rollout in `region`, a copy of this region, to its end.
    fn simulate_rollout(&self, region: Region, id: RolloutId, now: Timestamp) -> Result<RolloutPreview, Rejection> {
        let targets = find_targets(&region, id);
        let mut simulation = Simulation {
            region,
            now,
            id,
            effects: BTreeSet::new(),
            begun: BTreeSet::new(),
            waits: Vec::new(),
            progress: RolloutProgress::default(),
            progressed: now,
        };
        let mut lowest = Availability::new(self, &targets);
        for _ in 0..COMMANDS_MAX {
            lowest.observe(&simulation.region, simulation.now);
            if !simulation.can_continue() || simulation.is_stalled() || !simulation.advance() {
                break;
            }
        }
        let rollout = simulation.region.rollout(id).ok_or(Rejection::UnknownRollout(id))?;
        Ok(RolloutPreview {
            is_complete: !rollout.is_live(),
            rollout: (**rollout).clone(),
            waits: simulation.waits,
            conflicts: find_conflicts(self, id, &targets),
            groups: lowest.into_groups(self),
        })
    }
}

/// The machines that the rollout reaches if none of them moves.
fn find_targets(region: &Region, id: RolloutId) -> BTreeSet<MachineId> {
    let Some(rollout) = region.rollout(id) else { return BTreeSet::new() };
    match &rollout.targets {
        RolloutTargets::Hosts(hosts) => {
            hosts.iter().flat_map(|host| region.machines_on(host)).map(|it| it.id).collect()
        }
        RolloutTargets::Groups(groups) => {
            let groups = groups.iter().filter_map(|id| region.group(*id));
            groups.flat_map(|group| region.group_members(group)).map(|it| it.id).collect()
        }
        RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
            machines.iter().copied().collect()
        }
    }
}

/// The operations on these machines that are not steps of the rollout itself.
fn find_conflicts(region: &Region, id: RolloutId, machines: &BTreeSet<MachineId>) -> Vec<OperationId> {
    let events = machines.iter().flat_map(|machine| region.events_of(*machine));
    let operations: BTreeSet<OperationId> = events.flat_map(|event| event.operations.iter().copied()).collect();
    let is_own = |found: &OperationId| region.operation(*found).is_some_and(|found| found.rollout == Some(id));
    operations.into_iter().filter(|operation| !is_own(operation)).collect()
}

/// A simulated run.
struct Simulation {
    region: Region,
    now: Timestamp,
    id: RolloutId,
    /// Started events by the time at which their effect ends.
    effects: BTreeSet<(Timestamp, EventId)>,
    /// The same events.
    begun: BTreeSet<EventId>,
    waits: Vec<(Timestamp, Wait)>,
    progress: RolloutProgress,
    /// When the rollout last made progress.
    progressed: Timestamp,
}

/// How far a rollout has got.
#[derive(Default, PartialEq, Eq)]
struct RolloutProgress {
    steps_over: usize,
    machines_handled: usize,
    /// Machines that are still on the hosts that the rollout has reached.
    machines_left: usize,
}

impl RolloutProgress {
    fn of(region: &Region, rollout: &Rollout) -> RolloutProgress {
        let reached = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
        let hosts = reached.filter_map(|step| match &step.target {
            StepTarget::Host(host) => Some(host),
            StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. } => None,
        });
        RolloutProgress {
            steps_over: rollout.steps.iter().filter(|step| step.is_over()).count(),
            machines_handled: rollout.steps.iter().map(|step| step.handled.len() + step.failed.len()).sum(),
            machines_left: hosts.map(|host| region.machines_on(host).count()).sum(),
        }
    }
}

impl Simulation {
    /// Whether the rollout has made no progress for [`STALL_MAX`], so that it would wait forever. Planned pauses do not count.
    fn is_stalled(&mut self) -> bool {
        let Some(rollout) = self.region.rollout(self.id) else { return true };
        let progress = RolloutProgress::of(&self.region, rollout);
        if progress != self.progress || matches!(rollout.waits_for, Some(Wait::Start { .. } | Wait::Pause { .. })) {
            (self.progress, self.progressed) = (progress, self.now);
        }
        self.now.since(self.progressed) > STALL_MAX
    }

    fn can_continue(&self) -> bool {
        self.region.rollout(self.id).is_some_and(|rollout| match rollout.state {
            RolloutState::Planned | RolloutState::Running | RolloutState::Waiting => true,
            RolloutState::Paused => rollout.steps.iter().any(|step| step.state == StepState::InProgress),
            RolloutState::Finished { .. } | RolloutState::Stopped { .. } | RolloutState::Failed { .. } => false,
        })
    }

    /// Advances to the next change. Returns false if there is none.
    fn advance(&mut self) -> bool {
        self.note_wait();
        if self.activate_drained_host() {
            return true;
        }
        self.begin_effects();
        let effect = self.effects.first().copied();
        let deadline = self.region.next_deadline();
        let horizon = self.now.max(self.region.now()) + PLAN_AHEAD_MAX;
        match (effect, deadline) {
            (Some((at, event)), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                self.effects.remove(&(at, event));
                self.begun.remove(&event);
                self.now = self.now.max(at);
                self.apply(&Command::Report { event, report: Report::Done });
                true
            }
            (_, Some(deadline)) if deadline < horizon => {
                self.now = self.now.max(deadline);
                self.apply(&Command::Tick)
            }
            _ => false,
        }
    }

    fn apply(&mut self, command: &Command) -> bool {
        match self.region.apply(command, self.now) {
            Ok(transition) => {
                self.region = transition.region;
                true
            }
            Err(_) => false,
        }
    }

    fn note_wait(&mut self) {
        let wait = self.region.rollout(self.id).and_then(|rollout| rollout.waits_for.clone());
        let Some(wait) = wait.filter(|wait| !matches!(wait, Wait::Approvals | Wait::Start { .. } | Wait::Pause { .. }))
        else {
            return;
        };
        if self.waits.last().is_none_or(|(_, last)| last.as_str() != wait.as_str()) {
            self.waits.push((self.now, wait));
        }
    }

    fn activate_drained_host(&mut self) -> bool {
        let Some(rollout) = self.region.rollout(self.id) else { return false };
        let active = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
        let hosts = active.filter_map(|step| match &step.target {
            StepTarget::Host(host) => self.region.host(host),
            StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. } => None,
        });
        let drained = hosts.into_iter().find(|host| host.state == HostState::Drained).map(|host| host.name.clone());
        match drained {
            Some(name) => self.apply(&Command::ActivateHost { name, by: "preview".into() }),
            None => false,
        }
    }

    fn begin_effects(&mut self) {
        let new = self.region.wanted_effects().filter(|event| !self.begun.contains(&event.id));
        let ends: Vec<(Timestamp, EventId)> = new.map(|event| (self.end_of_effect(event), event.id)).collect();
        self.begun.extend(ends.iter().map(|(_, event)| *event));
        self.effects.extend(ends);
    }

    /// When the effect of a started event ends: now, if it takes longer than announced already.
    fn end_of_effect(&self, event: &Event) -> Timestamp {
        let announced = u64::try_from(event.duration_secs).ok().filter(|secs| *secs > 0).map(Duration::from_secs);
        let begun = match event.status {
            Status::Started { at } => at,
            Status::Scheduled | Status::Ended { .. } => self.now,
        };
        self.now.max(begun + self.region.settings().scaled(announced.unwrap_or(EFFECT_DEFAULT)))
    }
}

/// The number of available machines of each group so far.
struct Availability {
    groups: BTreeMap<GroupKey, Available>,
    /// The groups that were affected when they were last observed: only these and the newly affected ones can change.
    affected: BTreeSet<GroupKey>,
}

struct Available {
    /// Machines that run without impact. A preview changes no power state, so they are counted once.
    running: u32,
    lowest: u32,
    changes: Vec<(Timestamp, u32)>,
}

impl Available {
    /// Of several numbers at the same time, the last one stays.
    fn record(&mut self, now: Timestamp, number: u32) {
        self.lowest = self.lowest.min(number);
        let has_room = self.changes.len() < CHANGES_MAX;
        match self.changes.last_mut() {
            Some((_, last)) if *last == number => {}
            Some((at, last)) if *at == now => *last = number,
            Some(_) | None if has_room => self.changes.push((now, number)),
            Some(_) | None => {}
        }
    }
}

impl Availability {
    fn new(region: &Region, targets: &BTreeSet<MachineId>) -> Availability {
        let machines = targets.iter().filter_map(|id| region.machine(*id));
        let keys: BTreeSet<GroupKey> = machines.map(|machine| GroupKey::of(machine)).collect();
        let count = |key: GroupKey| {
            let machines = describe(region, key).map_or_else(Vec::new, |(_, machines)| machines);
            let running = machines.iter().filter(|machine| machine.power == Power::Running).count() as u32;
            (key, Available { running, lowest: running, changes: Vec::new() })
        };
        Availability { groups: keys.iter().copied().map(count).collect(), affected: keys }
    }

    fn observe(&mut self, region: &Region, now: Timestamp) {
        let mut affected: BTreeMap<GroupKey, u32> = BTreeMap::new();
        for event in region.wanted_effects() {
            for machine in event.resources.iter().filter_map(|resource| region.machine(resource.machine)) {
                *affected.entry(GroupKey::of(machine)).or_default() += 1;
            }
        }
        let recovered = std::mem::take(&mut self.affected);
        self.affected = affected.keys().copied().collect();
        for key in recovered.union(&self.affected) {
            if let Some(group) = self.groups.get_mut(key) {
                let down = affected.get(key).copied().unwrap_or(0);
                group.record(now, group.running.saturating_sub(down));
            }
        }
    }

    fn into_groups(self, region: &Region) -> Vec<GroupPreview> {
        let groups = self.groups.into_iter().filter_map(|(key, Available { lowest, changes, .. })| {
            let (name, machines) = describe(region, key)?;
            let has_no_handler = machines.iter().all(|machine| !region.is_on(machine.scope));
            let machines = machines.len() as u32;
            Some(GroupPreview { key, name, machines, available_min: lowest, available: changes, has_no_handler })
        });
        groups.collect()
    }
}

fn describe(region: &Region, key: GroupKey) -> Option<(Name, Vec<Arc<Machine>>)> {
    match key {
        GroupKey::Group(id) => {
            let group = region.group(id)?;
            Some((group.name.clone(), region.group_members(group).cloned().collect()))
        }
        GroupKey::Machine(id) => {
            let machine = region.machine(id)?;
            Some((machine.name.clone(), vec![machine.clone()]))
        }
    }
}

/// The expected move of one machine in a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovePreview {
    pub machine: MachineId,
    /// None: the machine cannot move, for the reason in `waits_for`.
    pub kind: Option<EventKind>,
    /// None: it restarts in place, or cannot move.
    pub to: Option<Name>,
    pub waits_for: Option<Wait>,
}

impl Region {
    /// Simulates a drain in which every event is approved and succeeds, also those of other operations for which it waits.
    /// Fails where the drain itself would be refused.
    pub fn preview_drain(&self, plan: &DrainPlan, now: Timestamp) -> Result<Vec<MovePreview>, Rejection> {
        let operation = Guid(0);
        let request = Request::Drain(plan.clone());
        let start = Command::Request { operation, by: "preview".into(), request, event: None };
        let mut region = self.apply(&start, now)?.region;
        let mut moves: BTreeMap<MachineId, MovePreview> = BTreeMap::new();
        let mut stuck: BTreeSet<EventId> = BTreeSet::new();
        for _ in 0..COMMANDS_MAX {
            let Some(event) = find_next(&region, operation, &stuck) else { break };
            for resource in event.resources.iter().filter(|_| event.operations.contains(&operation)) {
                let to = event.moves.iter().find(|one| one.machine == resource.machine).map(|one| one.to.clone());
                let kind = Some(event.kind);
                moves.insert(resource.machine, MovePreview { machine: resource.machine, kind, to, waits_for: None });
            }
            let after = region.apply(&finish(&event), now).ok().map(|transition| transition.region);
            match after.filter(|after| after.event(event.id).is_none_or(|it| it.status != event.status)) {
                Some(after) => {
                    region = after;
                    stuck.clear();
                }
                None => drop(stuck.insert(event.id)),
            }
        }
        let waits_for = region.drain_of(&plan.host).and_then(|operation| operation.drain.as_ref()?.waits_for.clone());
        let left = self.machines_on(&plan.host).filter(|machine| !moves.contains_key(&machine.id));
        let left: Vec<MovePreview> = left
            .map(|machine| MovePreview { machine: machine.id, kind: None, to: None, waits_for: waits_for.clone() })
            .collect();
        moves.extend(left.into_iter().map(|one| (one.machine, one)));
        Ok(moves.into_values().collect())
    }
}

/// The next event of a simulated drain: its own, else one that may be in its way.
fn find_next(region: &Region, operation: OperationId, stuck: &BTreeSet<EventId>) -> Option<Arc<Event>> {
    let running = region.operation(operation).filter(|operation| operation.state == OperationState::Running)?;
    let own = running.parts.iter().filter(|part| part.outcome.is_none()).filter_map(|part| region.event(part.event));
    let others = region.wanted_effects().chain(region.events().filter(|event| event.is_live()));
    own.chain(others).find(|event| !stuck.contains(&event.id)).cloned()
}

/// The command that brings an event one step closer to its end.
fn finish(event: &Event) -> Command {
    match event.status {
        Status::Started { .. } => Command::Report { event: event.id, report: Report::Done },
        Status::Scheduled | Status::Ended { .. } => Command::Approve {
            by: Approver::Management("preview".into()),
            within: ApprovalScope::Region,
            events: vec![event.id],
        },
    }
}
