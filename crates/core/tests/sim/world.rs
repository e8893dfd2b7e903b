//! A region with a simple store, a model of the same run, and the faults that can occur in between: failed
//! commits, lost results and crashes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use forewarn_core::*;

use crate::invariants::{self, Memory, Step};
use crate::model::Model;
use crate::refusals::in_order;

/// Steps per check of a replay, which compares whole regions.
const REPLAY_EVERY: u64 = 5;

/// The fate of a commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Stored,
    /// Nothing is stored; the region does not change.
    Failed,
    /// The commit is stored, but its result is lost, so the region is loaded again.
    AnswerLost,
    /// The program crashes before the commit and is started again.
    Crash,
}

pub struct World {
    pub settings: Settings,
    pub region: Region,
    pub clock: Timestamp,
    /// Prints every step, for debugging.
    pub print: bool,
    /// A hash of everything so far, for comparing runs.
    pub trace_hash: Option<u64>,
    store: BTreeMap<Key, Entity>,
    model: Model,
    memory: Memory,
    steps: u64,
    /// The copy of a server that only follows, and the writes that it has not replayed yet.
    followed: Region,
    missed: Vec<Write>,
}

impl World {
    pub fn new(settings: Settings, clock: Timestamp, print: bool) -> World {
        let region = Region::new(settings.clone());
        let store = region.entities().map(|entity| (entity.key(), entity)).collect();
        let (model, memory) = (Model::new(settings.clone()), Memory::default());
        let (followed, missed) = (region.clone(), Vec::new());
        World { settings, region, clock, print, trace_hash: None, store, model, memory, steps: 0, followed, missed }
    }

    /// Applies one command and checks the result in every way.
    pub fn step(&mut self, command: &Command, fate: Fate) -> Result<bool, String> {
        self.steps += 1;
        let result = self.region.apply(command, self.clock);
        self.note(command, fate, &result);
        let (before, now, steps) = (self.region.clone(), self.clock, self.steps);
        let context = |what: String| format!("step {steps} at {now:?}, {command:?}: {what}");
        let mut model = self.model.clone();
        if *command == Command::Resume {
            model.resume(now);
        }
        let due = before.next_deadline().is_some_and(|at| at <= now);
        let tick = if due { before.apply(&Command::Tick, now).ok() } else { None };
        model.first = result.as_ref().ok().or(tick.as_ref()).map(started).unwrap_or_default();
        model.pass(now);
        if let Some(tick) = &tick {
            // The command applies to instances that a batch may just have upgraded to a new model.
            model.learn_models(&tick.region).map_err(context)?;
        }
        let refuses = model.refuses(command);
        let transition = match result {
            Err(Rejection::UserOperationsFull { .. }) if !refuses => {
                let Command::Request { operation, request, .. } = command else { return Err(context("full".into())) };
                model.ask(*operation, &in_order(request.clone()));
                if !model.is_one_too_many(command) {
                    return Err(context("refused as one too many, the model accepts".into()));
                }
                return self.check_untouched().map(|()| false).map_err(context);
            }
            Err(why) if !refuses => return Err(context(format!("refused ({why:?}), the model accepts"))),
            Err(_) => return self.check_untouched().map(|()| false).map_err(context),
            Ok(_) if refuses => return Err(context("accepted, the model refuses".into())),
            Ok(transition) => transition,
        };
        let after = &transition.region;
        let agreed =
            model.follow(command, &transition).and_then(|()| model.learn(after)).and_then(|()| model.agrees(after));
        agreed.map_err(|what| context(format!("disagreement with the model: {what}")))?;
        if model.is_one_too_many(command) {
            return Err(context("accepted, but it is one too many for the model".into()));
        }
        self.check_steps(&before, command, &transition).map_err(context)?;
        let stored = self.check_writes(&transition).map_err(context)?;
        match fate {
            Fate::Failed => {}
            Fate::Crash => self.reload().map_err(context)?,
            Fate::Stored | Fate::AnswerLost => {
                (self.store, self.model) = (stored, model);
                self.region = transition.region;
                self.missed.extend(transition.writes.iter().map(without_live));
                self.check_replay().map_err(context)?;
                if fate == Fate::AnswerLost || self.steps.is_multiple_of(16) {
                    self.reload().map_err(context)?;
                }
                self.memory.remember(&self.region);
            }
        }
        Ok(true)
    }

