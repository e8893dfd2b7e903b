//! The rules again, as simply as possible: lists that are searched linearly, without writes, indexes or
//! incarnations. Written from the specification, not from the code.
//!
//! The model takes the IDs of events from the region when they first appear there, and also the numbers and
//! places of new machines.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::settings::SEEN_INTERVAL;
use forewarn_core::*;

/// How long ended events and operations are kept.
const ENDED_RETENTION: Duration = Duration::from_secs(3600);
/// How long ended rollouts are kept, those of maintenance by update domain included.
const ROLLOUT_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// The minimum notice, divided by the scale.
pub fn notice(set: &Settings, kind: EventKind) -> Duration {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let span = match kind {
        EventKind::Freeze | EventKind::Reboot | EventKind::SpotRebalanceRecommendation => minutes(15),
        EventKind::Redeploy => minutes(10),
        EventKind::Preempt => Duration::from_secs(30),
        EventKind::Terminate => minutes(5),
    };
    scaled(set, span)
}

pub fn scaled(set: &Settings, span: Duration) -> Duration {
    span / set.notice_scale
}

/// Rounds up to a whole second.
pub fn whole(at: Timestamp) -> Timestamp {
    let mut at = at;
    while at.0 % 1000 != 0 {
        at.0 += 1;
    }
    at
}

#[derive(Clone, Debug)]
pub struct Model {
    pub set: Settings,
    pub now: Timestamp,
    pub down_ms: i64,
    /// When the server last started.
    pub resumed: Timestamp,
    pub machines: Vec<Arc<Machine>>,
    pub groups: Vec<Arc<Group>>,
    pub hosts: Vec<Name>,
    /// Scopes that are on, identified by the scope that holds the switch, with the time of their latest
    /// request.
    pub on: Vec<(ScopeId, Timestamp)>,
    pub events: Vec<Work>,
    pub operations: Vec<ModelOperation>,
    /// IDs of maintenance by update domain that are forgotten, but not their rollouts, with the times of their ends.
    pub rollouts: Vec<(OperationId, Timestamp)>,
    /// The events that the region started, in order. If several exclude each other, the order is not specified.
    pub first: Vec<(OperationId, Vec<MachineId>)>,
    made: u64,
}

/// An event, shown or hidden.
#[derive(Clone, Debug)]
pub struct Work {
    pub id: Option<EventId>,
    pub order: u64,
    pub of: Vec<OperationId>,
    pub scope: ScopeId,
    pub kind: EventKind,
    pub cause: Cause,
    pub who: Vec<MachineId>,
    pub shown: bool,
    pub status: Status,
    pub not_before: Timestamp,
    /// When the machines have seen the event for long enough.
    pub seen_enough: Timestamp,
    pub due: bool,
    pub approved: bool,
    /// The planned time.
    pub plan: Option<Timestamp>,
    /// The host of a host operation.
    pub host: Option<Name>,
    /// Where machines are moving.
    pub moves: Vec<(MachineId, Name)>,
    /// When one of the machines changed its host.
    pub moved_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct ModelOperation {
    pub id: OperationId,
    pub request: Request,
    pub canceled: Option<Name>,
    pub parts: Vec<(u64, Option<Outcome>)>,
    /// The next update domain, and when it starts.
    pub rollout: Option<(u32, Option<Timestamp>)>,
    pub state: OperationState,
}

impl Work {
    pub fn live(&self) -> bool {
        !matches!(self.status, Status::Ended { .. })
    }
    pub fn waits(&self) -> bool {
        self.status == Status::Scheduled
    }
    pub fn started(&self) -> bool {
        matches!(self.status, Status::Started { .. })
    }
    fn decided(&self) -> bool {
        self.approved || self.due
    }
    /// Whether the event is advice, which has no impact and so waits for nothing.
    fn advises(&self) -> bool {
        self.kind == EventKind::SpotRebalanceRecommendation
    }
    fn takes_from(&self, other: &Work) -> bool {
        self.rank() > other.rank() || (self.rank() == 1 && other.rank() == 1)
    }
    /// Precedence: a higher rank supersedes a lower one.
    fn rank(&self) -> u32 {
        match (self.kind, self.cause) {
            (EventKind::Terminate, _) => 3,
            (EventKind::Preempt, _) => 2,
            (_, Cause::HardwareFailure) => 1,
            _ => 0,
        }
    }
}

impl Model {
    pub fn new(set: Settings) -> Model {
        Model {
            set,
            now: Timestamp(0),
            down_ms: 0,
            resumed: Timestamp(0),
            machines: vec![],
            groups: vec![],
            hosts: vec![],
            on: vec![],
            events: vec![],
            operations: vec![],
            rollouts: vec![],
            first: vec![],
            made: 0,
        }
    }

