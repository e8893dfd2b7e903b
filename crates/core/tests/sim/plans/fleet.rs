//! The fleet and the commands of a simulated run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::*;

use super::PlanRun;

impl PlanRun {
    pub(super) fn build_fleet(&mut self) -> Result<(), String> {
        let hosts = self.rng.below(4) + 3;
        for n in 0..hosts {
            let name: Name = format!("host{n}").into();
            self.apply(&Command::RegisterHost { name: name.clone() })?;
            let memory = self.rng.one(&[None, None, Some(8_000), Some(16_000)]);
            let pool = self.rng.one(&["default", "default", "default", "other"]);
            let change = HostChange { pool: Some(pool.into()), labels: None, memory_mib: Some(memory) };
            self.apply(&Command::ChangeHost { name: name.clone(), change })?;
            if self.rng.percent(40) {
                self.apply(&Command::ConfirmHost { name, revision: 0 })?;
            }
        }
        let kinds = [NewGroupKind::AvailabilitySet, NewGroupKind::CloudService, NewGroupKind::AvailabilitySet];
        for kind in kinds.into_iter().chain([scale_set()]) {
            let salt = self.rng.guid();
            let update_domains = Some(self.rng.one(&[2, 3, 5]));
            let group = NewGroup {
                name: format!("group{:x}", salt.0 as u32).into(),
                home: home(),
                kind,
                policy: EventsPolicy::default(),
                update_domains,
                fault_domains: Some(2),
                salt,
            };
            self.apply(&Command::CreateGroup(Box::new(group)))?;
        }
        for _ in 0..14 {
            let machine = self.new_machine();
            self.apply(&Command::RegisterMachine(Box::new(machine)))?;
        }
        for machine in self.machines() {
            if self.rng.percent(50) {
                self.apply(&Command::Seen { machine })?;
            }
        }
        Ok(())
    }

    fn new_machine(&mut self) -> NewMachine {
        let vm_id = self.rng.guid();
        let groups: Vec<Arc<Group>> = self.region.groups().cloned().collect();
        let place = match self.rng.pick(&groups) {
            Some(group) if self.rng.percent(70) => match group.kind {
                GroupKind::CloudService => NewMembership::CloudService { service: group.id, role: "role".into() },
                GroupKind::AvailabilitySet => NewMembership::AvailabilitySet(group.id),
                GroupKind::ScaleSet(_) => NewMembership::Standalone,
            },
            _ => NewMembership::Standalone,
        };
        let terminate = self.rng.percent(30);
        let profile = Arc::new(TerminateProfile { timeout: Duration::from_secs(300), text: "PT5M".into() });
        NewMachine {
            place,
            host: Some(self.host()),
            priority: if terminate || self.rng.percent(70) { Priority::Regular } else { Priority::Spot },
            terminate: terminate.then_some(profile),
            memory_mib: self.rng.one(&[0, 1_000, 2_000, 4_000]),
            live_migratable: self.rng.percent(75),
            ..NewMachine::plain(vm_id, &format!("vm{:x}", vm_id.0 as u32), home())
        }
    }

    fn machines(&self) -> Vec<MachineId> {
        self.region.machines().map(|machine| machine.id).collect()
    }

    pub(super) fn machine(&mut self) -> MachineId {
        let machines = self.machines();
        self.rng.pick(&machines).unwrap_or(MachineId(0))
    }

    pub(super) fn host(&mut self) -> Name {
        let hosts: Vec<Name> = self.region.hosts().map(|host| host.name.clone()).collect();
        self.rng.pick(&hosts).unwrap_or_else(|| "host0".into())
    }

    fn some_hosts(&mut self) -> Vec<Name> {
        let mut hosts: Vec<Name> = self.region.hosts().map(|host| host.name.clone()).collect();
        let first = self.rng.below(hosts.len() as u64) as usize;
        hosts.rotate_left(first);
        hosts.truncate(self.rng.below(3) as usize + 1);
        hosts
    }

