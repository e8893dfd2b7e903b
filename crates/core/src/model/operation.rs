//! Operations: requests, their targets and plans, and how far they got.

use std::time::Duration;

use super::{Cause, EventKind, Name, Outcome};
use crate::ids::{EventId, GroupId, MachineId, OperationId, RolloutId};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub requested_by: Name,
    pub subscription: Name,
    pub request: Request,
    pub requested_at: Timestamp,
    pub state: OperationState,
    /// The events of the operation, with the outcomes of those that have ended.
    pub parts: Vec<OperationEvent>,
    /// Progress of a drain.
    pub drain: Option<DrainProgress>,
    /// The rollout that requested the operation, or that carries it out one update domain at a time.
    pub rollout: Option<RolloutId>,
    /// The user who canceled the operation. Events that had already started still finish.
    pub canceled: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationEvent {
    pub event: EventId,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    Running,
    Ended { at: Timestamp, result: OperationResult },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    Succeeded,
    Failed(Outcome),
    Canceled { by: Name },
}

/// The action that an operation performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Creates one operation, and one event per machine.
    Restart {
        machines: Vec<MachineId>,
    },
    Redeploy {
        machines: Vec<MachineId>,
    },
    /// Self-service maintenance: a redeploy at a time that the user chooses.
    PerformMaintenance {
        machines: Vec<MachineId>,
    },
    Evict {
        machine: MachineId,
    },
    /// Recommends moving work away from a Spot machine.
    RecommendRebalance {
        machine: MachineId,
    },
    /// Deletes machines and, if `group` is set, the group that contains them all.
    Delete {
        machines: Vec<MachineId>,
        group: Option<GroupId>,
    },
    Maintain {
        target: Target,
        plan: Plan,
    },
    /// Moves all machines away from a host.
    Drain(DrainPlan),
    /// Simulated hardware failure, without notice. `kind` is Reboot or Redeploy.
    Fail {
        target: Target,
        kind: EventKind,
    },
}

impl Request {
    /// The requested machines. Those of a host or group are determined when their turn comes.
    pub fn machines(&self) -> &[MachineId] {
        match self {
            Request::Restart { machines }
            | Request::Redeploy { machines }
            | Request::PerformMaintenance { machines }
            | Request::Delete { machines, .. }
            | Request::Maintain { target: Target::Machines(machines), .. }
            | Request::Fail { target: Target::Machines(machines), .. } => machines,
            Request::Evict { machine } | Request::RecommendRebalance { machine } => std::slice::from_ref(machine),
            Request::Maintain { target: Target::Host(_) | Target::Group(_), .. }
            | Request::Fail { target: Target::Host(_) | Target::Group(_), .. }
            | Request::Drain(_) => &[],
        }
    }

    /// The host that the request is about.
    pub fn host(&self) -> Option<&Name> {
        match self {
            Request::Drain(plan) => Some(&plan.host),
            Request::Maintain { target: Target::Host(host), .. } | Request::Fail { target: Target::Host(host), .. } => {
                Some(host)
            }
            Request::Maintain { target: Target::Machines(_) | Target::Group(_), .. }
            | Request::Fail { target: Target::Machines(_) | Target::Group(_), .. }
            | Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
            | Request::Delete { .. } => None,
        }
    }

    /// The group that the request is about.
    pub fn group(&self) -> Option<GroupId> {
        match self {
            Request::Delete { group, .. } => *group,
            Request::Maintain { target: Target::Group(group), .. }
            | Request::Fail { target: Target::Group(group), .. } => Some(*group),
            Request::Maintain { target: Target::Host(_) | Target::Machines(_), .. }
            | Request::Fail { target: Target::Host(_) | Target::Machines(_), .. }
            | Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
            | Request::Drain(_) => None,
        }
    }

    /// The description or ticket that the user gave.
    pub fn description(&self) -> Option<&Name> {
        match self {
            Request::Maintain { plan, .. } => plan.description.as_ref(),
            Request::Drain(plan) => plan.description.as_ref(),
            Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
            | Request::Delete { .. }
            | Request::Fail { .. } => None,
        }
    }

    pub fn drain_plan(&self) -> Option<&DrainPlan> {
        if let Request::Drain(plan) = self { Some(plan) } else { None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Chosen machines. Several of them are treated like a group.
    Machines(Vec<MachineId>),
    /// All machines on the host, together.
    Host(Name),
    /// All machines in the group, one update domain at a time.
    Group(GroupId),
}

/// Requested maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Freeze, Reboot or Redeploy.
    pub kind: EventKind,
    /// HostMaintenance or LiveMigration.
    pub cause: Cause,
    /// Earliest start time. None: as soon as the notice period allows.
    pub at: Option<Timestamp>,
    /// Notice period, if longer than the minimum for the kind.
    pub notice: Option<Duration>,
    pub duration_secs: Option<i64>,
    pub description: Option<Name>,
}

/// A requested drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    pub host: Name,
    /// The pool to which machines move. None: the host's own pool.
    pub to: Option<Name>,
    /// Maximum number of machines that move at a time.
    pub parallel: u32,
    /// Maximum number of unavailable machines in each group. None: the size of its largest update domain.
    pub unavailable_max: Option<u32>,
    /// Notice period, if longer than the minimum for the kind.
    pub notice: Option<Duration>,
    /// Machines that cannot move while they run restart in place instead of moving.
    pub in_place: bool,
    pub description: Option<Name>,
}

/// Progress of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Machines that are still on the host although their event has ended: they restarted in place, or their
    /// move failed.
    pub settled: Vec<MachineId>,
    /// Why no further machine moves. None: machines are moving, or the drain has ended.
    pub waits_for: Option<Wait>,
}

/// The reason why a rollout or drain cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The next maintenance window opens at this time.
    Window { opens: Timestamp },
    /// The first step is announced at this time.
    Start { until: Timestamp },
    /// The pause between steps.
    Pause { until: Timestamp },
    /// The group has too many unavailable machines. The name is that of the group or the standalone machine.
    Availability { group: Name, unavailable: u32, max: u32 },
    /// No host has room for this machine.
    Capacity { machine: Name },
    /// The events wait for approval or for the end of their notice.
    Approvals,
    /// This host is unreachable, has failed, or is not active yet.
    Host(Name),
    /// The rollout that requested the drain is paused.
    Paused,
}

impl Wait {
    /// When the next maintenance window opens, if the reason is that none is open.
    pub(crate) fn window_start(&self) -> Option<Timestamp> {
        if let Wait::Window { opens } = self { Some(*opens) } else { None }
    }

    /// The reason as one word, as the API shows it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Wait::Window { .. } => "window",
            Wait::Start { .. } => "start",
            Wait::Pause { .. } => "pause",
            Wait::Availability { .. } => "availability",
            Wait::Capacity { .. } => "capacity",
            Wait::Approvals => "approvals",
            Wait::Host(_) => "host",
            Wait::Paused => "paused",
        }
    }
}
