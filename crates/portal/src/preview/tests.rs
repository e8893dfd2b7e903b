//! A small script, a question, and what is said. Times are of a day that begins at noon.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{
    AddressWish, Approver, Cause, Command, Event, EventKind, EventsPolicy, EvictionPolicy, Found, Group, Guid, Home,
    Machine, NewGroup, NewGroupKind, NewMachine, Orchestration, Place, Plan, Power, Priority, Region, Report, Request,
    SetModel, Settings, Status, Target, TerminateProfile, Timestamp, UpgradeMode, Within,
};

use super::{Asked, Oracle};
use crate::page::Look;

const NOON: Timestamp = Timestamp::from_secs(1_772_366_400);

struct World {
    region: Region,
    now: Timestamp,
    guids: u128,
}

impl World {
    fn after(script: &str) -> World {
        let mut world = World { region: Region::new(Settings::default()), now: NOON, guids: 1 };
        for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            world.line(&line.split(' ').collect::<Vec<_>>());
        }
        world
    }

    fn line(&mut self, words: &[&str]) {
        match *words {
            ["machine", name] => self.register(name, |_| {}),
            ["machine", name, "on", host] => self.register(name, |new| new.host = Some(host.into())),
            ["spot", name, policy] => self.register(name, |new| {
                new.priority = Priority::Spot;
                new.eviction = if policy == "delete" { EvictionPolicy::Delete } else { EvictionPolicy::Deallocate };
            }),
            ["set", name, count] => self.set(name, count, None, EventsPolicy::default()),
            ["set", name, count, "told", minutes] => self.set(name, count, Some(minutes), EventsPolicy::default()),
            ["set", name, count, "approving"] => {
                let policy =
                    EventsPolicy { approve_user_reboot: true, approve_user_redeploy: true, ..EventsPolicy::default() };
                self.set(name, count, None, policy);
            }
            ["listen", name] => self.run(Command::Seen { machine: self.named(name).id }),
            ["stop", name] => self.run(Command::SetPower { machine: self.named(name).id, power: Power::Stopped }),
            ["approve", name] => {
                let (by, events) = (Approver::Management("ops".into()), vec![self.event_of(name).id]);
                self.run(Command::Approve { by, within: Within::Region, events });
            }
            ["done", name] => self.run(Command::Report { event: self.event_of(name).id, report: Report::Done }),
            ["wait", minutes] => {
                self.now = self.now + Duration::from_secs(60 * minutes.parse::<u64>().unwrap());
                self.run(Command::Tick);
            }
            ["maintain", "host", host] => {
                self.ask(Request::Maintain { target: Target::Host(host.into()), plan: freeze() })
            }
            ["maintain", "group", group] => {
                self.ask(Request::Maintain { target: Target::Group(self.group(group).id), plan: freeze() });
            }
            ["restart", name] => self.ask(Request::Restart { machines: vec![self.named(name).id] }),
            ["redeploy", name] => self.ask(Request::Redeploy { machines: vec![self.named(name).id] }),
            ["delete", name] => self.ask(Request::Delete { machines: vec![self.named(name).id], group: None }),
            _ => panic!("{words:?}"),
        }
    }

    fn told(&self, words: &[&str]) -> String {
        let oracle = Oracle { region: &self.region, now: self.now, look: Look::First };
        match *words {
            ["approve", name] => oracle.approve(&self.event_of(name)),
            ["cancel", name] => oracle.cancel(&self.event_of(name)),
            ["stop-operation", name] => oracle.stop(self.region.operation(self.event_of(name).operations[0]).unwrap()),
            ["scale", name, capacity] => oracle.scale(&self.group(name), capacity.parse().unwrap()),
            ["delete-group", name] => oracle.group_delete(&self.group(name)),
            ["fail-host", host] => oracle.host_failure(self.region.host(host).unwrap(), EventKind::Reboot),
            [how @ ("each" | "together"), asked, ref names @ ..] => {
                let machines: Vec<Arc<Machine>> = names.iter().map(|name| self.named(name)).collect();
                let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
                let told = match how {
                    "each" => oracle.each(&machines, asked_for(asked)),
                    _ => oracle.together(&machines, asked_for(asked)),
                };
                told.into_iter().map(|(name, told)| format!("{name}: {told}")).collect::<Vec<_>>().join(" | ")
            }
            [asked, name] => oracle.machine(&self.named(name), asked_for(asked)),
            _ => panic!("{words:?}"),
        }
    }

    fn run(&mut self, command: Command) {
        self.region = self.region.apply(&command, self.now).unwrap_or_else(|why| panic!("{command:?}: {why}")).region;
    }

    fn ask(&mut self, request: Request) {
        let operation = self.guid();
        self.run(Command::Request { operation, by: "ops".into(), request, event: None });
    }

    fn guid(&mut self) -> Guid {
        self.guids += 1;
        Guid(self.guids)
    }

    fn register(&mut self, name: &str, change: impl FnOnce(&mut NewMachine)) {
        let mut new = NewMachine::plain(self.guid(), name, home());
        (new.place, new.addresses) = (Place::Standalone, AddressWish::None);
        change(&mut new);
        self.run(Command::RegisterMachine(Box::new(new)));
    }

    fn set(&mut self, name: &str, count: &str, told: Option<&str>, policy: EventsPolicy) {
        let terminate = told.map(|minutes| TerminateProfile {
            timeout: Duration::from_secs(60 * minutes.parse::<u64>().unwrap()),
            text: format!("PT{minutes}M").into(),
        });
        let model = SetModel {
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            terminate,
            details: Arc::default(),
        };
        let kind = NewGroupKind::ScaleSet {
            orchestration: Orchestration::Uniform,
            upgrade_mode: UpgradeMode::Manual,
            capacity: count.parse().unwrap(),
            placement_group_max: None,
            zones: Vec::new(),
            model,
        };
        let salt = self.guid();
        let (update_domains, fault_domains) = (None, None);
        let new = NewGroup { name: name.into(), home: home(), kind, policy, update_domains, fault_domains, salt };
        self.run(Command::CreateGroup(Box::new(new)));
    }

    fn named(&self, name: &str) -> Arc<Machine> {
        match self.region.machine_by_name(name, None) {
            Found::One(id) => self.region.machine(id).unwrap().clone(),
            found => panic!("{name}: {found:?}"),
        }
    }

    fn group(&self, name: &str) -> Arc<Group> {
        self.region.groups_named(name).next().unwrap().clone()
    }

    /// The one that has started, else the first.
    fn event_of(&self, name: &str) -> Arc<Event> {
        let events: Vec<&Arc<Event>> = self.region.events_of(self.named(name).id).collect();
        let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
        (*started.or(events.first()).unwrap()).clone()
    }
}

