//! Record body of a rollout.

use std::collections::BTreeSet;

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::intern::Interner;
use super::tag::{GuidText, Millis, Tag, Text};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RolloutBody<'a> {
    seq: u64,
    #[serde(borrow)]
    by: Text<'a>,
    created: i64,
    /// Omitted if the steps say the same, as in records before format 7.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    targets: Option<TargetsBody<'a>>,
    #[serde(borrow)]
    plan: RolloutPlanBody<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<GuidText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_event: Option<GuidText>,
    #[serde(borrow)]
    state: RolloutStateBody<'a>,
    #[serde(borrow)]
    steps: Vec<StepBody<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitBody<'a>>,
    failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_until: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake: Option<i64>,
    requested: u64,
}

impl<'a> From<&'a Rollout> for RolloutBody<'a> {
    fn from(rollout: &'a Rollout) -> Self {
        RolloutBody {
            seq: rollout.seq,
            by: (&rollout.requested_by).into(),
            created: rollout.created.0,
            targets: stores_targets(rollout).then(|| (&rollout.targets).into()),
            plan: (&rollout.plan).into(),
            operation: rollout.operation.map(GuidText),
            first_event: rollout.first_event.map(GuidText),
            state: (&rollout.state).into(),
            steps: rollout.steps.iter().map(|step| StepBody::of(step, is_drain(&rollout.plan))).collect(),
            waits_for: rollout.waits_for.as_ref().map(WaitBody::from),
            failures: rollout.failures,
            paused_until: rollout.paused_until.map(|at| at.0),
            wake: rollout.wake.map(|at| at.0),
            requested: rollout.requested,
        }
    }
}

impl RolloutBody<'_> {
    pub fn into_rollout(self, id: RolloutId, interner: &mut Interner) -> Rollout {
        let plan = self.plan.into_plan(interner);
        let is_drain = is_drain(&plan);
        let steps: Vec<RolloutStep> = self.steps.into_iter().map(|step| step.into_step(interner, is_drain)).collect();
        let targets = self.targets.map(|targets| targets.into_targets(interner));
        Rollout {
            id,
            seq: self.seq,
            requested_by: interner.name(self.by),
            created: Timestamp(self.created),
            targets: targets.unwrap_or_else(|| targets_of(&steps)),
            plan,
            operation: self.operation.map(|id| id.0),
            first_event: self.first_event.map(|id| id.0),
            state: self.state.into_state(interner),
            steps,
            waits_for: self.waits_for.map(|wait| wait.into_wait(interner)),
            failures: self.failures,
            paused_until: self.paused_until.map(Timestamp),
            wake: self.wake.map(Timestamp),
            requested: self.requested,
        }
    }
}

fn is_drain(plan: &RolloutPlan) -> bool {
    matches!(plan.action, RolloutAction::Drain { .. })
}

/// Whether machines that failed are stored in a field of their own.
pub fn stores_failed_machines(rollout: &Rollout) -> bool {
    !is_drain(&rollout.plan) && rollout.steps.iter().any(|step| !step.failed.is_empty())
}

/// Whether the targets of a rollout do not follow from its steps.
pub fn stores_targets(rollout: &Rollout) -> bool {
    targets_of(&rollout.steps) != rollout.targets
}

