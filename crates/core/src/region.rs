//! The region: the whole state of the rules as one immutable value. Cloning it only increments a few reference
//! counts, so a reader can keep its copy for as long as it needs.
//!
//! Only the maps of entities are stored. All other maps are indexes that `insert` and `remove` derive from the
//! entities, so a loaded region equals the saved one.

mod index;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;

use crate::collections::{IdMap, IdSet};
use crate::entity::{Entity, RegionMeta};
use crate::group_type::GroupType;
use crate::ids::*;
use crate::model::*;
use crate::names::{NameHash, NameKey, hash_address, hash_guid, same_name};
use crate::rollout::{Rollout, RolloutTargets};
use crate::settings::{NOTICE_PULSE_INTERVAL, PULSE_INTERVAL, SEEN_INTERVAL, Settings};
use crate::time::Timestamp;
pub(crate) use index::Deadline;
use index::Index;

#[derive(Clone, Debug)]
pub struct Region {
    pub(crate) settings: Arc<Settings>,
    pub(crate) meta: RegionMeta,
    pub(crate) hosts: OrdMap<Name, Arc<Host>>,
    pub(crate) groups: IdMap<Arc<Group>>,
    pub(crate) scopes: IdMap<Arc<Scope>>,
    pub(crate) machines: IdMap<Arc<Machine>>,
    pub(crate) events: OrdMap<EventId, Arc<Event>>,
    pub(crate) operations: OrdMap<OperationId, Arc<Operation>>,
    pub(crate) rollouts: OrdMap<RolloutId, Arc<Rollout>>,
    pub(crate) index: Index,
}

/// The result of looking up a machine by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineLookup {
    One(MachineId),
    /// The candidates, in order of registration; at most [`Region::CANDIDATES_MAX`].
    Many(Vec<MachineId>),
    Nothing,
}

