//! Indexes of the region: by name, address, machine and time. Only `Region::insert` and `Region::remove` update
//! them; they are never stored.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::collections::{HashIndex, IdMap, IdSet};
use crate::entity::{Entity, Key};
use crate::ids::*;
use crate::model::*;
use crate::names::{NameHash, NameKey, hash_address, hash_guid, same_name};
use crate::region::Region;
use crate::settings::{ENDED_RETENTION, ROLLOUT_RETENTION};
use crate::time::Timestamp;

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// Machines by the hash of their name, VM ID and addresses. Every poll looks up one of them.
    pub by_name: HashIndex,
    pub by_vm_id: HashIndex,
    pub by_address: HashIndex,
    pub groups_by_name: OrdMap<NameKey, GroupId>,
    /// Members of groups by scope. The scope of a standalone machine names its only member.
    pub members: IdMap<IdSet>,
    pub on_host: OrdMap<Name, IdSet>,
    /// Machines between two hosts or two orders.
    pub in_transfer: OrdSet<MachineId>,
    /// Machines that are moving to a host.
    pub inbound: OrdSet<(Name, MachineId, EventId)>,
    /// Drains in progress, by host.
    pub drains: OrdMap<Name, OperationId>,
    /// Rollouts that have not ended, in order of creation.
    pub live_rollouts: OrdSet<(u64, RolloutId)>,
    /// Events that have not ended, by machine.
    pub of_machine: OrdSet<(MachineId, EventId)>,
    /// Started events, by start time.
    pub started: OrdSet<(Timestamp, EventId)>,
    /// Scheduled events that are shown and not due, by the end of their notice.
    pub noticing: OrdSet<(Timestamp, EventId)>,
    pub deadlines: OrdSet<(Timestamp, Deadline)>,
    /// Scopes that are on, by the running time of their latest request.
    pub listening: OrdSet<(Timestamp, ScopeId)>,
    /// Number of restart and redeploy operations with a Scheduled event, by subscription.
    pub user_operations: OrdMap<Name, u32>,
    /// Number of Scheduled events of each of these operations.
    pub user_events: OrdMap<(Name, OperationId), u32>,
}

/// A change that happens at a certain time without a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    NotBefore(EventId),
    Forget(EventId),
    ForgetOperation(OperationId),
    NextBatch(GroupId),
    Rollout(RolloutId),
    ForgetRollout(RolloutId),
}

impl Region {
    // --- changes: only through these two methods -------------------------------------------------

    pub(crate) fn insert(&mut self, entity: Entity) {
        let before = self.get(&entity.key());
        if !before.as_ref().is_some_and(|before| has_same_index_entries(before, &entity)) {
            self.unindex(before);
            self.index(&entity);
        }
        match entity {
            Entity::Meta(meta) => self.meta = meta,
            Entity::Host(host) => drop(self.hosts.insert(host.name.clone(), host)),
            Entity::Group(group) => drop(self.groups.insert(group.id, group)),
            Entity::Scope(scope) => drop(self.scopes.insert(scope.id, scope)),
            Entity::Machine(machine) => drop(self.machines.insert(machine.id, machine)),
            Entity::Event(event) => drop(self.events.insert(event.id, event)),
            Entity::Operation(operation) => drop(self.operations.insert(operation.id, operation)),
            Entity::Rollout(rollout) => drop(self.rollouts.insert(rollout.id, rollout)),
        }
    }