    // --- lookup ----------------------------------------------------------------------------------

    pub fn machine(&self, id: MachineId) -> Option<&Arc<Machine>> {
        self.machines.iter().find(|machine| machine.id == id)
    }
    pub fn group(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.iter().find(|group| group.id == id)
    }
    pub fn members(&self, group: GroupId) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter().filter(move |machine| machine.membership.group() == Some(group))
    }
    pub fn switch(&self, scope: ScopeId) -> ScopeId {
        self.groups.iter().find(|group| group.scopes.contains(&scope)).map_or(scope, |group| group.scopes[0])
    }
    pub fn is_on(&self, scope: ScopeId) -> bool {
        self.on.iter().any(|(key, _)| *key == self.switch(scope))
    }
    pub fn live_of(&self, machine: MachineId) -> impl Iterator<Item = &Work> {
        self.events.iter().filter(move |event| event.live() && event.who.contains(&machine))
    }
    /// Whether a Terminate or Preempt event of the machine has started.
    pub fn leaving(&self, machine: MachineId) -> bool {
        self.live_of(machine).any(|event| event.started() && event.rank() > 1)
    }
    fn policy(&self, machine: &Machine) -> EventsPolicy {
        match machine.membership.group().and_then(|group| self.group(group)) {
            Some(group) => group.policy.clone(),
            None => machine.policy.clone().unwrap_or_default(),
        }
    }
    fn up(&self, id: MachineId) -> bool {
        self.machine(id).is_some_and(|machine| machine.power == Power::Running)
    }

    // --- time --------------------------------------------------------------------------------------

    /// The server starts again. Notice counts only while a server runs.
    pub fn resume(&mut self, now: Timestamp) {
        let down = if self.now.0 == 0 { 0 } else { (now.0 - self.now.0).max(0) };
        let before = self.now;
        self.resumed = now.max(self.now);
        self.down_ms += down;
        for event in self.events.iter_mut().filter(|event| event.waits() && event.shown && !event.due) {
            if event.seen_enough > before {
                event.seen_enough.0 += down;
            }
        }
    }

    /// Handles everything that is due, as one step.
    pub fn pass(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let now = self.now;
        self.events.retain(|event| !matches!(event.status, Status::Ended { at, .. } if at + ENDED_RETENTION <= now));
        self.forget_operations();
        for event in self.events.clone() {
            match event.status {
                Status::Started { at } if at.max(event.moved_at).max(self.resumed) + self.set.driver_timeout <= now => {
                    self.end(event.order, Outcome::TimedOut)
                }
                Status::Scheduled if event.not_before.max(event.seen_enough) <= now => {
                    self.event(event.order).due = true
                }
                _ => {}
            }
        }
        for (key, seen) in self.on.clone() {
            let idle_at = (seen + self.set.idle_disable + SEEN_INTERVAL).0 + self.down_ms;
            if idle_at <= now.0 {
                self.on.retain(|(other, _)| *other != key);
                if self.events.iter().any(|event| event.live() && event.shown && self.switch(event.scope) == key) {
                    let again = Timestamp(now.0 - self.down_ms) - self.set.idle_disable;
                    self.on.push((key, again));
                }
            }
        }
        self.settle();
        for asked in self.operations.clone() {
            if let Some((domain, Some(at))) = asked.rollout
                && at <= now
            {
                self.next_domain(asked.id, domain);
            }
        }
        self.settle();
    }

