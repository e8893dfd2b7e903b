//! A small language for lives of a fleet. A script is lines; `#` begins a remark.
//!
//! ```text
//! vm a [spot] [policy=delete] [host=h1] [ud=1] [term=10m] [sub=s]   a machine on its own
//! avset s a b c · service s a b     a group with these machines, domains round robin
//! set w uniform 3 [term=10m] [max=2] [mode=manual|rolling] [zones=2] [fd=3] [spot] · set w flexible 3 …
//! host h1 · unhost h1 · move a h2|-
//! on a                              a asks for its document
//! restart|redeploy|perform|evict a  · delete a b · drop s (a group) · fail a|host h1|group s [redeploy]
//! maintain a|host h1|group s freeze|reboot|redeploy [in=1h] [notice=30m] [migration]
//! cancel op1 · uncall e1 (cancel by event) · approve a e1 e2 (by guest) · ack e1 (from outside)
//! done e1 · failed e1               the driver's report
//! off a · deallocate a · start a    power
//! scale w 3 · model w term=5m|none · upgrade w a b · protect a · policy a|s reboot,redeploy,-down
//! wait 15m                          time passes, each deadline its own step
//! jump 1h                           time passes unseen, then one look at the clock
//! crash 2h                          the server does not run for so long
//! ```
//!
//! `LINE = Reason` expects a refusal. `a> 2: e1 Reboot Scheduled a 15:00` is the document of `a`:
//! incarnation, then `id type status resources [notice left]`, joined by ` | `, or `-`; `a> off` and
//! `a> gone`. `op1> succeeded` is the state of an operation, `machines> a b` who there is,
//! `a? running ud=0 host=h1` facts of a machine. Events are e1, e2… and operations op1, op2… in order
//! of appearance. After every line, what was written is loaded again and must be the same region.

use std::collections::BTreeMap;
use std::time::Duration;

use forewarn_core::*;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

pub fn check(script: &str) {
    check_with(Settings::default(), script);
}

pub fn check_with(settings: Settings, script: &str) {
    let mut world = World::new(settings);
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            world.line(line).unwrap_or_else(|problem| panic!("line {}: `{line}`\n{problem}\nin\n{script}", number + 1));
        }
    }
}

struct World {
    region: Region,
    stored: BTreeMap<Key, Entity>,
    now: Timestamp,
    events: Vec<EventId>,
    operations: Vec<OperationId>,
    next_guid: u128,
}

type Line = Result<(), String>;

impl World {
    fn new(settings: Settings) -> World {
        World {
            region: Region::new(settings),
            stored: BTreeMap::new(),
            now: START,
            events: Vec::new(),
            operations: Vec::new(),
            next_guid: 0,
        }
    }

    fn line(&mut self, line: &str) -> Line {
        if let Some((who, expected)) = line.split_once('>') {
            return same(expected.trim(), &self.show(who.trim())?);
        }
        if let Some((who, expected)) = line.split_once('?') {
            return same(expected.trim(), &self.facts(who.trim(), expected)?);
        }
        let (line, refusal) = match line.split_once(" = ") {
            Some((line, refusal)) => (line.trim(), Some(refusal.trim())),
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words[0], refusal) {
            ("wait", None) => self.wait(duration(words[1])?),
            ("jump", None) => {
                self.now = self.now + duration(words[1])?;
                self.apply(&Command::Tick).map_err(|refusal| refusal.to_string())
            }
            ("crash", None) => {
                self.now = self.now + duration(words[1])?;
                self.apply(&Command::Resume).map_err(|refusal| refusal.to_string())
            }
            ("avset" | "service", None) => self.group_with_members(&words),
            _ => {
                let command = self.command(&words)?;
                self.expect(&command, refusal)
            }
        }
    }

