//! The machines, their agents, and the service with its faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{
    Cause, Command, EventKind, GroupId, Guid, MachineId, NewMembership, Plan, Power, Priority, Request, Status,
    TerminateProfile,
};
use forewarn_metadata::faults::{FaultKind, NewFault};
use forewarn_metadata::requests::RequestSeen;

use super::deck::{Fault, TIMEOUT};
use super::ledger::Ledger;
use crate::support::{Guest, World, event_id, name, poll_until_or};

pub const HOST: &str = "rack";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Uses long polling.
    A,
    /// In the same availability set; polls, and approves only known types.
    B,
    /// In the same set, without an agent.
    Neighbor,
    /// Standalone Spot machine.
    Spot,
}

impl Who {
    const ALL: [Who; 4] = [Who::A, Who::B, Who::Neighbor, Who::Spot];

    pub fn name(self) -> &'static str {
        match self {
            Who::A => "a",
            Who::B => "b",
            Who::Neighbor => "neighbor",
            Who::Spot => "spot",
        }
    }
}

pub struct Fleet {
    world: World,
    set: GroupId,
    machines: BTreeMap<Who, MachineId>,
    guests: BTreeMap<Who, Guest>,
    _dir: tempfile::TempDir,
}

impl Fleet {
    pub fn new() -> Fleet {
        let dir = tempfile::tempdir().unwrap();
        let world = World::durable(dir.path());
        let set = world.availability_set("set");
        world.submit(Command::RegisterHost { name: name(HOST) });
        let mut fleet = Fleet { world, set, machines: BTreeMap::new(), guests: BTreeMap::new(), _dir: dir };
        for who in Who::ALL {
            let url = fleet.register(who);
            if who != Who::Neighbor {
                fleet.guests.insert(who, guest(who, &url));
            }
        }
        fleet.guests.values_mut().for_each(Guest::start);
        fleet.machines.values().for_each(|machine| fleet.world.wait_until_on(*machine));
        fleet
    }

    pub fn id(&self, who: Who) -> MachineId {
        self.machines[&who]
    }

    pub fn request(&self, request: Request, event: u128) {
        self.world.request(request, event);
    }

    /// Cancels an event. Returns whether that was still possible.
    pub fn cancel(&self, event: u128) -> bool {
        let cancel = Command::CancelEvent { event: Guid(event), by: "test".into() };
        let engine = self.world.engine();
        self.world.block_on(engine.submit(cancel, None)).is_ok()
    }

    pub fn is_finished(&self, event: u128) -> bool {
        matches!(self.world.status(event), None | Some(Status::Ended { .. }))
    }

    pub fn is_scheduled(&self, event: u128) -> bool {
        self.world.status(event) == Some(Status::Scheduled)
    }

    /// Waits until one of these agents approves the event, or each of them has logged that it will not.
    pub fn wait_for_decision(&self, event: u128, agents: &[Who]) {
        let log = |who: &Who| self.guests[who].log();
        let logs = || agents.iter().map(log).collect::<String>();
        poll_until_or(
            || format!("event {} is approved or held\n{}", Guid(event), logs()),
            || {
                let is_declined = |who: &Who| self.declines(*who, event);
                let is_scheduled = self.world.status(event) == Some(Status::Scheduled);
                (!is_scheduled || agents.iter().all(is_declined)).then_some(())
            },
        );
        self.start_if_scheduled(event);
    }

    /// Advances to `NotBefore` if the event has not started yet.
    pub fn start_if_scheduled(&self, event: u128) {
        if self.is_scheduled(event) {
            self.world.advance_to_start(event);
        }
    }

    /// Advances the clock until the event has finished.
    pub fn finish(&self, event: u128) {
        self.world.advance(600);
        assert!(self.is_finished(event), "event {} is {:?}", Guid(event), self.world.status(event));
    }

    pub fn wait_for_mark(&self, who: Who, phase: &str, event: u128) {
        let (guest, mark) = (&self.guests[&who], mark(phase, event));
        let what = || format!("{} ran {mark}\n{}", who.name(), guest.log());
        poll_until_or(what, || guest.marks().contains(&mark).then_some(()));
    }