    fn forget_operations(&mut self) {
        let (now, rollouts) = (self.now, &mut self.rollouts);
        self.operations.retain(|asked| match asked.state {
            OperationState::Ended { at, .. } if at + ENDED_RETENTION <= now => {
                rollouts.extend(is_by_domain(&asked.request).then_some((asked.id, at)));
                false
            }
            _ => true,
        });
        rollouts.retain(|(_, at)| *at + ROLLOUT_RETENTION > now);
    }

    /// Applies every change that follows from the current state, until there is none.
    pub fn settle(&mut self) {
        let (machines, groups) = (&self.machines, &self.groups);
        self.on.retain(|(scope, _)| {
            machines.iter().any(|it| it.scope == *scope) || groups.iter().any(|it| it.scopes.contains(scope))
        });
        loop {
            let live = || self.events.iter().filter(|event| event.live());
            if let Some(gone) = live().find(|event| event.who.iter().all(|id| self.machine(*id).is_none())) {
                self.end(gone.order, Outcome::ResourceGone);
            } else if let Some(moved) = live().find(|event| self.moved_away(event)) {
                self.end(moved.order, Outcome::Canceled { by: "move to another host".into() });
            } else if let Some(down) = live().find(|event| self.approved_by_stillness(event)).map(|it| it.order) {
                self.event(down).approved = true;
            } else if let Some(first) = live().filter(|it| self.can_start(it)).min_by_key(|it| self.turn(it)) {
                let mut events: Vec<Work> = self.together(first).into_iter().cloned().collect();
                events.sort_by_key(|event| self.turn(event));
                for event in events {
                    self.start(&event);
                }
            } else {
                return;
            }
        }
    }

    fn turn(&self, event: &Work) -> usize {
        let same = |one: &(OperationId, Vec<MachineId>)| one.0 == event.of[0] && one.1 == event.who;
        self.first.iter().position(same).unwrap_or(usize::MAX)
    }

    /// Whether this is a host event and none of its machines is still on the host.
    fn moved_away(&self, event: &Work) -> bool {
        let there = |id: &MachineId| self.machine(*id).is_some_and(|machine| machine.host == event.host);
        event.waits() && event.host.is_some() && !event.who.iter().any(there)
    }

    fn approved_by_stillness(&self, event: &Work) -> bool {
        let mut members = self.machines.iter().filter(|machine| machine.scope == event.scope);
        event.waits()
            && event.shown
            && !event.approved
            && members.all(|it| it.power != Power::Running && self.policy(it).approve_all_instances_down)
    }

    /// The events that start together with this one.
    fn together(&self, event: &Work) -> Vec<&Work> {
        let same = |other: &&Work| match event.host {
            Some(_) => other.waits() && other.of == event.of,
            None => other.order == event.order,
        };
        self.events.iter().filter(same).collect()
    }

    fn can_start(&self, event: &Work) -> bool {
        if !event.waits() || (event.host.is_none() && event.shown && !event.decided()) {
            return false;
        }
        let all = self.together(event);
        all.iter().all(|one| one.decided() || !one.shown)
            && (event.plan.is_none() || all.iter().any(|one| one.decided()))
            && all.iter().all(|one| one.advises() || self.blockers(one).all(|other| one.takes_from(other)))
            && !self.gated(event)
    }

    fn blockers<'a>(&'a self, event: &'a Work) -> impl Iterator<Item = &'a Work> {
        let shares = |other: &&Work| other.who.iter().any(|id| event.who.contains(id) && self.machine(*id).is_some());
        self.events.iter().filter(|other| other.started() && other.order != event.order).filter(shares)
    }

    fn gated(&self, event: &Work) -> bool {
        let holds =
            |other: &Work| other.kind == EventKind::Terminate && other.waits() && other.shown && !other.decided();
        event.kind == EventKind::Terminate
            && event.shown
            && !event.due
            && self.events.iter().any(|other| other.scope == event.scope && holds(other))
    }

