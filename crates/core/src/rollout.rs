//! The data of a rollout: maintenance in steps over hosts, the update domains of groups, or single machines. Plain data; the
//! rules are in `rules/rollouts`.

use std::time::Duration;

use crate::ids::{GroupId, MachineId, OperationId, RolloutId};
use crate::model::{Name, Wait};
use crate::time::Timestamp;
use crate::window::Window;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub id: RolloutId,
    /// Sequence number. Rollouts reserve capacity in this order.
    pub seq: u64,
    pub by: Name,
    pub created: Timestamp,
    pub plan: RolloutPlan,
    pub state: RolloutState,
    pub steps: Vec<RolloutStep>,
    /// Why no machine is affected at the moment, or why the next step cannot start.
    pub waits_for: Option<Wait>,
    /// Number of machines whose event failed or timed out.
    pub failures: u32,
    /// No step starts before this time: the start that the plan asks for, or the end of the pause after the latest step.
    pub paused_until: Option<Timestamp>,
    /// When the rules must look at the rollout again, even without a command.
    pub wake: Option<Timestamp>,
    /// Number of operations requested so far. Determines the ID of the next one.
    pub requested: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    pub action: RolloutAction,
    /// Earliest start of the first step: its `NotBefore`, or the beginning of a drain. None: as soon as the notice allows.
    pub at: Option<Timestamp>,
    /// Maximum number of steps in progress. A host that is draining or drained counts until it is active again.
    pub parallel: u32,
    /// Time between the end of a step and the start of the next.
    pub pause: Duration,
    /// Events start only within these windows. Empty: at any time.
    pub windows: Vec<Window>,
    /// Maximum number of unavailable machines in each group. None: the size of its largest update domain.
    pub unavailable_max: Option<u32>,
    /// Number of failed machines that the rollout tolerates.
    pub failures_max: u32,
    /// Notice period, if longer than the minimum.
    pub notice: Option<Duration>,
    pub duration_secs: Option<i64>,
    pub description: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutAction {
    Freeze,
    Reboot,
    Redeploy,
    /// Empties hosts. A step ends when its host is active again.
    Drain {
        to: Option<Name>,
        machines_parallel: u32,
        in_place: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// No step has begun.
    Planned,
    Running,
    /// No machine is affected at the moment; `waits_for` says why.
    Waiting,
    Paused,
    Finished {
        at: Timestamp,
    },
    Stopped {
        at: Timestamp,
        by: Name,
    },
    /// More machines failed than the plan tolerates.
    Failed {
        at: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStep {
    pub target: StepTarget,
    pub state: StepState,
    /// The operation that carries out the step, the latest if it was announced again.
    pub operation: Option<OperationId>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Whether the rollout took back events of the step, which are announced again.
    pub withdrawn: bool,
    /// Machines whose events have ended in an earlier announcement of the step. In a drain: machines whose move failed.
    pub handled: Vec<MachineId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTarget {
    Host(Name),
    Domain { group: GroupId, domain: u32 },
    Machine(MachineId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Pending,
    InProgress,
    Succeeded,
    Failed,
    /// There were no machines.
    Skipped,
    /// The rollout ended before or during the step.
    Canceled,
}

impl Rollout {
    /// Whether the rollout can still start steps.
    pub fn is_live(&self) -> bool {
        match self.state {
            RolloutState::Planned | RolloutState::Running | RolloutState::Waiting | RolloutState::Paused => true,
            RolloutState::Finished { .. } | RolloutState::Stopped { .. } | RolloutState::Failed { .. } => false,
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            RolloutState::Planned | RolloutState::Running | RolloutState::Waiting | RolloutState::Paused => None,
            RolloutState::Finished { at } | RolloutState::Stopped { at, .. } | RolloutState::Failed { at } => Some(at),
        }
    }
}

impl StepState {
    pub fn as_str(self) -> &'static str {
        match self {
            StepState::Pending => "Pending",
            StepState::InProgress => "InProgress",
            StepState::Succeeded => "Succeeded",
            StepState::Failed => "Failed",
            StepState::Skipped => "Skipped",
            StepState::Canceled => "Canceled",
        }
    }
}

impl RolloutState {
    pub fn as_str(&self) -> &'static str {
        match self {
            RolloutState::Planned => "Planned",
            RolloutState::Running => "Running",
            RolloutState::Waiting => "Waiting",
            RolloutState::Paused => "Paused",
            RolloutState::Finished { .. } => "Finished",
            RolloutState::Stopped { .. } => "Stopped",
            RolloutState::Failed { .. } => "Failed",
        }
    }
}