fn asked_for(word: &str) -> Asked {
    match word {
        "restart" => Asked::Restart,
        "redeploy" => Asked::Redeploy,
        "maintain" => Asked::Maintenance,
        "evict" => Asked::Evict,
        "delete" => Asked::Delete,
        "fail" => Asked::Fail(EventKind::Reboot),
        "lose" => Asked::Fail(EventKind::Redeploy),
        "start" => Asked::Start,
        "stop" => Asked::Stop,
        "deallocate" => Asked::Deallocate,
        _ => panic!("{word}"),
    }
}

fn home() -> Home {
    Home { subscription: "s".into(), resource_group: "rg".into() }
}

fn freeze() -> Plan {
    Plan {
        kind: EventKind::Freeze,
        cause: Cause::HostMaintenance,
        at: None,
        notice: None,
        duration_secs: None,
        description: None,
    }
}

/// Without tags, and times without their day.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for letter in html.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => is_tag = false,
            _ if !is_tag => text.push(letter),
            _ => {}
        }
    }
    text.replace("2026-03-01 ", "").replace(":00 UTC", "").replace("&#39;", "'")
}

#[track_caller]
fn check(cases: &[(&str, &str, &str)]) {
    for (script, asked, said) in cases {
        let told = World::after(script).told(&asked.split(' ').collect::<Vec<_>>());
        assert_eq!(plain(&told), *said, "after '{script}', asked to {asked}");
    }
}

