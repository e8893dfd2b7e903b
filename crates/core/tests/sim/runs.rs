//! A simulated run from a seed: a fleet, a few hundred commands, and then no more requests until everything has
//! ended.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::settings::*;
use forewarn_core::*;

use crate::invariants::next_event_deadline;
use crate::refusals::{is_flexible, scale_set};
use crate::rng::Rng;
use crate::world::{Fate, World};

/// Number of commands. Enough for several rollouts and idle days.
const COMMANDS: u64 = 180;
/// Maximum number of steps until everything has ended after the last request.
const QUIET_STEPS_MAX: u64 = 3_000;

pub fn simulate(seed: u64, print: bool) -> Result<(), String> {
    Run::new(seed, print).run().map(|_| ())
}

/// A hash of the run: equal for equal runs, different for different ones.
pub fn trace(seed: u64) -> u64 {
    let mut run = Run::new(seed, false);
    run.world.trace_hash = Some(0xcbf2_9ce4_8422_2325);
    run.run().expect("the run succeeds").expect("a hash")
}

struct Run {
    rng: Rng,
    world: World,
    names_given: u64,
    /// IDs used so far, some of them ended long ago.
    operations: Vec<OperationId>,
    events: Vec<EventId>,
}

impl Run {
    fn new(seed: u64, print: bool) -> Run {
        let mut rng = Rng::new(seed);
        let settings = Settings {
            notice_scale: rng.one(&[1, 1, 1, 60]),
            idle_disable: Duration::from_secs(3600 * rng.one(&[24, 24, 2])),
            user_operations_max: rng.one(&[10, 2, 1, 0]),
            driver_timeout: Duration::from_secs(rng.one(&[3600, 600])),
            ..Settings::default()
        };
        let clock = Timestamp(1_700_000_000_000 + rng.below(5000) as i64);
        let world = World::new(settings, clock, print);
        Run { rng, world, names_given: 0, operations: vec![], events: vec![] }
    }

    fn run(mut self) -> Result<Option<u64>, String> {
        self.settle_in()?;
        let storm_at = if self.rng.percent(8) { self.rng.below(COMMANDS) } else { COMMANDS };
        for n in 0..COMMANDS {
            self.let_time_pass();
            let command = self.command();
            let fate = match self.rng.below(100) {
                0..4 => Fate::Failed,
                4..8 => Fate::AnswerLost,
                8..10 => Fate::Crash,
                _ => Fate::Stored,
            };
            self.step(&command, fate)?;
            if fate == Fate::Crash {
                let notice_scale = self.rng.one(&[1, self.world.settings.notice_scale]);
                self.world.restart(Settings { notice_scale, ..self.world.settings.clone() })?;
                self.let_time_pass();
                self.step(&Command::Resume, Fate::Stored)?;
            }
            if n == storm_at {
                self.storm()?;
            }
        }
        self.leave_alone()?;
        Ok(self.world.trace_hash)
    }

    fn step(&mut self, command: &Command, fate: Fate) -> Result<bool, String> {
        let done = self.world.step(command, fate)?;
        let known = &mut self.events;
        known.extend(self.world.region.events().map(|event| event.id));
        known.sort();
        known.dedup();
        Ok(done)
    }

    // --- fleet -----------------------------------------------------------------------------------

    fn settle_in(&mut self) -> Result<(), String> {
        for n in 0..self.rng.below(4) + 1 {
            self.must(&Command::RegisterHost { name: format!("host{n}").into() })?;
        }
        for kind in [NewGroupKind::AvailabilitySet, NewGroupKind::CloudService] {
            let group = self.new_group(kind);
            self.step(&Command::CreateGroup(Box::new(group)), Fate::Stored)?;
        }
        for orchestration in [Orchestration::Uniform, Orchestration::Flexible, Orchestration::Uniform] {
            let kind = self.new_set(orchestration);
            let group = self.new_group(kind);
            self.step(&Command::CreateGroup(Box::new(group)), Fate::Stored)?;
        }
        for _ in 0..10 {
            let machine = self.new_machine();
            self.step(&Command::RegisterMachine(Box::new(machine)), Fate::Stored)?;
        }
        let machines: Vec<MachineId> = self.world.region.machines().map(|machine| machine.id).collect();
        for machine in machines {
            let host = self.host();
            let change = MachineChange { host: Some(Some(host)), ..MachineChange::default() };
            if self.rng.percent(60) {
                self.must(&Command::ChangeMachine { machine, change: Box::new(change) })?;
            }
            if self.rng.percent(30) {
                self.must(&Command::Seen { machine })?;
            }
        }
        Ok(())
    }

