//! A small language for lives of a fleet. A script is lines; `#` begins a remark.
//!
//! ```text
//! vm a [spot] [policy=delete] [host=h1] [ud=1] [fd=1] [zone=1] [term=10m] [sub=s] [rg=rg] [ip=10.0.0.1|pool] [vmid=b]
//!                                   a machine on its own; vmid=b wants the one that b has
//! avset s a b c [uds=3] [fds=2] · service s a b     a group with these machines, domains round robin
//! join s d [as=avset|service]       one more machine for a group (options as for vm)
//! set w uniform 3 [term=10m] [max=2] [mode=manual|rolling] [zones=2] [ud=5] [fd=3] [spot] · set w flexible 3 …
//! host h1 · unhost h1 · move a h2|- · ud a 2 · fd a 2 · zone a 2|- · addr a 10.0.0.1 · term a 5m|none
//! on a                              a asks for its document
//! restart|redeploy|perform|evict a  · delete a b · drop s [a b] (a group) · fail a|host h1|group s [redeploy]
//! maintain a|host h1|group s freeze|reboot|redeploy [in=1h] [ago=1m] [notice=30m] [migration] [secs=30] ["text"]
//!   … id=7 at the end of a request wants this id for its event, op=op1 this operation's id for itself
//! cancel op1 · uncall e1 (cancel by event) · approve a e1 e2 (by guest) · ack e1 [in=s] (from outside, of a group)
//! done e1 · failed e1               the driver's report
//! off a · deallocate a · start a    power
//! scale w 3 · model w term=5m|none|spot · mode w manual · upgrade w a b · protect a · unprotect a
//! policy a|s reboot,redeploy,-down|none
//! wait 15m                          time passes, each deadline its own step
//! jump 1h                           time passes unseen, then one look at the clock
//! crash 2h                          the server does not run for so long
//! back 5m                           the clock that commands come with is set back
//! notice 60                         the server starts again with this scale of notice
//! 10x LINE                          the line ten times
//! ```
//!
//! `LINE = Reason` expects a refusal. `a> 2: e1 Reboot Scheduled a 15:00` is the document of `a`:
//! incarnation, then `id type status resources [notice left]`, joined by ` | `, or `-`; `a> off` and
//! `a> gone`. `op1> succeeded` is the state of an operation, `e1> started` or `e1> hidden scheduled` that
//! of an event, `machines> a b` who there is, `drivers> e1` which events drivers are to carry out,
//! `told> e1 appeared, e1 started` what the line before added to history, `left> 0` how many events and
//! operations are remembered. `a? running ud=0 host=h1` are facts of a machine (ud fd host zone ip term
//! part power), `w? capacity=3 size=4 parts=1` of a set, `e1? Platform 9 "Host server…"` source, duration
//! and description of an event, `e1? id=7` its id.
//!
//! Events are e1, e2… and operations op1, op2… in order of appearance. Instances of Flexible sets, whose
//! names are made up, are w/1, w/2… in order of creation. `nobody`, `nogroup`, `e99` and `op99` are not
//! there. After every line, what was written is loaded again and must be the same region, and what drivers
//! were told must add up to what is under way.

