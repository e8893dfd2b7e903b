//! Tests of the agent against a Forewarn server: complete event lifecycles, with hooks that leave marks.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Guest, World, exists, name, poll_until};
use forewarn_core::{Cause, EventKind, MachineId, NewMembership, Plan, Request, Target, Timestamp};
use forewarn_metadata::faults::{FaultKind, FaultLimit, NewFault};

#[test]
fn a_restart_is_prepared_approved_and_restored() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.mark_all_phases();
    guest.hook("reboot.prepare", "cat > $MARKS.json; env | grep ^EVENT_ | sort > $MARKS.env; echo output of the hook");
    guest.hook("freeze.prepare", "echo never >> $MARKS");
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    world.wait_until_started(0xE1);
    guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started"]);
    world.advance(600);
    guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started", "restore Reboot Started"]);
    guest.wait_for_log("hook reboot.prepare: output of the hook");
    guest.wait_for_log("hook restore succeeded");
    guest.wait_for_log(": approved");

    let environment = fs::read_to_string(guest.path("marks.env")).unwrap();
    for line in [
        "EVENT_DESCRIPTION=Virtual machine is going to be restarted as requested by authorized user.",
        "EVENT_DURATION_SECONDS=-1",
        "EVENT_ID=00000000-0000-0000-0000-0000000000E1",
        "EVENT_RESOURCES=web",
        "EVENT_SOURCE=User",
        "EVENT_STATUS=Scheduled",
        "EVENT_TYPE=Reboot",
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} is not in\n{environment}");
    }
    assert!(environment.contains("EVENT_NOT_BEFORE=") && environment.contains(" GMT\n"), "{environment}");
    let json = fs::read_to_string(guest.path("marks.json")).unwrap();
    assert!(
        json.starts_with(r#"{"EventId":"00000000-0000-0000-0000-0000000000E1","EventStatus":"Scheduled""#),
        "{json}"
    );

    assert!(guest.terminate().success());
    let status = String::from_utf8(guest.output("status").stdout).unwrap();
    assert_eq!(
        status,
        "00000000-0000-0000-0000-0000000000E1 Reboot finished, approved\n  prepare succeeded\n  reboot.prepare succeeded\n  \
         started succeeded\n  restore succeeded\n"
    );
}

#[test]
fn an_agent_moves_to_the_next_server_when_one_fails() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&format!("http://127.0.0.1:1/vm/web,{url}"));
    guest.mark_all_phases();
    guest.start();
    world.wait_until_on(machine);
    guest.wait_for_log("trying the server at");
    world.restart(machine, 0xE1);
    world.wait_until_started(0xE1);
    guest.wait_for_log(": approved");
}

#[test]
fn a_hook_is_recorded_before_it_starts() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.hook("prepare", &format!("cp {} $MARKS.state", guest.path("state/state.json").display()));
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_log("hook prepare succeeded");
    let text = fs::read_to_string(guest.path("marks.state")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let hook = &state["records"][0]["hooks"][0];
    assert_eq!((&hook["name"], &hook["state"]), (&"prepare".into(), &"running".into()), "{text}");
}

#[test]
fn a_canceled_event_is_restored() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.config("[approve]\nreboot = { user = 'never' }");
    guest.mark_all_phases();
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_log("hook prepare succeeded");
    world.cancel(0xE1);
    guest.wait_for_marks(&["prepare Reboot Scheduled", "restore Reboot Scheduled"]);
    guest.wait_for_log(": canceled");
    assert_eq!(world.posts(machine), 0);
}

#[test]
fn an_event_that_one_document_lacks_is_not_finished() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.config("wait = false\n[approve]\nreboot = { user = 'never' }");
    guest.mark_all_phases();
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_log("hook prepare succeeded");
    let life = FaultLimit { count: Some(1), ..FaultLimit::default() };
    world
        .block_on(world.faults().add(&NewFault { limit: life, ..NewFault::new(FaultKind::EventsVanish) }, "test"))
        .unwrap();
    poll_until("the fault took effect", || world.faults().list().is_empty().then_some(()));
    let polls = || world.endpoint().requests.log_of(machine, u64::MAX).summary.polls;
    let met = polls();
    poll_until("the agent polls again", || (polls() > met + 2).then_some(()));
    world.cancel(0xE1);
    guest.wait_for_marks(&["prepare Reboot Scheduled", "restore Reboot Scheduled"]);
    assert_eq!(guest.log_count("reappeared in the document"), 0, "{}", guest.log());
}

#[test]
fn a_hook_that_fails_holds_the_approval() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.mark_all_phases();
    guest.hook("reboot.prepare", "exit 3");
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_log("hook reboot.prepare failed: exit status: 3");
    guest.wait_for_log("not approved because of reboot.prepare");
    world.advance(900);
    guest.wait_for_log("has started");
    assert_eq!(world.posts(machine), 0);
}

#[test]
fn a_hook_that_exceeds_its_limit_is_killed_with_its_children() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.config("limit = '1s'");
    // The child ignores SIGTERM, holds the pipe, and would run forever.
    guest.hook(
        "started",
        "(trap '' TERM; while :; do sleep 0.1; done) & echo $! > $MARKS.pid; wait; echo late >> $MARKS",
    );
    guest.hook("restore", "echo restore >> $MARKS");
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_log("hook started exceeded its time limit and was killed");
    let pid = fs::read_to_string(guest.path("marks.pid")).unwrap();
    poll_until("the child of the hook ends", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // A zombie counts as dead.
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
    world.advance(600);
    guest.wait_for_marks(&["restore"]);
}