    fn must(&mut self, command: &Command) -> Result<(), String> {
        match self.step(command, Fate::Stored)? {
            true => Ok(()),
            false => Err(format!("refused, but the fleet needs it: {command:?}")),
        }
    }

    fn name(&mut self, what: &str) -> Name {
        self.names_given += 1;
        format!("{what}{}", self.names_given).into()
    }

    fn home(&mut self) -> ResourceGroupRef {
        let subscription = self.rng.one(&["sub", "sub", "sub", "other"]);
        ResourceGroupRef {
            subscription: subscription.into(),
            resource_group: self.rng.one(&["rg", "rg", "RG2"]).into(),
        }
    }

    fn host(&mut self) -> Name {
        let hosts: Vec<Name> = self.world.region.hosts().map(|host| host.name.clone()).collect();
        self.rng.pick(&hosts).unwrap_or_else(|| "host0".into())
    }

    fn policy(&mut self) -> EventsPolicy {
        EventsPolicy {
            approve_user_reboot: self.rng.percent(20),
            approve_user_redeploy: self.rng.percent(20),
            approve_all_instances_down: self.rng.percent(70),
        }
    }

    fn new_group(&mut self, kind: NewGroupKind) -> NewGroup {
        let update_domains = self.rng.one(&[2, 3]);
        NewGroup {
            name: self.name("group"),
            home: self.home(),
            kind,
            policy: self.policy(),
            update_domains: Some(update_domains),
            fault_domains: Some(2),
            salt: self.rng.guid(),
        }
    }

    fn new_set(&mut self, orchestration: Orchestration) -> NewGroupKind {
        NewGroupKind::ScaleSet {
            orchestration,
            upgrade_mode: self.rng.one(&[UpgradeMode::Automatic, UpgradeMode::Manual, UpgradeMode::Rolling]),
            capacity: self.rng.below(5) as u32 + 2,
            placement_group_max: (orchestration == Orchestration::Uniform).then_some(3),
            zones: self.rng.one(&[vec![], vec!["1".into(), "2".into()]]),
            model: self.set_model(),
        }
    }

    fn set_model(&mut self) -> SetModel {
        let priority = self.rng.one(&[Priority::Regular, Priority::Regular, Priority::Spot]);
        SetModel { priority, eviction: self.eviction(), terminate: self.terminate(priority), details: Arc::default() }
    }

    fn eviction(&mut self) -> EvictionPolicy {
        self.rng.one(&[EvictionPolicy::Deallocate, EvictionPolicy::Delete])
    }

    /// Mostly valid: from 5 to 15 minutes, and not for Spot machines.
    fn terminate(&mut self, priority: Priority) -> Option<Arc<TerminateProfile>> {
        if priority == Priority::Spot && self.rng.percent(95) || self.rng.percent(25) {
            return None;
        }
        let secs = self.rng.one(&[300, 450, 600, 900]);
        Some(Arc::new(TerminateProfile { timeout: Duration::from_secs(secs), text: format!("PT{secs}S").into() }))
    }

    fn new_machine(&mut self) -> NewMachine {
        let groups = self.groups();
        let of = |kind: GroupKind| groups.iter().find(|group| group.kind == kind).map(|group| group.id);
        let (set, service) = (of(GroupKind::AvailabilitySet), of(GroupKind::CloudService));
        let flexible = groups.iter().find(|group| is_flexible(group)).map(|group| group.id);
        let place = match (self.rng.below(4), set, service, flexible) {
            (0, Some(set), _, _) => NewMembership::AvailabilitySet(set),
            (1, _, Some(service), _) => NewMembership::CloudService { service, role: "role".into() },
            (2, _, _, Some(flexible)) => NewMembership::FlexibleSet(flexible),
            _ => NewMembership::Standalone,
        };
        let alone = place == NewMembership::Standalone;
        let priority = if self.rng.percent(30) { Priority::Spot } else { Priority::Regular };
        NewMachine {
            vm_id: self.rng.guid(),
            name: self.name("vm"),
            home: self.home(),
            place,
            host: if self.rng.percent(50) { Some(self.host()) } else { None },
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority,
            eviction: self.eviction(),
            addresses: if self.rng.percent(50) { AddressRequest::FromPool } else { AddressRequest::None },
            terminate: if self.rng.percent(60) { self.terminate(priority) } else { None },
            policy: if alone && self.rng.percent(40) { Some(self.policy()) } else { None },
            memory_mib: 0,
            live_migratable: true,
            details: Arc::default(),
        }
    }