use std::collections::{BTreeMap, BTreeSet};
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
    /// What the last line put into history.
    told: Vec<String>,
    /// Instances with names that are made up, and what scripts call them.
    made_up: BTreeMap<MachineId, String>,
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
            told: Vec::new(),
            made_up: BTreeMap::new(),
        }
    }

    fn line(&mut self, line: &str) -> Line {
        let question = |sign| line.split_once(sign).filter(|(who, _)| !who.contains(' '));
        if let Some((who, expected)) = question('>') {
            return same(expected.trim(), &self.show(who)?);
        }
        if let Some((who, expected)) = question('?') {
            return same(expected.trim(), &self.facts(who, expected.trim())?);
        }
        self.told.clear();
        if let Some((times, line)) = line.split_once("x ").and_then(|(n, line)| Some((n.parse::<u32>().ok()?, line))) {
            return (0..times).try_for_each(|_| self.line(line));
        }
        let (line, refusal) = match line.split_once(" = ") {
            Some((line, refusal)) => (line.trim(), Some(refusal.trim())),
            None => (line, None),
        };
        let (line, text) = match line.split_once('"') {
            Some((line, text)) => (line, Some(text.trim_end_matches('"'))),
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "wait" => self.wait(duration(words[1])?),
            "jump" => {
                self.now = self.now + duration(words[1])?;
                self.expect(&Command::Tick, refusal)
            }
            "crash" => {
                self.now = self.now + duration(words[1])?;
                self.expect(&Command::Resume, refusal)
            }
            "back" => {
                self.now = self.now - duration(words[1])?;
                Ok(())
            }
            "notice" => {
                let notice_scale = words[1].parse().map_err(|_| "not a number")?;
                let settings = Settings { notice_scale, ..self.region.settings().clone() };
                self.region = Region::load(settings, self.stored.values().cloned()).map_err(|e| format!("{e:?}"))?;
                Ok(())
            }
            "avset" | "service" => self.group_with_members(&words, refusal),
            _ => {
                let command = self.command(&words, text)?;
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
        let mut at_work: BTreeSet<EventId> = self.region.wanted_effects().map(|event| event.id).collect();
        for effect in &done.effects {
            match effect {
                Effect::Begin(event) => drop(at_work.insert(event.id)),
                Effect::Stop(event) => drop(at_work.remove(event)),
            }
        }
        let wanted = done.region.wanted_effects().map(|event| event.id).collect();
        assert_eq!(at_work, wanted, "what drivers were told is not what there is to do after {command:?}");
        self.region = done.region;
        self.learn_names();
        for fact in &done.facts {
            let fact = self.show_fact(&fact.what);
            self.told.push(fact);
        }
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
        for machine in self.region.machines() {
            if let Seat::Instance { set, number: None } = machine.seat
                && !self.made_up.contains_key(&machine.id)
                && let Some(set) = self.region.group(set)
            {
                let before = self.made_up.values().filter(|name| name.split('/').next() == Some(&set.name)).count();
                self.made_up.insert(machine.id, format!("{}/{}", set.name, before + 1));
            }
        }
    }

    fn name(&self, machine: MachineId, name: &str) -> String {
        self.made_up.get(&machine).cloned().unwrap_or_else(|| name.into())
    }

    // --- showing ---------------------------------------------------------------------------------

    fn show(&self, who: &str) -> Result<String, String> {
        if who == "machines" {
            let names = self.region.machines().map(|machine| self.name(machine.id, &machine.name));
            return Ok(names.collect::<Vec<_>>().join(" "));
        }
        if who == "drivers" {
            let mut events: Vec<_> = self.region.wanted_effects().map(|event| self.label(event.id)).collect();
            events.sort();
            return Ok(if events.is_empty() { "-".into() } else { events.join(" ") });
        }
        if who == "told" {
            return Ok(if self.told.is_empty() { "-".into() } else { self.told.join(", ") });
        }
        if who == "left" {
            return Ok((self.region.events().count() + self.region.operations().count()).to_string());
        }
        if numbered(who, "op") {
            return self.show_operation(who);
        }
        if numbered(who, "e") {
            let Some(event) = self.region.event(self.event(who)?) else { return Ok("forgotten".into()) };
            let hidden = if event.is_shown() || !event.is_live() { "" } else { "hidden " };
            return Ok(format!("{hidden}{}", show_status(&event.status)));
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
        let label = self.label(event.id);
        let names: Vec<_> =
            event.resources.iter().map(|resource| self.name(resource.machine, &resource.name)).collect();
        match event.status {
            Status::Scheduled => {
                let left = event.not_before.since(self.now.max(self.region.now())).as_secs();
                format!("{label} {:?} Scheduled {} {}:{:02}", event.kind, names.join(","), left / 60, left % 60)
            }
            Status::Started { .. } => format!("{label} {:?} Started {}", event.kind, names.join(",")),
            Status::Ended { .. } => "ended".into(),
        }
    }

    fn label(&self, event: EventId) -> String {
        self.events.iter().position(|id| *id == event).map_or("e?".into(), |n| format!("e{}", n + 1))
    }

    fn show_fact(&self, what: &What) -> String {
        match what {
            What::Appeared(event) => format!("{} appeared", self.label(event.id)),
            What::Approved { event, by } => {
                let by = match by {
                    Approver::Guest { name, .. } => name,
                    Approver::Management(_) => "management",
                    Approver::Policy => "policy",
                };
                format!("{} approved by {by}", self.label(event.id))
            }
            What::Started(event) => format!("{} started", self.label(event.id)),
            What::Ended(event) => format!("{} {}", self.label(event.id), show_status(&event.status)),
            What::OperationEnded(operation) => {
                let number = self.operations.iter().position(|id| *id == operation.id);
                format!("{} over", number.map_or("op?".into(), |n| format!("op{}", n + 1)))
            }
            What::MachineAdded(machine) => format!("+{}", self.name(machine.id, &machine.name)),
            What::MachineRemoved(machine) => format!("-{}", self.name(machine.id, &machine.name)),
            What::ScopeOn(_) => "on".into(),
            What::ScopeOff(_) => "off".into(),
        }
    }

    fn show_operation(&self, label: &str) -> Result<String, String> {
        let id = self.operation(label)?;
        let Some(operation) = self.region.operation(id) else { return Ok("forgotten".into()) };
        Ok(match &operation.state {
            OperationState::Running => "running".into(),
            OperationState::Ended { result: OperationResult::Succeeded, .. } => "succeeded".into(),
            OperationState::Ended { result: OperationResult::Canceled { .. }, .. } => "canceled".into(),
            OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
                let text = format!("{outcome:?}");
                format!("failed {}", text.split(|c: char| !c.is_alphanumeric()).next().unwrap())
            }
        })
    }

    /// The facts that are asked for, in the order asked.
    fn facts(&self, who: &str, asked: &str) -> Result<String, String> {
        if numbered(who, "e") {
            let event = self.region.event(self.event(who)?).ok_or("no such event")?;
            return Ok(match asked.strip_prefix("id=") {
                Some(_) => format!("id={}", event.id.0),
                None => format!("{:?} {} \"{}\"", event.cause.source(), event.duration_secs, event.description),
            });
        }
        if let Some(group) = self.region.groups_named(who).next() {
            let GroupKind::ScaleSet(set) = &group.kind else { return Ok("group".into()) };
            let show = |word: &str| match word.split('=').next().unwrap() {
                "size" => format!("size={}", self.region.group_members(group).count()),
                "parts" => format!("parts={}", group.scopes.len()),
                _ => format!("capacity={}", set.capacity),
            };
            return Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "));
        }
        let machine = self.region.machine(self.machine(who)?).unwrap();
        let show = |word: &str| match word.split('=').next().unwrap() {
            "ud" => format!("ud={}", machine.update_domain),
            "fd" => format!("fd={}", machine.fault_domain),
            "host" => format!("host={}", machine.host.as_deref().unwrap_or("-")),
            "zone" => format!("zone={}", machine.zone.as_deref().unwrap_or("-")),
            "ip" => format!("ip={}", machine.addresses.first().map_or("-".into(), |address| address.ip.to_string())),
            "term" => format!("term={}", machine.terminate.as_ref().map_or("none", |profile| &profile.text)),
            "part" => match self.region.scope(machine.scope).map(|scope| scope.owner) {
                Some(ScopeOwner::Group { part, .. }) => format!("part={part}"),
                _ => "part=-".into(),
            },
            _ => format!("{:?}", machine.power).to_lowercase(),
        };
        Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "))
    }

    // --- names -----------------------------------------------------------------------------------

    fn machine(&self, name: &str) -> Result<MachineId, String> {
        if let Some((id, _)) = self.made_up.iter().find(|(_, made_up)| *made_up == name) {
            return match self.region.machine(*id) {
                Some(_) => Ok(*id),
                None => Err(format!("'{name}' is gone")),
            };
        }
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
        if name == "nogroup" {
            return Ok(GroupId(999_999));
        }
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

    fn command(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        let (given, words): (Vec<_>, Vec<&str>) =
            words.iter().copied().partition(|word| word.starts_with("id=") || word.starts_with("op="));
        let mut command = self.plain_command(&words, text)?;
        for word in given {
            let Command::Request { operation, event, .. } = &mut command else { return Err("not a request".into()) };
            match word.split_at(3) {
                ("id=", number) if numbered(number, "e") => *event = Some(self.event(number)?),
                ("id=", number) => *event = Some(Guid(number.parse().map_err(|_| "not a number")?)),
                (_, label) => *operation = self.operation(label)?,
            }
        }
        Ok(command)
    }

    fn plain_command(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
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
            "fd" => {
                let fault_domain = Some(rest[1].parse().map_err(|_| "not a domain")?);
                self.change(rest[0], MachineChange { fault_domain, ..Default::default() })?
            }
            "zone" => {
                let zone = Some((rest[1] != "-").then(|| rest[1].into()));
                self.change(rest[0], MachineChange { zone, ..Default::default() })?
            }
            "addr" => {
                let addresses = Some(rest[1..].iter().map(|ip| address(ip)).collect::<Result<_, _>>()?);
                self.change(rest[0], MachineChange { addresses, ..Default::default() })?
            }
            "term" => {
                let terminate = Some(if rest[1] == "none" { None } else { Some(profile(rest[1])?) });
                self.change(rest[0], MachineChange { terminate, ..Default::default() })?
            }
            "join" => self.join(rest)?,
            "unprotect" => self.change(rest[0], MachineChange { protected: Some(false), ..Default::default() })?,
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
                let machines = self.machines(&rest[1..])?;
                self.request(Request::Delete { machines, group })
            }
            "fail" => {
                let (target, rest) = self.target(rest)?;
                let kind = rest.first().map_or(Ok(EventKind::Reboot), |word| kind(word))?;
                self.request(Request::Fail { target, kind })
            }
            "maintain" => self.maintain(rest, text)?,
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
                let (group, events): (Vec<_>, Vec<&str>) = rest.iter().copied().partition(|word| word.contains('='));
                let within = match group.first().and_then(|word| word.strip_prefix("in=")) {
                    Some(group) => Within::Group(self.group(group)?),
                    None => Within::Region,
                };
                let events = events.iter().map(|label| self.event(label)).collect::<Result<_, _>>()?;
                Command::Approve { by: Approver::Management("test".into()), within, events }
            }
            "done" => Command::Report { event: self.event(rest[0])?, report: Report::Done },
            "failed" => Command::Report { event: self.event(rest[0])?, report: Report::Failed("it broke".into()) },
            "scale" => {
                let capacity = rest[1].parse().map_err(|_| "not a number")?;
                let scale = Scale { capacity, by: "test".into(), operation: self.guid() };
                self.change_group(rest[0], GroupChange { capacity: Some(scale), ..Default::default() })?
            }
            "model" => self.model(rest)?,
            "mode" => {
                let upgrade_mode = Some(mode(rest[1])?);
                self.change_group(rest[0], GroupChange { upgrade_mode, ..Default::default() })?
            }
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
        if words[1] == "none" {
            return self.change(words[0], MachineChange { policy: Some(None), ..Default::default() });
        }
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

    fn maintain(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        let (target, rest) = self.target(words)?;
        let option = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)).map(duration).transpose();
        let ago = option("ago=")?.map(|span| self.now - span);
        let secs = rest.iter().find_map(|word| word.strip_prefix("secs=")).map(str::parse).transpose();
        let plan = Plan {
            kind: kind(rest[0])?,
            cause: if rest.contains(&"migration") { Cause::LiveMigration } else { Cause::HostMaintenance },
            at: option("in=")?.map(|span| self.now + span).or(ago),
            notice: option("notice=")?,
            duration_secs: secs.map_err(|_| "not a number")?,
            description: text.map(Into::into),
        };
        Ok(self.request(Request::Maintain { target, plan }))
    }

    fn model(&mut self, words: &[&str]) -> Result<Command, String> {
        let group = self.region.group(self.group(words[0])?).unwrap();
        let GroupKind::ScaleSet(set) = &group.kind else { return Err("not a set".into()) };
        let mut model = set.model.clone();
        match words[1].strip_prefix("term=") {
            Some("none") => model.terminate = None,
            Some(text) => model.terminate = Some(profile(text)?),
            None => model.priority = Priority::Spot,
        }
        self.change_group(words[0], GroupChange { model: Some(model), ..Default::default() })
    }

    fn new_machine(&mut self, words: &[&str], place: Place) -> Result<NewMachine, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        Ok(NewMachine {
            vm_id: match option("vmid=") {
                Some(other) => self.region.machine(self.machine(other)?).ok_or("no such machine")?.vm_id,
                None => self.guid(),
            },
            name: words[0].into(),
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            place,
            host: option("host=").map(Into::into),
            update_domain: option("ud=").map(|n| n.parse().unwrap()),
            fault_domain: option("fd=").map(|n| n.parse().unwrap()),
            zone: option("zone=").map(Into::into),
            priority: if words.contains(&"spot") { Priority::Spot } else { Priority::Regular },
            eviction: if words.contains(&"policy=delete") {
                EvictionPolicy::Delete
            } else {
                EvictionPolicy::Deallocate
            },
            addresses: match option("ip=") {
                Some("pool") => AddressWish::FromPool,
                Some(ip) => AddressWish::Given(vec![address(ip)?]),
                None => AddressWish::None,
            },
            terminate: option("term=").map(profile).transpose()?,
            policy: None,
            details: Default::default(),
        })
    }

    fn group_with_members(&mut self, words: &[&str], refusal: Option<&str>) -> Line {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let avset = words[0] == "avset";
        let new = NewGroup {
            name: words[1].into(),
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            kind: if avset { NewGroupKind::AvailabilitySet } else { NewGroupKind::CloudService },
            policy: EventsPolicy::default(),
            update_domains: option("uds=").map(|n| n.parse().unwrap()),
            fault_domains: option("fds=").map(|n| n.parse().unwrap()),
            salt: self.guid(),
        };
        self.expect(&Command::CreateGroup(Box::new(new)), refusal)?;
        if refusal.is_some() {
            return Ok(());
        }
        let (options, names): (Vec<_>, Vec<&str>) = words[2..].iter().copied().partition(|word| word.contains('='));
        for name in names {
            let all: Vec<&str> = [words[1], name].into_iter().chain(options.iter().copied()).collect();
            let command = self.join(&all)?;
            self.expect(&command, None)?;
        }
        Ok(())
    }

    fn join(&mut self, words: &[&str]) -> Result<Command, String> {
        let id = self.group(words[0])?;
        let service = match words.iter().find_map(|word| word.strip_prefix("as=")) {
            Some(kind) => kind == "service",
            None => self.region.group(id).is_some_and(|group| matches!(group.kind, GroupKind::CloudService)),
        };
        let place = if service {
            Place::CloudService { service: id, role: "FrontEnd".into() }
        } else {
            Place::AvailabilitySet(id)
        };
        Ok(Command::RegisterMachine(Box::new(self.new_machine(&words[1..], place)?)))
    }

    fn new_set(&mut self, words: &[&str]) -> Result<Command, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let zones: u32 = option("zones=").map_or(0, |n| n.parse().unwrap());
        let kind = NewGroupKind::ScaleSet {
            orchestration: if words[1] == "flexible" { Orchestration::Flexible } else { Orchestration::Uniform },
            upgrade_mode: option("mode=").map_or(Ok(UpgradeMode::Automatic), mode)?,
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
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            kind,
            policy: EventsPolicy::default(),
            update_domains: option("ud=").map(|n| n.parse().unwrap()),
            fault_domains: option("fd=").map(|n| n.parse().unwrap()),
            salt: self.guid(),
        })))
    }
}

fn home(subscription: &str, resource_group: &str) -> Home {
    Home { subscription: subscription.into(), resource_group: resource_group.into() }
}

fn address(ip: &str) -> Result<Address, String> {
    Ok(Address { network: "default".into(), ip: ip.parse().map_err(|_| format!("'{ip}' is no address"))? })
}

fn mode(word: &str) -> Result<UpgradeMode, String> {
    Ok(match word {
        "automatic" => UpgradeMode::Automatic,
        "manual" => UpgradeMode::Manual,
        "rolling" => UpgradeMode::Rolling,
        other => return Err(format!("no such mode: {other}")),
    })
}

fn numbered(label: &str, prefix: &str) -> bool {
    label.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok())
}

fn show_status(status: &Status) -> String {
    match status {
        Status::Scheduled => "scheduled".into(),
        Status::Started { .. } => "started".into(),
        Status::Ended { outcome, .. } => {
            let text = format!("{outcome:?}");
            text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_lowercase()
        }
    }
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
