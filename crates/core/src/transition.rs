//! What comes of a command: the region after it, what must be stored, what is worth remembering, and
//! what drivers should look at.

use std::sync::Arc;

use crate::entity::{Entity, Key};
use crate::ids::{EventId, GroupId, MachineId, OperationId, ScopeId};
use crate::model::*;
use crate::region::Region;
use crate::time::Timestamp;

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
