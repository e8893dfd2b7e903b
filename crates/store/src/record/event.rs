//! Record bodies of events.

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::intern::Interner;
use super::tag::{GuidText, Millis, Tag, Text};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventBody<'a> {
    seq: u64,
    #[serde(borrow)]
    subscription: Text<'a>,
    scope: u64,
    #[serde(rename = "type")]
    kind: Tag<EventKind>,
    cause: Tag<Cause>,
    visibility: Tag<Visibility>,
    #[serde(borrow)]
    status: StatusBody<'a>,
    #[serde(borrow)]
    resources: Vec<ResourceBody<'a>>,
    appeared: i64,
    not_before: i64,
    /// Omitted if it is `not_before`, as in records before format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice_end: Option<i64>,
    /// Omitted if it is the time from `appeared` to `not_before`, as in records before format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unseen: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    revision: u64,
    /// Omitted if it is the time of the start or, before that, of the appearance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attended: Option<i64>,
    due: bool,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalBody<'a>>,
    #[serde(borrow)]
    description: Text<'a>,
    duration_secs: i64,
    operations: Vec<GuidText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cohort: Option<GuidText>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    moves: Vec<MoveBody<'a>>,
    /// Omitted if it is 1, which means real time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    notice_scale: u32,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    progress: Vec<ProgressBody<'a>>,
}

fn one() -> u32 {
    1
}

fn is_zero(revision: &u64) -> bool {
    *revision == 0
}

/// The start of an event or, before that, its appearance.
fn began(status: &Status, appeared: Timestamp) -> Timestamp {
    match status {
        Status::Started { at } => *at,
        Status::Scheduled | Status::Ended { .. } => appeared,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveBody<'a> {
    machine: u64,
    #[serde(borrow)]
    to: Text<'a>,
}

impl<'a> From<&'a Move> for MoveBody<'a> {
    fn from(from: &'a Move) -> Self {
        MoveBody { machine: from.machine.0, to: (&from.to).into() }
    }
}

impl MoveBody<'_> {
    fn into_move(self, interner: &mut Interner) -> Move {
        Move { machine: MachineId(self.machine), to: interner.name(self.to) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressBody<'a> {
    machine: u64,
    /// The reason of a failure. Omitted if the machine is done.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    failed: Option<Text<'a>>,
}

impl<'a> From<&'a MachineProgress> for ProgressBody<'a> {
    fn from(progress: &'a MachineProgress) -> Self {
        let failed = match &progress.result {
            MachineResult::Done => None,
            MachineResult::Failed(reason) => Some(reason.into()),
        };
        ProgressBody { machine: progress.machine.0, failed }
    }
}

impl ProgressBody<'_> {
    fn into_progress(self, interner: &mut Interner) -> MachineProgress {
        let result = self.failed.map_or(MachineResult::Done, |reason| MachineResult::Failed(interner.name(reason)));
        MachineProgress { machine: MachineId(self.machine), result }
    }
}

fn is_one(scale: &u32) -> bool {
    *scale == 1
}

impl<'a> From<&'a Event> for EventBody<'a> {
    fn from(event: &'a Event) -> Self {
        EventBody {
            seq: event.seq,
            subscription: (&event.subscription).into(),
            scope: event.scope.0,
            kind: Tag(event.kind),
            cause: Tag(event.cause),
            visibility: Tag(event.visibility),
            status: (&event.status).into(),
            resources: event.resources.iter().map(ResourceBody::from).collect(),
            appeared: event.appeared.0,
            not_before: event.not_before.0,
            notice_ms: (event.notice != event.not_before.since(event.appeared)).then(|| event.notice.into()),
            unseen: event.unseen,
            revision: event.revision,
            attended: (event.attended != began(&event.status, event.appeared)).then_some(event.attended.0),
            notice_end: (event.notice_end != event.not_before).then_some(event.notice_end.0),
            due: event.due,
            approval: event.approval.as_ref().map(ApprovalBody::from),
            description: (&event.description).into(),
            duration_secs: event.duration_secs,
            operations: event.operations.iter().copied().map(GuidText).collect(),
            cohort: event.cohort.map(GuidText),
            moves: event.moves.iter().map(MoveBody::from).collect(),
            notice_scale: event.notice_scale,
            progress: event.progress.iter().map(ProgressBody::from).collect(),
        }
    }
}

