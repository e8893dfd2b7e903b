//! The result of a command: the new region, the writes to store, facts for the history, and effects for
//! drivers.

use std::sync::Arc;

use crate::entity::{Entity, Key};
use crate::ids::{EventId, GroupId, MachineId, OperationId, RolloutId, ScopeId};
use crate::model::*;
use crate::region::Region;
use crate::rollout::Rollout;
use crate::time::Timestamp;

#[derive(Clone, Debug)]
pub struct Transition {
    pub region: Region,
    pub answer: Answer,
    /// Changed entities in the order of their keys, each at most once.
    pub writes: Vec<Write>,
    /// Facts for the history, in order.
    pub facts: Vec<Fact>,
    /// Hints for drivers. The authoritative list is `Region::wanted_effects`.
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
    Rollout(RolloutId),
    /// The result of changing the capacity of a scale set.
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

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub at: Timestamp,
    pub what: FactKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// An event was added to its scope's document: Scheduled, or Started if it has no notice period.
    Appeared(Arc<Event>),
    Approved {
        event: Arc<Event>,
        by: Approver,
    },
    Started(Arc<Event>),
    /// An event was removed from the document or, if it was hidden, ended. Its status contains the outcome.
    Ended(Arc<Event>),
    OperationEnded(Arc<Operation>),
    RolloutChanged {
        rollout: Arc<Rollout>,
        change: RolloutChange,
    },
    /// The state of a host changed.
    HostChanged(Arc<Host>),
    MachineAdded(Arc<Machine>),
    MachineRemoved(Arc<Machine>),
    ScopeOn(ScopeId),
    ScopeOff(ScopeId),
}

impl FactKind {
    /// The event that appeared, was approved, started or ended.
    pub fn event(&self) -> Option<&Arc<Event>> {
        match self {
            FactKind::Appeared(event)
            | FactKind::Approved { event, .. }
            | FactKind::Started(event)
            | FactKind::Ended(event) => Some(event),
            FactKind::OperationEnded(_)
            | FactKind::RolloutChanged { .. }
            | FactKind::HostChanged(_)
            | FactKind::MachineAdded(_)
            | FactKind::MachineRemoved(_)
            | FactKind::ScopeOn(_)
            | FactKind::ScopeOff(_) => None,
        }
    }
}

/// A change of a rollout. Steps are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutChange {
    Started,
    StepStarted {
        step: usize,
    },
    /// `failure` is the reason why the step failed, if it did and the reason is known.
    StepEnded {
        step: usize,
        failure: Option<Outcome>,
    },
    /// This step was added: it retries one that failed.
    StepRetried {
        step: usize,
    },
    Waiting,
    Paused,
    Resumed,
    Stopped,
    Failed,
    Finished,
}

/// An event that drivers should begin or stop carrying out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Begin(Arc<Event>),
    Stop(EventId),
}
