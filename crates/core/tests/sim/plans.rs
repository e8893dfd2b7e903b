//! Simulation of hosts, drains and rollouts. There is no model of them: each run is checked against the general
//! invariants and those of this module, through failures, lost contact, restarts of the server and reloads, and in
//! the end everything must finish.

mod checks;
mod contact;
mod fleet;
mod orders;
mod retry;

use std::collections::BTreeMap;
use std::time::Duration;

use forewarn_core::*;

use crate::invariants::{self, Memory, Step, next_event_deadline};
use crate::rng::Rng;
use checks::PlanMemory;
use orders::Hypervisors;

/// Number of commands. Enough for a few rollouts over a handful of hosts.
const COMMANDS: u64 = 220;
/// Number of commands before a host is replaced.
const HOST_REPLACED_AT: u64 = COMMANDS / 2;
/// Maximum number of steps until everything has ended after the last command.
const QUIET_STEPS_MAX: u64 = 4_000;
/// The region is loaded again after this many steps.
const RELOAD_EVERY: u64 = 8;

pub fn simulate(seed: u64, print: bool) -> Result<(), String> {
    let mut run = PlanRun::new(seed, print);
    run.build_fleet()?;
    for number in 0..COMMANDS {
        if number == HOST_REPLACED_AT {
            run.replace_host()?;
        }
        run.let_time_pass();
        let command = run.choose_command();
        run.step(&command)?;
        if run.region.settings().machine_orders {
            run.work_on_orders()?;
        }
    }
    run.leave_alone()
}

pub(crate) struct PlanRun {
    rng: Rng,
    region: Region,
    clock: Timestamp,
    store: BTreeMap<Key, Entity>,
    memory: Memory,
    plans: PlanMemory,
    hypervisors: Hypervisors,
    steps: u64,
    print: bool,
}

impl PlanRun {
    fn new(seed: u64, print: bool) -> PlanRun {
        let mut rng = Rng::new(seed ^ 0x5eed_0f91);
        let settings = Settings {
            notice_scale: rng.one(&[1, 1, 60]),
            idle_disable: Duration::from_secs(3600 * rng.one(&[24, 24, 2])),
            driver_timeout: Duration::from_secs(rng.one(&[3600, 600])),
            machine_orders: seed % 2 == 1,
            ..Settings::default()
        };
        PlanRun {
            region: Region::new(settings),
            clock: Timestamp(1_800_000_000_000 + rng.below(86_400_000) as i64),
            store: BTreeMap::new(),
            memory: Memory::default(),
            plans: PlanMemory::default(),
            hypervisors: Hypervisors::default(),
            steps: 0,
            print,
            rng,
        }
    }

    /// Applies a command, first everything that is due as a step of its own. Returns whether it was accepted.
    fn step(&mut self, command: &Command) -> Result<bool, String> {
        let due = self.region.next_deadline().is_some_and(|at| at <= self.clock);
        if due && !matches!(command, Command::Tick | Command::Resume) {
            self.apply(&Command::Tick)?;
        }
        self.apply(command)
    }

    fn apply(&mut self, command: &Command) -> Result<bool, String> {
        self.steps += 1;
        let result = self.region.apply(command, self.clock);
        if self.print {
            println!("{:4} {:?} {command:?} -> {:?}", self.steps, self.clock, result.as_ref().map(|it| &it.answer));
            for fact in result.iter().flat_map(|transition| &transition.facts) {
                println!("       {:?}", fact.what);
            }
        }
        let context = |what: String| format!("step {} at {:?}, {command:?}: {what}", self.steps, self.clock);
        let Ok(transition) = result else { return Ok(false) };
        let step = Step { before: &self.region, after: &transition.region, transition: &transition, command };
        invariants::check(&step, &self.memory).map_err(context)?;
        self.plans.check(&step).map_err(context)?;
        self.plans.remember(&step);
        for write in &transition.writes {
            match write {
                Write::Put(entity) => drop(self.store.insert(entity.key(), entity.clone())),
                Write::Delete(key) => drop(self.store.remove(key)),
            }
        }
        self.memory.remember(&transition.region);
        self.region = transition.region;
        self.hypervisors.follow(command, &self.region);
        self.hypervisors.check(&self.region)?;
        if self.steps.is_multiple_of(RELOAD_EVERY) {
            self.reload()?;
        }
        Ok(true)
    }

    fn reload(&mut self) -> Result<(), String> {
        let entities = self.store.values().rev().cloned();
        let loaded = Region::load(self.region.settings().clone(), entities).map_err(|why| why.to_string())?;
        if !loaded.entities().eq(self.region.entities()) || loaded.next_deadline() != self.region.next_deadline() {
            return Err(format!("step {}: another region after a reload", self.steps));
        }
        self.region = loaded;
        Ok(())
    }