    /// Starts the program again, possibly with other settings.
    pub fn restart(&mut self, settings: Settings) -> Result<(), String> {
        (self.model.set, self.settings) = (settings.clone(), settings);
        self.reload()
    }

    /// Everything due is handled first, as a separate step. Both steps must satisfy the invariants.
    fn check_steps(&self, before: &Region, command: &Command, transition: &Transition) -> Result<(), String> {
        let due = before.next_deadline().is_some_and(|at| at <= self.clock);
        if !due || matches!(command, Command::Tick | Command::Resume) {
            let step = Step { before, after: &transition.region, transition, command };
            return invariants::check(&step, &self.memory);
        }
        let tick = before.apply(&Command::Tick, self.clock).map_err(|why| format!("time was refused: {why}"))?;
        let first = Step { before, after: &tick.region, transition: &tick, command: &Command::Tick };
        invariants::check(&first, &self.memory)?;
        let mut memory = self.memory.clone();
        memory.remember(&tick.region);
        let then = tick.region.apply(command, self.clock).map_err(|why| format!("refused after a tick: {why}"))?;
        let second = Step { before: &tick.region, after: &then.region, transition: &then, command };
        invariants::check(&second, &memory)?;
        same(&then.region, &transition.region).map_err(|what| format!("one step is not two: {what}"))
    }

    /// Applying the writes to the stored entities must give the entities of the new region.
    fn check_writes(&self, transition: &Transition) -> Result<BTreeMap<Key, Entity>, String> {
        let mut stored = self.store.clone();
        let mut keys = Vec::new();
        for write in &transition.writes {
            match write {
                Write::Put(entity) => {
                    keys.push(entity.key());
                    stored.insert(entity.key(), entity.clone());
                }
                Write::Delete(key) => {
                    keys.push(key.clone());
                    stored.remove(key);
                }
            }
        }
        if !keys.is_sorted_by(|one, two| one < two) {
            return Err(format!("writes are not in the order of their keys, each once: {keys:?}"));
        }
        let shown: BTreeMap<Key, Entity> = transition.region.entities().map(|it| (it.key(), it)).collect();
        match first_difference(&stored, &shown) {
            Some(what) => Err(format!("what is stored is not what is shown: {what}")),
            None => Ok(stored),
        }
    }

    /// A server that only follows must get an equal region from the writes of several commits, with all indexes.
    fn check_replay(&mut self) -> Result<(), String> {
        if !self.steps.is_multiple_of(REPLAY_EVERY) {
            return Ok(());
        }
        let replayed = self.followed.replay(&self.missed).map_err(|why| why.to_string())?;
        if format!("{replayed:?}") == format!("{:?}", self.region) {
            self.follow();
            return Ok(());
        }
        same(&replayed, &self.region).map_err(|what| format!("another region after a replay: {what}"))?;
        Err("another index after a replay".into())
    }

    /// Lets the server that only follows have everything.
    fn follow(&mut self) {
        self.followed = self.region.clone();
        self.missed.clear();
    }

    fn check_untouched(&self) -> Result<(), String> {
        let shown: BTreeMap<Key, Entity> = self.region.entities().map(|it| (it.key(), it)).collect();
        match first_difference(&self.store, &shown) {
            Some(what) => Err(format!("a refusal changed the region: {what}")),
            None => Ok(()),
        }
    }

