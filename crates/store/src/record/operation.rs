//! Record bodies of operations.

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::event::OutcomeBody;
use super::intern::Interner;
use super::rollout::WaitBody;
use super::tag::{GuidText, Millis, Tag, Text};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationBody<'a> {
    #[serde(borrow)]
    by: Text<'a>,
    #[serde(borrow)]
    subscription: Text<'a>,
    #[serde(borrow)]
    request: RequestBody<'a>,
    asked: i64,
    #[serde(borrow)]
    state: StateBody<'a>,
    #[serde(borrow)]
    parts: Vec<PartBody<'a>>,
    /// Progress of maintenance by update domain. Only in records before format 7; a rollout has it now.
    #[serde(default, rename = "rollout", skip_serializing)]
    domains: Option<DomainsBody>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    drain: Option<DrainBody<'a>>,
    /// The rollout that requested the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of_rollout: Option<GuidText>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    canceled: Option<Text<'a>>,
}

impl<'a> From<&'a Operation> for OperationBody<'a> {
    fn from(operation: &'a Operation) -> Self {
        OperationBody {
            by: (&operation.requested_by).into(),
            subscription: (&operation.subscription).into(),
            request: (&operation.request).into(),
            asked: operation.requested_at.0,
            state: (&operation.state).into(),
            parts: operation.parts.iter().map(PartBody::from).collect(),
            domains: None,
            drain: operation.drain.as_ref().map(DrainBody::from),
            of_rollout: operation.rollout.map(GuidText),
            canceled: operation.canceled.as_ref().map(Text::from),
        }
    }
}

impl OperationBody<'_> {
    /// The progress of maintenance by update domain that was stored before format 7.
    pub fn progress_by_domain(&self) -> Option<&DomainsBody> {
        let is_maintenance = matches!(self.request, RequestBody::Maintain { .. });
        self.domains.as_ref().filter(|_| is_maintenance)
    }

    pub fn into_operation(self, id: OperationId, interner: &mut Interner) -> Operation {
        let of_rollout = self.of_rollout.as_ref().map(|id| id.0).or(self.progress_by_domain().map(|_| id));
        Operation {
            id,
            requested_by: interner.name(self.by),
            subscription: interner.name(self.subscription),
            request: self.request.into_request(interner),
            requested_at: Timestamp(self.asked),
            state: self.state.into_state(interner),
            parts: self.parts.into_iter().map(|part| part.into_part(interner)).collect(),
            drain: self.drain.map(|drain| drain.into_progress(interner)),
            rollout: of_rollout,
            canceled: self.canceled.map(|by| interner.name(by)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum StateBody<'a> {
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "ended")]
    Ended {
        at: i64,
        #[serde(borrow)]
        result: ResultBody<'a>,
    },
}

impl<'a> From<&'a OperationState> for StateBody<'a> {
    fn from(state: &'a OperationState) -> Self {
        match state {
            OperationState::Running => StateBody::Running,
            OperationState::Ended { at, result } => StateBody::Ended { at: at.0, result: result.into() },
        }
    }
}

impl StateBody<'_> {
    fn into_state(self, interner: &mut Interner) -> OperationState {
        match self {
            StateBody::Running => OperationState::Running,
            StateBody::Ended { at, result } => {
                OperationState::Ended { at: Timestamp(at), result: result.into_result(interner) }
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum ResultBody<'a> {
    #[serde(rename = "succeeded")]
    Succeeded,
    #[serde(rename = "failed", borrow)]
    Failed(OutcomeBody<'a>),
    #[serde(rename = "canceled")]
    Canceled {
        #[serde(borrow)]
        by: Text<'a>,
    },
}

impl<'a> From<&'a OperationResult> for ResultBody<'a> {
    fn from(result: &'a OperationResult) -> Self {
        match result {
            OperationResult::Succeeded => ResultBody::Succeeded,
            OperationResult::Failed(outcome) => ResultBody::Failed(outcome.into()),
            OperationResult::Canceled { by } => ResultBody::Canceled { by: by.into() },
        }
    }
}

impl ResultBody<'_> {
    fn into_result(self, interner: &mut Interner) -> OperationResult {
        match self {
            ResultBody::Succeeded => OperationResult::Succeeded,
            ResultBody::Failed(outcome) => OperationResult::Failed(outcome.into_outcome(interner)),
            ResultBody::Canceled { by } => OperationResult::Canceled { by: interner.name(by) },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartBody<'a> {
    event: GuidText,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeBody<'a>>,
}

impl<'a> From<&'a OperationEvent> for PartBody<'a> {
    fn from(part: &'a OperationEvent) -> Self {
        PartBody { event: GuidText(part.event), outcome: part.outcome.as_ref().map(OutcomeBody::from) }
    }
}

impl PartBody<'_> {
    fn into_part(self, interner: &mut Interner) -> OperationEvent {
        OperationEvent { event: self.event.0, outcome: self.outcome.map(|outcome| outcome.into_outcome(interner)) }
    }
}

/// `next_domain` is the first update domain that has not been started, `resume` the end of the pause before it.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DomainsBody {
    pub next_domain: u32,
    #[serde(default)]
    pub resume: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainBody<'a> {
    settled: Vec<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitBody<'a>>,
}