    /// Inserts machines into a region that has none. Builds the indexes of all of them at once.
    pub(super) fn load_machines(&mut self, mut machines: Vec<Arc<Machine>>) {
        machines.sort_unstable_by_key(|machine| machine.id);
        let (mut by_name, mut by_vm_id, mut by_address) = (Vec::new(), Vec::new(), Vec::new());
        for machine in &machines {
            by_name.push((self.name_hash(machine).0, machine.id));
            by_vm_id.push((hash_guid(machine.vm_id), machine.id));
            by_address.extend(machine.addresses.iter().map(|address| (hash_address(address), machine.id)));
            if machine.transfer.is_some() {
                self.index.in_transfer.insert(machine.id);
            }
        }
        for_each_run(&machines, |one, next| one.scope == next.scope, |first, ids| self.index.add_members(first, ids));
        for_each_run(&machines, |one, next| one.host == next.host, |first, ids| self.index.add_to_host(first, ids));
        for machine in machines {
            self.machines.insert(machine.id, machine);
        }
        self.index.by_name = HashIndex::build(by_name);
        self.index.by_vm_id = HashIndex::build(by_vm_id);
        self.index.by_address = HashIndex::build(by_address);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.unindex(self.get(key));
        match key {
            Key::Meta => {}
            Key::Host(name) => drop(self.hosts.remove(name)),
            Key::Group(id) => drop(self.groups.remove(id)),
            Key::Scope(id) => drop(self.scopes.remove(id)),
            Key::Machine(id) => drop(self.machines.remove(id)),
            Key::Event(id) => drop(self.events.remove(id)),
            Key::Operation(id) => drop(self.operations.remove(id)),
            Key::Rollout(id) => drop(self.rollouts.remove(id)),
        }
    }

    fn get(&self, key: &Key) -> Option<Entity> {
        match key {
            Key::Meta => None,
            Key::Host(name) => self.hosts.get(name).cloned().map(Entity::Host),
            Key::Group(id) => self.groups.get(id).cloned().map(Entity::Group),
            Key::Scope(id) => self.scopes.get(id).cloned().map(Entity::Scope),
            Key::Machine(id) => self.machines.get(id).cloned().map(Entity::Machine),
            Key::Event(id) => self.events.get(id).cloned().map(Entity::Event),
            Key::Operation(id) => self.operations.get(id).cloned().map(Entity::Operation),
            Key::Rollout(id) => self.rollouts.get(id).cloned().map(Entity::Rollout),
        }
    }

    fn index(&mut self, entity: &Entity) {
        if let Some(deadline) = self.deadline_of(entity) {
            self.index.deadlines.insert(deadline);
        }
        match entity {
            Entity::Meta(_) | Entity::Host(_) => {}
            Entity::Operation(operation) => {
                if let Some(host) = operation.draining_host() {
                    self.index.drains.insert(host.clone(), operation.id);
                }
            }
            Entity::Rollout(rollout) => {
                if rollout.is_live() {
                    self.index.live_rollouts.insert((rollout.seq, rollout.id));
                }
            }
            Entity::Group(group) => drop(self.index.groups_by_name.insert(NameKey::of_group(group), group.id)),
            Entity::Scope(scope) => {
                if let EventsState::On { seen } = scope.switch {
                    self.index.listening.insert((seen, scope.id));
                }
            }
            Entity::Machine(machine) => self.index_machine(machine),
            Entity::Event(event) => self.index_event(event),
        }
    }

    fn unindex(&mut self, entity: Option<Entity>) {
        let Some(entity) = entity else { return };
        if let Some(deadline) = self.deadline_of(&entity) {
            self.index.deadlines.remove(&deadline);
        }
        match entity {
            Entity::Meta(_) | Entity::Host(_) => {}
            Entity::Operation(operation) => {
                if let Some(host) = operation.draining_host() {
                    self.index.drains.remove(host);
                }
            }
            Entity::Rollout(rollout) => drop(self.index.live_rollouts.remove(&(rollout.seq, rollout.id))),
            Entity::Group(group) => drop(self.index.groups_by_name.remove(&NameKey::of_group(&group))),
            Entity::Scope(scope) => {
                if let EventsState::On { seen } = scope.switch {
                    self.index.listening.remove(&(seen, scope.id));
                }
            }
            Entity::Machine(machine) => self.unindex_machine(&machine),
            Entity::Event(event) => self.unindex_event(&event),
        }
    }

    fn index_machine(&mut self, machine: &Machine) {
        let hash = self.name_hash(machine);
        let index = &mut self.index;
        index.by_name.insert(hash.0, machine.id);
        index.by_vm_id.insert(hash_guid(machine.vm_id), machine.id);
        for address in machine.addresses.iter() {
            index.by_address.insert(hash_address(address), machine.id);
        }
        index.place(machine);
    }

