//! Simulates a day of agents at work, hour by hour. The service fails in every way that faults can produce, and the
//! service and the agents are restarted. Every event that was visible for longer than a poll must be noticed, and no
//! hook may run twice.
//!
//! The test moves the clock of the service: an event stays until the agents have seen it, so the speed of the computer
//! does not matter. The day is drawn from a seed. Set `FOREWARN_DAY_SEED` to run another day or to repeat a failed one.

mod deck;
mod fleet;
mod ledger;

use deck::{Dice, Hour, Incident, Moment};
use fleet::{Fleet, Who};
use forewarn_core::{Cause, EventKind, Request, Target};

use crate::support;

/// Default seed.
const SEED: u64 = 5;

#[test]
fn no_event_is_missed_and_no_hook_runs_twice_in_a_day_of_faults() {
    let seed = std::env::var("FOREWARN_DAY_SEED")
        .map_or(SEED, |text| text.parse().expect("FOREWARN_DAY_SEED must be a number"));
    println!("repeat with FOREWARN_DAY_SEED={seed} cargo test -p forewarn-agent --test it day::");
    let mut day = Day { fleet: Fleet::new(), events: 0 };
    for (number, hour) in deck::day(&mut Dice::new(seed)).into_iter().enumerate() {
        println!("hour {number}: {hour:?}");
        day.run_hour(hour);
        day.fleet.end_hour();
    }
    day.fleet.ledger().check();
}

struct Day {
    fleet: Fleet,
    events: u128,
}

impl Day {
    fn run_hour(&mut self, hour: Hour) {
        self.reach(hour, Moment::Before);
        match hour.incident {
            Incident::Restart => {
                self.run_event(hour, &[Who::A], |fleet| Request::Restart { machines: vec![fleet.id(Who::A)] })
            }
            Incident::Redeploy => {
                self.run_event(hour, &[Who::B], |fleet| Request::Redeploy { machines: vec![fleet.id(Who::B)] })
            }
            Incident::SelfService => {
                self.run_event(hour, &[Who::A], |fleet| Request::PerformMaintenance {
                    machines: vec![fleet.id(Who::A)],
                });
            }
            Incident::LiveMigration => self.run_event(hour, &[Who::B], migration),
            Incident::HostFreeze => {
                self.run_event(hour, &[Who::A, Who::B], |_| maintenance(EventKind::Freeze));
            }
            Incident::HostReboot => {
                let event = self.request_event(|_| maintenance(EventKind::Reboot));
                // The first machine that is ready approves for all, perhaps before the others have seen the event.
                self.finish_event(hour, event, &[Who::A, Who::B]);
            }
            Incident::HardwareFailure => {
                let fail = |fleet: &Fleet| {
                    let target = Target::Machines(vec![fleet.id(Who::B)]);
                    Request::Fail { target, kind: EventKind::Reboot }
                };
                let event = self.request_event(fail);
                self.finish_event(hour, event, &[Who::B]);
            }
            Incident::Eviction => {
                self.run_event(hour, &[Who::Spot], |fleet| Request::Evict { machine: fleet.id(Who::Spot) });
                self.fleet.switch_on(Who::Spot);
            }
            Incident::Deletion => {
                let delete = |fleet: &Fleet| Request::Delete { machines: vec![fleet.id(Who::A)], group: None };
                self.run_event_and_then(hour, &[Who::A], delete, |fleet| fleet.register_again(Who::A));
            }
            Incident::Canceled => {
                let event = self.request_event(migration);
                self.fleet.wait_for_mark(Who::B, "prepare", event);
                self.reach(hour, Moment::Announced);
                self.cancel(hour, event);
            }
            Incident::Brief => {
                let event = self.request_event(migration);
                self.fleet.wait_for_good_poll(Who::B);
                self.cancel(hour, event);
            }
            Incident::Neighbor => {
                let event = self.request_event(|fleet| Request::Restart { machines: vec![fleet.id(Who::Neighbor)] });
                self.reach(hour, Moment::Announced);
                self.fleet.wait_for_good_poll(Who::B);
                self.fleet.start_if_scheduled(event);
                self.reach(hour, Moment::Started);
                self.fleet.wait_for_good_poll(Who::B);
                self.fleet.finish(event);
            }
            Incident::Pair => {
                let first = self.request_event(migration);
                let second = self.request_event(|fleet| Request::Restart { machines: vec![fleet.id(Who::B)] });
                self.fleet.wait_for_mark(Who::B, "prepare", first);
                self.fleet.wait_for_mark(Who::B, "prepare", second);
                self.reach(hour, Moment::Announced);
                // If neither is approved, the first event starts first and the second waits for it.
                self.fleet.wait_for_decision(second, &[Who::B]);
                let is_approved = !self.fleet.is_scheduled(second);
                let order = if is_approved { [second, first] } else { [first, second] };
                order.into_iter().for_each(|event| self.finish_event(hour, event, &[Who::B]));
            }
        }
    }