impl EventBody<'_> {
    pub fn into_event(self, id: EventId, interner: &mut Interner) -> Event {
        let (appeared, not_before) = (Timestamp(self.appeared), Timestamp(self.not_before));
        let status = self.status.into_status(interner);
        Event {
            id,
            seq: self.seq,
            subscription: interner.name(self.subscription),
            scope: ScopeId(self.scope),
            kind: self.kind.0,
            cause: self.cause.0,
            visibility: self.visibility.0,
            notice: self.notice_ms.map_or_else(|| not_before.since(appeared), Into::into),
            unseen: self.unseen,
            revision: self.revision,
            attended: self.attended.map_or_else(|| began(&status, appeared), Timestamp),
            status,
            resources: self.resources.into_iter().map(ResourceBody::into_resource).collect(),
            appeared,
            not_before,
            notice_end: self.notice_end.map_or(not_before, Timestamp),
            due: self.due,
            approval: self.approval.map(|approval| approval.into_approval(interner)),
            description: interner.name(self.description),
            duration_secs: self.duration_secs,
            operations: self.operations.into_iter().map(|id| id.0).collect(),
            cohort: self.cohort.map(|id| id.0),
            moves: self.moves.into_iter().map(|body| body.into_move(interner)).collect(),
            notice_scale: self.notice_scale,
            progress: self.progress.into_iter().map(|body| body.into_progress(interner)).collect(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum StatusBody<'a> {
    #[serde(rename = "scheduled")]
    Scheduled,
    #[serde(rename = "started")]
    Started { at: i64 },
    #[serde(rename = "ended")]
    Ended {
        at: i64,
        #[serde(borrow)]
        outcome: OutcomeBody<'a>,
    },
}

impl<'a> From<&'a Status> for StatusBody<'a> {
    fn from(status: &'a Status) -> Self {
        match status {
            Status::Scheduled => StatusBody::Scheduled,
            Status::Started { at } => StatusBody::Started { at: at.0 },
            Status::Ended { at, outcome } => StatusBody::Ended { at: at.0, outcome: outcome.into() },
        }
    }
}

impl StatusBody<'_> {
    fn into_status(self, interner: &mut Interner) -> Status {
        match self {
            StatusBody::Scheduled => Status::Scheduled,
            StatusBody::Started { at } => Status::Started { at: Timestamp(at) },
            StatusBody::Ended { at, outcome } => {
                Status::Ended { at: Timestamp(at), outcome: outcome.into_outcome(interner) }
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum OutcomeBody<'a> {
    #[serde(rename = "completed")]
    Completed,
    #[serde(rename = "failed", borrow)]
    Failed(Text<'a>),
    #[serde(rename = "timed-out")]
    TimedOut,
    #[serde(rename = "superseded")]
    Superseded,
    #[serde(rename = "no-effect")]
    NoEffect,
    #[serde(rename = "resource-gone")]
    ResourceGone,
    #[serde(rename = "canceled")]
    Canceled {
        #[serde(borrow)]
        by: Text<'a>,
    },
}

impl<'a> From<&'a Outcome> for OutcomeBody<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Completed => OutcomeBody::Completed,
            Outcome::Failed(reason) => OutcomeBody::Failed(reason.into()),
            Outcome::TimedOut => OutcomeBody::TimedOut,
            Outcome::Superseded => OutcomeBody::Superseded,
            Outcome::NoEffect => OutcomeBody::NoEffect,
            Outcome::ResourceGone => OutcomeBody::ResourceGone,
            Outcome::Canceled { by } => OutcomeBody::Canceled { by: by.into() },
        }
    }
}

impl OutcomeBody<'_> {
    pub fn into_outcome(self, interner: &mut Interner) -> Outcome {
        match self {
            OutcomeBody::Completed => Outcome::Completed,
            OutcomeBody::Failed(reason) => Outcome::Failed(interner.name(reason)),
            OutcomeBody::TimedOut => Outcome::TimedOut,
            OutcomeBody::Superseded => Outcome::Superseded,
            OutcomeBody::NoEffect => Outcome::NoEffect,
            OutcomeBody::ResourceGone => Outcome::ResourceGone,
            OutcomeBody::Canceled { by } => Outcome::Canceled { by: interner.name(by) },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceBody<'a> {
    machine: u64,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(default, skip_serializing_if = "is_false")]
    role_instance: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl<'a> From<&'a Resource> for ResourceBody<'a> {
    fn from(resource: &'a Resource) -> Self {
        ResourceBody {
            machine: resource.machine.0,
            name: (&resource.name).into(),
            role_instance: resource.role_instance,
        }
    }
}

impl ResourceBody<'_> {
    fn into_resource(self) -> Resource {
        Resource {
            machine: MachineId(self.machine),
            name: Name::from(&*self.name.0),
            role_instance: self.role_instance,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalBody<'a> {
    #[serde(borrow)]
    by: ApproverBody<'a>,
    at: i64,
}

impl<'a> From<&'a Approval> for ApprovalBody<'a> {
    fn from(approval: &'a Approval) -> Self {
        ApprovalBody { by: (&approval.by).into(), at: approval.at.0 }
    }
}

impl ApprovalBody<'_> {
    fn into_approval(self, interner: &mut Interner) -> Approval {
        Approval { by: self.by.into_approver(interner), at: Timestamp(self.at) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum ApproverBody<'a> {
    #[serde(rename = "guest")]
    Guest {
        machine: u64,
        #[serde(borrow)]
        name: Text<'a>,
    },
    #[serde(rename = "management", borrow)]
    Management(Text<'a>),
    #[serde(rename = "policy")]
    Policy,
}

impl<'a> From<&'a Approver> for ApproverBody<'a> {
    fn from(approver: &'a Approver) -> Self {
        match approver {
            Approver::Guest { machine, name } => ApproverBody::Guest { machine: machine.0, name: name.into() },
            Approver::Management(name) => ApproverBody::Management(name.into()),
            Approver::Policy => ApproverBody::Policy,
        }
    }
}

impl ApproverBody<'_> {
    fn into_approver(self, interner: &mut Interner) -> Approver {
        match self {
            ApproverBody::Guest { machine, name } => {
                Approver::Guest { machine: MachineId(machine), name: Name::from(&*name.0) }
            }
            ApproverBody::Management(name) => Approver::Management(interner.name(name)),
            ApproverBody::Policy => Approver::Policy,
        }
    }
}
