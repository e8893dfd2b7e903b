//! A small language for scenarios. A script consists of lines; `#` starts a comment.
//!
//! ```text
//! vm a [spot] [policy=delete] [host=h1] [ud=1] [fd=1] [zone=1] [term=10m] [sub=s] [rg=rg] [ip=10.0.0.1|pool] [vmid=b]
//!   [mem=1024] [fixed]
//!                                   a standalone machine; vmid=b requests the vmId of b
//! avset s a b c [uds=3] [fds=2] · service s a b     a group with these machines; domains are assigned round robin
//! join s d [as=avset|service|instance]  adds a machine to a group (options as for vm)
//! set w uniform 3 [term=10m] [max=2] [mode=manual|rolling] [zones=2] [ud=5] [fd=3] [spot] · set w flexible 3 …
//! host h1 · host h1 pool=p mem=4096|- · unhost h1 · activate h1 · fence h1 · confirm h1 [revision] · lose h1
//! drain h1 [to=pool] [parallel=2] [max=1] [notice=30m] [in-place]
//! rollout hosts h1,h2|groups s,t freeze|reboot|redeploy|drain [parallel=2] [pause=10m] [window=22:00-04:00] [max=1]
//!   [failures=1] [notice=30m] [at=1h] · pause r1 [now] · resume r1 · stop r1 · retry r1 [h1 s/0 vm:a]
//!   [key=7] (also of `maintain vms` and `maintain group`)
//! report e1 a h1 done|failed|gone|moved=h2      a host's report on a machine · claim a h1 · leave a h1
//! move a h2|- · ud a 2 · fd a 2 · zone a 2|- · addr a 10.0.0.1 · term a 5m|none
//! on a                              a requests its document
//! restart|redeploy|perform|delete a b · evict a · drop s [a b] (a group) · fail a|vms a,b|host h1|group s [redeploy]
//! maintain a|vms a,b|host h1|group s freeze|reboot|redeploy [in=1h] [ago=1m] [notice=30m] [migration] [secs=30] ["text"]
//!   … id=7 at the end of a request sets the ID of its event, op=op1 reuses the ID of this operation
//! cancel op1 · cancel-event e1 (cancel by event) · approve a e1 e2 (by guest) · ack e1 [in=s] (by an operator, for a group)
//! done e1 · failed e1               the driver's report
//! off a (found off) · start|shutdown|deallocate a [e98]      power; e99, or e98, is the ID of the order
//! scale w 3 · model w term=5m|none|spot · mode w manual · upgrade w a b · protect a · unprotect a
//! policy a|s reboot,redeploy,-down|none
//! wait 15m                          time passes; each deadline is a separate step
//! jump 1h                           time passes without a tick, then one tick
//! crash 2h                          the server is down for this long
//! back 5m                           sets the clock of the following commands back
//! notice 60                         restarts the server with this notice scale
//! 10x LINE                          repeats the line ten times
//! ```
//!
//! `LINE = Reason` expects a rejection. `a> 2: e1 Reboot Scheduled a 15:00` is the document of `a`: the
//! incarnation, then `id type status resources [remaining notice]`, joined by ` | `, or `-`; also `a> off` and
//! `a> gone`. `op1> succeeded` is the state of an operation, `e1> started` or `e1> hidden scheduled` that of an
//! event, `machines> a b` are the existing machines, `drivers> e1` the events that drivers must carry out,
//! `history> e1 appeared, e1 started` the facts that the previous line added to the history, `left> 0` the number
//! of events and operations that are kept. `a? running ud=0 host=h1` shows facts of a machine (ud fd host zone
//! ip term part power), `w? capacity=3 size=4 parts=1 up=2 floor=1` those of a set or group, `e1? Platform 9 "Host server…"` source,
//! duration and description of an event, `e1? id=7` its ID.
//!
//! `h1> Draining a,b waits for capacity a` is the state of a host, its machines and the obstacle of its drain;
//! `r1> Waiting approvals | InProgress Pending` the state of a rollout, its reason and its steps; `r1? failures=1
//! reason=HostFailed` are its failed machines and the reason of its first failed step.
//!
//! `orders:h1> perform e1 a | withdraw e2 b` are the orders of a host, `a? arriving=h2 withdrawn=e1 claims=h3
//! change=stopped|failed` facts of a machine between two hosts, orders or power states. Both exist only with the setting `machine_orders`.
//!
//! Events are named e1, e2… and operations op1, op2… in order of appearance. Instances of Flexible sets have
//! generated names and are called w/1, w/2… in order of creation. `missing`, `nogroup`, `e99` and `op99` do not
//! exist. After every line, the stored entities are loaded again and must give the same region, and the effects
//! so far must add up to the started events.

mod plans;
mod show;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forewarn_core::*;

/// Added to the number of an event that does not exist.
const ABSENT: u128 = 0xdead_0000;

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
    rollouts: Vec<RolloutId>,
    next_guid: u128,
    /// Facts that the last line added to the history.
    recorded: Vec<String>,
    /// Instances with generated names, and their names in scripts.
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
            rollouts: Vec::new(),
            next_guid: 0,
            recorded: Vec::new(),
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
        self.recorded.clear();
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
        let next =
            |region: &Region| [region.next_deadline(), region.next_time_checkpoint()].into_iter().flatten().min();
        while let Some(deadline) = next(&self.region).filter(|deadline| *deadline <= until) {
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
        assert_eq!(at_work, wanted, "the effects so far do not match the wanted effects after {command:?}");
        self.region = done.region;
        self.learn_names();
        for fact in &done.facts {
            let fact = self.show_fact(&fact.what);
            self.recorded.push(fact);
        }
        Ok(())
    }

    /// Assigns labels to new events, operations and rollouts.
    fn learn_names(&mut self) {
        let mut events: Vec<_> = self.region.events().filter(|event| !self.events.contains(&event.id)).collect();
        events.sort_by_key(|event| event.seq);
        let events: Vec<_> = events.into_iter().map(|event| event.id).collect();
        self.events.extend(events);
        let known = &self.operations;
        let operations: Vec<_> =
            self.region.operations().map(|operation| operation.id).filter(|id| !known.contains(id)).collect();
        self.operations.extend(operations);
        let mut rollouts: Vec<_> = self.region.rollouts().filter(|it| !self.rollouts.contains(&it.id)).collect();
        rollouts.sort_by_key(|rollout| rollout.seq);
        let rollouts: Vec<_> = rollouts.into_iter().map(|rollout| rollout.id).collect();
        self.rollouts.extend(rollouts);
        for machine in self.region.machines() {
            if let Membership::Instance { set, number: None } = machine.membership
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

    // --- names -----------------------------------------------------------------------------------

    fn machine(&self, name: &str) -> Result<MachineId, String> {
        if let Some((id, _)) = self.made_up.iter().find(|(_, made_up)| *made_up == name) {
            return match self.region.machine(*id) {
                Some(_) => Ok(*id),
                None => Err(format!("'{name}' is gone")),
            };
        }
        match self.region.machine_by_name(name, None) {
            MachineLookup::One(id) => Ok(id),
            MachineLookup::Many(_) | MachineLookup::Nothing if name == "missing" => Ok(MachineId(999_999)),
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
        Ok(self.events.get(number - 1).copied().unwrap_or(Guid(ABSENT + number as u128)))
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
            "vms" => (Target::Machines(self.machines(&words[1].split(',').collect::<Vec<_>>())?), &words[2..]),
            name => (Target::Machines(vec![self.machine(name)?]), &words[1..]),
        })
    }
}

fn numbered(label: &str, prefix: &str) -> bool {
    label.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok())
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