    /// Waits for a new poll whose response was not altered by a fault.
    pub fn wait_for_good_poll(&self, who: Who) {
        self.world.advance(1);
        let (now, machine) = (self.world.engine().now(), self.id(who));
        poll_until_or(
            || format!("{} polls", who.name()),
            || {
                let log = self.world.endpoint().requests.log_of(machine, 0);
                log.requests.iter().any(|request| request.at >= now && is_good_poll(request)).then_some(())
            },
        );
    }

    pub fn add_fault(&self, fault: Fault) {
        for who in self.guests.keys() {
            let new = NewFault {
                machine: Some(self.id(*who)),
                only: fault.only,
                limit: fault.life,
                ..NewFault::new(fault.kind)
            };
            self.world.block_on(self.world.faults().add(&new, "test")).expect("the fault is valid");
        }
    }

    pub fn restart_server(&mut self) {
        self.world.restart_server();
    }

    /// Kills and restarts an agent after its `started` hook for this event has run.
    pub fn restart_agent(&mut self, who: Who, event: u128) {
        let guest = self.guests.get_mut(&who).expect("the machine has an agent");
        guest.wait_for_log(&format!("event {}: hook started succeeded", event_id(Guid(event))));
        guest.kill();
        guest.start();
    }

    pub fn switch_on(&self, who: Who) {
        self.world.submit(Command::SetPower { machine: self.id(who), power: Power::Running });
    }

    /// Registers a deleted machine again, while its agent keeps polling.
    pub fn register_again(&mut self, who: Who) {
        self.register(who);
    }

    /// Removes all faults and advances the clock.
    pub fn end_hour(&mut self) {
        self.world.block_on(self.world.faults().clear_all(None, "test")).expect("faults can be removed");
        self.world.advance(1800);
    }

    pub fn ledger(&self) -> Ledger {
        let guests = self.guests.iter().map(|(who, guest)| (who.name(), guest));
        Ledger::read(&self.world, guests)
    }

    fn declines(&self, who: Who, event: u128) -> bool {
        let (log, id) = (self.guests[&who].log(), event_id(Guid(event)));
        let has_logged = |words: &str| log.contains(&format!("event {id}: {words}"));
        // The fault UnknownType turns every type into Hibernate.
        has_logged("Freeze") || has_logged("not approved") || (who == Who::B && has_logged("Hibernate"))
    }

    fn register(&mut self, who: Who) -> String {
        let set = self.set;
        let (machine, url) = self.world.machine(who.name(), |new| match who {
            Who::Spot => new.priority = Priority::Spot,
            Who::A | Who::B | Who::Neighbor => {
                new.place = NewMembership::AvailabilitySet(set);
                new.host = Some(name(HOST));
                new.update_domain = Some(0);
                new.terminate =
                    Some(Arc::new(TerminateProfile { timeout: Duration::from_secs(300), text: name("PT5M") }));
            }
        });
        self.machines.insert(who, machine);
        url
    }
}

fn guest(who: Who, url: &str) -> Guest {
    let guest = Guest::new(url);
    let special = match who {
        Who::B => "default = 'never'\nreboot = 'after-hooks'\nredeploy = 'after-hooks'",
        Who::A | Who::Neighbor | Who::Spot => "freeze = { platform = 'never' }",
    };
    let wait = who != Who::B;
    guest.config(&format!("wait = {wait}\ntimeout = '{TIMEOUT}'\n[approve]\n{special}"));
    for phase in ["prepare", "started", "restore"] {
        guest.hook(phase, &format!("echo {phase} $EVENT_ID >> $MARKS"));
    }
    guest
}

fn mark(phase: &str, event: u128) -> String {
    format!("{phase} {}", event_id(Guid(event)))
}

pub fn plan(kind: EventKind, cause: Cause) -> Plan {
    Plan { kind, cause, at: None, notice: None, duration_secs: None, description: None }
}

fn is_good_poll(request: &RequestSeen) -> bool {
    let is_poll = request.method == "GET" && request.path == "/metadata/scheduledevents";
    let harmless = [FaultKind::IncarnationRestart.as_str(), FaultKind::UnknownType.as_str()];
    is_poll
        && matches!(request.status, Some(200 | 304))
        && request.faults.iter().all(|met| harmless.contains(&met.kind))
}
