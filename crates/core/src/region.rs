//! Everything the rules know, as one immutable value. Cloning one costs a few counters; a reader keeps
//! the region it was given for as long as it likes.
//!
//! The maps of entities are what is stored. All other maps are indexes, derived from the entities by
//! `insert` and `remove` and nowhere else, so a region that was loaded is the one that was saved.

use std::fmt;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::ids::*;
use crate::model::*;
use crate::names::{NameHash, NameKey, same_name};
use crate::settings::{OVER_KEPT, PULSE_EVERY, SEEN_EVERY, Settings};
use crate::time::Timestamp;
use crate::transition::{Entity, Key, Meta};

#[derive(Clone, Debug)]
pub struct Region {
    pub(crate) settings: Arc<Settings>,
    pub(crate) meta: Meta,
    pub(crate) hosts: OrdMap<Name, Arc<Host>>,
    pub(crate) groups: OrdMap<GroupId, Arc<Group>>,
    pub(crate) scopes: OrdMap<ScopeId, Arc<Scope>>,
    pub(crate) machines: OrdMap<MachineId, Arc<Machine>>,
    pub(crate) events: OrdMap<EventId, Arc<Event>>,
    pub(crate) operations: OrdMap<OperationId, Arc<Operation>>,
    pub(crate) index: Index,
}

/// Ways to find entities. Never stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// Machines by the hash of their names, so that a search touches no name but the one it finds.
    pub by_name: OrdSet<(NameHash, MachineId)>,
    pub by_vm_id: OrdMap<Guid, MachineId>,
    pub by_address: OrdMap<Address, MachineId>,
    pub groups_by_name: OrdMap<NameKey, GroupId>,
    pub members: OrdSet<(ScopeId, MachineId)>,
    pub on_host: OrdSet<(Name, MachineId)>,
    /// Hosts by how many machines they have.
    pub hosts_by_load: OrdSet<(u32, Name)>,
    pub host_load: OrdMap<Name, u32>,
    /// Events that are not over, by machine.
    pub of_machine: OrdSet<(MachineId, EventId)>,
    /// Events that have started, by when.
    pub started: OrdSet<(Timestamp, EventId)>,
    pub deadlines: OrdSet<(Timestamp, Deadline)>,
    /// Scopes that are on, by when they were last seen (on the clock that runs only with the server).
    pub listening: OrdSet<(Timestamp, ScopeId)>,
    /// Restart and redeploy operations whose event is Scheduled, by subscription.
    pub user_operations: OrdMap<Name, u32>,
}

/// What time alone will change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    NotBefore(EventId),
    Forget(EventId),
    ForgetOperation(OperationId),
    NextDomain(OperationId),
    NextBatch(GroupId),
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    One(MachineId),
    /// The machines that it could be, at most [`Region::CANDIDATES_MAX`] of them.
    Many(Vec<MachineId>),
    Nothing,
}

/// A stored entity that does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(pub String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored region is inconsistent: {}", self.0)
    }
}

impl std::error::Error for LoadError {}

impl Region {
    pub const CANDIDATES_MAX: usize = 20;

    pub fn new(settings: Settings) -> Region {
        Region {
            settings: Arc::new(settings),
            meta: Meta::default(),
            hosts: OrdMap::new(),
            groups: OrdMap::new(),
            scopes: OrdMap::new(),
            machines: OrdMap::new(),
            events: OrdMap::new(),
            operations: OrdMap::new(),
            index: Index::default(),
        }
    }

    /// The region that was saved as these entities, in any order. A scope's list of live events need
    /// not be stored: it is the scope's events in order of appearance.
    pub fn load(settings: Settings, entities: impl IntoIterator<Item = Entity>) -> Result<Region, LoadError> {
        let mut region = Region::new(settings);
        let mut machines = Vec::new();
        let mut events = Vec::new();
        for entity in entities {
            match entity {
                Entity::Event(event) => events.push(event),
                Entity::Machine(machine) => machines.push(machine),
                Entity::Scope(scope) => {
                    region.insert(Entity::Scope(Arc::new(Scope { live: Vec::new(), ..(*scope).clone() })))
                }
                other => region.insert(other),
            }
        }
        // A role instance's name is looked up within its service, so groups come first.
        for machine in machines {
            region.insert(Entity::Machine(machine));
        }
        events.sort_by_key(|event| event.seq);
        for event in events {
            region.load_event(event)?;
        }
        region.check_references()?;
        Ok(region)
    }