/// Stored entities that contradict each other.
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
            meta: RegionMeta::default(),
            hosts: OrdMap::new(),
            groups: IdMap::default(),
            scopes: IdMap::default(),
            machines: IdMap::default(),
            events: OrdMap::new(),
            operations: OrdMap::new(),
            rollouts: OrdMap::new(),
            index: Index::default(),
        }
    }

    /// Rebuilds a region from its entities, in any order. A scope's list of live events need not be stored; it
    /// follows from the sequence numbers of its events.
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
        // Role instances are looked up within their cloud service, so groups are inserted first.
        region.load_machines(machines);
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
                LoadError(format!("event {} belongs to scope {}, which does not exist", event.id, event.scope.0))
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
                    "machine '{}' belongs to scope {}, which does not exist",
                    machine.name, machine.scope.0
                )));
            }
            if let Some(group) = machine.membership.group().filter(|group| !self.groups.contains_key(group)) {
                return Err(LoadError(format!(
                    "machine '{}' belongs to group {}, which does not exist",
                    machine.name, group.0
                )));
            }
        }
        let highest = self.machines.last_number().max(self.scopes.last_number()).unwrap_or(0);
        if self.meta.next_id <= highest && highest > 0 {
            return Err(LoadError(format!("the next ID is {}, but {highest} is already in use", self.meta.next_id)));
        }
        Ok(())
    }

    /// All entities, as they are stored.
    pub fn entities(&self) -> impl Iterator<Item = Entity> + '_ {
        std::iter::once(Entity::Meta(self.meta))
            .chain(self.hosts.values().cloned().map(Entity::Host))
            .chain(self.groups.values().cloned().map(Entity::Group))
            .chain(self.scopes.values().cloned().map(Entity::Scope))
            .chain(self.machines.values().cloned().map(Entity::Machine))
            .chain(self.events.values().cloned().map(Entity::Event))
            .chain(self.operations.values().cloned().map(Entity::Operation))
            .chain(self.rollouts.values().cloned().map(Entity::Rollout))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn meta(&self) -> RegionMeta {
        self.meta
    }

    /// The latest time that the region has seen.
    pub fn now(&self) -> Timestamp {
        self.meta.now
    }

    // --- lookup ----------------------------------------------------------------------------------

    pub fn machine(&self, id: MachineId) -> Option<&Arc<Machine>> {
        self.machines.get(&id)
    }

    pub fn machines(&self) -> impl DoubleEndedIterator<Item = &Arc<Machine>> + ExactSizeIterator {
        self.machines.values()
    }

    /// Machines after `after`, in order of registration. For paged lists.
    pub fn machines_after(&self, after: Option<MachineId>) -> impl Iterator<Item = &Arc<Machine>> {
        let from = after.map_or(MachineId(0), |id| MachineId(id.0 + 1));
        self.machines.values_from(from)
    }

    pub fn machine_by_vm_id(&self, vm_id: Guid) -> Option<MachineId> {
        let mut hashed = self.index.by_vm_id.get(hash_guid(vm_id)).filter_map(|id| self.machines.get(&id));
        hashed.find(|machine| machine.vm_id == vm_id).map(|machine| machine.id)
    }

    pub fn machine_by_address(&self, address: &Address) -> Option<&Arc<Machine>> {
        let mut hashed = self.index.by_address.get(hash_address(address)).filter_map(|id| self.machines.get(&id));
        hashed.find(|machine| machine.addresses.contains(address))
    }

    /// Finds a machine by name. `within`, a resource group or cloud service, distinguishes machines with the
    /// same name.
    pub fn machine_by_name(&self, name: &str, within: Option<&str>) -> MachineLookup {
        let (from, to) = NameHash::all_of(name);
        let hashed = self.index.by_name.range(from.0, to.0);
        let mut found = hashed
            .filter_map(|id| self.machines.get(&id))
            .filter(|machine| same_name(&machine.name, name))
            .filter(|machine| {
                within.is_none_or(|within| same_name(self.name_container(&machine.home, &machine.membership), within))
            })
            .map(|machine| machine.id);
        let Some(first) = found.next() else { return MachineLookup::Nothing };
        let mut candidates: Vec<_> = found.take(Self::CANDIDATES_MAX - 1).collect();
        if candidates.is_empty() {
            return MachineLookup::One(first);
        }
        candidates.push(first);
        candidates.sort();
        MachineLookup::Many(candidates)
    }

    /// The machine with this name in a resource group. Role instances are not found here, because their names
    /// are only unique within their cloud service.
    pub fn machine_at(&self, home: &ResourceGroupRef, name: &str) -> Option<&Arc<Machine>> {
        let hash = NameHash::new(name, &home.resource_group, &home.subscription);
        let hashed = self.index.by_name.get(hash.0);
        hashed.filter_map(|id| self.machines.get(&id)).find(|machine| {
            same_name(&machine.name, name)
                && same_name(&machine.home.resource_group, &home.resource_group)
                && same_name(&machine.home.subscription, &home.subscription)
                && !matches!(machine.membership, Membership::RoleInstance { .. })
        })
    }

    pub fn group(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    pub fn group_by_name(&self, home: &ResourceGroupRef, name: &str, group_type: GroupType) -> Option<GroupId> {
        self.index.groups_by_name.get(&NameKey::new(&name.into(), home, group_type)).copied()
    }

    /// The name of a group, with the resource group if the name is not unique.
    pub fn group_label(&self, group: &Group) -> String {
        match self.groups_named(&group.name).nth(1) {
            Some(_) => format!("{}/{}", group.home.resource_group, group.name),
            None => group.name.to_string(),
        }
    }

    /// All groups with this name, of any type and in any resource group.
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

    pub fn scopes(&self) -> impl ExactSizeIterator<Item = &Arc<Scope>> {
        self.scopes.values()
    }

    /// The machines that see this scope's document, in order of registration.
    pub fn members(&self, scope: ScopeId) -> impl Iterator<Item = &Arc<Machine>> {
        let owner = match self.scopes.get(&scope).map(|scope| scope.owner) {
            Some(ScopeOwner::Machine(machine)) => Some(machine),
            Some(ScopeOwner::Group { .. }) | None => None,
        };
        let members = self.index.members.get(&scope).into_iter().flat_map(IdSet::iter);
        owner.into_iter().chain(members).filter_map(|id| self.machines.get(&id))
    }

    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.hosts.values()
    }

    pub fn host(&self, name: &str) -> Option<&Arc<Host>> {
        self.hosts.get(name)
    }

    pub fn machines_on(&self, host: &Name) -> impl Iterator<Item = &Arc<Machine>> {
        let machines = self.index.on_host.get(host).into_iter().flat_map(IdSet::iter);
        machines.filter_map(|id| self.machines.get(&id))
    }

    pub fn event(&self, id: EventId) -> Option<&Arc<Event>> {
        self.events.get(&id)
    }

    /// All known events, including those that ended less than an hour ago.
    pub fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.values()
    }

    pub fn operation(&self, id: OperationId) -> Option<&Arc<Operation>> {
        self.operations.get(&id)
    }

    pub fn operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.values()
    }

    pub fn rollout(&self, id: RolloutId) -> Option<&Arc<Rollout>> {
        self.rollouts.get(&id)
    }

    /// All known rollouts, including those that ended recently.
    pub fn rollouts(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.rollouts.values()
    }

    /// Rollouts that have not ended, in order of creation.
    pub fn live_rollouts(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.index.live_rollouts.iter().filter_map(|(_, id)| self.rollouts.get(id))
    }

    /// The rollout that owns this host.
    pub fn rollout_of_host(&self, host: &Name) -> Option<&Arc<Rollout>> {
        self.live_rollouts()
            .find(|rollout| matches!(&rollout.targets, RolloutTargets::Hosts(hosts) if hosts.contains(host)))
    }

    /// The rollout that carries out this operation one update domain at a time.
    pub fn rollout_of_maintenance(&self, operation: &Operation) -> Option<&Arc<Rollout>> {
        self.rollouts.get(&operation.rollout?).filter(|rollout| rollout.operation == Some(operation.id))
    }

    /// The drain in progress on this host.
    pub fn drain_of(&self, host: &Name) -> Option<&Arc<Operation>> {
        self.operations.get(self.index.drains.get(host)?)
    }

    /// Hosts with a failure of their hardware in progress.
    pub fn failing_hosts(&self) -> BTreeSet<&Name> {
        let running = self.operations().filter(|operation| operation.state == OperationState::Running);
        let failures = running.filter(|operation| matches!(operation.request, Request::Fail { .. }));
        failures.filter_map(|operation| operation.request.host()).collect()
    }

    /// The machine's events that have not ended.
    pub fn events_of(&self, machine: MachineId) -> impl Iterator<Item = &Arc<Event>> {
        self.index
            .of_machine
            .range((machine, Guid(0))..=(machine, Guid(u128::MAX)))
            .filter_map(|(_, id)| self.events.get(id))
    }

    /// The Scheduled events that start together with this one, including itself.
    pub fn cohort<'r>(&'r self, event: &Event) -> impl Iterator<Item = &'r Arc<Event>> + use<'r> {
        let operation = event.cohort.and_then(|id| self.operations.get(&id));
        let own = operation.is_none().then_some(event.id);
        let parts = operation.map_or(&[][..], |operation| &operation.parts);
        let events = parts.iter().map(|part| part.event).chain(own).filter_map(|id| self.events.get(&id));
        events.filter(|event| event.status == Status::Scheduled)
    }

    // --- documents -------------------------------------------------------------------------------

    /// The events in a scope's document, in order.
    pub fn document(&self, scope: ScopeId) -> impl Iterator<Item = &Arc<Event>> {
        let live = self.scopes.get(&scope).map_or(&[][..], |scope| &scope.live);
        live.iter().filter_map(|id| self.events.get(id)).filter(|event| event.is_shown())
    }

    pub fn is_on(&self, scope: ScopeId) -> bool {
        self.switch_holder(scope).is_some_and(|scope| matches!(scope.switch, EventsState::On { .. }))
    }

    /// Whether a request for the scope's document must be reported to the region: because the request turns the
    /// scope on, or because the recorded time of the latest request is out of date.
    pub fn needs_request_report(&self, scope: ScopeId, now: Timestamp) -> bool {
        match self.switch_holder(scope).map(|scope| scope.switch) {
            Some(EventsState::On { seen }) => self.running_time(now).since(seen) >= SEEN_INTERVAL,
            Some(EventsState::Off) => true,
            None => false,
        }
    }

    /// The scope that stores whether events are on for this one. All placement groups of a scale set share one switch.
    pub fn events_state_owner(&self, scope: ScopeId) -> ScopeId {
        self.switch_holder(scope).map_or(scope, |holder| holder.id)
    }

    /// Every poll calls this, so the usual case is one lookup.
    fn switch_holder(&self, scope: ScopeId) -> Option<&Arc<Scope>> {
        let own = self.scopes.get(&scope)?;
        let ScopeOwner::Group { group, part: 1.. } = own.owner else { return Some(own) };
        let first = self.groups.get(&group).and_then(|group| group.scopes.first());
        first.map_or(Some(own), |first| self.scopes.get(first))
    }

    /// The policy that applies to a machine: its group's, its own, or the default.
    pub fn policy_of(&self, machine: &Machine) -> EventsPolicy {
        match machine.membership.group().and_then(|group| self.groups.get(&group)) {
            Some(group) => group.policy.clone(),
            None => machine.policy.clone().unwrap_or_default(),
        }
    }

    // --- time and effects ------------------------------------------------------------------------

    /// The next time at which the region changes without a command.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let first = self.index.deadlines.get_min().map(|(at, _)| *at);
        let idle = self.index.listening.get_min().map(|(seen, _)| self.idle_at(*seen));
        let silent = self.index.started.get_min().map(|(started, _)| self.timeout_at(*started));
        [first, idle, silent].into_iter().flatten().min()
    }

    /// When to store the current time even though nothing changes, so that a crash does not count uptime as
    /// downtime. Not needed with a manual clock, which stops together with the server.
    pub fn next_time_checkpoint(&self) -> Option<Timestamp> {
        let notice_ends = self.index.noticing.get_max().map_or(Timestamp::default(), |(end, _)| *end);
        if notice_ends > self.meta.now {
            Some(self.meta.now + NOTICE_PULSE_INTERVAL)
        } else {
            (!self.index.listening.is_empty()).then(|| self.meta.now + PULSE_INTERVAL)
        }
    }

    /// The started events: everything that drivers should be carrying out now.
    pub fn wanted_effects(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.index.started.iter().filter_map(|(_, id)| self.events.get(id))
    }

    /// When a scope turns off if its latest request was at `seen`.
    pub(crate) fn idle_at(&self, seen: Timestamp) -> Timestamp {
        let idle = seen + self.settings.idle_disable + SEEN_INTERVAL;
        Timestamp(idle.0 + self.meta.downtime_ms)
    }

    /// When an event that started at `started` fails because its driver did not report.
    pub(crate) fn timeout_at(&self, started: Timestamp) -> Timestamp {
        started.max(self.meta.resumed) + self.settings.driver_timeout
    }

    /// Converts to running time, which does not include downtime of the server.
    pub(crate) fn running_time(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - self.meta.downtime_ms)
    }
}

impl Event {
    /// Whether the event has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.status, Status::Ended { .. })
    }

    pub fn is_shown(&self) -> bool {
        self.visibility == Visibility::Shown
    }

    pub(crate) fn has_pending_notice(&self) -> bool {
        self.status == Status::Scheduled && self.is_shown() && !self.due
    }
}

impl Cause {
    pub fn source(self) -> Source {
        match self {
            Cause::HostMaintenance
            | Cause::LiveMigration
            | Cause::HardwareFailure
            | Cause::Eviction
            | Cause::RebalanceRecommendation => Source::Platform,
            Cause::UserRestart | Cause::UserRedeploy | Cause::SelfServiceMaintenance | Cause::Deletion => Source::User,
        }
    }

    /// Whether the cause counts toward the limit of user operations.
    pub fn is_limited(self) -> bool {
        match self {
            Cause::UserRestart | Cause::UserRedeploy => true,
            Cause::HostMaintenance
            | Cause::LiveMigration
            | Cause::SelfServiceMaintenance
            | Cause::HardwareFailure
            | Cause::Eviction
            | Cause::RebalanceRecommendation
            | Cause::Deletion => false,
        }
    }
}