    /// Runs the whole lifecycle of an event that all of its machines prepare for.
    fn run_event(&mut self, hour: Hour, agents: &[Who], request: impl FnOnce(&Fleet) -> Request) {
        self.run_event_and_then(hour, agents, request, |_| {});
    }

    fn run_event_and_then(
        &mut self,
        hour: Hour,
        agents: &[Who],
        request: impl FnOnce(&Fleet) -> Request,
        afterwards: impl FnOnce(&mut Fleet),
    ) {
        let event = self.request_event(request);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "prepare", event));
        self.reach(hour, Moment::Announced);
        self.start_and_finish(hour, event, agents);
        afterwards(&mut self.fleet);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "restore", event));
    }

    fn finish_event(&mut self, hour: Hour, event: u128, agents: &[Who]) {
        self.start_and_finish(hour, event, agents);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "restore", event));
    }

    /// Starts the event, on approval or at `NotBefore`, and finishes it.
    fn start_and_finish(&mut self, hour: Hour, event: u128, agents: &[Who]) {
        self.fleet.wait_for_decision(event, agents);
        self.fleet.start_if_scheduled(event);
        if !self.fleet.is_finished(event) {
            self.reach(hour, Moment::Started);
            agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "started", event));
            if hour.agents_restart {
                agents.iter().for_each(|agent| self.fleet.restart_agent(*agent, event));
            }
            self.fleet.finish(event);
        }
    }

    /// Cancels the event, unless it has been approved in the meantime.
    fn cancel(&mut self, hour: Hour, event: u128) {
        if !self.fleet.cancel(event) {
            self.start_and_finish(hour, event, &[Who::B]);
        }
        self.fleet.wait_for_mark(Who::B, "restore", event);
    }

    fn request_event(&mut self, request: impl FnOnce(&Fleet) -> Request) -> u128 {
        self.events += 1;
        self.fleet.request(request(&self.fleet), self.events);
        self.events
    }

    fn reach(&mut self, hour: Hour, moment: Moment) {
        // A server loses its faults when it stops.
        if hour.server_restarts_at == Some(moment) {
            self.fleet.restart_server();
        }
        if hour.fault_at.is_none_or(|at| at == moment) {
            self.fleet.add_fault(hour.fault);
            self.fleet.add_fault(hour.approval_fault);
        }
    }
}

/// Request for an event with a type and source that the agents never approve.
fn migration(fleet: &Fleet) -> Request {
    Request::Maintain {
        target: Target::Machines(vec![fleet.id(Who::B)]),
        plan: fleet::plan(EventKind::Freeze, Cause::LiveMigration),
    }
}

fn maintenance(kind: EventKind) -> Request {
    Request::Maintain {
        target: Target::Host(support::name(fleet::HOST)),
        plan: fleet::plan(kind, Cause::HostMaintenance),
    }
}