#[test]
fn what_is_asked_of_one_machine() {
    check(&[
        (
            "set web 2; listen web_0",
            "restart web_0",
            "web_0 restarts where it is and loses its memory. Reboot not before 12:15 (15m from now); web_0 and web_1 share the document; it starts earlier if one of them approves.",
        ),
        (
            "machine web; listen web",
            "redeploy web",
            "web moves to another host and loses its memory and ephemeral disks. Redeploy not before 12:10 (10m from now); no other machine shares its document; it starts earlier if it approves.",
        ),
        (
            "machine web; listen web",
            "maintain web",
            "web gets its maintenance now: it moves to another host and loses its memory and ephemeral disks. Redeploy not before 12:10 (10m from now); no other machine shares its document; it starts earlier if it approves.",
        ),
        (
            "machine web",
            "restart web",
            "web restarts where it is and loses its memory. Nobody in its scope asks for events, so it happens at once, without notice.",
        ),
        (
            "set web 2 approving; listen web_0",
            "restart web_1",
            "web_1 restarts where it is and loses its memory. The policy approves it: Reboot starts at once.",
        ),
        (
            "machine web; listen web; restart web; wait 5",
            "restart web",
            "web restarts where it is and loses its memory. It joins the Reboot that is coming already, not before 12:15.",
        ),
        ("machine web; stop web", "restart web", "Machine 'web' is not running. Start it first."),
    ]);
}

#[test]
fn what_takes_a_machine_away() {
    check(&[
        (
            "spot web deallocate; listen web",
            "evict web",
            "web is evicted: it is deallocated, and can be started again. Preempt not before 12:00:30 UTC (30s from now); no other machine shares its document; it starts earlier if it approves.",
        ),
        (
            "spot web delete",
            "evict web",
            "web is evicted and deleted. Nobody in its scope asks for events, so it happens at once, without notice.",
        ),
        (
            "machine web",
            "evict web",
            "Machine 'web' is not a Spot machine, and only Spot machines can be evicted. Delete or redeploy it instead.",
        ),
        (
            "machine web; listen web",
            "delete web",
            "web is deleted. It has no terminate notification, so it goes at once, without notice.",
        ),
        (
            "set web 3 told 7",
            "delete web_0",
            "web_0 is deleted, and web wants 2 instead of 3. Nobody in its scope asks for events, so it happens at once, without notice.",
        ),
        (
            "set web 2 told 7; listen web_0",
            "delete web_0",
            "web_0 is deleted, and web wants 1 instead of 2. Terminate not before 12:07 (7m from now); web_0 and web_1 share the document; it starts earlier if one of them approves.",
        ),
        (
            "set web 3 told 7; listen web_0; delete web_2; wait 1",
            "delete web_0",
            "web_0 is deleted, and web wants 1 instead of 2. Terminate not before 12:08 (7m from now); web_0, web_1 and web_2 share the document; it starts earlier if one of them approves. Once approved it waits for the deletions of the same document that are neither approved nor due: web_2.",
        ),
        (
            "set web 3 told 7; listen web_0",
            "scale web 1",
            "web_2 and web_1 are deleted. Terminate not before 12:07; they go earlier, together, when all that wait in a document are approved.",
        ),
        ("set web 2", "scale web 1", "web_1 is deleted. web_1 is told nothing and goes at once."),
        ("set web 1", "scale web 3", "2 machines come, with the latest model."),
        ("set web 1", "scale web 1", "Nothing changes."),
        (
            "set web 3 told 7; listen web_0",
            "delete-group web",
            "web is deleted with 3 machines: Terminate not before 12:07; they go earlier, together, when all of a document are approved.",
        ),
        (
            "set web 3 told 7",
            "delete-group web",
            "web and 3 machines are deleted at once: nobody asks for events, so the terminate notification reaches nobody.",
        ),
        ("set web 1; listen web_0", "delete-group web", "web and one machine are deleted at once, without notice."),
        ("set web 0", "delete-group web", "web is deleted. It has no machines."),
    ]);
}

