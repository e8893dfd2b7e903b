//! What comes of a command: the region after it, what must be stored, what is worth remembering, and
//! what drivers should look at.

use crate::ids::{EventId, GroupId, MachineId, OperationId, ScopeId};
use crate::model::*;
use crate::region::Region;
use crate::time::Timestamp;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Transition {
    pub region: Region,
    pub answer: Answer,
    /// Changed entities, each once, in the order of their keys.
    pub writes: Vec<Write>,
    /// History, in order.
    pub facts: Vec<Fact>,
    /// Hints for drivers; the truth is `Region::wanted_effects`.
    pub effects: Vec<Effect>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Machine(MachineId),
    Group {
        group: GroupId,
        machines: Vec<MachineId>,
    },
    Operation(OperationId),
    /// A change of a set's capacity: who came, who goes.
    Scaled {
        added: Vec<MachineId>,
        removing: Vec<MachineId>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put(Entity),
    Delete(Key),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    Meta(Meta),
    Host(Arc<Host>),
    Group(Arc<Group>),
    Scope(Arc<Scope>),
    Machine(Arc<Machine>),
    Event(Arc<Event>),
    Operation(Arc<Operation>),
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
        }
    }
}

/// The region's own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The latest time that the region has seen.
    pub now: Timestamp,
    /// The next small number for a machine, scope or group.
    pub next_id: u64,
    /// The next place in the order of events.
    pub next_seq: u64,
    /// When the server last began to run.
    pub resumed: Timestamp,
    /// How long the server did not run, all in all, in milliseconds.
    pub downtime_ms: i64,
    /// Addresses given out of the pool so far.
    pub pool_given: u32,
}

/// One line of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub at: Timestamp,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An event came into its scope's document. Scheduled, or Started when there was no notice to give.
    Appeared(Arc<Event>),
    Approved {
        event: Arc<Event>,
        by: Approver,
    },
    Started(Arc<Event>),
    /// It left the document, or, hidden, was over. The event's status says how.
    Ended(Arc<Event>),
    OperationEnded(Arc<Operation>),
    MachineAdded(Arc<Machine>),
    MachineRemoved(Arc<Machine>),
    ScopeOn(ScopeId),
    ScopeOff(ScopeId),
}

/// An event that has just started (or is no longer under way) and so concerns the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Begin(Arc<Event>),
    Stop(EventId),
}
