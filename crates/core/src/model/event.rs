//! Events: their data, status and outcome.

use std::sync::Arc;
use std::time::Duration;

use super::{EvictionPolicy, Machine, Name};
use crate::ids::{EventId, MachineId, OperationId, ScopeId};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    /// Sequence number that orders the events of a document.
    pub seq: u64,
    pub subscription: Name,
    pub scope: ScopeId,
    pub kind: EventKind,
    pub cause: Cause,
    pub visibility: Visibility,
    pub status: Status,
    pub resources: Arc<[Resource]>,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    /// When the machines will have seen the event for the minimum notice period. Moves back when the server was
    /// down, while `not_before` stays as announced.
    pub notice_end: Timestamp,
    /// The minimum time for which the machines must see the event before it starts without approval.
    pub notice: Duration,
    /// Whether the agent of one of its hosts has yet to confirm the event. Until then, its notice does not begin.
    pub unseen: bool,
    /// The revision of the region in which the event appeared.
    pub revision: u64,
    /// The driver's timeout counts from here: the start, or the latest time at which a lost host came back.
    pub attended: Timestamp,
    /// Whether both `not_before` and `notice_end` have passed.
    pub due: bool,
    pub approval: Option<Approval>,
    pub description: Name,
    pub duration_secs: i64,
    /// The operations that requested the event. There are several if later requests joined it.
    pub operations: Vec<OperationId>,
    /// The host operation that the event belongs to. Its events start together.
    pub cohort: Option<OperationId>,
    /// The hosts to which machines move. They are reserved until the event ends.
    pub moves: Vec<Move>,
    /// The notice scale in effect when the event was created. Later changes of the setting do not affect it.
    pub notice_scale: u32,
    /// The results of the machines whose host has reported. The others still have an order.
    pub progress: Vec<MachineProgress>,
}

impl Event {
    /// The reported result of a machine.
    pub fn result_of(&self, machine: MachineId) -> Option<&MachineResult> {
        self.progress.iter().find(|progress| progress.machine == machine).map(|progress| &progress.result)
    }

    /// Whether the machine's host has reported that the event is done there.
    pub fn is_done(&self, machine: MachineId) -> bool {
        self.result_of(machine) == Some(&MachineResult::Done)
    }

    /// The host to which this event moves a machine.
    pub fn target_of(&self, machine: MachineId) -> Option<&Name> {
        self.moves.iter().find(|step| step.machine == machine).map(|step| &step.to)
    }
}

/// The reported result of one machine of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineProgress {
    pub machine: MachineId,
    pub result: MachineResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineResult {
    Done,
    Failed(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    /// Advice to move work away from a Spot machine that may soon be evicted. Nothing happens to the machine.
    SpotRebalanceRecommendation,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Freeze => "Freeze",
            EventKind::Reboot => "Reboot",
            EventKind::Redeploy => "Redeploy",
            EventKind::Preempt => "Preempt",
            EventKind::Terminate => "Terminate",
            EventKind::SpotRebalanceRecommendation => "SpotRebalanceRecommendation",
        }
    }

    /// Whether events of this kind affect their machines. Advice does not: it is never Started, and ends when
    /// it is approved or its notice is over.
    pub fn has_impact(self) -> bool {
        match self {
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => {
                true
            }
            EventKind::SpotRebalanceRecommendation => false,
        }
    }

    /// Whether events of this kind remove this machine.
    pub fn deletes(self, machine: &Machine) -> bool {
        match self {
            EventKind::Terminate => true,
            EventKind::Preempt => machine.eviction == EvictionPolicy::Delete,
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::SpotRebalanceRecommendation => {
                false
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    HostMaintenance,
    LiveMigration,
    UserRestart,
    UserRedeploy,
    SelfServiceMaintenance,
    HardwareFailure,
    Eviction,
    RebalanceRecommendation,
    Deletion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Platform,
    User,
}

/// Whether an event appears in its scope's document. Events in a scope that is off are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Shown,
    Hidden,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Scheduled,
    Started { at: Timestamp },
    Ended { at: Timestamp, outcome: Outcome },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    /// The driver reported a failure with this reason.
    Failed(Name),
    /// The driver did not report in time.
    TimedOut,
    /// A more urgent event took over the machine.
    Superseded,
    /// All its machines were powered off when it could start.
    NoEffect,
    /// All its machines were deleted.
    ResourceGone,
    Canceled {
        by: Name,
    },
}

impl Outcome {
    /// The driver's message about a failure.
    pub fn failure_reason(&self) -> Option<&Name> {
        match self {
            Outcome::Failed(reason) => Some(reason),
            Outcome::Completed
            | Outcome::TimedOut
            | Outcome::Superseded
            | Outcome::NoEffect
            | Outcome::ResourceGone
            | Outcome::Canceled { .. } => None,
        }
    }

    /// The name of the principal that canceled the event.
    pub fn canceled_by(&self) -> Option<&Name> {
        match self {
            Outcome::Canceled { by } => Some(by),
            Outcome::Completed
            | Outcome::Failed(_)
            | Outcome::TimedOut
            | Outcome::Superseded
            | Outcome::NoEffect
            | Outcome::ResourceGone => None,
        }
    }
}

/// A machine as an event names it. The name remains after the machine is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub machine: MachineId,
    pub name: Name,
    /// The oldest document version formats the names of role instances differently.
    pub role_instance: bool,
}

/// The host to which an event moves a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub machine: MachineId,
    pub to: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub by: Approver,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approver {
    /// A machine of the scope.
    Guest { machine: MachineId, name: Name },
    /// A user of the management API.
    Management(Name),
    /// `scheduledEventsPolicy`.
    Policy,
}