    fn expect(&mut self, command: &Command, refusal: Option<&str>) -> Line {
        match (self.apply(command), refusal) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(refusal)) => Err(format!("went through, but should be refused: {refusal}")),
            (Err(reason), None) => Err(format!("refused: {reason:?}: {reason}")),
            (Err(reason), Some(refusal)) => {
                let debug = format!("{reason:?}");
                if debug.split(|c: char| !c.is_alphanumeric()).next() == Some(refusal) {
                    Ok(())
                } else {
                    Err(format!("refused by {debug}"))
                }
            }
        }
    }

    fn wait(&mut self, span: Duration) -> Line {
        let until = self.now + span;
        while let Some(deadline) = self.region.next_deadline().filter(|deadline| *deadline <= until) {
            if deadline <= self.region.now() {
                return Err(format!("the next deadline, {deadline:?}, is not after now"));
            }
            self.now = deadline;
            self.apply(&Command::Tick).map_err(|refusal| refusal.to_string())?;
        }
        self.now = until;
        Ok(())
    }

    fn apply(&mut self, command: &Command) -> Result<(), Rejection> {
        let done = self.region.apply(command, self.now)?;
        for write in &done.writes {
            match write {
                Write::Put(entity) => drop(self.stored.insert(entity.key(), entity.clone())),
                Write::Delete(key) => drop(self.stored.remove(key)),
            }
        }
        let reloaded = Region::load(done.region.settings().clone(), self.stored.values().cloned())
            .expect("what was written loads");
        assert!(
            reloaded.entities().eq(done.region.entities()),
            "what was stored is not what is shown after {command:?}"
        );
        self.region = done.region;
        self.learn_names();
        Ok(())
    }

    /// Gives labels to events and operations that are new.
    fn learn_names(&mut self) {
        let mut events: Vec<_> = self.region.events().filter(|event| !self.events.contains(&event.id)).collect();
        events.sort_by_key(|event| event.seq);
        let events: Vec<_> = events.into_iter().map(|event| event.id).collect();
        self.events.extend(events);
        let known = &self.operations;
        let operations: Vec<_> =
            self.region.operations().map(|operation| operation.id).filter(|id| !known.contains(id)).collect();
        self.operations.extend(operations);
    }

    // --- showing ---------------------------------------------------------------------------------

    fn show(&self, who: &str) -> Result<String, String> {
        if who == "machines" {
            return Ok(self.region.machines().map(|machine| &*machine.name).collect::<Vec<_>>().join(" "));
        }
        if let Some(number) = who.strip_prefix("op") {
            return self.show_operation(number);
        }
        let Ok(machine) = self.machine(who) else { return Ok("gone".into()) };
        let machine = self.region.machine(machine).unwrap();
        if !self.region.is_on(machine.scope) {
            return Ok("off".into());
        }
        let events: Vec<String> = self.region.document(machine.scope).map(|event| self.show_event(event)).collect();
        let list = if events.is_empty() { "-".into() } else { events.join(" | ") };
        Ok(format!("{}: {list}", self.region.scope(machine.scope).unwrap().incarnation))
    }

    fn show_event(&self, event: &Event) -> String {
        let label = self.events.iter().position(|id| *id == event.id).map_or("e?".into(), |n| format!("e{}", n + 1));
        let names: Vec<&str> = event.resources.iter().map(|resource| &*resource.name).collect();
        match event.status {
            Status::Scheduled => {
                let left = event.not_before.since(self.now).as_secs();
                format!("{label} {:?} Scheduled {} {}:{:02}", event.kind, names.join(","), left / 60, left % 60)
            }
            Status::Started { .. } => format!("{label} {:?} Started {}", event.kind, names.join(",")),
            Status::Ended { .. } => "ended".into(),
        }
    }

    fn show_operation(&self, number: &str) -> Result<String, String> {
        let id = self.operation(&format!("op{number}"))?;
        let Some(operation) = self.region.operation(id) else { return Ok("forgotten".into()) };
        Ok(match &operation.state {
            OperationState::Running => "running".into(),
            OperationState::Ended { result: OperationResult::Succeeded, .. } => "succeeded".into(),
            OperationState::Ended { result: OperationResult::Canceled { .. }, .. } => "canceled".into(),
            OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
                let text = format!("{outcome:?}");
                format!("failed {}", text.split('(').next().unwrap())
            }
        })
    }

    /// The facts that are asked for, in the order asked.
    fn facts(&self, who: &str, asked: &str) -> Result<String, String> {
        if let Some(group) = self.region.groups_named(who).next() {
            let GroupKind::ScaleSet(set) = &group.kind else { return Ok("group".into()) };
            return Ok(format!("capacity={}", set.capacity));
        }
        let machine = self.region.machine(self.machine(who)?).unwrap();
        let show = |word: &str| match word.split('=').next().unwrap() {
            "ud" => format!("ud={}", machine.update_domain),
            "fd" => format!("fd={}", machine.fault_domain),
            "host" => format!("host={}", machine.host.as_deref().unwrap_or("-")),
            "zone" => format!("zone={}", machine.zone.as_deref().unwrap_or("-")),
            "ip" => format!("ip={}", machine.addresses.first().map_or("-".into(), |address| address.ip.to_string())),
            "term" => format!(
                "term={}",
                machine
                    .terminate
                    .as_ref()
                    .map_or("none".into(), |profile| format!("{}m", profile.timeout.as_secs() / 60))
            ),
            _ => format!("{:?}", machine.power).to_lowercase(),
        };
        Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "))
    }

    // --- names -----------------------------------------------------------------------------------

    fn machine(&self, name: &str) -> Result<MachineId, String> {
        match self.region.machine_by_name(name, None) {
            Found::One(id) => Ok(id),
            Found::Many(_) | Found::Nothing if name == "nobody" => Ok(MachineId(999_999)),
            found => Err(format!("no machine '{name}': {found:?}")),
        }
    }

    fn machines(&self, names: &[&str]) -> Result<Vec<MachineId>, String> {
        names.iter().map(|name| self.machine(name)).collect()
    }

    fn group(&self, name: &str) -> Result<GroupId, String> {
        self.region.groups_named(name).next().map(|group| group.id).ok_or_else(|| format!("no group '{name}'"))
    }

    fn event(&self, label: &str) -> Result<EventId, String> {
        let number: usize =
            label.strip_prefix('e').and_then(|n| n.parse().ok()).ok_or_else(|| format!("'{label}' is no event"))?;
        Ok(self.events.get(number - 1).copied().unwrap_or(Guid(0xdead)))
    }

    fn operation(&self, label: &str) -> Result<OperationId, String> {
        let number: usize = label
            .strip_prefix("op")
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| format!("'{label}' is no operation"))?;
        Ok(self.operations.get(number - 1).copied().unwrap_or(Guid(0xdead)))
    }

    fn guid(&mut self) -> Guid {
        self.next_guid += 1;
        Guid(self.next_guid << 64)
    }

    fn target<'a>(&self, words: &'a [&'a str]) -> Result<(Target, &'a [&'a str]), String> {
        Ok(match words[0] {
            "host" => (Target::Host(words[1].into()), &words[2..]),
            "group" => (Target::Group(self.group(words[1])?), &words[2..]),
            name => (Target::Machine(self.machine(name)?), &words[1..]),
        })
    }

    // --- commands --------------------------------------------------------------------------------

    fn command(&mut self, words: &[&str]) -> Result<Command, String> {
        let rest = &words[1..];
        Ok(match words[0] {
            "vm" => Command::RegisterMachine(Box::new(self.new_machine(rest, Place::Standalone)?)),
            "set" => self.new_set(rest)?,
            "host" => Command::RegisterHost { name: rest[0].into() },
            "unhost" => Command::RemoveHost { name: rest[0].into() },
            "move" => {
                let host = Some((rest[1] != "-").then(|| rest[1].into()));
                self.change(rest[0], MachineChange { host, ..Default::default() })?
            }
            "ud" => {
                let update_domain = Some(rest[1].parse().map_err(|_| "not a domain")?);
                self.change(rest[0], MachineChange { update_domain, ..Default::default() })?
            }
            "protect" => self.change(rest[0], MachineChange { protected: Some(true), ..Default::default() })?,
            "policy" => self.policy(rest)?,
            "on" => Command::Seen { machine: self.machine(rest[0])? },
            "off" => self.power(rest[0], Power::Stopped)?,
            "deallocate" => self.power(rest[0], Power::Deallocated)?,
            "start" => self.power(rest[0], Power::Running)?,
            "restart" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::Restart { machine })
            }
            "redeploy" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::Redeploy { machine })
            }
            "perform" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::PerformMaintenance { machine })
            }
            "evict" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::Evict { machine })
            }
            "delete" => {
                let machines = self.machines(rest)?;
                self.request(Request::Delete { machines, group: None })
            }
            "drop" => {
                let group = Some(self.group(rest[0])?);
                self.request(Request::Delete { machines: Vec::new(), group })
            }
            "fail" => {
                let (target, rest) = self.target(rest)?;
                let kind = rest.first().map_or(Ok(EventKind::Reboot), |word| kind(word))?;
                self.request(Request::Fail { target, kind })
            }
            "maintain" => self.maintain(rest)?,
            "cancel" => Command::Cancel { operation: self.operation(rest[0])?, by: "test".into() },
            "uncall" => Command::CancelEvent { event: self.event(rest[0])?, by: "test".into() },
            "approve" => {
                let machine = self.machine(rest[0])?;
                let events = rest[1..].iter().map(|label| self.event(label)).collect::<Result<_, _>>()?;
                Command::Approve {
                    by: Approver::Guest { machine, name: rest[0].into() },
                    within: Within::ScopeOf(machine),
                    events,
                }
            }
            "ack" => {
                let events = rest.iter().map(|label| self.event(label)).collect::<Result<_, _>>()?;
                Command::Approve { by: Approver::Management("test".into()), within: Within::Region, events }
            }
            "done" => Command::Report { event: self.event(rest[0])?, report: Report::Done },
            "failed" => Command::Report { event: self.event(rest[0])?, report: Report::Failed("it broke".into()) },
            "scale" => {
                let capacity = rest[1].parse().map_err(|_| "not a number")?;
                let scale = Scale { capacity, by: "test".into(), operation: self.guid() };
                self.change_group(rest[0], GroupChange { capacity: Some(scale), ..Default::default() })?
            }
            "model" => self.model(rest)?,
            "upgrade" => {
                Command::UpgradeInstances { group: self.group(rest[0])?, machines: self.machines(&rest[1..])? }
            }
            other => return Err(format!("no such word: {other}")),
        })
    }

    fn request(&mut self, request: Request) -> Command {
        Command::Request { operation: self.guid(), by: "test".into(), request, event: None }
    }

    fn change(&mut self, name: &str, change: MachineChange) -> Result<Command, String> {
        Ok(Command::ChangeMachine { machine: self.machine(name)?, change: Box::new(change) })
    }

    fn change_group(&mut self, name: &str, change: GroupChange) -> Result<Command, String> {
        Ok(Command::ChangeGroup { group: self.group(name)?, change: Box::new(change), salt: self.guid() })
    }

    fn power(&self, name: &str, power: Power) -> Result<Command, String> {
        Ok(Command::SetPower { machine: self.machine(name)?, power })
    }

    fn policy(&mut self, words: &[&str]) -> Result<Command, String> {
        let has = |word| words[1].split(',').any(|each| each == word);
        let policy = EventsPolicy {
            approve_user_reboot: has("reboot"),
            approve_user_redeploy: has("redeploy"),
            approve_all_instances_down: !has("-down"),
        };
        if self.group(words[0]).is_ok() {
            return self.change_group(words[0], GroupChange { policy: Some(policy), ..Default::default() });
        }
        self.change(words[0], MachineChange { policy: Some(Some(policy)), ..Default::default() })
    }

    fn maintain(&mut self, words: &[&str]) -> Result<Command, String> {
        let (target, rest) = self.target(words)?;
        let option = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)).map(duration).transpose();
        let plan = Plan {
            kind: kind(rest[0])?,
            cause: if rest.contains(&"migration") { Cause::LiveMigration } else { Cause::HostMaintenance },
            at: option("in=")?.map(|span| self.now + span),
            notice: option("notice=")?,
            duration_secs: None,
            description: None,
        };
        Ok(self.request(Request::Maintain { target, plan }))
    }

    fn model(&mut self, words: &[&str]) -> Result<Command, String> {
        let group = self.region.group(self.group(words[0])?).unwrap();
        let GroupKind::ScaleSet(set) = &group.kind else { return Err("not a set".into()) };
        let text = words[1].strip_prefix("term=").ok_or("term=…")?;
        let terminate = if text == "none" { None } else { Some(profile(text)?) };
        let model = SetModel { terminate, ..set.model.clone() };
        self.change_group(words[0], GroupChange { model: Some(model), ..Default::default() })
    }

    fn new_machine(&mut self, words: &[&str], place: Place) -> Result<NewMachine, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        Ok(NewMachine {
            vm_id: self.guid(),
            name: words[0].into(),
            home: home(option("sub=").unwrap_or("s")),
            place,
            host: option("host=").map(Into::into),
            update_domain: option("ud=").map(|n| n.parse().unwrap()),
            fault_domain: None,
            zone: None,
            priority: if words.contains(&"spot") { Priority::Spot } else { Priority::Regular },
            eviction: if words.contains(&"policy=delete") {
                EvictionPolicy::Delete
            } else {
                EvictionPolicy::Deallocate
            },
            addresses: AddressWish::None,
            terminate: option("term=").map(profile).transpose()?,
            policy: None,
            details: Default::default(),
        })
    }

    fn group_with_members(&mut self, words: &[&str]) -> Line {
        let avset = words[0] == "avset";
        let new = NewGroup {
            name: words[1].into(),
            home: home("s"),
            kind: if avset { NewGroupKind::AvailabilitySet } else { NewGroupKind::CloudService },
            policy: EventsPolicy::default(),
            update_domains: None,
            fault_domains: None,
            salt: self.guid(),
        };
        self.expect(&Command::CreateGroup(Box::new(new)), None)?;
        let options: Vec<&str> = words[2..].iter().copied().filter(|word| word.contains('=')).collect();
        for name in words[2..].iter().filter(|word| !word.contains('=')) {
            let group = self.group(words[1])?;
            let place = if avset {
                Place::AvailabilitySet(group)
            } else {
                Place::CloudService { service: group, role: "FrontEnd".into() }
            };
            let all: Vec<&str> = std::iter::once(*name).chain(options.iter().copied()).collect();
            let new = self.new_machine(&all, place)?;
            self.expect(&Command::RegisterMachine(Box::new(new)), None)?;
        }
        Ok(())
    }

    fn new_set(&mut self, words: &[&str]) -> Result<Command, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let zones: u32 = option("zones=").map_or(0, |n| n.parse().unwrap());
        let kind = NewGroupKind::ScaleSet {
            orchestration: if words[1] == "flexible" { Orchestration::Flexible } else { Orchestration::Uniform },
            upgrade_mode: match option("mode=") {
                Some("manual") => UpgradeMode::Manual,
                Some("rolling") => UpgradeMode::Rolling,
                _ => UpgradeMode::Automatic,
            },
            capacity: words[2].parse().map_err(|_| "not a number")?,
            placement_group_max: option("max=").map(|n| n.parse().unwrap()),
            zones: (1..=zones).map(|n| n.to_string().into()).collect(),
            model: SetModel {
                priority: if words.contains(&"spot") { Priority::Spot } else { Priority::Regular },
                eviction: if words.contains(&"policy=delete") {
                    EvictionPolicy::Delete
                } else {
                    EvictionPolicy::Deallocate
                },
                terminate: option("term=").map(profile).transpose()?,
                details: Default::default(),
            },
        };
        Ok(Command::CreateGroup(Box::new(NewGroup {
            name: words[0].into(),
            home: home("s"),
            kind,
            policy: EventsPolicy::default(),
            update_domains: option("ud=").map(|n| n.parse().unwrap()),
            fault_domains: option("fd=").map(|n| n.parse().unwrap()),
            salt: self.guid(),
        })))
    }
}

fn home(subscription: &str) -> Home {
    Home { subscription: subscription.into(), resource_group: "rg".into() }
}

fn profile(text: &str) -> Result<TerminateProfile, String> {
    Ok(TerminateProfile { timeout: duration(text)?, text: text.into() })
}

fn kind(word: &str) -> Result<EventKind, String> {
    Ok(match word {
        "freeze" => EventKind::Freeze,
        "reboot" => EventKind::Reboot,
        "redeploy" => EventKind::Redeploy,
        "preempt" => EventKind::Preempt,
        "terminate" => EventKind::Terminate,
        other => return Err(format!("no such type: {other}")),
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().rev().take_while(|c| c.is_alphabetic()).count());
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is no duration"))?;
    Ok(match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number * 60),
        "h" => Duration::from_secs(number * 3600),
        _ => return Err(format!("'{text}' is no duration")),
    })
}

fn same(expected: &str, actual: &str) -> Line {
    if expected == actual { Ok(()) } else { Err(format!("expected {expected}\n but was {actual}")) }
}
