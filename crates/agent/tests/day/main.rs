//! A day of agents at work, hour by hour, in which the service goes wrong in every way that it can on
//! purpose, is stopped and started again, and so are the agents. Whatever was visible for longer than
//! it takes to poll must have been noticed, and nothing may have been done twice.
//!
//! The clock of the service is moved by hand: an event stays until somebody has looked, so that nothing here depends
//! on how fast the computer is. What happens is drawn from a seed; for another day, or the one that went wrong, set
//! `FOREWARN_DAY_SEED`.

mod deck;
mod fleet;
mod ledger;
#[path = "../support/mod.rs"]
mod support;

use deck::{Dice, Hour, Incident, Moment};
use fleet::{Fleet, Who};
use forewarn_core::{Cause, EventKind, Request, Target};

/// The day that is always the same.
const SEED: u64 = 5;

#[test]
fn a_day_of_faults_misses_no_event_and_does_nothing_twice() {
    let seed = std::env::var("FOREWARN_DAY_SEED").map_or(SEED, |text| text.parse().expect("the seed is a number"));
    println!("this day again: FOREWARN_DAY_SEED={seed} cargo test -p forewarn-agent --test day");
    let mut day = Day { fleet: Fleet::new(), events: 0 };
    for (number, hour) in deck::day(&mut Dice::new(seed)).into_iter().enumerate() {
        println!("hour {number}: {hour:?}");
        day.live(hour);
        day.fleet.end_hour();
    }
    day.fleet.ledger().check();
}

struct Day {
    fleet: Fleet,
    events: u128,
}

impl Day {
    fn live(&mut self, hour: Hour) {
        self.reach(hour, Moment::Before);
        match hour.incident {
            Incident::Restart => {
                self.through(hour, &[Who::A], |fleet| Request::Restart { machines: vec![fleet.id(Who::A)] })
            }
            Incident::Redeploy => {
                self.through(hour, &[Who::B], |fleet| Request::Redeploy { machines: vec![fleet.id(Who::B)] })
            }
            Incident::SelfService => {
                self.through(hour, &[Who::A], |fleet| Request::PerformMaintenance { machines: vec![fleet.id(Who::A)] });
            }
            Incident::LiveMigration => self.through(hour, &[Who::B], migration),
            Incident::HostFreeze => {
                self.through(hour, &[Who::A, Who::B], |_| maintenance(EventKind::Freeze));
            }
            Incident::HostReboot => {
                let event = self.begin(|_| maintenance(EventKind::Reboot));
                // The first one that is ready approves for all, perhaps before the others have seen it.
                self.see_through(hour, event, &[Who::A, Who::B]);
            }
            Incident::HardwareFailure => {
                let fail = |fleet: &Fleet| {
                    let target = Target::Machines(vec![fleet.id(Who::B)]);
                    Request::Fail { target, kind: EventKind::Reboot }
                };
                let event = self.begin(fail);
                self.see_through(hour, event, &[Who::B]);
            }
            Incident::Eviction => {
                self.through(hour, &[Who::Spot], |fleet| Request::Evict { machine: fleet.id(Who::Spot) });
                self.fleet.switch_on(Who::Spot);
            }
            Incident::Deletion => {
                let delete = |fleet: &Fleet| Request::Delete { machines: vec![fleet.id(Who::A)], group: None };
                self.through_to_restore(hour, &[Who::A], delete, |fleet| fleet.register_again(Who::A));
            }
            Incident::Cancelled => {
                let event = self.begin(migration);
                self.fleet.wait_for_mark(Who::B, "prepare", event);
                self.reach(hour, Moment::Announced);
                self.cancel(hour, event);
            }
            Incident::Brief => {
                let event = self.begin(migration);
                self.fleet.wait_for_good_poll(Who::B);
                self.cancel(hour, event);
            }
            Incident::Neighbour => {
                let event = self.begin(|fleet| Request::Restart { machines: vec![fleet.id(Who::Neighbour)] });
                self.reach(hour, Moment::Announced);
                self.fleet.wait_for_good_poll(Who::B);
                self.fleet.start_in_time(event);
                self.reach(hour, Moment::Started);
                self.fleet.wait_for_good_poll(Who::B);
                self.fleet.finish(event);
            }
            Incident::Pair => {
                let first = self.begin(migration);
                let second = self.begin(|fleet| Request::Restart { machines: vec![fleet.id(Who::B)] });
                self.fleet.wait_for_mark(Who::B, "prepare", first);
                self.fleet.wait_for_mark(Who::B, "prepare", second);
                self.reach(hour, Moment::Announced);
                // Of two that are not approved the first goes first, and the second waits for it.
                self.fleet.wait_for_decision(second, &[Who::B]);
                let is_approved = !self.fleet.is_scheduled(second);
                let order = if is_approved { [second, first] } else { [first, second] };
                order.into_iter().for_each(|event| self.see_through(hour, event, &[Who::B]));
            }
        }
    }

    /// The whole life of an event that all of its machines prepare for.
    fn through(&mut self, hour: Hour, agents: &[Who], request: impl FnOnce(&Fleet) -> Request) {
        self.through_to_restore(hour, agents, request, |_| {});
    }

    fn through_to_restore(
        &mut self,
        hour: Hour,
        agents: &[Who],
        request: impl FnOnce(&Fleet) -> Request,
        afterwards: impl FnOnce(&mut Fleet),
    ) {
        let event = self.begin(request);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "prepare", event));
        self.reach(hour, Moment::Announced);
        self.happen(hour, event, agents);
        afterwards(&mut self.fleet);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "restore", event));
    }

    fn see_through(&mut self, hour: Hour, event: u128, agents: &[Who]) {
        self.happen(hour, event, agents);
        agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "restore", event));
    }

    /// It starts, as soon as somebody approves or when it is time, and ends.
    fn happen(&mut self, hour: Hour, event: u128, agents: &[Who]) {
        self.fleet.wait_for_decision(event, agents);
        self.fleet.start_in_time(event);
        if !self.fleet.is_over(event) {
            self.reach(hour, Moment::Started);
            agents.iter().for_each(|agent| self.fleet.wait_for_mark(*agent, "started", event));
            if hour.agents_restart {
                agents.iter().for_each(|agent| self.fleet.restart_agent(*agent, event));
            }
            self.fleet.finish(event);
        }
    }

    /// It will not happen, unless it was approved meanwhile.
    fn cancel(&mut self, hour: Hour, event: u128) {
        if !self.fleet.cancel(event) {
            self.happen(hour, event, &[Who::B]);
        }
        self.fleet.wait_for_mark(Who::B, "restore", event);
    }

    fn begin(&mut self, request: impl FnOnce(&Fleet) -> Request) -> u128 {
        self.events += 1;
        self.fleet.request(request(&self.fleet), self.events);
        self.events
    }

    fn reach(&mut self, hour: Hour, moment: Moment) {
        // A server that stops forgets its faults.
        if hour.server_restarts_at == Some(moment) {
            self.fleet.restart_server();
        }
        if hour.fault_at.is_none_or(|at| at == moment) {
            self.fleet.add_fault(hour.fault);
            self.fleet.add_fault(hour.approval_fault);
        }
    }
}

/// Of a type and source that the agents never approve.
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