impl<'a> From<&'a DrainProgress> for DrainBody<'a> {
    fn from(drain: &'a DrainProgress) -> Self {
        DrainBody {
            settled: drain.settled.iter().map(|machine| machine.0).collect(),
            waits_for: drain.waits_for.as_ref().map(WaitBody::from),
        }
    }
}

impl DrainBody<'_> {
    fn into_progress(self, interner: &mut Interner) -> DrainProgress {
        DrainProgress {
            settled: self.settled.into_iter().map(MachineId).collect(),
            waits_for: self.waits_for.map(|wait| wait.into_wait(interner)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum RequestBody<'a> {
    #[serde(rename = "restart")]
    Restart { machine: MachinesBody },
    #[serde(rename = "redeploy")]
    Redeploy { machine: MachinesBody },
    #[serde(rename = "perform-maintenance")]
    PerformMaintenance { machine: MachinesBody },
    #[serde(rename = "evict")]
    Evict { machine: u64 },
    #[serde(rename = "recommend-rebalance")]
    RecommendRebalance { machine: u64 },
    #[serde(rename = "delete")]
    Delete { machines: Vec<u64>, group: Option<u64> },
    #[serde(rename = "maintain")]
    Maintain {
        #[serde(borrow)]
        target: TargetBody<'a>,
        #[serde(borrow)]
        plan: PlanBody<'a>,
    },
    #[serde(rename = "drain", borrow)]
    Drain(DrainPlanBody<'a>),
    #[serde(rename = "fail")]
    Fail {
        #[serde(borrow)]
        target: TargetBody<'a>,
        #[serde(rename = "type")]
        kind: Tag<EventKind>,
    },
}

impl<'a> From<&'a Request> for RequestBody<'a> {
    fn from(request: &'a Request) -> Self {
        match request {
            Request::Restart { machines } => RequestBody::Restart { machine: machines.into() },
            Request::Redeploy { machines } => RequestBody::Redeploy { machine: machines.into() },
            Request::PerformMaintenance { machines } => RequestBody::PerformMaintenance { machine: machines.into() },
            Request::Evict { machine } => RequestBody::Evict { machine: machine.0 },
            Request::RecommendRebalance { machine } => RequestBody::RecommendRebalance { machine: machine.0 },
            Request::Delete { machines, group } => RequestBody::Delete {
                machines: machines.iter().map(|machine| machine.0).collect(),
                group: group.map(|group| group.0),
            },
            Request::Maintain { target, plan } => RequestBody::Maintain { target: target.into(), plan: plan.into() },
            Request::Drain(plan) => RequestBody::Drain(plan.into()),
            Request::Fail { target, kind } => RequestBody::Fail { target: target.into(), kind: Tag(*kind) },
        }
    }
}

impl RequestBody<'_> {
    pub(crate) fn into_request(self, interner: &mut Interner) -> Request {
        match self {
            RequestBody::Restart { machine } => Request::Restart { machines: machine.into() },
            RequestBody::Redeploy { machine } => Request::Redeploy { machines: machine.into() },
            RequestBody::PerformMaintenance { machine } => Request::PerformMaintenance { machines: machine.into() },
            RequestBody::Evict { machine } => Request::Evict { machine: MachineId(machine) },
            RequestBody::RecommendRebalance { machine } => Request::RecommendRebalance { machine: MachineId(machine) },
            RequestBody::Delete { machines, group } => {
                Request::Delete { machines: machines.into_iter().map(MachineId).collect(), group: group.map(GroupId) }
            }
            RequestBody::Maintain { target, plan } => {
                Request::Maintain { target: target.into_target(interner), plan: plan.into_plan(interner) }
            }
            RequestBody::Drain(plan) => Request::Drain(plan.into_plan(interner)),
            RequestBody::Fail { target, kind } => Request::Fail { target: target.into_target(interner), kind: kind.0 },
        }
    }
}

/// A single machine is stored as a number. Formats before version 3 allowed only that, and it is still the
/// common case.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum MachinesBody {
    One(u64),
    Several(Vec<u64>),
}