    // --- choices ---------------------------------------------------------------------------------

    fn groups(&self) -> Vec<Arc<Group>> {
        self.world.region.groups().cloned().collect()
    }

    fn group(&mut self) -> GroupId {
        let groups: Vec<GroupId> = self.world.region.groups().map(|group| group.id).collect();
        let known = self.rng.pick(&groups).unwrap_or(GroupId(0));
        if self.rng.percent(2) { GroupId(9999) } else { known }
    }

    fn machine(&mut self) -> MachineId {
        if self.rng.percent(2) {
            return MachineId(self.rng.below(9999));
        }
        let machines: Vec<MachineId> = self.world.region.machines().map(|machine| machine.id).collect();
        // A few machines are chosen more often, so that their events interact.
        let favorites = machines.len().min(6);
        let of = if self.rng.percent(50) { &machines[..favorites] } else { &machines[..] };
        self.rng.pick(of).unwrap_or(MachineId(0))
    }

    fn operation_known(&mut self) -> OperationId {
        let running = self.world.region.operations().filter(|it| it.state == OperationState::Running);
        let running: Vec<OperationId> = running.map(|operation| operation.id).collect();
        let from = if self.rng.percent(75) { running } else { self.operations.clone() };
        match self.rng.pick(&from) {
            Some(id) if self.rng.percent(97) => id,
            _ => self.rng.guid(),
        }
    }

    fn event_of(&mut self, fits: impl Fn(&Event) -> bool) -> EventId {
        let fitting: Vec<EventId> = self.world.region.events().filter(|it| fits(it)).map(|it| it.id).collect();
        let from = if self.rng.percent(90) { fitting } else { self.events.clone() };
        match self.rng.pick(&from) {
            Some(id) if self.rng.percent(98) => id,
            _ => self.rng.guid(),
        }
    }

    // --- commands ----------------------------------------------------------------------------------

    fn command(&mut self) -> Command {
        match self.rng.below(100) {
            0..3 => Command::RegisterMachine(Box::new(self.machine_maybe_wrong())),
            3..7 => self.change_machine(),
            7..8 => Command::CreateGroup(Box::new(self.group_maybe_wrong())),
            8..14 => self.change_group(),
            14..15 => Command::UpgradeInstances { group: self.group(), machines: self.some_machines(2) },
            15..16 => Command::RegisterHost { name: self.rng.one(&["host0", "host1", "host9", ""]).into() },
            16..17 => Command::RemoveHost { name: self.rng.one(&["host0", "host9", "nowhere"]).into() },
            17..24 => self.set_power(),
            24..52 => self.request(),
            52..53 => {
                let event = self.event_of(|event| event.status == Status::Scheduled);
                Command::CancelEvent { event, by: "operator".into() }
            }
            53..57 => Command::Cancel { operation: self.operation_known(), by: "operator".into() },
            57..72 => self.approve(),
            72..81 => Command::Seen { machine: self.machine() },
            81..95 => self.report(),
            95..96 => Command::Resume,
            _ => Command::Tick,
        }
    }

    fn machine_maybe_wrong(&mut self) -> NewMachine {
        let mut new = self.new_machine();
        let others: Vec<Arc<Machine>> = self.world.region.machines().cloned().collect();
        let Some(other) = self.rng.pick(&others) else { return new };
        match self.rng.below(16) {
            0 => (new.name, new.home) = (other.name.to_uppercase(), (*other.home).clone()),
            1 => new.vm_id = other.vm_id,
            2 => new.place = NewMembership::AvailabilitySet(self.group()),
            3 => new.place = NewMembership::CloudService { service: self.group(), role: "role".into() },
            4 => new.policy = Some(self.policy()),
            5 => new.terminate = Some(profile(self.rng.one(&[299, 300, 900, 901]))),
            6 => new.addresses = AddressRequest::Given(other.addresses.to_vec()),
            7 => new.addresses = AddressRequest::Given(vec![self.address()]),
            8 => new.name = self.rng.one(&["".into(), "x".repeat(NAME_BYTES_MAX + 1)]).into(),
            9 => new.place = NewMembership::FlexibleSet(self.group()),
            10 if new.place != NewMembership::Standalone => new.update_domain = Some(self.rng.below(4) as u32),
            _ => {}
        }
        new
    }