    fn load_event(&mut self, event: Arc<Event>) -> Result<(), LoadError> {
        if event.is_live() {
            let scope = self.scopes.get(&event.scope).ok_or_else(|| {
                LoadError(format!("event {} is of scope {}, which is not there", event.id, event.scope.0))
            })?;
            let mut scope = (**scope).clone();
            scope.live.push(event.id);
            self.insert(Entity::Scope(Arc::new(scope)));
        }
        self.insert(Entity::Event(event));
        Ok(())
    }

    fn check_references(&self) -> Result<(), LoadError> {
        for machine in self.machines.values() {
            if !self.scopes.contains_key(&machine.scope) {
                return Err(LoadError(format!(
                    "machine '{}' is of scope {}, which is not there",
                    machine.name, machine.scope.0
                )));
            }
            if let Some(group) = machine.seat.group().filter(|group| !self.groups.contains_key(group)) {
                return Err(LoadError(format!(
                    "machine '{}' is of group {}, which is not there",
                    machine.name, group.0
                )));
            }
        }
        let highest =
            self.machines.get_max().map_or(0, |(id, _)| id.0).max(self.scopes.get_max().map_or(0, |(id, _)| id.0));
        if self.meta.next_id <= highest && highest > 0 {
            return Err(LoadError(format!("the next number is {}, but {highest} is taken", self.meta.next_id)));
        }
        Ok(())
    }

    /// Every entity, as it would be stored.
    pub fn entities(&self) -> impl Iterator<Item = Entity> + '_ {
        std::iter::once(Entity::Meta(self.meta))
            .chain(self.hosts.values().cloned().map(Entity::Host))
            .chain(self.groups.values().cloned().map(Entity::Group))
            .chain(self.scopes.values().cloned().map(Entity::Scope))
            .chain(self.machines.values().cloned().map(Entity::Machine))
            .chain(self.events.values().cloned().map(Entity::Event))
            .chain(self.operations.values().cloned().map(Entity::Operation))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// The latest time that the region has seen.
    pub fn now(&self) -> Timestamp {
        self.meta.now
    }

    // --- finding ---------------------------------------------------------------------------------

    pub fn machine(&self, id: MachineId) -> Option<&Arc<Machine>> {
        self.machines.get(&id)
    }

    pub fn machines(&self) -> impl DoubleEndedIterator<Item = &Arc<Machine>> + ExactSizeIterator {
        self.machines.values()
    }

    /// Machines after `after`, in order of registration: for lists that page.
    pub fn machines_after(&self, after: Option<MachineId>) -> impl Iterator<Item = &Arc<Machine>> {
        let from = after.map_or(MachineId(0), |id| MachineId(id.0 + 1));
        self.machines.range(from..).map(|(_, machine)| machine)
    }

    pub fn machine_by_vm_id(&self, vm_id: Guid) -> Option<MachineId> {
        self.index.by_vm_id.get(&vm_id).copied()
    }

    pub fn machine_by_address(&self, address: &Address) -> Option<MachineId> {
        self.index.by_address.get(address).copied()
    }

    /// A machine by its name and, to tell equal names apart, its resource group or cloud service.
    pub fn machine_by_name(&self, name: &str, within: Option<&str>) -> Found {
        let (from, to) = NameHash::all_of(name);
        let hashed = self.index.by_name.range((from, MachineId(0))..=(to, MachineId(u64::MAX)));
        let mut found = hashed
            .filter_map(|(_, id)| self.machines.get(id))
            .filter(|machine| same_name(&machine.name, name))
            .filter(|machine| within.is_none_or(|within| same_name(self.within(&machine.home, &machine.seat), within)))
            .map(|machine| machine.id);
        let Some(first) = found.next() else { return Found::Nothing };
        let others: Vec<_> = found.take(Self::CANDIDATES_MAX - 1).collect();
        if others.is_empty() { Found::One(first) } else { Found::Many([vec![first], others].concat()) }
    }