    fn start(&mut self, event: &Work) {
        if event.advises() {
            return self.end(event.order, Outcome::Completed);
        }
        if event.kind != EventKind::Terminate && !event.who.iter().any(|id| self.up(*id)) {
            return self.end(event.order, Outcome::NoEffect);
        }
        for taken in self.blockers(event).map(|other| other.order).collect::<Vec<_>>() {
            self.end(taken, Outcome::Superseded);
        }
        let at = self.now;
        self.event(event.order).status = Status::Started { at };
        if event.kind == EventKind::Redeploy {
            for machine in &event.who {
                if let Some(to) = self.another_host(*machine) {
                    self.event(event.order).moves.push((*machine, to));
                }
            }
        }
    }

    /// Where a redeployed machine goes: a host without machines of its group in other fault domains, if there is
    /// one, and then the one with the fewest machines, including those that are on their way.
    fn another_host(&self, id: MachineId) -> Option<Name> {
        let machine = self.machine(id)?;
        let home = machine.host.as_ref()?;
        let coming = |host: &Name| -> Vec<&Arc<Machine>> {
            let moves = self.events.iter().filter(|event| event.live()).flat_map(|event| &event.moves);
            moves.filter(|(_, to)| to == host).filter_map(|(id, _)| self.machine(*id)).collect()
        };
        let rank = |host: &Name| {
            let there = self.machines.iter().filter(|other| other.host.as_ref() == Some(host));
            let there: Vec<_> = there.chain(coming(host)).collect();
            let group = machine.membership.group();
            let mixed = there.iter().any(|other| {
                group.is_some() && other.membership.group() == group && other.fault_domain != machine.fault_domain
            });
            (mixed, there.len(), host.clone())
        };
        self.hosts.iter().filter(|host| *host != home).min_by_key(|host| rank(host)).cloned()
    }

    pub fn event(&mut self, order: u64) -> &mut Work {
        self.events.iter_mut().find(|event| event.order == order).expect("an event of the model")
    }

    fn operation(&mut self, id: OperationId) -> &mut ModelOperation {
        self.operations.iter_mut().find(|asked| asked.id == id).expect("an operation of the model")
    }

    // --- end -------------------------------------------------------------------------------------

    pub fn end(&mut self, order: u64, outcome: Outcome) {
        let at = self.now;
        let event = self.event(order);
        event.status = Status::Ended { at, outcome: outcome.clone() };
        for operation in event.of.clone() {
            self.end_part(operation, order, &outcome);
        }
    }

    fn end_part(&mut self, operation: OperationId, order: u64, outcome: &Outcome) {
        let (now, pause) = (self.now, scaled(&self.set, self.set.update_domain_pause));
        let asked = self.operation(operation);
        for part in asked.parts.iter_mut().filter(|part| part.0 == order) {
            part.1 = Some(outcome.clone());
        }
        if asked.parts.iter().any(|part| part.1.is_none()) {
            return;
        }
        if let Some((domain, None)) = asked.rollout {
            asked.rollout = Some((domain, Some(now + pause)));
        }
        self.finish(operation);
    }

    /// Ends the operation if all its events have ended.
    fn finish(&mut self, id: OperationId) {
        let at = self.now;
        if let Some((domain, _)) = self.operation(id).rollout
            && let Request::Maintain { target, .. } = self.operation(id).request.clone()
            && !self.targets(&target).iter().any(|it| it.update_domain >= domain)
        {
            self.operation(id).rollout = None;
        }
        let asked = self.operation(id);
        if asked.rollout.is_some() || asked.parts.iter().any(|part| part.1.is_none()) {
            return;
        }
        use Outcome::*;
        let failing = |outcome: &&Outcome| matches!(outcome, Failed(_) | TimedOut | Superseded | ResourceGone);
        let outcomes = || asked.parts.iter().filter_map(|part| part.1.as_ref());
        let failed = outcomes().find(failing);
        let moved = outcomes().find_map(|outcome| if let Canceled { by } = outcome { Some(by.clone()) } else { None });
        let result = match (&asked.canceled, failed) {
            (Some(by), _) => OperationResult::Canceled { by: by.clone() },
            (None, Some(outcome)) => OperationResult::Failed(outcome.clone()),
            (None, None) => moved.map_or(OperationResult::Succeeded, |by| OperationResult::Canceled { by }),
        };
        asked.state = OperationState::Ended { at, result };
        if let Request::Delete { group: Some(group), .. } = asked.request {
            let inhabited = self.members(group).next().is_some();
            self.groups.retain(|it| it.id != group || inhabited);
            for it in self.groups.iter_mut().filter(|it| it.id == group) {
                Arc::make_mut(it).leaving = false;
            }
        }
    }