    fn address(&mut self) -> Address {
        let ip = IpAddr::V4(Ipv4Addr::new(10, 1, 0, self.rng.below(6) as u8));
        Address { network: "default".into(), ip }
    }

    fn group_maybe_wrong(&mut self) -> NewGroup {
        let orchestration = self.rng.one(&[Orchestration::Uniform, Orchestration::Flexible]);
        let kind = self.new_set(orchestration);
        let mut new = self.new_group(kind);
        let groups = self.groups();
        match (self.rng.below(5), self.rng.pick(&groups)) {
            (0, Some(other)) => (new.name, new.home) = (other.name.to_uppercase(), (*other.home).clone()),
            (1, _) => new.update_domains = Some(self.rng.one(&[0, 1, DOMAINS_MAX, DOMAINS_MAX + 1])),
            (2, _) => new.name = "".into(),
            _ => {}
        }
        new
    }

    fn change_machine(&mut self) -> Command {
        let machine = self.machine();
        let mut change = MachineChange::default();
        match self.rng.below(8) {
            0 | 1 => change.host = Some(Some(self.host())),
            2 => change.host = Some(None),
            3 => change.update_domain = Some(self.rng.below(3) as u32),
            4 => change.protected = Some(self.rng.percent(50)),
            5 => change.policy = Some(Some(self.policy())),
            6 => change.addresses = Some(vec![self.address()]),
            _ => change.terminate = Some(self.terminate(Priority::Regular)),
        }
        let region = &self.world.region;
        // Update domains of standalone machines and profiles of instances are not part of this test.
        match region.machine(machine).map(|it| it.membership.clone()) {
            Some(Membership::Standalone) => change.update_domain = None,
            Some(Membership::Instance { .. }) => change.terminate = None,
            Some(Membership::AvailabilitySet(_) | Membership::RoleInstance { .. }) | None => {}
        }
        Command::ChangeMachine { machine, change: Box::new(change) }
    }

    fn change_group(&mut self) -> Command {
        let group = self.group();
        let mut change = GroupChange::default();
        let salt = self.rng.guid();
        match self.rng.below(10) {
            0 | 1 => change.policy = Some(self.policy()),
            2 => change.upgrade_mode = Some(self.rng.one(&[UpgradeMode::Automatic, UpgradeMode::Rolling])),
            3 => {
                let set = self.world.region.group(group).and_then(|group| scale_set(group).cloned());
                if let Some(set) = set {
                    let terminate = self.terminate(set.model.priority);
                    change.model = Some(SetModel { terminate, ..set.model });
                }
            }
            _ => {
                let operation = if self.rng.percent(3) { self.operation_known() } else { self.new_operation() };
                change.capacity = Some(Scale { capacity: self.rng.below(8) as u32, by: "scaler".into(), operation });
            }
        }
        Command::ChangeGroup { group, change: Box::new(change), salt }
    }

    fn set_power(&mut self) -> Command {
        // Machines are often started again, or soon none would be running.
        let power = self.rng.one(&[Power::Running, Power::Running, Power::Stopped, Power::Deallocated]);
        let machine = self.machine();
        let down: Vec<MachineId> =
            self.world.region.machines().filter(|it| it.power != Power::Running).map(|it| it.id).collect();
        match (power, self.rng.pick(&down)) {
            (Power::Running, Some(machine)) => Command::ChangePower { machine, power, order: Guid(0) },
            _ if self.rng.percent(50) => Command::ChangePower { machine, power, order: Guid(0) },
            _ => Command::SetPower { machine, power },
        }
    }

    fn new_operation(&mut self) -> OperationId {
        let id = self.rng.guid();
        self.operations.push(id);
        id
    }

    fn some_machines(&mut self, most: u64) -> Vec<MachineId> {
        (0..self.rng.below(most + 1)).map(|_| self.machine()).collect()
    }

    fn one_or_more(&mut self) -> Vec<MachineId> {
        if self.rng.percent(70) { vec![self.machine()] } else { self.some_machines(4) }
    }