    fn rollout(&mut self) -> RolloutId {
        let rollouts: Vec<RolloutId> = self.region.live_rollouts().map(|rollout| rollout.id).collect();
        self.rng.pick(&rollouts).unwrap_or(Guid(1))
    }

    pub(super) fn choose_command(&mut self) -> Command {
        match self.rng.below(100) {
            0..6 => self.request(|run| Request::Drain(run.drain_plan())),
            6..15 => self.start_rollout(),
            15..17 => Command::PauseRollout { rollout: self.rollout(), now: self.rng.percent(50) },
            17..19 => Command::ResumeRollout { rollout: self.rollout() },
            19..21 => self.request(PlanRun::maintenance),
            21..22 => Command::StopRollout { rollout: self.rollout(), by: "operator".into() },
            22..27 => Command::ActivateHost { name: self.host(), by: "operator".into() },
            27..28 => Command::FenceHost { name: self.host() },
            28..36 => self.confirm_host(),
            36..38 => Command::LoseHost { name: self.host() },
            38..39 => self.change_host(),
            39..50 => self.approve(),
            50..70 => self.report(),
            70..72 => self.retry_steps(),
            72..76 => Command::Seen { machine: self.machine() },
            76..79 => self.request(|run| Request::Restart { machines: vec![run.machine()] }),
            79..80 => self.request(|run| Request::Redeploy { machines: vec![run.machine()] }),
            80..81 => self.request(|run| Request::Evict { machine: run.machine() }),
            81..82 => self.request(|run| Request::Delete { machines: vec![run.machine()], group: None }),
            82..83 => self.request(|run| Request::Fail { target: Target::Host(run.host()), kind: EventKind::Reboot }),
            83..86 => self.set_power(),
            86..88 => self.move_machine(),
            88..90 => Command::RegisterMachine(Box::new(self.new_machine())),
            90..92 => self.cancel(),
            92..94 => Command::Resume,
            94..95 => self.repeat_request(),
            95..96 => self.repeat_rollout(),
            96..98 if self.region.settings().machine_orders => self.claim_machine(),
            98..99 => self.request(|run| Request::RecommendRebalance { machine: run.machine() }),
            _ => Command::Tick,
        }
    }

    fn request(&mut self, choose: impl FnOnce(&mut PlanRun) -> Request) -> Command {
        let operation = self.rng.guid();
        Command::Request { operation, by: "operator".into(), request: choose(self), event: None }
    }

    /// A request that was accepted before, sent again.
    fn repeat_request(&mut self) -> Command {
        let known: Vec<Arc<Operation>> = self.region.operations().cloned().collect();
        let Some(known) = self.rng.pick(&known) else { return Command::Tick };
        Command::Request { operation: known.id, by: "operator".into(), request: known.request.clone(), event: None }
    }

    fn repeat_rollout(&mut self) -> Command {
        let known: Vec<Arc<Rollout>> = self.region.rollouts().cloned().collect();
        let Some(known) = self.rng.pick(&known) else { return Command::Tick };
        Command::StartRollout(Box::new(NewRollout {
            id: known.id,
            by: "operator".into(),
            targets: known.targets.clone(),
            plan: known.plan.clone(),
        }))
    }