    fn let_time_pass(&mut self) {
        let next = next_event_deadline(&self.region).unwrap_or(self.clock).max(self.clock);
        self.clock = match self.rng.below(100) {
            0..40 => self.clock,
            40..60 => self.clock + Duration::from_millis(self.rng.below(120_000)),
            60..85 => next,
            85..90 => Timestamp(next.0 - 1).max(self.clock),
            90..97 => self.clock + Duration::from_secs(self.rng.below(3600)),
            _ => self.clock + Duration::from_secs(self.rng.below(12 * 3600)),
        };
    }

    /// Operators bring hosts back and drivers report, without new requests: everything must end.
    fn leave_alone(&mut self) -> Result<(), String> {
        for _ in 0..QUIET_STEPS_MAX {
            self.bring_hosts_back()?;
            self.finish_started()?;
            let paused = self.region.live_rollouts().find(|it| it.state == RolloutState::Paused).map(|it| it.id);
            if let Some(rollout) = paused {
                self.step(&Command::ResumeRollout { rollout })?;
            }
            if self.is_over() {
                return Ok(());
            }
            self.stop_hopeless_rollouts()?;
            let Some(next) = next_event_deadline(&self.region) else { continue };
            self.clock = self.clock.max(next);
            self.step(&Command::Tick)?;
        }
        Err(self.stuck())
    }

    fn finish_started(&mut self) -> Result<(), String> {
        if self.region.settings().machine_orders {
            return self.finish_orders();
        }
        let wanted: Vec<EventId> = self.region.wanted_effects().map(|event| event.id).collect();
        for event in wanted {
            let is_started = |it: &std::sync::Arc<Event>| matches!(it.status, Status::Started { .. });
            if self.region.event(event).is_some_and(is_started) {
                self.step(&Command::Report { event, report: Report::Done })?;
            }
        }
        Ok(())
    }

    fn bring_hosts_back(&mut self) -> Result<(), String> {
        let hosts: Vec<Host> = self.region.hosts().map(|host| (**host).clone()).collect();
        for host in hosts {
            let name = host.name.clone();
            if host.contact != Contact::None {
                let revision = self.region.meta().revision;
                self.step(&Command::ConfirmHost { name: name.clone(), revision })?;
            }
            if host.memory_mib.is_some() || &*host.pool != Host::POOL_DEFAULT {
                let change =
                    HostChange { memory_mib: Some(None), pool: Some(Host::POOL_DEFAULT.into()), ..Default::default() };
                self.step(&Command::ChangeHost { name: name.clone(), change })?;
            }
            let drain = self.region.drain_of(&name).and_then(|operation| operation.drain.as_ref());
            let is_full = drain.is_some_and(|drain| matches!(drain.waits_for, Some(Wait::Capacity { .. })));
            let is_stuck = host.state == HostState::Draining && (drain.is_none() || is_full);
            if matches!(host.state, HostState::Drained | HostState::Failed) || is_stuck {
                self.step(&Command::ActivateHost { name, by: "operator".into() })?;
            }
        }
        Ok(())
    }

    /// Stops rollouts whose next step has become too large for its limit, because machines moved.
    fn stop_hopeless_rollouts(&mut self) -> Result<(), String> {
        let hopeless = |rollout: &&std::sync::Arc<Rollout>| {
            matches!(rollout.waits_for, Some(Wait::Availability { unavailable: 0, .. }))
        };
        let ids: Vec<RolloutId> = self.region.live_rollouts().filter(hopeless).map(|rollout| rollout.id).collect();
        for rollout in ids {
            self.step(&Command::StopRollout { rollout, by: "operator".into() })?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        !self.region.events().any(|event| event.is_live())
            && self.region.live_rollouts().next().is_none()
            && !self.region.operations().any(|operation| operation.state == OperationState::Running)
    }

    fn stuck(&self) -> String {
        let live: Vec<_> = self.region.events().filter(|event| event.is_live()).collect();
        let rollouts = self.region.live_rollouts().map(|rollout| {
            let steps: Vec<_> = rollout.steps.iter().map(|step| (&step.target, step.state)).collect();
            format!("{} {} {:?} {steps:?}", rollout.id, rollout.state.as_str(), rollout.waits_for)
        });
        let running = self.region.operations().filter(|operation| operation.state == OperationState::Running);
        let running = running.map(|operation| format!("{:?} {:?}", operation.request, operation.drain));
        let hosts = self.region.hosts().map(|host| {
            let machines = self.region.machines_on(&host.name).count();
            format!("{} {} {} {machines}", host.name, host.pool, host.state.as_str())
        });
        let lists = [rollouts.collect::<Vec<_>>(), running.collect(), hosts.collect()];
        format!("end of run: something has not finished: {live:?}\n{lists:#?}")
    }
}