    fn request(&mut self) -> Command {
        if self.rng.percent(3) {
            return self.retry();
        }
        let operation = if self.rng.percent(2) { self.operation_known() } else { self.new_operation() };
        let event = match self.rng.below(20) {
            0 => self.rng.pick(&self.world.region.events().map(|event| event.id).collect::<Vec<_>>()),
            1..6 => None,
            _ => Some(self.rng.guid()),
        };
        Command::Request { operation, by: "operator".into(), request: self.what_to_ask(), event }
    }

    /// A request that was accepted before, sent again.
    fn retry(&mut self) -> Command {
        let known: Vec<Arc<Operation>> = self.world.region.operations().cloned().collect();
        match self.rng.pick(&known) {
            Some(operation) => Command::Request {
                operation: operation.id,
                by: "operator".into(),
                request: operation.request.clone(),
                event: Some(self.rng.guid()),
            },
            None => Command::Tick,
        }
    }

    fn what_to_ask(&mut self) -> Request {
        match self.rng.below(20) {
            0..5 => Request::Restart { machines: self.one_or_more() },
            5..8 => Request::Redeploy { machines: self.one_or_more() },
            8..9 => Request::PerformMaintenance { machines: self.one_or_more() },
            9..10 => Request::Evict { machine: self.spot() },
            10..11 => Request::RecommendRebalance { machine: self.spot() },
            11..13 => self.deletion(),
            13..18 => Request::Maintain { target: self.target(), plan: self.plan() },
            _ => {
                let kind =
                    self.rng.one(&[EventKind::Reboot, EventKind::Reboot, EventKind::Redeploy, EventKind::Freeze]);
                let target = match self.rng.below(10) {
                    0..5 => Target::Host(self.host()),
                    5..9 => Target::Machines(self.one_or_more()),
                    _ => Target::Group(self.group()),
                };
                Request::Fail { target, kind }
            }
        }
    }

    fn spot(&mut self) -> MachineId {
        let spot = self.world.region.machines().filter(|machine| machine.priority == Priority::Spot);
        let spot: Vec<MachineId> = spot.map(|machine| machine.id).collect();
        let any = self.machine();
        if self.rng.percent(90) { self.rng.pick(&spot).unwrap_or(any) } else { any }
    }

    fn deletion(&mut self) -> Request {
        if self.rng.percent(8) {
            let group = self.group();
            let members = self.world.region.machines().filter(|machine| machine.membership.group() == Some(group));
            let machines = members.map(|machine| machine.id).collect();
            return Request::Delete { machines, group: Some(group) };
        }
        Request::Delete { machines: self.some_machines(3), group: None }
    }

    fn target(&mut self) -> Target {
        match self.rng.below(10) {
            0..2 => Target::Machines(self.one_or_more()),
            2..7 => Target::Host(if self.rng.percent(97) { self.host() } else { "nowhere".into() }),
            _ => Target::Group(self.group()),
        }
    }

    fn plan(&mut self) -> Plan {
        use EventKind::*;
        let kind =
            self.rng.one(&[Freeze, Freeze, Freeze, Reboot, Reboot, Reboot, Redeploy, Redeploy, Redeploy, Preempt]);
        let now = self.world.clock;
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let at = match self.rng.below(20) {
            0..10 => None,
            10..14 => Some(now + minutes(self.rng.below(40)) + Duration::from_millis(self.rng.below(1000))),
            14..18 => Some(now + minutes(self.rng.below(600))),
            18 => Some(now - minutes(self.rng.below(5))),
            _ => Some(now + PLAN_AHEAD_MAX + minutes(self.rng.below(2))),
        };
        let cause = if kind == Freeze && self.rng.percent(40) { Cause::LiveMigration } else { Cause::HostMaintenance };
        Plan {
            kind,
            cause: if self.rng.percent(98) { cause } else { Cause::UserRestart },
            at,
            notice: if self.rng.percent(20) { Some(minutes(self.rng.one(&[9, 10, 15, 20, 60]))) } else { None },
            duration_secs: if self.rng.percent(10) { Some(self.rng.one(&[-2, -1, 0, 86_400, 86_401])) } else { None },
            description: if self.rng.percent(10) {
                Some("d".repeat(self.rng.one(&[9, 1024, 1025])).into())
            } else {
                None
            },
        }
    }