#[test]
fn a_hook_that_was_running_when_the_agent_was_killed_is_not_repeated_by_default() {
    for (config, expected) in [("", "not again"), ("rerun_interrupted = true", "again")] {
        let world = World::new();
        let (machine, url) = world.machine("web", |_| {});
        let mut guest = Guest::new(&url);
        guest.config(config);
        guest.mark_all_phases();
        guest.hook("prepare", "echo prepare >> $MARKS; while [ ! -e $MARKS.go ]; do sleep 0.05; done");
        guest.start();
        world.wait_until_on(machine);
        world.restart(machine, 0xE1);
        guest.wait_for_marks(&["prepare"]);
        poll_until("the process is recorded", || {
            fs::read_to_string(guest.path("state/state.json")).unwrap().contains("\"pid\"").then_some(())
        });
        guest.kill();
        guest.start();
        guest.wait_for_log("stopped hook prepare, which was still running");
        guest.wait_for_log("hook prepare was interrupted when the agent stopped");
        fs::write(guest.path("marks.go"), "").unwrap();
        if expected == "again" {
            world.wait_until_started(0xE1);
            guest.wait_for_marks(&["prepare", "prepare", "started Reboot Started"]);
        } else {
            guest.wait_for_log("this machine is web");
            // The event starts at NotBefore, because it is unknown whether the machine is ready.
            world.advance(900);
            guest.wait_for_marks(&["prepare", "started Reboot Started"]);
            assert_eq!(world.posts(machine), 0, "{}", guest.log());
        }
    }
}

#[test]
fn an_agent_notices_an_event_that_finished_while_the_machine_restarted() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.mark_all_phases();
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started"]);
    guest.wait_for_log("hook started succeeded");
    guest.kill();
    world.advance(600);
    guest.start();
    guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started", "restore Reboot Started"]);
    guest.wait_for_log("hook restore succeeded");
    assert_eq!(world.posts(machine), 1);
}

#[test]
fn an_agent_that_receives_sigterm_stops_its_hooks_and_records_them() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.hook("prepare", "touch $MARKS.begun; sleep 600");
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    poll_until("the hook starts", || exists(&guest.path("marks.begun")));
    assert!(guest.terminate().success());
    guest.wait_for_log("hook prepare was interrupted");
    let status = String::from_utf8(guest.output("status").stdout).unwrap();
    assert!(status.ends_with("  prepare was interrupted\n"), "{status}");
}

/// Three machines of one availability set on one host.
struct Rack {
    world: World,
    machines: [MachineId; 3],
    guests: [Guest; 3],
}

impl Rack {
    fn new(world: World, config: &str) -> Rack {
        let set = world.availability_set("set");
        world.submit(forewarn_core::Command::RegisterHost { name: name("rack") });
        let machines = ["a", "b", "c"].map(|machine| {
            world.machine(machine, |new| {
                new.place = NewMembership::AvailabilitySet(set);
                new.host = Some(name("rack"));
                new.update_domain = Some(0);
            })
        });
        let guests = machines.each_ref().map(|(_, url)| Guest::new(url));
        for guest in &guests {
            guest.config(config);
            guest.mark_all_phases();
        }
        Rack { world, machines: machines.map(|(machine, _)| machine), guests }
    }

    fn maintain(&self, event: u128) {
        let plan = Plan {
            kind: EventKind::Reboot,
            cause: Cause::HostMaintenance,
            at: None,
            notice: None,
            duration_secs: None,
            description: None,
        };
        self.world.request(Request::Maintain { target: Target::Host(name("rack")), plan }, event);
    }

    fn posts(&self) -> [u64; 3] {
        self.machines.map(|machine| self.world.posts(machine))
    }
}

#[test]
fn only_the_leader_of_three_machines_approves() {
    let mut rack = Rack::new(World::new(), "[approve]\ndefault = 'leader'");
    // The leader's agent is not running yet. The others prepare and wait for it.
    rack.guests[1..].iter_mut().for_each(Guest::start);
    rack.world.wait_until_on(rack.machines[1]);
    rack.maintain(0xE1);
    rack.guests[1..].iter().for_each(|guest| guest.wait_for_log("hook prepare succeeded"));
    rack.guests[0].start();
    rack.world.wait_until_started(0xE1);
    for guest in &rack.guests {
        guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started"]);
    }
    rack.world.advance(600);
    for guest in &rack.guests {
        guest.wait_for_marks(&["prepare Reboot Scheduled", "started Reboot Started", "restore Reboot Started"]);
    }
    assert_eq!(rack.posts(), [1, 0, 0]);
}

#[test]
fn a_dead_leader_does_not_block_the_others() {
    // Of 15 minutes of notice the agents see 100 seconds, and wait one second for the leader.
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let world = World::at(Some(Timestamp::from_secs(i64::try_from(real).unwrap() - 800)));
    let mut rack = Rack::new(world, "leader_share_percent = 1\n[approve]\ndefault = 'leader'");
    rack.guests[1].start();
    rack.world.wait_until_on(rack.machines[1]);
    rack.maintain(0xE1);
    rack.world.wait_until_started(0xE1);
    rack.guests[1].wait_for_log(": approved");
    assert_eq!(rack.posts(), [0, 1, 0]);
}