    /// Loads the stored entities, which must give an equal region.
    fn reload(&mut self) -> Result<(), String> {
        let entities: Vec<Entity> = self.store.values().rev().cloned().collect();
        let loaded = Region::load(self.settings.clone(), entities).map_err(|why| why.to_string())?;
        same(&self.region, &loaded).map_err(|what| format!("another region after a reload: {what}"))?;
        self.region = loaded;
        self.follow();
        Ok(())
    }

    fn note(&mut self, command: &Command, fate: Fate, result: &Result<Transition, Rejection>) {
        if !self.print && self.trace_hash.is_none() {
            return;
        }
        let mut text = String::new();
        match result {
            Ok(transition) => {
                let _ = write!(text, "{:?} {command:?} {fate:?} -> {:?}", self.clock, transition.answer);
                let _ = write!(text, " {:?}", transition.facts.len());
            }
            Err(why) => drop(write!(text, "{:?} {command:?} -> refused {why:?}", self.clock)),
        }
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.trace_hash = self.trace_hash.map(|hash| text.bytes().fold(hash, fnv));
        if !self.print {
            return;
        }
        println!("{:4} {text}", self.steps);
        for fact in result.iter().flat_map(|transition| &transition.facts) {
            println!("       {:?}", fact.what);
        }
    }
}

/// The events that a transition starts, in order, with or without effect, by operation and machines.
fn started(transition: &Transition) -> Vec<(OperationId, Vec<MachineId>)> {
    let events = transition.facts.iter().filter_map(|fact| match &fact.what {
        FactKind::Started(event) => Some(event),
        FactKind::Ended(event) if matches!(event.status, Status::Ended { outcome: Outcome::NoEffect, .. }) => {
            Some(event)
        }
        _ => None,
    });
    events.map(|it| (it.operations[0], it.resources.iter().map(|resource| resource.machine).collect())).collect()
}

/// Compares the entities, documents and deadlines of two regions.
fn same(one: &Region, two: &Region) -> Result<(), String> {
    // One command that first handles what is due has one revision; a tick and a command have two.
    let plain = |entity: Entity| match entity {
        Entity::Meta(meta) => Entity::Meta(RegionMeta { revision: 0, ..meta }),
        Entity::Event(event) => Entity::Event(Arc::new(Event { revision: 0, ..(*event).clone() })),
        Entity::Host(host) => Entity::Host(Arc::new(Host { epoch: 0, ..(*host).clone() })),
        other => other,
    };
    let map = |region: &Region| region.entities().map(|it| (it.key(), plain(it))).collect::<BTreeMap<_, _>>();
    if let Some(what) = first_difference(&map(one), &map(two)) {
        return Err(what);
    }
    for scope in one.scopes() {
        let ids = |region: &Region| region.document(scope.id).map(|event| event.id).collect::<Vec<_>>();
        if ids(one) != ids(two) {
            return Err(format!("the document of scope {}", scope.id.0));
        }
    }
    if one.next_deadline() != two.next_deadline() {
        return Err(format!("next deadline {:?} and {:?}", one.next_deadline(), two.next_deadline()));
    }
    Ok(())
}

fn first_difference(one: &BTreeMap<Key, Entity>, two: &BTreeMap<Key, Entity>) -> Option<String> {
    let only_two = two.keys().find(|key| !one.contains_key(key)).map(|key| format!("{key:?} is only in the second"));
    let differs = |(key, entity): (&Key, &Entity)| match two.get(key) {
        Some(other) if other == entity => None,
        other => Some(format!("{entity:?}\n  against {other:?}")),
    };
    one.iter().find_map(differs).or(only_two)
}

/// A write as it is stored: a stored scope has no live events.
fn without_live(write: &Write) -> Write {
    match write {
        Write::Put(Entity::Scope(scope)) => {
            Write::Put(Entity::Scope(Arc::new(Scope { live: Vec::new(), ..(**scope).clone() })))
        }
        Write::Put(_) | Write::Delete(_) => write.clone(),
    }
}