#[test]
fn what_breaks_and_the_power_switch() {
    check(&[
        (
            "machine web; listen web",
            "fail web",
            "The hardware under web breaks: it restarts and loses its memory. Reboot starts at once, without notice, and the document shows it.",
        ),
        (
            "machine web; listen web; redeploy web; approve web",
            "lose web",
            "The hardware under web breaks: it comes up on another host, without its memory and ephemeral disks. Redeploy starts at once, without notice, and the document shows it. It ends the Redeploy that is under way.",
        ),
        (
            "machine a on rack; machine b on rack; listen a",
            "fail-host rack",
            "Everything on rack restarts and loses its memory. Reboot at once, without notice; shown in the documents of a. Not told, because nobody in their scopes asks for events: b.",
        ),
        ("machine web", "stop web", "web is switched off at once and stays on its host. No event comes of it."),
        (
            "machine web; listen web; restart web",
            "deallocate web",
            "web is switched off at once and gives up its place. No event comes of it. All machines of its scope are down then, so the policy approves Reboot of web. Reboot of web ends without effect.",
        ),
        ("machine web; stop web", "start web", "web is switched on. No event comes of it."),
    ]);
}

#[test]
fn several_at_once() {
    check(&[
        (
            "set web 2 told 7; listen web_0",
            "together delete web_0 web_1",
            "web_0: web_0 is deleted, and web wants 0 instead of 2. Terminate not before 12:07 (7m from now); web_0 and web_1 share the document; it starts earlier if one of them approves. Once approved it waits for the deletions of the same document that are neither approved nor due: web_1. | web_1: web_1 is deleted, and web wants 0 instead of 2. Terminate not before 12:07 (7m from now); web_0 and web_1 share the document; it starts earlier if one of them approves. Once approved it waits for the deletions of the same document that are neither approved nor due: web_0.",
        ),
        (
            "set web 2; listen web_0; stop web_1",
            "together restart web_0 web_1",
            "Refused: Machine 'web_1' is not running. Start it first.",
        ),
        (
            "set web 2; stop web_1",
            "each restart web_0 web_1",
            "web_0: web_0 restarts where it is and loses its memory. Nobody in its scope asks for events, so it happens at once, without notice. | web_1: Machine 'web_1' is not running. Start it first.",
        ),
    ]);
    let names: Vec<String> = (0..11).map(|number| format!("web_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::after("set web 11; listen web_0");
    let limit = "This subscription already has 10 scheduled restart or redeploy operations";
    assert!(world.told(&[&["each", "restart"], &names[..]].concat()).contains(&format!("web_10: {limit}")));
    assert!(!world.told(&[&["together", "restart"], &names[..]].concat()).contains(limit));
}

#[test]
fn what_an_approval_does() {
    check(&[
        (
            "machine web; listen web; restart web",
            "approve web",
            "Reboot of web starts now instead of waiting for 12:15.",
        ),
        (
            "machine a on rack; machine b on rack; machine c on rack; listen a; listen b; listen c; maintain host rack",
            "approve a",
            "Freeze of a belongs to a host operation, which starts when all are approved: missing b and c. It starts at 12:15 in any case.",
        ),
        (
            "machine a on rack; machine b on rack; listen a; listen b; maintain host rack; approve b",
            "approve a",
            "Freeze of a starts now, and with it Freeze of b.",
        ),
        (
            "set web 3 told 7; listen web_0; delete web_1; delete web_2",
            "approve web_1",
            "Terminate of web_1 waits for the deletions of the same document that are neither approved nor due: web_2. It goes at 12:07 in any case.",
        ),
        (
            "set web 3 told 7; listen web_0; delete web_1; delete web_2; approve web_2",
            "approve web_1",
            "Terminate of web_1 starts now, and with it Terminate of web_2.",
        ),
    ]);
    let mut world = World::after("machine web; listen web; restart web; redeploy web");
    let reboot = world.region.events_of(world.named("web").id).next().unwrap().clone();
    let redeploy = world.region.events_of(world.named("web").id).nth(1).unwrap().clone();
    let by = Approver::Management("ops".into());
    world.run(Command::Approve { by, within: Within::Region, events: vec![reboot.id] });
    let oracle = Oracle { region: &world.region, now: world.now, look: Look::First };
    assert_eq!(plain(&oracle.approve(&redeploy)), "Redeploy of web starts when the Reboot of web has ended.");
}

#[test]
fn what_cancelling_does() {
    check(&[
        ("machine web; listen web; restart web", "cancel web", "Reboot of web goes, and nothing happens."),
        (
            "machine web; listen web; restart web; restart web",
            "cancel web",
            "2 requests wait for it, and all of them are cancelled. Reboot of web goes, and nothing happens.",
        ),
        (
            "machine web; listen web; restart web; restart web",
            "stop-operation web",
            "Reboot of web stays: another request waits for it.",
        ),
        (
            "machine a on rack; machine b on rack; listen a; listen b; maintain host rack",
            "stop-operation a",
            "Freeze of a and Freeze of b go, and nothing happens.",
        ),
        (
            "set web 3; listen web_0; maintain group web",
            "stop-operation web_0",
            "Freeze of web_0 goes, and nothing happens. Update domains from 1 on are left alone.",
        ),
        (
            "set web 3; listen web_0; maintain group web; approve web_0",
            "stop-operation web_0",
            "What has started finishes: Freeze of web_0. Update domains from 1 on are left alone.",
        ),
        (
            "set web 1 told 5; listen web_0; delete web_0",
            "cancel web_0",
            "A deletion cannot be canceled. Wait for it to finish.",
        ),
    ]);
}

#[test]
fn the_order_of_maintenance() {
    let told = |script: &str, target: fn(&World) -> Target, plan: Plan| {
        let world = World::after(script);
        let oracle = Oracle { region: &world.region, now: world.now, look: Look::First };
        let stages = oracle.order(&target(&world), &plan).map_err(|why| why.to_string())?;
        let line = |stage: super::Stage| {
            format!("{} UD {} {}: {}", stage.scope, stage.domain, stage.machines, plain(&stage.when))
        };
        Ok::<_, String>(stages.into_iter().map(line).collect::<Vec<_>>())
    };
    let group = |world: &World| Target::Group(world.group("web").id);
    let host = |_: &World| Target::Host("rack".into());
    assert_eq!(
        told("set web 3; listen web_0", group, freeze()).unwrap(),
        [
            "web UD 0 web_0: not before 12:15, earlier when approved",
            "web UD 1 web_1: 30m after the one before has ended, and 15m of notice: about 13:00:09 UTC, earlier when approvals are",
            "web UD 2 web_2: 30m after the one before has ended, and 15m of notice: about 13:45:18 UTC, earlier when approvals are",
        ]
    );
    assert_eq!(
        told("machine a on rack; machine b on rack; listen a", host, freeze()).unwrap(),
        [
            "a UD 0 a: not before 12:15; all of them together, earlier when all are approved",
            "b UD 0 b: not before 12:15, with the others; nobody in its scope is told",
        ]
    );
    let two = |world: &World| Target::Machines(vec![world.named("a").id, world.named("web_1").id]);
    assert_eq!(
        told("machine a; set web 2; listen web_0", two, freeze()).unwrap(),
        [
            "a UD 0 a: at once: nobody in its scope asks for events",
            "web UD 1 web_1: 30m after the one before has ended, and 15m of notice: about 12:45:09 UTC, earlier when approvals are",
        ]
    );
    let at = Some(NOON + Duration::from_secs(3600));
    assert_eq!(
        told("machine a on rack; listen a", host, Plan { at, ..freeze() }).unwrap(),
        ["a UD 0 a: not before 13:00, earlier when approved"]
    );
    let early = Plan { at: Some(NOON - Duration::from_secs(60)), ..freeze() };
    assert!(told("machine a on rack", host, early).unwrap_err().contains("is in the past"));
}

#[test]
fn what_is_said_again_does_not_change_with_the_clock() {
    let world = World::after("machine web; listen web");
    let at = |millis: i64| {
        let oracle = Oracle { region: &world.region, now: Timestamp(NOON.0 + millis), look: Look::Later };
        oracle.machine(&world.named("web"), Asked::Restart)
    };
    assert_eq!(at(1), at(12_345));
    assert!(at(0).contains("data-ahead=\"900000\""), "{}", at(0));
}