    // --- requests ----------------------------------------------------------------------------------

    fn add(
        &mut self,
        id: OperationId,
        scope: ScopeId,
        kind: EventKind,
        cause: Cause,
        who: Vec<MachineId>,
    ) -> &mut Work {
        self.made += 1;
        let order = self.made;
        let (shown, now) = (self.is_on(scope), self.now);
        let notice = notice(&self.set, kind);
        let not_before = if shown { whole(now + notice) } else { now };
        let seen_enough = if shown { now + notice } else { now };
        self.operation(id).parts.push((order, None));
        self.events.push(Work {
            id: None,
            order,
            of: vec![id],
            scope,
            kind,
            cause,
            who,
            shown,
            status: Status::Scheduled,
            not_before,
            seen_enough,
            due: !shown,
            approved: false,
            plan: None,
            host: None,
            moves: vec![],
            moved_at: Timestamp(0),
        });
        self.events.last_mut().expect("just pushed")
    }

    pub fn ask(&mut self, id: OperationId, request: &Request) {
        let state = OperationState::Running;
        let asked =
            ModelOperation { id, request: request.clone(), canceled: None, parts: vec![], rollout: None, state };
        self.operations.push(asked);
        match request {
            Request::Restart { machines } => self.users(id, machines, EventKind::Reboot, Cause::UserRestart),
            Request::Redeploy { machines } => self.users(id, machines, EventKind::Redeploy, Cause::UserRedeploy),
            Request::PerformMaintenance { machines } => {
                self.users(id, machines, EventKind::Redeploy, Cause::SelfServiceMaintenance)
            }
            Request::Evict { machine } => self.leave(id, *machine, EventKind::Preempt, Cause::Eviction),
            Request::RecommendRebalance { machine } => {
                let kind = EventKind::SpotRebalanceRecommendation;
                self.leave(id, *machine, kind, Cause::RebalanceRecommendation);
            }
            Request::Delete { machines, group } => {
                let mut all = machines.clone();
                if let Some(group) = group {
                    all = self.members(*group).map(|machine| machine.id).collect();
                    let of = self.groups.iter_mut().find(|other| other.id == *group).expect("known");
                    Arc::make_mut(of).leaving = true;
                }
                for machine in all {
                    self.leave(id, machine, EventKind::Terminate, Cause::Deletion);
                }
                self.finish(id);
            }
            Request::Maintain { target: Target::Group(_), .. } => self.next_domain(id, 0),
            Request::Maintain { target: Target::Machines(all), .. } if all.len() > 1 => self.next_domain(id, 0),
            Request::Maintain { target, plan } => self.maintain(id, self.targets(target), plan, target),
            Request::Drain(_) => unreachable!("the plans simulation covers drains"),
            Request::Fail { target, kind } => {
                let (targets, now) = (self.targets(target), self.now);
                self.batches(targets.into_iter().filter(|it| !self.leaving(it.id)).collect(), |model, scope, who| {
                    let event = model.add(id, scope, *kind, Cause::HardwareFailure, who);
                    (event.due, event.not_before, event.seen_enough) = (true, now, now);
                });
            }
        }
        self.settle();
    }