    /// Repeats failed steps, if there are any; often some that did not fail, or a request that was accepted before.
    fn retry_steps(&mut self) -> Command {
        let rollouts = self.region.live_rollouts();
        let has_failed = |rollout: &&Arc<Rollout>| rollout.steps.iter().any(|it| it.state == StepState::Failed);
        let candidates: Vec<Arc<Rollout>> = rollouts.filter(has_failed).cloned().collect();
        let Some(rollout) = self.rng.pick(&candidates) else { return Command::Tick };
        let failed = rollout.steps.iter().filter(|it| it.state == StepState::Failed).map(|it| it.target.clone());
        let failed: Vec<StepTarget> = failed.collect();
        let any: Vec<StepTarget> = rollout.steps.iter().map(|it| it.target.clone()).collect();
        let steps = match self.rng.below(10) {
            0..6 => self.rng.pick(&failed).into_iter().collect(),
            6..8 => Vec::new(),
            _ => self.rng.pick(&any).into_iter().collect(),
        };
        let known: Vec<OperationId> = rollout.steps.iter().flat_map(|it| [it.operation, it.retry]).flatten().collect();
        let known = self.rng.pick(&known).filter(|_| self.rng.percent(40));
        let operation = known.unwrap_or_else(|| self.rng.guid());
        Command::RetrySteps { rollout: rollout.id, operation, steps }
    }

    /// Maintenance of a group or of several machines, one update domain at a time.
    fn maintenance(&mut self) -> Request {
        let groups: Vec<GroupId> = self.region.groups().map(|group| group.id).collect();
        let target = match self.rng.pick(&groups) {
            Some(group) if self.rng.percent(60) => Target::Group(group),
            _ => Target::Machines(self.some_machines()),
        };
        let plan = Plan {
            kind: self.rng.one(&[EventKind::Freeze, EventKind::Reboot, EventKind::Redeploy]),
            cause: self.rng.one(&[Cause::HostMaintenance, Cause::LiveMigration]),
            at: self.start_time(),
            notice: None,
            duration_secs: None,
            description: None,
        };
        Request::Maintain { target, plan }
    }

    fn drain_plan(&mut self) -> DrainPlan {
        DrainPlan {
            host: self.host(),
            to: self.rng.one(&[None, None, None, Some("other".into())]),
            parallel: self.rng.one(&[1, 2, 10]),
            unavailable_max: self.rng.one(&[None, None, Some(1), Some(2)]),
            notice: None,
            in_place: self.rng.percent(20),
            description: None,
        }
    }

    fn start_rollout(&mut self) -> Command {
        let groups: Vec<GroupId> = self.region.groups().map(|group| group.id).collect();
        let (targets, action) = match (self.rng.below(5), self.rng.pick(&groups)) {
            (0, Some(group)) => (RolloutTargets::Groups(vec![group]), self.action()),
            (1, _) => {
                let action = RolloutAction::Drain { to: None, machines_parallel: 2, in_place: self.rng.percent(30) };
                (RolloutTargets::Hosts(self.some_hosts()), action)
            }
            (2, _) => (RolloutTargets::Machines(self.some_machines()), self.action()),
            _ => (RolloutTargets::Hosts(self.some_hosts()), self.action()),
        };
        Command::StartRollout(Box::new(NewRollout {
            id: self.rng.guid(),
            by: "operator".into(),
            targets,
            plan: RolloutPlan {
                action,
                at: self.start_time(),
                parallel: self.rng.one(&[1, 1, 2, 3]),
                pause: Duration::from_secs(self.rng.one(&[0, 0, 600])),
                windows: self.windows(),
                unavailable_max: self.rng.one(&[None, Some(1), Some(2), Some(4)]),
                failures_max: self.rng.one(&[0, 2, 100]),
                notice: None,
                duration_secs: None,
                description: None,
            },
        }))
    }

    fn some_machines(&mut self) -> Vec<MachineId> {
        let machines: BTreeSet<MachineId> = (0..4).map(|_| self.machine()).collect();
        machines.into_iter().collect()
    }

    fn action(&mut self) -> RolloutAction {
        self.rng.one(&[RolloutAction::Freeze, RolloutAction::Reboot, RolloutAction::Redeploy])
    }

    fn start_time(&mut self) -> Option<Timestamp> {
        let ahead = Duration::from_secs(self.rng.one(&[60, 3_600, 40_000]));
        self.rng.percent(30).then(|| self.clock + ahead)
    }

