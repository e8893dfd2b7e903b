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
    /// State of each document before its first change in this step. None: do not compare.
    documents_before: BTreeMap<ScopeId, Option<Vec<(EventId, bool)>>>,
    facts: Vec<Fact>,
    effects: Vec<Effect>,
}

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
            documents_before: BTreeMap::new(),
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
        for (id, before) in std::mem::take(&mut self.documents_before) {
            let changed = before.is_some_and(|before| !self.document_state(id).eq(before));
            let was_on = self.region.scopes.get(&id).is_some_and(|scope| scope.incarnation > 0);
            if changed && was_on {
                self.edit_scope(id, |scope| scope.incarnation += 1);
            }
        }
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

    /// Edits an event, and remembers its document for comparison.
    pub fn edit_event(&mut self, id: EventId, edit: impl FnOnce(&mut Event)) -> Option<Arc<Event>> {
        let event = self.region.events.get(&id)?;
        let scope = event.scope;
        let event = edit_copy(event, edit);
        self.remember_document(scope);
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

    /// Remembers the state of a document before its first change in this step.
    pub fn remember_document(&mut self, scope: ScopeId) {
        if !self.documents_before.contains_key(&scope) {
            let before = self.document_state(scope).collect();
            self.documents_before.insert(scope, Some(before));
        }
    }

    /// Sets the incarnation of a scope that is turned on for the first time to 1, whatever its document shows.
    pub fn set_first_incarnation(&mut self, scope: ScopeId) {
        self.edit_scope(scope, |scope| scope.incarnation = 1);
        self.documents_before.insert(scope, None);
    }

    /// The part of a document that determines its incarnation: the events shown, and whether each has started.
    fn document_state(&self, scope: ScopeId) -> impl Iterator<Item = (EventId, bool)> {
        self.region.document(scope).map(|event| (event.id, matches!(event.status, Status::Started { .. })))
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

fn edit_copy<T: Clone>(entity: &Arc<T>, edit: impl FnOnce(&mut T)) -> Arc<T> {
    let mut entity = (**entity).clone();
    edit(&mut entity);
    Arc::new(entity)
}