    fn approve(&mut self) -> Command {
        let waiting = |event: &Event| event.status == Status::Scheduled && event.is_shown();
        let mut events = vec![self.event_of(waiting)];
        if self.rng.percent(30) {
            events.push(self.event_of(|event| event.is_shown()));
        }
        if self.rng.percent(3) {
            events.push(self.event_of(|event| !event.is_shown()));
        }
        let scope = self.world.region.event(events[0]).map(|event| event.scope);
        let insider = scope.and_then(|scope| self.world.region.members(scope).next().map(|machine| machine.id));
        let machine = match insider {
            Some(machine) if self.rng.percent(90) => machine,
            _ => self.machine(),
        };
        match self.rng.below(10) {
            0..8 => {
                let by = Approver::Guest { machine, name: "guest".into() };
                Command::Approve { by, within: ApprovalScope::ScopeOf(machine), events }
            }
            8 => {
                let group = self.group();
                Command::Approve { by: Approver::Management("m".into()), within: ApprovalScope::Group(group), events }
            }
            _ => Command::Approve { by: Approver::Management("m".into()), within: ApprovalScope::Region, events },
        }
    }

    fn report(&mut self) -> Command {
        let event = self.event_of(|event| matches!(event.status, Status::Started { .. }));
        let report = if self.rng.percent(80) { Report::Done } else { Report::Failed("it broke".into()) };
        Command::Report { event, report }
    }

    /// More requests for one event than may join it.
    fn storm(&mut self) -> Result<(), String> {
        let machine = self.machine();
        self.step(&Command::Seen { machine }, Fate::Stored)?;
        for _ in 0..JOINED_MAX + 2 {
            let (operation, event) = (self.new_operation(), Some(self.rng.guid()));
            let request = Request::PerformMaintenance { machines: vec![machine] };
            let command = Command::Request { operation, by: "storm".into(), request, event };
            self.step(&command, Fate::Stored)?;
        }
        Ok(())
    }

    // --- time --------------------------------------------------------------------------------------

    fn let_time_pass(&mut self) {
        let clock = self.world.clock;
        let next = next_event_deadline(&self.world.region).unwrap_or(clock).max(clock);
        self.world.clock = match self.rng.below(1000) {
            0..300 => clock,
            300..550 => clock + Duration::from_millis(self.rng.below(90_000)),
            550..720 => next,
            720..770 => Timestamp(next.0 - 1).max(clock),
            770..850 => next + Duration::from_millis(self.rng.below(60_000)),
            850..960 => clock + Duration::from_secs(self.rng.below(1800)),
            960..985 => clock + Duration::from_secs(self.rng.below(4 * 3600)),
            985..990 => clock + Duration::from_secs(3600 * (20 + self.rng.below(10))),
            // A clock that goes back must not change anything.
            _ => Timestamp(clock.0 - self.rng.below(100_000) as i64),
        };
    }

    /// Drivers report or time out, time passes, and there are no requests: everything must end.
    fn leave_alone(&mut self) -> Result<(), String> {
        for _ in 0..QUIET_STEPS_MAX {
            let wanted: Vec<EventId> = self.world.region.wanted_effects().map(|event| event.id).collect();
            for event in wanted {
                let still =
                    self.world.region.event(event).is_some_and(|it| matches!(it.status, Status::Started { .. }));
                if still && self.rng.percent(80) {
                    self.step(&Command::Report { event, report: Report::Done }, Fate::Stored)?;
                }
            }
            if self.is_over() {
                return Ok(());
            }
            let next = next_event_deadline(&self.world.region).ok_or_else(|| self.stuck())?;
            self.world.clock = self.world.clock.max(next);
            self.must(&Command::Tick)?;
        }
        Err(self.stuck())
    }

    fn is_over(&self) -> bool {
        let region = &self.world.region;
        !region.events().any(|event| event.is_live())
            && !region.operations().any(|operation| operation.state == OperationState::Running)
    }

    fn stuck(&self) -> String {
        let live: Vec<_> = self.world.region.events().filter(|event| event.is_live()).collect();
        format!("end of run: something has not finished: {live:?}")
    }
}

fn profile(secs: u64) -> Arc<TerminateProfile> {
    Arc::new(TerminateProfile { timeout: Duration::from_secs(secs), text: "as given".into() })
}