    fn windows(&mut self) -> Vec<Window> {
        if self.rng.percent(60) {
            return Vec::new();
        }
        let start_minute = self.rng.below(24 * 60) as u32;
        let end_minute = (start_minute + self.rng.one(&[20, 60, 300])) % (24 * 60);
        vec![Window { days: Weekdays::ALL, start_minute, end_minute, zone: Zone::utc() }]
    }

    fn confirm_host(&mut self) -> Command {
        let with_agent = self.region.hosts().filter(|host| host.contact != Contact::None);
        let hosts: Vec<Name> = with_agent.map(|host| host.name.clone()).collect();
        let Some(name) = self.rng.pick(&hosts) else { return Command::Tick };
        let newest = self.region.meta().revision;
        let revision = if self.rng.percent(80) { newest } else { newest.saturating_sub(self.rng.below(10)) };
        Command::ConfirmHost { name, revision }
    }

    fn change_host(&mut self) -> Command {
        let memory = self.rng.one(&[None, Some(4_000), Some(20_000)]);
        Command::ChangeHost { name: self.host(), change: HostChange { memory_mib: Some(memory), ..Default::default() } }
    }

    fn approve(&mut self) -> Command {
        let scheduled = self.region.events().filter(|event| event.is_shown() && event.status == Status::Scheduled);
        let events: Vec<EventId> = scheduled.map(|event| event.id).collect();
        let Some(event) = self.rng.pick(&events) else { return Command::Tick };
        Command::Approve { by: Approver::Management("m".into()), within: ApprovalScope::Region, events: vec![event] }
    }

    fn report(&mut self) -> Command {
        if self.region.settings().machine_orders {
            return Command::Tick;
        }
        let wanted: Vec<EventId> = self.region.wanted_effects().map(|event| event.id).collect();
        let Some(event) = self.rng.pick(&wanted) else { return Command::Tick };
        let report = if self.rng.percent(88) { Report::Done } else { Report::Failed("it broke".into()) };
        Command::Report { event, report }
    }

    fn set_power(&mut self) -> Command {
        let machine = self.machine();
        if self.rng.percent(20) {
            let power = self.rng.one(&[Power::Running, Power::Stopped]);
            return Command::SetPower { machine, power };
        }
        let power = self.rng.one(&[Power::Running, Power::Running, Power::Stopped, Power::Deallocated]);
        // Machines that are being stopped are often started again, and the other way round.
        let busy: Vec<MachineId> = self.region.machines_in_transfer().map(|machine| machine.id).collect();
        let machine = self.rng.pick(&busy).filter(|_| self.rng.percent(40)).unwrap_or(machine);
        Command::ChangePower { machine, power, order: self.rng.guid() }
    }

    fn move_machine(&mut self) -> Command {
        let host = Some(Some(self.host()));
        let change = Box::new(MachineChange { host, ..MachineChange::default() });
        Command::ChangeMachine { machine: self.machine(), change }
    }

    fn cancel(&mut self) -> Command {
        let running = self.region.operations().filter(|operation| operation.state == OperationState::Running);
        let running: Vec<OperationId> = running.map(|operation| operation.id).collect();
        match self.rng.pick(&running) {
            Some(operation) => Command::Cancel { operation, by: "operator".into() },
            None => Command::Tick,
        }
    }
}

/// A set whose placement groups are so small that its update domains have machines in several event groups.
fn scale_set() -> NewGroupKind {
    NewGroupKind::ScaleSet {
        orchestration: Orchestration::Uniform,
        upgrade_mode: UpgradeMode::Manual,
        capacity: 6,
        placement_group_max: Some(2),
        zones: vec![],
        model: SetModel {
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            terminate: None,
            details: Arc::default(),
        },
    }
}

fn home() -> ResourceGroupRef {
    ResourceGroupRef { subscription: "sub".into(), resource_group: "rg".into() }
}