    fn unindex_machine(&mut self, machine: &Machine) {
        let hash = self.name_hash(machine);
        let index = &mut self.index;
        index.by_name.remove(hash.0, machine.id);
        index.by_vm_id.remove(hash_guid(machine.vm_id), machine.id);
        index.in_transfer.remove(&machine.id);
        for address in machine.addresses.iter() {
            index.by_address.remove(hash_address(address), machine.id);
        }
        index.take_away(machine);
    }

    fn index_event(&mut self, event: &Event) {
        if event.is_live() {
            for resource in event.resources.iter() {
                self.index.of_machine.insert((resource.machine, event.id));
            }
            for (to, machine) in event.moves.iter().map(|step| (&step.to, step.machine)) {
                self.index.inbound.insert((to.clone(), machine, event.id));
            }
        }
        if matches!(event.status, Status::Started { .. }) {
            self.index.started.insert((event.attended, event.id));
        }
        if event.has_pending_notice() {
            self.index.noticing.insert((event.notice_end, event.id));
        }
        self.count_user_operations(event, |count| count + 1);
    }

    fn unindex_event(&mut self, event: &Event) {
        for resource in event.resources.iter() {
            self.index.of_machine.remove(&(resource.machine, event.id));
        }
        if event.is_live() {
            for (to, machine) in event.moves.iter().map(|step| (&step.to, step.machine)) {
                self.index.inbound.remove(&(to.clone(), machine, event.id));
            }
        }
        if matches!(event.status, Status::Started { .. }) {
            self.index.started.remove(&(event.attended, event.id));
        }
        if event.has_pending_notice() {
            self.index.noticing.remove(&(event.notice_end, event.id));
        }
        self.count_user_operations(event, |count| count.saturating_sub(1));
    }

    fn count_user_operations(&mut self, event: &Event, change: fn(u32) -> u32) {
        if event.status != Status::Scheduled || !event.cause.is_limited() || !event.is_shown() {
            return;
        }
        for operation in &event.operations {
            self.index.change_user_events((event.subscription.clone(), *operation), change);
        }
    }

    /// The container in which a machine's name is unique: its cloud service or its resource group.
    pub(crate) fn name_container<'a>(&'a self, home: &'a ResourceGroupRef, membership: &Membership) -> &'a Name {
        match membership {
            Membership::RoleInstance { service, .. } => {
                self.groups.get(service).map_or(&home.resource_group, |group| &group.name)
            }
            Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => {
                &home.resource_group
            }
        }
    }

    /// Whether another machine in the same container has this machine's name.
    pub(crate) fn is_name_taken(&self, machine: &Machine) -> bool {
        let hash = self.name_hash(machine);
        let within = self.name_container(&machine.home, &machine.membership);
        let alike = self.index.by_name.get(hash.0);
        alike.filter_map(|id| self.machines.get(&id)).any(|other| {
            same_name(&other.name, &machine.name)
                && same_name(self.name_container(&other.home, &other.membership), within)
                && same_name(&other.home.subscription, &machine.home.subscription)
        })
    }

    fn name_hash(&self, machine: &Machine) -> NameHash {
        NameHash::new(
            &machine.name,
            self.name_container(&machine.home, &machine.membership),
            &machine.home.subscription,
        )
    }

    fn deadline_of(&self, entity: &Entity) -> Option<(Timestamp, Deadline)> {
        match entity {
            Entity::Meta(_) | Entity::Host(_) | Entity::Scope(_) | Entity::Machine(_) => None,
            Entity::Group(group) => {
                let GroupKind::ScaleSet(set) = &group.kind else { return None };
                Some((set.next_batch?, Deadline::NextBatch(group.id)))
            }
            Entity::Event(event) => match &event.status {
                Status::Scheduled if event.due || event.unseen => None,
                Status::Started { .. } => None,
                Status::Scheduled => Some((event.not_before.max(event.notice_end), Deadline::NotBefore(event.id))),
                Status::Ended { at, .. } => Some((*at + ENDED_RETENTION, Deadline::Forget(event.id))),
            },
            Entity::Operation(operation) => match &operation.state {
                OperationState::Running => None,
                OperationState::Ended { at, .. } => {
                    Some((*at + ENDED_RETENTION, Deadline::ForgetOperation(operation.id)))
                }
            },
            Entity::Rollout(rollout) => match rollout.ended_at() {
                Some(at) => Some((at + ROLLOUT_RETENTION, Deadline::ForgetRollout(rollout.id))),
                None => Some((rollout.wake?, Deadline::Rollout(rollout.id))),
            },
        }
    }
}