    pub fn group(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    pub fn group_by_name(&self, home: &Home, name: &str) -> Option<GroupId> {
        self.index.groups_by_name.get(&NameKey::new(&name.into(), &home.resource_group, &home.subscription)).copied()
    }

    /// All groups of this name, in whatever resource group.
    pub fn groups_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<Group>> {
        let from = NameKey::first_of(name);
        let name = from.name.clone();
        self.index
            .groups_by_name
            .range(from..)
            .take_while(move |(key, _)| key.name == name)
            .filter_map(|(_, id)| self.groups.get(id))
    }

    pub fn group_members(&self, group: &Group) -> impl Iterator<Item = &Arc<Machine>> {
        group.scopes.clone().into_iter().flat_map(|scope| self.members(scope))
    }

    pub fn scope(&self, id: ScopeId) -> Option<&Arc<Scope>> {
        self.scopes.get(&id)
    }

    pub fn scopes(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.scopes.values()
    }

    /// The machines that see this scope's document, in order of registration.
    pub fn members(&self, scope: ScopeId) -> impl Iterator<Item = &Arc<Machine>> {
        self.index
            .members
            .range((scope, MachineId(0))..=(scope, MachineId(u64::MAX)))
            .filter_map(|(_, id)| self.machines.get(id))
    }

    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.hosts.values()
    }

    pub fn host(&self, name: &str) -> Option<&Arc<Host>> {
        self.hosts.get(name)
    }

    pub fn machines_on(&self, host: &Name) -> impl Iterator<Item = &Arc<Machine>> {
        let last = (host.clone(), MachineId(u64::MAX));
        self.index.on_host.range((host.clone(), MachineId(0))..=last).filter_map(|(_, id)| self.machines.get(id))
    }

    pub fn event(&self, id: EventId) -> Option<&Arc<Event>> {
        self.events.get(&id)
    }

