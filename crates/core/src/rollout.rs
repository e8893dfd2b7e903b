//! The data of a rollout: maintenance in steps over hosts, update domains, or single machines. Plain data; the rules are in
//! `rules/rollouts`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ids::{EventId, GroupId, MachineId, OperationId, RolloutId};
use crate::model::{EventKind, Name, Operation, OperationEvent, Plan, Wait};
use crate::time::Timestamp;
use crate::window::Window;

/// A limit that means unlimited.
pub const UNLIMITED: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub id: RolloutId,
    /// Sequence number. Rollouts reserve capacity in this order.
    pub seq: u64,
    pub requested_by: Name,
    pub created: Timestamp,
    /// The hosts, groups or machines of the request. The rollout owns them.
    pub targets: RolloutTargets,
    pub plan: RolloutPlan,
    /// The maintenance operation that contains the events of all steps. None: each step has an operation of its own.
    pub operation: Option<OperationId>,
    /// ID of the first event, if the request gives one and the event has not been created yet.
    pub first_event: Option<EventId>,
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

/// The targets of a rollout, in the order of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutTargets {
    Hosts(Vec<Name>),
    /// Each group, one update domain at a time.
    Groups(Vec<GroupId>),
    /// One machine at a time.
    Machines(Vec<MachineId>),
    /// These machines, one update domain at a time.
    MachinesByDomain(Vec<MachineId>),
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
    /// Maximum number of unavailable machines in each group, or [`UNLIMITED`]. None: the size of its largest update domain.
    pub unavailable_max: Option<u32>,
    /// Number of failed machines that the rollout tolerates, or [`UNLIMITED`].
    pub failures_max: u32,
    /// Notice period, if longer than the minimum.
    pub notice: Option<Duration>,
    pub duration_secs: Option<i64>,
    pub description: Option<Name>,
}

/// A limit on the unavailable machines of a group, and the drain or rollout that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailabilityLimit {
    pub max: u32,
    pub owner: LimitOwner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    Drain(OperationId),
    Rollout(RolloutId),
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
    /// The operation that carries out the step, the latest if it was announced again. None: it has not begun.
    pub operation: Option<OperationId>,
    /// The request that added the step to retry a failed one.
    pub retry: Option<OperationId>,
    /// Index of the first event of the step, or of its latest announcement, in the events of its operation.
    pub first_part: usize,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Whether the rollout took back events of the step, which are announced again.
    pub withdrawn: bool,
    /// Machines that the step does not announce any more, because their events have ended.
    pub handled: Vec<MachineId>,
    /// Machines whose event or move failed, in any announcement of the step.
    pub failed: Vec<MachineId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTarget {
    Host(Name),
    Domain {
        group: GroupId,
        domain: u32,
    },
    Machine(MachineId),
    /// Chosen machines that were in one update domain when the step was determined.
    Machines {
        domain: u32,
        machines: Vec<MachineId>,
    },
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

    /// The events of a step, or of its latest announcement, among those of its operation.
    pub fn parts_of<'o>(&self, step: &RolloutStep, operation: &'o Operation) -> &'o [OperationEvent] {
        let later = self.steps.iter().filter(|it| it.operation == step.operation && it.first_part > step.first_part);
        let end = later.map(|it| it.first_part).min().unwrap_or(operation.parts.len());
        operation.parts.get(step.first_part..end).unwrap_or_default()
    }

    /// Whether failed steps were retried on request.
    pub fn has_retries(&self) -> bool {
        self.steps.iter().any(|step| step.retry.is_some())
    }

    /// The retries among the steps, each with the step that it retries. They are the only steps that have a target in common.
    pub fn retries(&self) -> BTreeMap<usize, usize> {
        let mut latest: BTreeMap<&StepTarget, usize> = BTreeMap::new();
        let steps = self.steps.iter().enumerate();
        steps.filter_map(|(number, step)| Some((number, latest.insert(&step.target, number)?))).collect()
    }

    /// The failed steps that were not retried, by number.
    pub fn open_failures(&self) -> impl Iterator<Item = (usize, &RolloutStep)> {
        let retried: BTreeSet<usize> = self.retries().into_values().collect();
        let steps = self.steps.iter().enumerate();
        steps.filter(move |(number, step)| step.state == StepState::Failed && !retried.contains(number))
    }

    /// The update domain after the latest one that has begun.
    pub fn next_domain(&self) -> u32 {
        let begun = self.steps.iter().filter(|step| step.has_begun());
        begun.filter_map(|step| step.target.domain()).max().map_or(0, |domain| domain + 1)
    }

    /// The end of the pause between two steps, if nothing else is in progress.
    pub fn pause_end(&self) -> Option<Timestamp> {
        if let Some(Wait::Pause { until }) = self.waits_for { Some(until) } else { None }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            RolloutState::Planned | RolloutState::Running | RolloutState::Waiting | RolloutState::Paused => None,
            RolloutState::Finished { at } | RolloutState::Stopped { at, .. } | RolloutState::Failed { at } => Some(at),
        }
    }
}

impl RolloutPlan {
    /// The plan of the rollout that carries out maintenance one update domain at a time. Failures and other unavailable
    /// machines do not stop it. None: there is no such maintenance.
    pub fn of_maintenance(plan: &Plan, pause: Duration) -> Option<RolloutPlan> {
        let action = match plan.kind {
            EventKind::Freeze => RolloutAction::Freeze,
            EventKind::Reboot => RolloutAction::Reboot,
            EventKind::Redeploy => RolloutAction::Redeploy,
            EventKind::Preempt | EventKind::Terminate | EventKind::SpotRebalanceRecommendation => return None,
        };
        Some(RolloutPlan {
            action,
            at: plan.at,
            parallel: 1,
            pause,
            windows: Vec::new(),
            unavailable_max: Some(UNLIMITED),
            failures_max: UNLIMITED,
            notice: plan.notice,
            duration_secs: plan.duration_secs,
            description: plan.description.clone(),
        })
    }
}

impl RolloutStep {
    /// A step that has not begun.
    pub fn new(target: StepTarget) -> RolloutStep {
        RolloutStep {
            target,
            state: StepState::Pending,
            operation: None,
            first_part: 0,
            started: None,
            ended: None,
            withdrawn: false,
            handled: Vec::new(),
            failed: Vec::new(),
            retry: None,
        }
    }

    pub fn has_begun(&self) -> bool {
        self.state != StepState::Pending || self.started.is_some()
    }
}

impl StepTarget {
    /// None: a host or a single machine.
    pub fn domain(&self) -> Option<u32> {
        match self {
            StepTarget::Domain { domain, .. } | StepTarget::Machines { domain, .. } => Some(*domain),
            StepTarget::Host(_) | StepTarget::Machine(_) => None,
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
