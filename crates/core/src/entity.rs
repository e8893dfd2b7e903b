//! Entities and their keys: the units in which a region is loaded and stored.

use std::sync::Arc;

use crate::ids::{EventId, GroupId, MachineId, OperationId, RolloutId, ScopeId};
use crate::model::{Event, Group, Host, Machine, Name, Operation, Scope};
use crate::rollout::Rollout;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    Meta(RegionMeta),
    Host(Arc<Host>),
    Group(Arc<Group>),
    Scope(Arc<Scope>),
    Machine(Arc<Machine>),
    Event(Arc<Event>),
    Operation(Arc<Operation>),
    Rollout(Arc<Rollout>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Meta,
    Host(Name),
    Group(GroupId),
    Scope(ScopeId),
    Machine(MachineId),
    Event(EventId),
    Operation(OperationId),
    Rollout(RolloutId),
}

impl Entity {
    pub fn key(&self) -> Key {
        match self {
            Entity::Meta(_) => Key::Meta,
            Entity::Host(host) => Key::Host(host.name.clone()),
            Entity::Group(group) => Key::Group(group.id),
            Entity::Scope(scope) => Key::Scope(scope.id),
            Entity::Machine(machine) => Key::Machine(machine.id),
            Entity::Event(event) => Key::Event(event.id),
            Entity::Operation(operation) => Key::Operation(operation.id),
            Entity::Rollout(rollout) => Key::Rollout(rollout.id),
        }
    }
}

/// Counters and times of the region itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionMeta {
    /// The latest time that the region has seen.
    pub now: Timestamp,
    /// The next number for a machine, scope or group.
    pub next_id: u64,
    /// The next sequence number of an event.
    pub next_seq: u64,
    /// When the server last started.
    pub resumed: Timestamp,
    /// Total downtime of the server, in milliseconds.
    pub downtime_ms: i64,
    /// Incremented by every command.
    pub revision: u64,
    /// Position in the address pool after the last assigned address.
    pub pool_given: u32,
    /// Incremented by every start of the server. Hosts refuse orders with a lower term than the highest they have seen.
    pub term: u64,
}