impl Operation {
    /// The host of a drain in progress.
    fn draining_host(&self) -> Option<&Name> {
        self.drain.as_ref().and(self.request.host())
    }
}

impl Index {
    /// Adds a machine to its scope and its host.
    fn place(&mut self, machine: &Machine) {
        self.add_members(machine, &[machine.id]);
        self.add_to_host(machine, &[machine.id]);
        if machine.transfer.is_some() {
            self.in_transfer.insert(machine.id);
        }
    }

    /// Adds machines to the scope of this one. Their IDs are sorted.
    fn add_members(&mut self, machine: &Machine, ids: &[MachineId]) {
        if machine.membership.group().is_some() {
            let members = self.members.get(&machine.scope).map(|members| members.with(ids));
            self.members.insert(machine.scope, members.unwrap_or_else(|| IdSet::from_sorted(ids)));
        }
    }

    /// Adds machines to the host of this one. Their IDs are sorted.
    fn add_to_host(&mut self, machine: &Machine, ids: &[MachineId]) {
        let Some(host) = &machine.host else { return };
        match self.on_host.get_mut(host) {
            Some(machines) => *machines = machines.with(ids),
            None => drop(self.on_host.insert(host.clone(), IdSet::from_sorted(ids))),
        }
    }

    /// Removes a machine from its scope and its host.
    fn take_away(&mut self, machine: &Machine) {
        if let Some(members) = self.members.get(&machine.scope) {
            match members.without(machine.id) {
                rest if rest.is_empty() => drop(self.members.remove(&machine.scope)),
                rest => drop(self.members.insert(machine.scope, rest)),
            }
        }
        let Some(host) = &machine.host else { return };
        if let Some(machines) = self.on_host.get(host) {
            match machines.without(machine.id) {
                rest if rest.is_empty() => drop(self.on_host.remove(host)),
                rest => drop(self.on_host.insert(host.clone(), rest)),
            }
        }
    }

    fn change_user_events(&mut self, key: (Name, OperationId), change: fn(u32) -> u32) {
        let before = self.user_events.get(&key).copied().unwrap_or(0);
        let after = change(before);
        if before.min(after) == 0 {
            let waiting = self.user_operations.get(&key.0).copied().unwrap_or(0);
            match change(waiting) {
                0 => self.user_operations.remove(&key.0),
                waiting => self.user_operations.insert(key.0.clone(), waiting),
            };
        }
        match after {
            0 => self.user_events.remove(&key),
            _ => self.user_events.insert(key, after),
        };
    }
}

/// Calls `add` for each run of machines that have something in common, with the first machine and the IDs of all. Machines of one
/// scope or host are often registered together.
fn for_each_run(
    machines: &[Arc<Machine>],
    have_common: fn(&Machine, &Machine) -> bool,
    mut add: impl FnMut(&Machine, &[MachineId]),
) {
    let ids: Vec<MachineId> = machines.iter().map(|machine| machine.id).collect();
    let mut rest = &ids[..];
    for run in machines.chunk_by(|one, next| have_common(one, next)) {
        let (ids, after) = rest.split_at(run.len());
        add(&run[0], ids);
        rest = after;
    }
}

/// Whether two states of an entity have the same entries in every index. This is true of most changes of
/// machines and scopes, and updating indexes is the largest part of their cost.
fn has_same_index_entries(before: &Entity, after: &Entity) -> bool {
    match (before, after) {
        (Entity::Scope(before), Entity::Scope(after)) => before.switch == after.switch,
        (Entity::Machine(before), Entity::Machine(after)) => {
            before.vm_id == after.vm_id
                && before.name == after.name
                && before.home == after.home
                && before.membership == after.membership
                && before.scope == after.scope
                && before.host == after.host
                && before.transfer.is_some() == after.transfer.is_some()
                && before.addresses == after.addresses
        }
        _ => false,
    }
}