    /// The groups that maintenance one update domain at a time owns until it ends. A standalone machine is a group of one.
    pub fn owned(&self, request: &Request) -> Vec<Result<GroupId, MachineId>> {
        match request {
            Request::Maintain { target: Target::Group(group), .. } => vec![Ok(*group)],
            Request::Maintain { target: target @ Target::Machines(all), .. } if all.len() > 1 => {
                self.targets(target).iter().map(|it| it.membership.group().ok_or(it.id)).collect()
            }
            _ => vec![],
        }
    }

    fn targets(&self, target: &Target) -> Vec<Arc<Machine>> {
        let hit = |machine: &&Arc<Machine>| match target {
            Target::Machines(ids) => ids.contains(&machine.id),
            Target::Host(host) => machine.host.as_ref() == Some(host),
            Target::Group(group) => machine.membership.group() == Some(*group),
        };
        self.machines.iter().filter(hit).cloned().collect()
    }

    /// Creates one event per scope and update domain.
    fn batches(&mut self, machines: Vec<Arc<Machine>>, mut each: impl FnMut(&mut Model, ScopeId, Vec<MachineId>)) {
        let mut keys: Vec<(ScopeId, u32)> = machines.iter().map(|it| (it.scope, it.update_domain)).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let of = machines.iter().filter(|it| (it.scope, it.update_domain) == key);
            each(self, key.0, of.map(|it| it.id).collect());
        }
    }

    fn users(&mut self, id: OperationId, machines: &[MachineId], kind: EventKind, cause: Cause) {
        for machine in machines {
            self.user(id, *machine, kind, cause);
        }
    }

    fn user(&mut self, id: OperationId, machine: MachineId, kind: EventKind, cause: Cause) {
        if self.join(id, machine, |event| event.cause == cause && event.waits()) {
            return;
        }
        let it = self.machine(machine).expect("known").clone();
        let policy = self.policy(&it);
        let event = self.add(id, it.scope, kind, cause, vec![machine]);
        event.approved = match cause {
            Cause::UserRestart => policy.approve_user_reboot,
            Cause::UserRedeploy => policy.approve_user_redeploy,
            _ => false,
        };
    }

    fn leave(&mut self, id: OperationId, machine: MachineId, kind: EventKind, cause: Cause) {
        if self.join(id, machine, |event| event.kind == kind) {
            return;
        }
        let it = self.machine(machine).expect("known").clone();
        let (now, terminate) = (self.now, it.terminate.clone().filter(|_| kind == EventKind::Terminate));
        let notice = terminate.as_ref().map(|profile| scaled(&self.set, profile.timeout));
        let event = self.add(id, it.scope, kind, cause, vec![machine]);
        match notice {
            Some(notice) if event.shown => {
                (event.not_before, event.seen_enough) = (whole(now + notice), now + notice);
            }
            None if kind == EventKind::Terminate => {
                (event.shown, event.due, event.not_before, event.seen_enough) = (false, true, now, now);
            }
            _ => {}
        }
    }

    fn join(&mut self, id: OperationId, machine: MachineId, fits: impl Fn(&Work) -> bool) -> bool {
        let Some(order) = self.live_of(machine).find(|event| fits(event)).map(|event| event.order) else {
            return false;
        };
        self.event(order).of.push(id);
        self.operation(id).parts.push((order, None));
        true
    }

    fn maintain(&mut self, id: OperationId, machines: Vec<Arc<Machine>>, plan: &Plan, target: &Target) {
        let notice = plan.notice.map_or(Duration::ZERO, |it| scaled(&self.set, it)).max(notice(&self.set, plan.kind));
        let noticed = whole(self.now + notice);
        let planned = plan.at.map(whole);
        let host = if let Target::Host(host) = target { Some(host.clone()) } else { None };
        let any_on = host.is_some() && machines.iter().any(|it| self.is_on(it.scope));
        let now = self.now;
        self.batches(machines, |model, scope, who| {
            let event = model.add(id, scope, plan.kind, plan.cause, who);
            let needs_notice = event.shown || any_on;
            event.not_before =
                if needs_notice { noticed.max(planned.unwrap_or(noticed)) } else { planned.unwrap_or(now) };
            event.due = event.not_before.max(event.seen_enough) <= now;
            (event.plan, event.host) = (planned, host.clone());
        });
    }

    fn next_domain(&mut self, id: OperationId, first: u32) {
        let Request::Maintain { target, plan } = self.operation(id).request.clone() else { return };
        let machines = self.targets(&target);
        match machines.iter().map(|it| it.update_domain).filter(|domain| *domain >= first).min() {
            Some(domain) => {
                self.operation(id).rollout = Some((domain + 1, None));
                let turn = machines.into_iter().filter(|it| it.update_domain == domain).collect();
                self.maintain(id, turn, &plan, &target);
            }
            None => {
                self.operation(id).rollout = None;
                self.finish(id);
            }
        }
    }

    // --- other commands --------------------------------------------------------------------------

    pub fn cancel(&mut self, id: OperationId, by: &Name) {
        self.operation(id).canceled = Some(by.clone());
        self.operation(id).rollout = None;
        let outcome = Outcome::Canceled { by: by.clone() };
        for event in self.events.clone().iter().filter(|event| event.waits() && event.of.contains(&id)) {
            if event.of.len() == 1 {
                self.end(event.order, outcome.clone());
            } else {
                self.event(event.order).of.retain(|other| *other != id);
                self.end_part(id, event.order, &outcome);
            }
        }
        self.finish(id);
        self.settle();
    }

    pub fn seen(&mut self, machine: MachineId) {
        let key = self.switch(self.machine(machine).expect("known").scope);
        let seen = Timestamp(self.now.0 - self.down_ms);
        if let Some((_, before)) = self.on.iter_mut().find(|(other, _)| *other == key) {
            if seen.since(*before) >= SEEN_INTERVAL {
                *before = seen;
            }
            return;
        }
        self.on.push((key, seen));
        let hidden = |event: &&Work| {
            let waits = !event.due || event.host.is_some();
            event.waits() && !event.shown && waits && self.switch(event.scope) == key
        };
        for mut event in self.events.iter().filter(hidden).cloned().collect::<Vec<_>>() {
            self.events.retain(|other| other.order != event.order);
            event.seen_enough = self.now + notice(&self.set, event.kind);
            event.shown = true;
            event.due = false;
            event.not_before = event.not_before.max(whole(event.seen_enough));
            self.events.push(event);
        }
        self.settle();
    }

    pub fn report(&mut self, id: EventId, report: &Report) {
        let event = self.events.iter().find(|event| event.id == Some(id)).expect("known").clone();
        match report {
            Report::Failed(why) => self.end(event.order, Outcome::Failed(why.clone())),
            Report::Done => {
                for machine in &event.who {
                    self.done(*machine, &event);
                }
                self.end(event.order, Outcome::Completed);
            }
        }
        self.settle();
    }

    fn done(&mut self, id: MachineId, event: &Work) {
        let Some(at) = self.machines.iter().position(|machine| machine.id == id) else { return };
        match (event.kind, self.machines[at].eviction) {
            (EventKind::Freeze | EventKind::Reboot | EventKind::SpotRebalanceRecommendation, _) => {}
            (EventKind::Redeploy, _) => {
                if let Some((_, to)) = event.moves.iter().find(|(machine, _)| *machine == id) {
                    Arc::make_mut(&mut self.machines[at]).host = Some(to.clone());
                }
            }
            (EventKind::Preempt, EvictionPolicy::Deallocate) => {
                let machine = Arc::make_mut(&mut self.machines[at]);
                (machine.power, machine.host) = (Power::Deallocated, None);
            }
            (EventKind::Preempt, EvictionPolicy::Delete) | (EventKind::Terminate, _) => drop(self.machines.remove(at)),
        }
    }
}

/// Whether a request is carried out by a rollout over update domains.
pub fn is_by_domain(request: &Request) -> bool {
    match request {
        Request::Maintain { target: Target::Group(_), .. } => true,
        Request::Maintain { target: Target::Machines(machines), .. } => machines.len() > 1,
        _ => false,
    }
}
