//! A transition in progress. Every change goes through `put` or `delete`, which alter the region and record the
//! write together, so stored and visible state cannot differ.
//!
//! Applying a command takes up to two steps: first everything that is due, then the command. Each step ends
//! with `finish`, which starts every event that can start and increments the incarnation of every document that
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::entity::{Entity, Key, RegionMeta};
use crate::ids::*;
use crate::model::*;
use crate::region::Region;
use crate::rejection::Rejection;
use crate::rollout::Rollout;
use crate::time::Timestamp;
use crate::transition::*;

pub(crate) struct Step {
    pub region: Region,
    pub now: Timestamp,
    /// Scopes in which an event may be able to start.
    pub unsettled: BTreeSet<ScopeId>,
    /// Operations that may have ended.
    pub unconcluded: BTreeSet<OperationId>,
    /// Whether something changed that a drain or rollout may have waited for.
    pub replan: bool,
    changed: BTreeMap<Key, Change>,
    /// How each changed event was shown before this step. Comparing only these keeps a change cheap in a long document.
    shown_before: BTreeMap<EventId, (ScopeId, ShownState)>,
    /// Scopes that were turned on for the first time, whose incarnation is 1 whatever their documents show.
    new_scopes: BTreeSet<ScopeId>,
    facts: Vec<Fact>,
    effects: Vec<Effect>,
}

/// The part of an event that determines the incarnation of its document: whether it has started. None: it is not shown.
type ShownState = Option<bool>;

enum Change {
    Put(Entity),
    Delete,
}

impl Step {
    pub fn new(region: Region, now: Timestamp) -> Step {
        let mut step = Step {
            region,
            now,
            unsettled: BTreeSet::new(),
            unconcluded: BTreeSet::new(),
            replan: false,
            changed: BTreeMap::new(),
            shown_before: BTreeMap::new(),
            new_scopes: BTreeSet::new(),
            facts: Vec::new(),
            effects: Vec::new(),
        };
        step.edit_meta(|meta| {
            meta.now = now;
            meta.revision += 1;
        });
        step
    }

    /// Ends a step: starts the events that can start and increments the incarnations of changed documents.
    pub fn finish(&mut self) {
        self.settle();
        for scope in self.changed_documents() {
            let was_on = self.region.scopes.get(&scope).is_some_and(|scope| scope.incarnation > 0);
            if was_on && !self.new_scopes.contains(&scope) {
                self.edit_scope(scope, |scope| scope.incarnation += 1);
            }
        }
        self.new_scopes.clear();
    }

    /// The scopes whose documents differ from those before this step.
    fn changed_documents(&mut self) -> BTreeSet<ScopeId> {
        let shown = |id: &EventId| self.region.events.get(id).and_then(|event| shown_state(event));
        let before = std::mem::take(&mut self.shown_before);
        before.iter().filter(|(id, (_, before))| shown(id) != *before).map(|(_, (scope, _))| *scope).collect()
    }

    pub fn into_transition(self, answer: Answer) -> Transition {
        let writes = self.changed.into_iter().map(|(key, change)| match change {
            Change::Put(entity) => Write::Put(entity),
            Change::Delete => Write::Delete(key),
        });
        Transition { answer, writes: writes.collect(), facts: self.facts, effects: self.effects, region: self.region }
    }

    // --- changes ---------------------------------------------------------------------------------

    pub fn put(&mut self, entity: Entity) {
        self.region.insert(entity.clone());
        self.changed.insert(entity.key(), Change::Put(entity));
    }

    pub fn delete(&mut self, key: Key) {
        self.region.remove(&key);
        self.changed.insert(key, Change::Delete);
    }

    pub fn edit_meta(&mut self, edit: impl FnOnce(&mut RegionMeta)) {
        let mut meta = self.region.meta;
        edit(&mut meta);
        self.put(Entity::Meta(meta));
    }

    pub fn edit_scope(&mut self, id: ScopeId, edit: impl FnOnce(&mut Scope)) {
        if let Some(scope) = self.region.scopes.get(&id) {
            let scope = edit_copy(scope, edit);
            self.put(Entity::Scope(scope));
        }
    }