/// The targets of a rollout, if they follow from its steps.
fn targets_of(steps: &[RolloutStep]) -> RolloutTargets {
    let (mut hosts, mut groups, mut machines) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    // A step that retries another one has the same target.
    for step in steps.iter().filter(|step| seen.insert(&step.target)) {
        match &step.target {
            StepTarget::Host(host) => hosts.push(host.clone()),
            StepTarget::Domain { group, .. } if groups.contains(group) => {}
            StepTarget::Domain { group, .. } => groups.push(*group),
            StepTarget::Machine(id) => machines.push(*id),
            StepTarget::Machines { machines: several, .. } => machines.extend(several),
        }
    }
    match (groups.is_empty(), machines.is_empty()) {
        (false, _) => RolloutTargets::Groups(groups),
        (true, false) => RolloutTargets::Machines(machines),
        (true, true) => RolloutTargets::Hosts(hosts),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum TargetsBody<'a> {
    #[serde(rename = "hosts", borrow)]
    Hosts(Vec<Text<'a>>),
    #[serde(rename = "groups")]
    Groups(Vec<u64>),
    #[serde(rename = "machines")]
    Machines(Vec<u64>),
    #[serde(rename = "machines-by-domain")]
    MachinesByDomain(Vec<u64>),
}

impl<'a> From<&'a RolloutTargets> for TargetsBody<'a> {
    fn from(targets: &'a RolloutTargets) -> Self {
        let numbers = |machines: &[MachineId]| machines.iter().map(|machine| machine.0).collect();
        match targets {
            RolloutTargets::Hosts(hosts) => TargetsBody::Hosts(hosts.iter().map(Text::from).collect()),
            RolloutTargets::Groups(groups) => TargetsBody::Groups(groups.iter().map(|group| group.0).collect()),
            RolloutTargets::Machines(machines) => TargetsBody::Machines(numbers(machines)),
            RolloutTargets::MachinesByDomain(machines) => TargetsBody::MachinesByDomain(numbers(machines)),
        }
    }
}

impl TargetsBody<'_> {
    fn into_targets(self, interner: &mut Interner) -> RolloutTargets {
        let ids = |numbers: Vec<u64>| numbers.into_iter().map(MachineId).collect();
        match self {
            TargetsBody::Hosts(hosts) => {
                RolloutTargets::Hosts(hosts.into_iter().map(|host| interner.name(host)).collect())
            }
            TargetsBody::Groups(groups) => RolloutTargets::Groups(groups.into_iter().map(GroupId).collect()),
            TargetsBody::Machines(machines) => RolloutTargets::Machines(ids(machines)),
            TargetsBody::MachinesByDomain(machines) => RolloutTargets::MachinesByDomain(ids(machines)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RolloutPlanBody<'a> {
    #[serde(borrow)]
    action: ActionBody<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    parallel: u32,
    pause_ms: Millis,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<WindowBody<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unavailable_max: Option<u32>,
    failures_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_secs: Option<i64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    description: Option<Text<'a>>,
}

impl<'a> From<&'a RolloutPlan> for RolloutPlanBody<'a> {
    fn from(plan: &'a RolloutPlan) -> Self {
        RolloutPlanBody {
            action: (&plan.action).into(),
            at: plan.at.map(|at| at.0),
            parallel: plan.parallel,
            pause_ms: plan.pause.into(),
            windows: plan.windows.iter().map(WindowBody::from).collect(),
            unavailable_max: plan.unavailable_max,
            failures_max: plan.failures_max,
            notice_ms: plan.notice.map(Millis::from),
            duration_secs: plan.duration_secs,
            description: plan.description.as_ref().map(Text::from),
        }
    }
}

impl RolloutPlanBody<'_> {
    fn into_plan(self, interner: &mut Interner) -> RolloutPlan {
        RolloutPlan {
            action: self.action.into_action(interner),
            at: self.at.map(Timestamp),
            parallel: self.parallel,
            pause: self.pause_ms.into(),
            windows: self.windows.into_iter().map(|window| window.into_window(interner)).collect(),
            unavailable_max: self.unavailable_max,
            failures_max: self.failures_max,
            notice: self.notice_ms.map(Into::into),
            duration_secs: self.duration_secs,
            description: self.description.map(|text| interner.name(text)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum ActionBody<'a> {
    #[serde(rename = "freeze")]
    Freeze,
    #[serde(rename = "reboot")]
    Reboot,
    #[serde(rename = "redeploy")]
    Redeploy,
    #[serde(rename = "drain")]
    Drain {
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        to: Option<Text<'a>>,
        machines_parallel: u32,
        in_place: bool,
    },
}

impl<'a> From<&'a RolloutAction> for ActionBody<'a> {
    fn from(action: &'a RolloutAction) -> Self {
        match action {
            RolloutAction::Freeze => ActionBody::Freeze,
            RolloutAction::Reboot => ActionBody::Reboot,
            RolloutAction::Redeploy => ActionBody::Redeploy,
            RolloutAction::Drain { to, machines_parallel, in_place } => ActionBody::Drain {
                to: to.as_ref().map(Text::from),
                machines_parallel: *machines_parallel,
                in_place: *in_place,
            },
        }
    }
}

impl ActionBody<'_> {
    fn into_action(self, interner: &mut Interner) -> RolloutAction {
        match self {
            ActionBody::Freeze => RolloutAction::Freeze,
            ActionBody::Reboot => RolloutAction::Reboot,
            ActionBody::Redeploy => RolloutAction::Redeploy,
            ActionBody::Drain { to, machines_parallel, in_place } => {
                RolloutAction::Drain { to: to.map(|pool| interner.name(pool)), machines_parallel, in_place }
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowBody<'a> {
    /// From 0 (Monday) to 6 (Sunday).
    days: Vec<u8>,
    start_minute: u32,
    end_minute: u32,
    #[serde(borrow)]
    zone: Text<'a>,
    /// Times and offsets in seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offsets: Vec<(i64, i32)>,
}

impl<'a> From<&'a Window> for WindowBody<'a> {
    fn from(window: &'a Window) -> Self {
        WindowBody {
            days: window.days.days().collect(),
            start_minute: window.start_minute,
            end_minute: window.end_minute,
            zone: (&window.zone.name).into(),
            offsets: window.zone.offsets.iter().map(|(from, offset)| (from.0, *offset)).collect(),
        }
    }
}

impl WindowBody<'_> {
    fn into_window(self, interner: &mut Interner) -> Window {
        let offsets = self.offsets.into_iter().map(|(from, offset)| (Timestamp(from), offset)).collect();
        Window {
            days: Weekdays::new(self.days),
            start_minute: self.start_minute,
            end_minute: self.end_minute,
            zone: Zone { name: interner.name(self.zone), offsets },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum RolloutStateBody<'a> {
    #[serde(rename = "planned")]
    Planned,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "waiting")]
    Waiting,
    #[serde(rename = "paused")]
    Paused,
    #[serde(rename = "finished")]
    Finished { at: i64 },
    #[serde(rename = "stopped")]
    Stopped {
        at: i64,
        #[serde(borrow)]
        by: Text<'a>,
    },
    #[serde(rename = "failed")]
    Failed { at: i64 },
}

impl<'a> From<&'a RolloutState> for RolloutStateBody<'a> {
    fn from(state: &'a RolloutState) -> Self {
        match state {
            RolloutState::Planned => RolloutStateBody::Planned,
            RolloutState::Running => RolloutStateBody::Running,
            RolloutState::Waiting => RolloutStateBody::Waiting,
            RolloutState::Paused => RolloutStateBody::Paused,
            RolloutState::Finished { at } => RolloutStateBody::Finished { at: at.0 },
            RolloutState::Stopped { at, by } => RolloutStateBody::Stopped { at: at.0, by: by.into() },
            RolloutState::Failed { at } => RolloutStateBody::Failed { at: at.0 },
        }
    }
}

impl RolloutStateBody<'_> {
    fn into_state(self, interner: &mut Interner) -> RolloutState {
        match self {
            RolloutStateBody::Planned => RolloutState::Planned,
            RolloutStateBody::Running => RolloutState::Running,
            RolloutStateBody::Waiting => RolloutState::Waiting,
            RolloutStateBody::Paused => RolloutState::Paused,
            RolloutStateBody::Finished { at } => RolloutState::Finished { at: Timestamp(at) },
            RolloutStateBody::Stopped { at, by } => RolloutState::Stopped { at: Timestamp(at), by: interner.name(by) },
            RolloutStateBody::Failed { at } => RolloutState::Failed { at: Timestamp(at) },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum WaitBody<'a> {
    #[serde(rename = "window")]
    Window { opens: i64 },
    #[serde(rename = "start")]
    Start { until: i64 },
    #[serde(rename = "pause")]
    Pause { until: i64 },
    #[serde(rename = "availability")]
    Availability {
        #[serde(borrow)]
        group: Text<'a>,
        unavailable: u32,
        max: u32,
    },
    #[serde(rename = "capacity")]
    Capacity {
        #[serde(borrow)]
        machine: Text<'a>,
    },
    #[serde(rename = "approvals")]
    Approvals,
    #[serde(rename = "host", borrow)]
    Host(Text<'a>),
    #[serde(rename = "paused")]
    Paused,
}

impl<'a> From<&'a Wait> for WaitBody<'a> {
    fn from(wait: &'a Wait) -> Self {
        match wait {
            Wait::Window { opens } => WaitBody::Window { opens: opens.0 },
            Wait::Start { until } => WaitBody::Start { until: until.0 },
            Wait::Pause { until } => WaitBody::Pause { until: until.0 },
            Wait::Availability { group, unavailable, max } => {
                WaitBody::Availability { group: group.into(), unavailable: *unavailable, max: *max }
            }
            Wait::Capacity { machine } => WaitBody::Capacity { machine: machine.into() },
            Wait::Approvals => WaitBody::Approvals,
            Wait::Host(host) => WaitBody::Host(host.into()),
            Wait::Paused => WaitBody::Paused,
        }
    }
}

impl WaitBody<'_> {
    pub fn into_wait(self, interner: &mut Interner) -> Wait {
        match self {
            WaitBody::Window { opens } => Wait::Window { opens: Timestamp(opens) },
            WaitBody::Start { until } => Wait::Start { until: Timestamp(until) },
            WaitBody::Pause { until } => Wait::Pause { until: Timestamp(until) },
            WaitBody::Availability { group, unavailable, max } => {
                Wait::Availability { group: interner.name(group), unavailable, max }
            }
            WaitBody::Capacity { machine } => Wait::Capacity { machine: interner.name(machine) },
            WaitBody::Approvals => Wait::Approvals,
            WaitBody::Host(host) => Wait::Host(interner.name(host)),
            WaitBody::Paused => Wait::Paused,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody<'a> {
    #[serde(borrow)]
    target: StepTargetBody<'a>,
    state: Tag<StepState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<GuidText>,
    #[serde(default, skip_serializing_if = "is_zero")]
    first_part: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    withdrawn: bool,
    /// In a drain, the machines whose move failed: it needs no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    handled: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<GuidText>,
}

impl<'a> StepBody<'a> {
    fn of(step: &'a RolloutStep, is_drain: bool) -> Self {
        let numbers = |machines: &[MachineId]| machines.iter().map(|machine| machine.0).collect();
        let (handled, failed) = if is_drain {
            (numbers(&step.failed), Vec::new())
        } else {
            (numbers(&step.handled), numbers(&step.failed))
        };
        StepBody {
            target: (&step.target).into(),
            state: Tag(step.state),
            operation: step.operation.map(GuidText),
            first_part: step.first_part,
            started: step.started.map(|at| at.0),
            ended: step.ended.map(|at| at.0),
            withdrawn: step.withdrawn,
            handled,
            failed,
            retry: step.retry.map(GuidText),
        }
    }
}

impl StepBody<'_> {
    fn into_step(self, interner: &mut Interner, is_drain: bool) -> RolloutStep {
        let ids = |numbers: Vec<u64>| numbers.into_iter().map(MachineId).collect();
        let (handled, failed): (Vec<MachineId>, Vec<MachineId>) = (ids(self.handled), ids(self.failed));
        let (handled, failed) = if is_drain { (Vec::new(), handled) } else { (handled, failed) };
        RolloutStep {
            target: self.target.into_target(interner),
            state: self.state.0,
            operation: self.operation.map(|id| id.0),
            first_part: self.first_part,
            started: self.started.map(Timestamp),
            ended: self.ended.map(Timestamp),
            withdrawn: self.withdrawn,
            handled,
            failed,
            retry: self.retry.map(|id| id.0),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum StepTargetBody<'a> {
    #[serde(rename = "host", borrow)]
    Host(Text<'a>),
    #[serde(rename = "domain")]
    Domain { group: u64, domain: u32 },
    #[serde(rename = "machine")]
    Machine(u64),
    #[serde(rename = "machines")]
    Machines { domain: u32, machines: Vec<u64> },
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl<'a> From<&'a StepTarget> for StepTargetBody<'a> {
    fn from(target: &'a StepTarget) -> Self {
        match target {
            StepTarget::Host(host) => StepTargetBody::Host(host.into()),
            StepTarget::Domain { group, domain } => StepTargetBody::Domain { group: group.0, domain: *domain },
            StepTarget::Machine(id) => StepTargetBody::Machine(id.0),
            StepTarget::Machines { domain, machines } => {
                let machines = machines.iter().map(|machine| machine.0).collect();
                StepTargetBody::Machines { domain: *domain, machines }
            }
        }
    }
}

impl StepTargetBody<'_> {
    fn into_target(self, interner: &mut Interner) -> StepTarget {
        match self {
            StepTargetBody::Host(host) => StepTarget::Host(interner.name(host)),
            StepTargetBody::Domain { group, domain } => StepTarget::Domain { group: GroupId(group), domain },
            StepTargetBody::Machine(id) => StepTarget::Machine(MachineId(id)),
            StepTargetBody::Machines { domain, machines } => {
                StepTarget::Machines { domain, machines: machines.into_iter().map(MachineId).collect() }
            }
        }
    }
}
