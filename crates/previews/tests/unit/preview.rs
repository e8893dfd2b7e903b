//! Each case is a script that sets up a region, an action, and the expected preview. The clock starts at noon.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{
    AddressRequest, ApprovalScope, Approver, Cause, Command, Event, EventKind, EventsPolicy, EvictionPolicy, Group,
    Guid, Machine, MachineLookup, NewGroup, NewGroupKind, NewMachine, NewMembership, NewRollout, Orchestration, Plan,
    Power, Priority, Region, Report, Request, ResourceGroupRef, RolloutAction, RolloutPlan, RolloutTargets, SetModel,
    Settings, Status, Target, TerminateProfile, Timestamp, UpgradeMode,
};
use forewarn_render::{find_cause, find_dips};
use forewarn_widgets::html::RenderMode;

use super::{MachineAction, Preview};
use forewarn_widgets::outage::{Outages, Upcoming, count_down};

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
            ["set", name, count, "notify", minutes] => self.set(name, count, Some(minutes), EventsPolicy::default()),
            ["set", name, count, "approving"] => {
                let policy =
                    EventsPolicy { approve_user_reboot: true, approve_user_redeploy: true, ..EventsPolicy::default() };
                self.set(name, count, None, policy);
            }
            ["listen", name] => self.run(Command::Seen { machine: self.named(name).id }),
            ["stop", name] => self.run(Command::SetPower { machine: self.named(name).id, power: Power::Stopped }),
            ["approve", name] => {
                let (by, events) = (Approver::Management("ops".into()), vec![self.event_of(name).id]);
                self.run(Command::Approve { by, within: ApprovalScope::Region, events });
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
            ["rebalance", name] => self.ask(Request::RecommendRebalance { machine: self.named(name).id }),
            ["rollout", host] => {
                let (id, plan) = (self.guid(), reboot_plan());
                let targets = RolloutTargets::Hosts(vec![host.into()]);
                self.run(Command::StartRollout(Box::new(NewRollout { id, by: "ops".into(), targets, plan })));
            }
            ["delete", name] => self.ask(Request::Delete { machines: vec![self.named(name).id], group: None }),
            _ => panic!("{words:?}"),
        }
    }

    fn preview(&self, words: &[&str]) -> String {
        let preview = Preview { region: &self.region, now: self.now, mode: RenderMode::Page };
        match *words {
            ["approve", name] => preview.describe_approval(&self.event_of(name)),
            ["cancel", name] => preview.describe_cancellation(&self.event_of(name)),
            ["stop-operation", name] => preview
                .describe_operation_cancellation(self.region.operation(self.event_of(name).operations[0]).unwrap()),
            ["scale", name, capacity] => preview.describe_scaling(&self.group(name), capacity.parse().unwrap()),
            ["delete-group", name] => preview.describe_group_deletion(&self.group(name)),
            ["fail-host", host] => preview.describe_host_failure(self.region.host(host).unwrap(), EventKind::Reboot),
            [how @ ("each" | "together"), action, ref names @ ..] => {
                let machines: Vec<Arc<Machine>> = names.iter().map(|name| self.named(name)).collect();
                let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
                let previews = match how {
                    "each" => preview.describe_each(&machines, action_named(action)),
                    _ => preview.describe_together(&machines, action_named(action)),
                };
                previews.into_iter().map(|(name, preview)| format!("{name}: {preview}")).collect::<Vec<_>>().join(" | ")
            }
            [action, name] => preview.describe_action(&self.named(name), action_named(action)),
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
        (new.place, new.addresses) = (NewMembership::Standalone, AddressRequest::None);
        change(&mut new);
        self.run(Command::RegisterMachine(Box::new(new)));
    }

    fn set(&mut self, name: &str, count: &str, notify: Option<&str>, policy: EventsPolicy) {
        let terminate = notify.map(|minutes| {
            let timeout = Duration::from_secs(60 * minutes.parse::<u64>().unwrap());
            Arc::new(TerminateProfile { timeout, text: format!("PT{minutes}M").into() })
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
            MachineLookup::One(id) => self.region.machine(id).unwrap().clone(),
            found => panic!("{name}: {found:?}"),
        }
    }

    fn group(&self, name: &str) -> Arc<Group> {
        self.region.groups_named(name).next().unwrap().clone()
    }

    /// The event in progress, or else the first.
    fn event_of(&self, name: &str) -> Arc<Event> {
        let events: Vec<&Arc<Event>> = self.region.events_of(self.named(name).id).collect();
        let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
        (*started.or(events.first()).unwrap()).clone()
    }
}

fn action_named(word: &str) -> MachineAction {
    match word {
        "restart" => MachineAction::Restart,
        "redeploy" => MachineAction::Redeploy,
        "maintain" => MachineAction::PerformMaintenance,
        "evict" => MachineAction::Evict,
        "rebalance" => MachineAction::RecommendRebalance,
        "delete" => MachineAction::Delete,
        "fail" => MachineAction::Fail(EventKind::Reboot),
        "lose" => MachineAction::Fail(EventKind::Redeploy),
        "start" => MachineAction::Start,
        "stop" => MachineAction::Stop,
        "deallocate" => MachineAction::Deallocate,
        _ => panic!("{word}"),
    }
}

fn home() -> ResourceGroupRef {
    ResourceGroupRef { subscription: "s".into(), resource_group: "rg".into() }
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

/// The text without tags, with times shortened.
fn reboot_plan() -> RolloutPlan {
    RolloutPlan {
        action: RolloutAction::Reboot,
        at: None,
        parallel: 1,
        pause: Duration::ZERO,
        windows: Vec::new(),
        unavailable_max: None,
        failures_max: 0,
        notice: None,
        duration_secs: None,
        description: None,
    }
}

fn strip_tags(html: &str) -> String {
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
    for (script, action, expected) in cases {
        let preview = World::after(script).preview(&action.split(' ').collect::<Vec<_>>());
        assert_eq!(strip_tags(&preview), *expected, "{action} after '{script}'");
    }
}

#[test]
fn actions_on_one_machine_are_previewed() {
    check(&[
        (
            "set web 2; listen web_0",
            "restart web_0",
            "web_0 restarts on the same host and loses its memory. Reboot not before 12:15 (15m from now). web_0 and web_1 share the document; the event starts earlier if one of them approves.",
        ),
        (
            "machine web; listen web",
            "redeploy web",
            "web moves to another host and loses its memory and ephemeral disks. Redeploy not before 12:10 (10m from now). No other machine shares the document; the event starts earlier if it approves.",
        ),
        (
            "machine web; listen web",
            "maintain web",
            "Maintenance of web: it moves to another host and loses its memory and ephemeral disks. Redeploy not before 12:10 (10m from now). No other machine shares the document; the event starts earlier if it approves.",
        ),
        (
            "machine web",
            "restart web",
            "web restarts on the same host and loses its memory. No handler is connected in its event group, so it happens immediately, without notice.",
        ),
        (
            "set web 2 approving; listen web_0",
            "restart web_1",
            "web_1 restarts on the same host and loses its memory. The policy approves it: Reboot starts immediately.",
        ),
        (
            "machine web; listen web; restart web; wait 5",
            "restart web",
            "web restarts on the same host and loses its memory. It joins the Reboot that is already scheduled, not before 12:15.",
        ),
        ("machine web; stop web", "restart web", "Machine 'web' is not running. Start it first."),
    ]);
}

#[test]
fn deletions_and_evictions_are_previewed() {
    check(&[
        (
            "spot web deallocate; listen web",
            "evict web",
            "web is evicted and deallocated. It can be started again. Preempt not before 12:00:30 UTC (30s from now). No other machine shares the document; the event starts earlier if it approves.",
        ),
        (
            "spot web delete",
            "evict web",
            "web is evicted and deleted. No handler is connected in its event group, so it happens immediately, without notice.",
        ),
        (
            "machine web",
            "evict web",
            "Machine 'web' is not a Spot machine. Evictions and rebalance recommendations apply to Spot machines only.",
        ),
        (
            "machine web; listen web",
            "delete web",
            "web is deleted. Terminate notification is off, so it is deleted immediately, without notice.",
        ),
        (
            "set web 3 notify 7",
            "delete web_0",
            "web_0 is deleted, and the capacity of web drops from 3 to 2. No handler is connected in its event group, so it happens immediately, without notice.",
        ),
        (
            "set web 2 notify 7; listen web_0",
            "delete web_0",
            "web_0 is deleted, and the capacity of web drops from 2 to 1. Terminate not before 12:07 (7m from now). web_0 and web_1 share the document; the event starts earlier if one of them approves.",
        ),
        (
            "set web 3 notify 7; listen web_0; delete web_2; wait 1",
            "delete web_0",
            "web_0 is deleted, and the capacity of web drops from 2 to 1. Terminate not before 12:08 (7m from now). web_0, web_1 and web_2 share the document; the event starts earlier if one of them approves. Once approved, it waits for other deletions in the document that are neither approved nor due: web_2.",
        ),
        (
            "set web 3 notify 7; listen web_0",
            "scale web 1",
            "web_2 and web_1 are deleted. Terminate not before 12:07, or earlier once all deletions in the event group are approved.",
        ),
        ("set web 2", "scale web 1", "web_1 is deleted. web_1 gets no notice: terminate notification is off."),
        ("set web 1", "scale web 3", "2 machines are added with the latest model."),
        ("set web 1", "scale web 1", "Nothing changes."),
        (
            "set web 3 notify 7; listen web_0",
            "delete-group web",
            "web is deleted with 3 machines: Terminate not before 12:07, or earlier once all deletions in the event group are approved.",
        ),
        (
            "set web 3 notify 7",
            "delete-group web",
            "web and 3 machines are deleted immediately: no handler is connected, so there is no terminate notification.",
        ),
        ("set web 1; listen web_0", "delete-group web", "web and 1 machine are deleted immediately, without notice."),
        ("set web 0", "delete-group web", "web is deleted. It has no machines."),
    ]);
}

#[test]
fn failures_and_power_changes_are_previewed() {
    check(&[
        (
            "machine web; listen web",
            "fail web",
            "The host fails: web restarts and loses its memory. Reboot starts immediately, without notice, and appears in the document.",
        ),
        (
            "machine web; listen web; redeploy web; approve web",
            "lose web",
            "The host fails: web moves to another host and loses its memory and ephemeral disks. Redeploy starts immediately, without notice, and appears in the document. It supersedes the Redeploy that is in progress.",
        ),
        (
            "machine a on rack; machine b on rack; listen a",
            "fail-host rack",
            "Every machine on rack restarts and loses its memory. Reboot starts immediately, without notice, and appears in the documents of a. Not announced to b, because no handler is connected.",
        ),
        ("machine web", "stop web", "web is powered off immediately and stays on its host. This creates no event."),
        (
            "machine web; listen web; restart web",
            "deallocate web",
            "web is powered off immediately and leaves its host. This creates no event. All machines of its event group are then down, so the policy approves Reboot of web. Reboot of web ends without effect.",
        ),
        ("machine web; stop web", "start web", "web starts. This creates no event."),
    ]);
}

#[test]
fn actions_on_several_machines_are_previewed() {
    check(&[
        (
            "set web 2 notify 7; listen web_0",
            "together delete web_0 web_1",
            "web_0: web_0 is deleted, and the capacity of web drops from 2 to 0. Terminate not before 12:07 (7m from now). web_0 and web_1 share the document; the event starts earlier if one of them approves. Once approved, it waits for other deletions in the document that are neither approved nor due: web_1. | web_1: web_1 is deleted, and the capacity of web drops from 2 to 0. Terminate not before 12:07 (7m from now). web_0 and web_1 share the document; the event starts earlier if one of them approves. Once approved, it waits for other deletions in the document that are neither approved nor due: web_0.",
        ),
        (
            "set web 2; listen web_0; stop web_1",
            "together restart web_0 web_1",
            "Refused: Machine 'web_1' is not running. Start it first.",
        ),
        (
            "set web 2; stop web_1",
            "each restart web_0 web_1",
            "web_0: web_0 restarts on the same host and loses its memory. No handler is connected in its event group, so it happens immediately, without notice. | web_1: Machine 'web_1' is not running. Start it first.",
        ),
    ]);
    let names: Vec<String> = (0..11).map(|number| format!("web_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::after("set web 11; listen web_0");
    let limit = "This subscription already has 10 scheduled restart or redeploy operations";
    assert!(world.preview(&[&["each", "restart"], &names[..]].concat()).contains(&format!("web_10: {limit}")));
    assert!(!world.preview(&[&["together", "restart"], &names[..]].concat()).contains(limit));
}

#[test]
fn approvals_are_previewed() {
    check(&[
        ("machine web; listen web; restart web", "approve web", "Reboot of web starts now instead of at 12:15."),
        (
            "machine a on rack; machine b on rack; machine c on rack; listen a; listen b; listen c; maintain host rack",
            "approve a",
            "Freeze of a belongs to a host operation that starts when all its events are approved. Still missing: b and c. It starts at 12:15 at the latest.",
        ),
        (
            "machine a on rack; machine b on rack; listen a; listen b; maintain host rack; approve b",
            "approve a",
            "Freeze of a starts now, together with Freeze of b.",
        ),
        (
            "set web 3 notify 7; listen web_0; delete web_1; delete web_2",
            "approve web_1",
            "Terminate of web_1 waits for other deletions in the document that are neither approved nor due: web_2. It starts at 12:07 at the latest.",
        ),
        (
            "set web 3 notify 7; listen web_0; delete web_1; delete web_2; approve web_2",
            "approve web_1",
            "Terminate of web_1 starts now, together with Terminate of web_2.",
        ),
    ]);
    let mut world = World::after("machine web; listen web; restart web; redeploy web");
    let reboot = world.region.events_of(world.named("web").id).next().unwrap().clone();
    let redeploy = world.region.events_of(world.named("web").id).nth(1).unwrap().clone();
    let by = Approver::Management("ops".into());
    world.run(Command::Approve { by, within: ApprovalScope::Region, events: vec![reboot.id] });
    let preview = Preview { region: &world.region, now: world.now, mode: RenderMode::Page };
    assert_eq!(
        strip_tags(&preview.describe_approval(&redeploy)),
        "Redeploy of web starts when the Reboot of web has finished."
    );
}

#[test]
fn cancellations_are_previewed() {
    check(&[
        ("machine web; listen web; restart web", "cancel web", "Reboot of web is canceled."),
        (
            "machine web; listen web; restart web; restart web",
            "cancel web",
            "2 requests are waiting for it; all of them are canceled. Reboot of web is canceled.",
        ),
        (
            "machine web; listen web; restart web; restart web",
            "stop-operation web",
            "Reboot of web stays scheduled, because another request is waiting for it.",
        ),
        (
            "machine a on rack; machine b on rack; listen a; listen b; maintain host rack",
            "stop-operation a",
            "Freeze of a and Freeze of b are canceled.",
        ),
        (
            "set web 3; listen web_0; maintain group web",
            "stop-operation web_0",
            "Freeze of web_0 is canceled. Update domains from 1 on are skipped.",
        ),
        (
            "set web 3; listen web_0; maintain group web; approve web_0",
            "stop-operation web_0",
            "Events in progress will finish: Freeze of web_0. Update domains from 1 on are skipped.",
        ),
        (
            "set web 1 notify 5; listen web_0; delete web_0",
            "cancel web_0",
            "A deletion cannot be canceled. Wait for it to finish.",
        ),
    ]);
}

#[test]
fn steps_of_maintenance_are_previewed_in_order() {
    let describe = |script: &str, target: fn(&World) -> Target, plan: Plan| {
        let world = World::after(script);
        let preview = Preview { region: &world.region, now: world.now, mode: RenderMode::Page };
        let steps = preview.plan_steps(&target(&world), &plan).map_err(|why| why.to_string())?;
        let line = |step: super::PlanStep| {
            format!("{} UD {} {}: {}", step.scope, step.domain, step.machines, strip_tags(&step.when))
        };
        Ok::<_, String>(steps.into_iter().map(line).collect::<Vec<_>>())
    };
    let group = |world: &World| Target::Group(world.group("web").id);
    let host = |_: &World| Target::Host("rack".into());
    assert_eq!(
        describe("set web 3; listen web_0", group, freeze()).unwrap(),
        [
            "web UD 0 web_0: not before 12:15, earlier if approved",
            "web UD 1 web_1: 30m after the previous update domain finishes, plus 15m of notice: about 13:00:09 UTC, earlier if approved early",
            "web UD 2 web_2: 30m after the previous update domain finishes, plus 15m of notice: about 13:45:18 UTC, earlier if approved early",
        ]
    );
    assert_eq!(
        describe("machine a on rack; machine b on rack; listen a", host, freeze()).unwrap(),
        [
            "a UD 0 a: not before 12:15, all together; earlier if all are approved",
            "b UD 0 b: not before 12:15, together with the others; no handler is connected",
        ]
    );
    let two = |world: &World| Target::Machines(vec![world.named("a").id, world.named("web_1").id]);
    assert_eq!(
        describe("machine a; set web 2; listen web_0", two, freeze()).unwrap(),
        [
            "a UD 0 a: immediately: no handler is connected",
            "web UD 1 web_1: 30m after the previous update domain finishes, plus 15m of notice: about 12:45:09 UTC, earlier if approved early",
        ]
    );
    let at = Some(NOON + Duration::from_secs(3600));
    assert_eq!(
        describe("machine a on rack; listen a", host, Plan { at, ..freeze() }).unwrap(),
        ["a UD 0 a: not before 13:00, earlier if approved"]
    );
    let early = Plan { at: Some(NOON - Duration::from_secs(60)), ..freeze() };
    assert!(describe("machine a on rack", host, early).unwrap_err().contains("is in the past"));
}

#[test]
fn updates_do_not_change_with_the_clock() {
    let world = World::after("machine web; listen web");
    let at = |millis: i64| {
        let preview = Preview { region: &world.region, now: Timestamp(NOON.0 + millis), mode: RenderMode::Update };
        preview.describe_action(&world.named("web"), MachineAction::Restart)
    };
    assert_eq!(at(1), at(12_345));
    assert!(at(0).contains("data-ahead=\"900000\""), "{}", at(0));
}

#[test]
fn a_machine_that_is_being_deleted_is_not_down() {
    let count = |script: &str| {
        let world = World::after(script);
        let outages = Outages::of(&world.region, world.now);
        assert_eq!(count_down(&world.region), outages.down());
        let machines = |upcoming: Option<Upcoming>| upcoming.map_or(0, |upcoming| upcoming.machines);
        (outages.down(), machines(outages.soon()), machines(outages.deleted()))
    };
    let set = "set web 2 notify 5; listen web_0; delete web_1";
    assert_eq!(count(set), (0, 0, 1));
    assert_eq!(count(&format!("{set}; approve web_1")), (0, 0, 1), "the deletion has started");
    assert_eq!(count("machine vm; restart vm"), (1, 0, 0));
    assert_eq!(count("machine vm; listen vm; restart vm"), (0, 0, 0));
    assert_eq!(count("machine vm; listen vm; restart vm; wait 6"), (0, 1, 0));
}

#[test]
fn a_recommendation_takes_no_machine_down() {
    let count = |script: &str| {
        let world = World::after(script);
        let outages = Outages::of(&world.region, world.now);
        assert_eq!(count_down(&world.region), outages.down());
        let machines = |upcoming: Option<Upcoming>| upcoming.map_or(0, |upcoming| upcoming.machines);
        (outages.down(), machines(outages.soon()), machines(outages.deleted()))
    };
    assert_eq!(count("spot vm delete; listen vm; rebalance vm; wait 6"), (0, 0, 0), "scheduled");
    assert_eq!(count("spot vm delete; listen vm; rebalance vm; approve vm"), (0, 0, 0), "started");
}

#[test]
fn a_rollout_that_owns_the_host_is_named() {
    let restart = |script: &str| strip_tags(&World::after(script).preview(&["restart", "vm"]));
    let set_up = "machine vm on h1; machine other on h2; listen vm";
    let text = restart(&format!("{set_up}; rollout h1"));
    assert!(text.ends_with("Host h1 belongs to the rollout Reboot of host h1, which has reached it."), "{text}");
    let text = restart(&format!("{set_up}; rollout h2"));
    assert!(!text.contains("rollout"), "{text}");
}

#[test]
fn operations_at_the_same_time_take_a_group_below_its_floor() {
    let dips = |script: &str| {
        let world = World::after(script);
        let event = world.event_of("web_0");
        let own = find_cause(&world.region, event.operations[0]);
        let dips = find_dips(&world.region, world.now, own, &[&event]);
        dips.iter().map(|dip| (dip.up, dip.then, dip.floor, dip.others.len(), dip.is_below())).collect::<Vec<_>>()
    };
    let set_up = "set web 4; listen web_0; restart web_0";
    assert_eq!(dips(set_up), [(4, 3, 3, 0, false)]);
    assert_eq!(dips(&format!("{set_up}; restart web_1; restart web_2")), [(4, 1, 3, 2, true)]);
    assert_eq!(dips(&format!("{set_up}; wait 11; restart web_1")), [(4, 3, 3, 0, false)], "the other is later");
}

#[test]
fn a_deletion_makes_its_group_smaller() {
    let dips = |script: &str, machine: &str| {
        let world = World::after(script);
        let event = world.event_of(machine);
        let own = find_cause(&world.region, event.operations[0]);
        let dips = find_dips(&world.region, world.now, own, &[&event]);
        dips.iter()
            .map(|dip| (dip.is_shrinking, dip.size, dip.all, dip.up, dip.then, dip.floor, dip.others.len()))
            .collect::<Vec<_>>()
    };
    let set = "set web 4 notify 5; listen web_0; delete web_3";
    assert_eq!(dips(set, "web_3"), [(true, 4, 3, 4, 3, 2, 0)]);
    assert_eq!(dips(&format!("{set}; approve web_3"), "web_3"), [(true, 4, 3, 3, 3, 2, 0)], "in progress");
    assert_eq!(dips(&format!("{set}; delete web_2"), "web_3"), [(true, 4, 2, 4, 2, 1, 0)], "two at the same time");
    assert_eq!(dips(&format!("{set}; wait 1; delete web_2"), "web_2"), [(true, 4, 2, 4, 2, 1, 0)], "after the other");
    // A restart is compared with the smaller group.
    assert_eq!(dips(&format!("{set}; restart web_0"), "web_0"), [(false, 4, 3, 4, 2, 2, 0)]);
    assert_eq!(dips("machine vm; listen vm; restart vm", "vm"), [], "a standalone machine has no floor");
}