    /// Every event that is known, those over for less than an hour included.
    pub fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.values()
    }

    pub fn operation(&self, id: OperationId) -> Option<&Arc<Operation>> {
        self.operations.get(&id)
    }

    pub fn operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.values()
    }

    /// Events of a machine that are not over.
    pub fn events_of(&self, machine: MachineId) -> impl Iterator<Item = &Arc<Event>> {
        self.index
            .of_machine
            .range((machine, Guid(0))..=(machine, Guid(u128::MAX)))
            .filter_map(|(_, id)| self.events.get(id))
    }

    // --- showing ---------------------------------------------------------------------------------

    /// What the machines of a scope are shown, in order.
    pub fn document(&self, scope: ScopeId) -> impl Iterator<Item = &Arc<Event>> {
        let live = self.scopes.get(&scope).map_or(&[][..], |scope| &scope.live);
        live.iter().filter_map(|id| self.events.get(id)).filter(|event| event.is_shown())
    }

    pub fn is_on(&self, scope: ScopeId) -> bool {
        self.scopes.get(&self.switch_of(scope)).is_some_and(|scope| matches!(scope.switch, Switch::On { .. }))
    }

    /// Whether a request of one of the scope's machines must be told to the region: it turns the scope
    /// on, or what the region knows of is old.
    pub fn wants_seen(&self, scope: ScopeId, now: Timestamp) -> bool {
        match self.scopes.get(&self.switch_of(scope)).map(|scope| scope.switch) {
            Some(Switch::On { seen }) => self.running_time(now).since(seen) >= SEEN_EVERY,
            Some(Switch::Off) => true,
            None => false,
        }
    }

    /// The scope whose switch counts: placement groups of one set go on and off together.
    pub fn switch_of(&self, scope: ScopeId) -> ScopeId {
        match self.scopes.get(&scope).map(|scope| scope.owner) {
            Some(ScopeOwner::Group { group, .. }) => {
                self.groups.get(&group).and_then(|group| group.scopes.first().copied()).unwrap_or(scope)
            }
            Some(ScopeOwner::Machine(_)) | None => scope,
        }
    }

    /// The policy that counts for a machine: its group's, its own, or the default.
    pub fn policy_of(&self, machine: &Machine) -> EventsPolicy {
        match machine.seat.group().and_then(|group| self.groups.get(&group)) {
            Some(group) => group.policy.clone(),
            None => machine.policy.clone().unwrap_or_default(),
        }
    }

    // --- acting ----------------------------------------------------------------------------------

    /// When time alone changes something.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let first = self.index.deadlines.get_min().map(|(at, _)| *at);
        let idle = self.index.listening.get_min().map(|(seen, _)| self.idle_at(*seen));
        let silent = self.index.started.get_min().map(|(started, _)| self.silent_at(*started));
        [first, idle, silent].into_iter().flatten().min()
    }

    /// When the time should be written down though nothing changes, so that a crash does not turn hours
    /// of running into downtime. Nobody needs it on a clock that stands still with the server.
    pub fn next_pulse(&self) -> Option<Timestamp> {
        (!self.index.listening.is_empty()).then(|| self.meta.now + PULSE_EVERY)
    }

    /// What should be under way: the events that have started.
    pub fn wanted_effects(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.index.started.iter().filter_map(|(_, id)| self.events.get(id))
    }

    /// When a scope that was last seen then goes off.
    pub(crate) fn idle_at(&self, seen: Timestamp) -> Timestamp {
        let idle = seen + self.settings.idle_disable + SEEN_EVERY;
        Timestamp(idle.0 + self.meta.downtime_ms)
    }

    /// When a driver that was asked then, and says nothing, has failed.
    pub(crate) fn silent_at(&self, started: Timestamp) -> Timestamp {
        started.max(self.meta.resumed) + self.settings.driver_timeout
    }

    /// The time that passes only while the server runs.
    pub(crate) fn running_time(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - self.meta.downtime_ms)
    }

    // --- changing: the only two doors --------------------------------------------------------------

    pub(crate) fn insert(&mut self, entity: Entity) {
        let before = self.get(&entity.key());
        if !before.as_ref().is_some_and(|before| is_found_alike(before, &entity)) {
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
        }
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
        }
    }

    fn index(&mut self, entity: &Entity) {
        if let Some(deadline) = self.deadline_of(entity) {
            self.index.deadlines.insert(deadline);
        }
        match entity {
            Entity::Meta(_) | Entity::Operation(_) => {}
            Entity::Host(host) => self.index.change_load(&host.name, |load| load),
            Entity::Group(group) => drop(self.index.groups_by_name.insert(NameKey::of_group(group), group.id)),
            Entity::Scope(scope) => {
                if let Switch::On { seen } = scope.switch {
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
            Entity::Meta(_) | Entity::Operation(_) => {}
            Entity::Host(host) => self.index.drop_load(&host.name),
            Entity::Group(group) => drop(self.index.groups_by_name.remove(&NameKey::of_group(&group))),
            Entity::Scope(scope) => {
                if let Switch::On { seen } = scope.switch {
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
        index.by_name.insert((hash, machine.id));
        index.by_vm_id.insert(machine.vm_id, machine.id);
        index.members.insert((machine.scope, machine.id));
        for address in &machine.addresses {
            index.by_address.insert(address.clone(), machine.id);
        }
        if let Some(host) = &machine.host {
            index.on_host.insert((host.clone(), machine.id));
            index.change_load(host, |load| load + 1);
        }
    }

    fn unindex_machine(&mut self, machine: &Machine) {
        let hash = self.name_hash(machine);
        let index = &mut self.index;
        index.by_name.remove(&(hash, machine.id));
        index.by_vm_id.remove(&machine.vm_id);
        index.members.remove(&(machine.scope, machine.id));
        for address in &machine.addresses {
            index.by_address.remove(address);
        }
        if let Some(host) = &machine.host {
            index.on_host.remove(&(host.clone(), machine.id));
            index.change_load(host, |load| load - 1);
        }
    }

    fn index_event(&mut self, event: &Event) {
        if event.is_live() {
            for resource in event.resources.iter() {
                self.index.of_machine.insert((resource.machine, event.id));
            }
        }
        if let Status::Started { at } = event.status {
            self.index.started.insert((at, event.id));
        }
        self.count_user_operations(event, |count, n| count + n);
    }

    fn unindex_event(&mut self, event: &Event) {
        for resource in event.resources.iter() {
            self.index.of_machine.remove(&(resource.machine, event.id));
        }
        if let Status::Started { at } = event.status {
            self.index.started.remove(&(at, event.id));
        }
        self.count_user_operations(event, u32::saturating_sub);
    }

    fn count_user_operations(&mut self, event: &Event, change: fn(u32, u32) -> u32) {
        if event.status != Status::Scheduled || !event.cause.is_limited() || !event.is_shown() {
            return;
        }
        let count = self.index.user_operations.get(&event.subscription).copied().unwrap_or(0);
        self.index.user_operations.insert(event.subscription.clone(), change(count, event.operations.len() as u32));
    }

    /// Where a machine's name is one of a kind: its cloud service, or its resource group.
    fn within<'a>(&'a self, home: &'a Home, seat: &Seat) -> &'a Name {
        match seat {
            Seat::RoleInstance { service, .. } => {
                self.groups.get(service).map_or(&home.resource_group, |group| &group.name)
            }
            Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => &home.resource_group,
        }
    }

    /// Whether another machine has this one's name where it must be one of a kind.
    pub(crate) fn is_name_taken(&self, machine: &Machine) -> bool {
        let hash = self.name_hash(machine);
        let within = self.within(&machine.home, &machine.seat);
        let alike = self.index.by_name.range((hash, MachineId(0))..=(hash, MachineId(u64::MAX)));
        alike.filter_map(|(_, id)| self.machines.get(id)).any(|other| {
            same_name(&other.name, &machine.name)
                && same_name(self.within(&other.home, &other.seat), within)
                && same_name(&other.home.subscription, &machine.home.subscription)
        })
    }

    fn name_hash(&self, machine: &Machine) -> NameHash {
        NameHash::new(&machine.name, self.within(&machine.home, &machine.seat), &machine.home.subscription)
    }

    fn deadline_of(&self, entity: &Entity) -> Option<(Timestamp, Deadline)> {
        match entity {
            Entity::Meta(_) | Entity::Host(_) | Entity::Scope(_) | Entity::Machine(_) => None,
            Entity::Group(group) => {
                let GroupKind::ScaleSet(set) = &group.kind else { return None };
                Some((set.next_batch?, Deadline::NextBatch(group.id)))
            }
            Entity::Event(event) => match &event.status {
                Status::Scheduled if event.due => None,
                Status::Started { .. } => None,
                Status::Scheduled => Some((event.not_before, Deadline::NotBefore(event.id))),
                Status::Ended { at, .. } => Some((*at + OVER_KEPT, Deadline::Forget(event.id))),
            },
            Entity::Operation(operation) => match &operation.state {
                OperationState::Running => {
                    let resume = operation.rollout.as_ref()?.resume?;
                    Some((resume, Deadline::NextDomain(operation.id)))
                }
                OperationState::Ended { at, .. } => Some((*at + OVER_KEPT, Deadline::ForgetOperation(operation.id))),
            },
        }
    }
}

impl Index {
    fn change_load(&mut self, host: &Name, change: fn(u32) -> u32) {
        let load = self.host_load.get(host).copied().unwrap_or(0);
        self.hosts_by_load.remove(&(load, host.clone()));
        self.host_load.insert(host.clone(), change(load));
        self.hosts_by_load.insert((change(load), host.clone()));
    }

    fn drop_load(&mut self, host: &Name) {
        if let Some(load) = self.host_load.remove(host) {
            self.hosts_by_load.remove(&(load, host.clone()));
        }
    }
}

/// Whether two states of an entity have the same places in every index. Most changes of machines and
/// scopes are of this kind, and the indexes are most of what a change costs.
fn is_found_alike(before: &Entity, after: &Entity) -> bool {
    match (before, after) {
        (Entity::Scope(before), Entity::Scope(after)) => before.switch == after.switch,
        (Entity::Machine(before), Entity::Machine(after)) => {
            before.vm_id == after.vm_id
                && before.name == after.name
                && before.home == after.home
                && before.seat == after.seat
                && before.scope == after.scope
                && before.host == after.host
                && before.addresses == after.addresses
        }
        _ => false,
    }
}

impl Event {
    /// Not over.
    pub fn is_live(&self) -> bool {
        !matches!(self.status, Status::Ended { .. })
    }

    pub fn is_shown(&self) -> bool {
        self.visibility == Visibility::Shown
    }
}

impl Cause {
    pub fn source(self) -> Source {
        match self {
            Cause::HostMaintenance | Cause::LiveMigration | Cause::HardwareFailure | Cause::Eviction => {
                Source::Platform
            }
            Cause::UserRestart | Cause::UserRedeploy | Cause::SelfServiceMaintenance | Cause::Deletion => Source::User,
        }
    }

    /// Counts against the limit of user operations.
    pub fn is_limited(self) -> bool {
        match self {
            Cause::UserRestart | Cause::UserRedeploy => true,
            Cause::HostMaintenance
            | Cause::LiveMigration
            | Cause::SelfServiceMaintenance
            | Cause::HardwareFailure
            | Cause::Eviction
            | Cause::Deletion => false,
        }
    }
}