impl From<&Vec<MachineId>> for MachinesBody {
    fn from(machines: &Vec<MachineId>) -> Self {
        match machines[..] {
            [machine] => MachinesBody::One(machine.0),
            _ => MachinesBody::Several(machines.iter().map(|machine| machine.0).collect()),
        }
    }
}

impl From<MachinesBody> for Vec<MachineId> {
    fn from(body: MachinesBody) -> Self {
        match body {
            MachinesBody::One(machine) => vec![MachineId(machine)],
            MachinesBody::Several(machines) => machines.into_iter().map(MachineId).collect(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum TargetBody<'a> {
    #[serde(rename = "machine")]
    Machines(MachinesBody),
    #[serde(rename = "host", borrow)]
    Host(Text<'a>),
    #[serde(rename = "group")]
    Group(u64),
}

impl<'a> From<&'a Target> for TargetBody<'a> {
    fn from(target: &'a Target) -> Self {
        match target {
            Target::Machines(machines) => TargetBody::Machines(machines.into()),
            Target::Host(host) => TargetBody::Host(host.into()),
            Target::Group(group) => TargetBody::Group(group.0),
        }
    }
}

impl TargetBody<'_> {
    fn into_target(self, interner: &mut Interner) -> Target {
        match self {
            TargetBody::Machines(machines) => Target::Machines(machines.into()),
            TargetBody::Host(host) => Target::Host(interner.name(host)),
            TargetBody::Group(group) => Target::Group(GroupId(group)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanBody<'a> {
    #[serde(rename = "type")]
    kind: Tag<EventKind>,
    cause: Tag<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_secs: Option<i64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    description: Option<Text<'a>>,
}

impl<'a> From<&'a Plan> for PlanBody<'a> {
    fn from(plan: &'a Plan) -> Self {
        PlanBody {
            kind: Tag(plan.kind),
            cause: Tag(plan.cause),
            at: plan.at.map(|at| at.0),
            notice_ms: plan.notice.map(Millis::from),
            duration_secs: plan.duration_secs,
            description: plan.description.as_ref().map(Text::from),
        }
    }
}

impl PlanBody<'_> {
    fn into_plan(self, interner: &mut Interner) -> Plan {
        Plan {
            kind: self.kind.0,
            cause: self.cause.0,
            at: self.at.map(Timestamp),
            notice: self.notice_ms.map(Into::into),
            duration_secs: self.duration_secs,
            description: self.description.map(|text| interner.name(text)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainPlanBody<'a> {
    #[serde(borrow)]
    host: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    to: Option<Text<'a>>,
    parallel: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unavailable_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_place: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    description: Option<Text<'a>>,
}

impl<'a> From<&'a DrainPlan> for DrainPlanBody<'a> {
    fn from(plan: &'a DrainPlan) -> Self {
        DrainPlanBody {
            host: (&plan.host).into(),
            to: plan.to.as_ref().map(Text::from),
            parallel: plan.parallel,
            unavailable_max: plan.unavailable_max,
            notice_ms: plan.notice.map(Millis::from),
            in_place: plan.in_place,
            description: plan.description.as_ref().map(Text::from),
        }
    }
}

impl DrainPlanBody<'_> {
    fn into_plan(self, interner: &mut Interner) -> DrainPlan {
        DrainPlan {
            host: interner.name(self.host),
            to: self.to.map(|pool| interner.name(pool)),
            parallel: self.parallel,
            unavailable_max: self.unavailable_max,
            notice: self.notice_ms.map(Into::into),
            in_place: self.in_place,
            description: self.description.map(|text| interner.name(text)),
        }
    }
}