    pub fn edit_group(&mut self, id: GroupId, edit: impl FnOnce(&mut Group)) {
        if let Some(group) = self.region.groups.get(&id) {
            let group = edit_copy(group, edit);
            self.put(Entity::Group(group));
        }
    }

    pub fn edit_set(&mut self, id: GroupId, edit: impl FnOnce(&mut ScaleSet)) {
        self.edit_group(id, |group| {
            if let GroupKind::ScaleSet(set) = &mut group.kind {
                edit(set);
            }
        });
    }

    pub fn edit_machine(&mut self, id: MachineId, edit: impl FnOnce(&mut Machine)) {
        if let Some(machine) = self.region.machines.get(&id) {
            let machine = edit_copy(machine, edit);
            self.put(Entity::Machine(machine));
        }
    }

    pub fn add_event(&mut self, event: Arc<Event>) {
        self.shown_before.entry(event.id).or_insert((event.scope, None));
        self.put(Entity::Event(event));
    }

    /// Edits an event, and remembers how it was shown, for comparison.
    pub fn edit_event(&mut self, id: EventId, edit: impl FnOnce(&mut Event)) -> Option<Arc<Event>> {
        let before = self.region.events.get(&id)?;
        self.shown_before.entry(id).or_insert_with(|| (before.scope, shown_state(before)));
        let event = edit_copy(before, edit);
        self.put(Entity::Event(event.clone()));
        Some(event)
    }

    pub fn edit_operation(&mut self, id: OperationId, edit: impl FnOnce(&mut Operation)) {
        if let Some(operation) = self.region.operations.get(&id) {
            let operation = edit_copy(operation, edit);
            self.put(Entity::Operation(operation));
        }
    }

    pub fn edit_host(&mut self, name: &Name, edit: impl FnOnce(&mut Host)) {
        if let Some(host) = self.region.hosts.get(name) {
            let before = (host.state, host.is_unreachable());
            let host = edit_copy(host, edit);
            self.put(Entity::Host(host.clone()));
            if before != (host.state, host.is_unreachable()) {
                self.record_fact(FactKind::HostChanged(host));
            }
        }
    }

    pub fn edit_rollout(&mut self, id: RolloutId, edit: impl FnOnce(&mut Rollout)) -> Option<Arc<Rollout>> {
        let rollout = edit_copy(self.region.rollouts.get(&id)?, edit);
        self.put(Entity::Rollout(rollout.clone()));
        Some(rollout)
    }

    pub fn allocate_id(&mut self) -> u64 {
        let id = self.region.meta.next_id.max(1);
        self.edit_meta(|meta| meta.next_id = id + 1);
        id
    }

    pub fn allocate_seq(&mut self) -> u64 {
        let seq = self.region.meta.next_seq;
        self.edit_meta(|meta| meta.next_seq = seq + 1);
        seq
    }

    // --- facts, effects and documents ------------------------------------------------------------

    pub fn record_fact(&mut self, what: FactKind) {
        self.facts.push(Fact { at: self.now, what });
    }

    pub fn emit_effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Sets the incarnation of a scope that is turned on for the first time to 1, whatever its document shows.
    pub fn set_first_incarnation(&mut self, scope: ScopeId) {
        self.edit_scope(scope, |scope| scope.incarnation = 1);
        self.new_scopes.insert(scope);
    }

    // --- lookup with rejections ------------------------------------------------------------------

    /// The end of a notice period that starts now, as a whole second.
    pub fn after(&self, notice: Duration) -> Timestamp {
        (self.now + notice).round_up_to_second()
    }

    pub fn machine(&self, id: MachineId) -> Result<Arc<Machine>, Rejection> {
        self.region.machines.get(&id).cloned().ok_or(Rejection::UnknownMachine(id))
    }

    pub fn group(&self, id: GroupId) -> Result<Arc<Group>, Rejection> {
        self.region.groups.get(&id).cloned().ok_or(Rejection::UnknownGroup)
    }
}

fn shown_state(event: &Event) -> ShownState {
    (event.is_live() && event.is_shown()).then_some(matches!(event.status, Status::Started { .. }))
}

fn edit_copy<T: Clone>(entity: &Arc<T>, edit: impl FnOnce(&mut T)) -> Arc<T> {
    let mut entity = (**entity).clone();
    edit(&mut entity);
    Arc::new(entity)
}
