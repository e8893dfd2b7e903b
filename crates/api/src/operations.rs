//! Operations: requested actions and their results.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{
    Answer, Command, EventId, GroupId, Guid, MachineId, Name, OperationId, OperationResult, OperationState, Outcome,
    Region, Request, Target,
};
use forewarn_store::{HistoryFact, HistoryQuery, HistoryRow, RequestKind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::events::{self, EventOutcome, smallest_by};
use super::extract::{self, EmptyBody, NoQuery, OptionalBody, Page, Params, Segment};
use super::values::*;
use super::{Api, AuditNote, history, names};
use forewarn_access::random_guid;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: Id,
    pub kind: OperationKind,
    /// Name of the principal that requested it.
    pub by: String,
    /// Time of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<When>,
    pub state: OperationPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<When>,
    /// Result of the event that made it fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
    /// Message of the driver, or name of the principal that canceled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names of the target machines.
    pub machines: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub events: Vec<Part>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventCause>,
    /// Planned time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// Rollout: the next update domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_update_domain: Option<u32>,
    /// Rollout: end of the current pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Part {
    pub id: EventName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum OperationKind {
    Restart,
    Redeploy,
    PerformMaintenance,
    Evict,
    Delete,
    Maintain,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum OperationPhase {
    Running,
    Succeeded,
    Failed,
    Canceled,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,15}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = query.after.as_deref().map(|text| parse_cursor(text).ok_or_else(|| extract::invalid_cursor(text)));
    let after = after.transpose()?;
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let key = |operation: &&Arc<core::Operation>| (operation.asked.0, operation.id);
    let found = region.operations().filter(|operation| after.is_none_or(|after| key(operation) > after));
    let found = smallest_by(found, limit + 1, key);
    let cursor = |operation: &&Arc<core::Operation>| format!("{}.{}", operation.asked.0, operation.id);
    Ok(extract::ok(Page::cut(found.into_iter(), limit, cursor, |operation| Operation::of(region, operation))))
}

fn parse_cursor(text: &str) -> Option<(i64, Guid)> {
    let (asked, id) = text.split_once('.')?;
    Some((asked.parse().ok()?, parse_guid(id).ok()?))
}

pub async fn get(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    find(&api, names::parse_operation_id(&id)?).await.map(extract::ok)
}

/// An operation of the region, or from history if the region no longer has it.
pub async fn find(api: &Api, id: OperationId) -> Result<Operation, ApiError> {
    let snapshot = api.engine().snapshot();
    if let Some(operation) = snapshot.region.operation(id) {
        return Ok(Operation::of(&snapshot.region, operation));
    }
    let query = HistoryQuery { operation: Some(id), ..HistoryQuery::default() };
    let rows = history::read_rows(api, query).await?;
    Operation::of_history(id, &rows).ok_or_else(|| {
        let message = format!("Operation {id} does not exist, and the history does not contain it.");
        ApiError::new(ErrorCode::OperationNotFound, message).with_target(id.to_string())
    })
}

pub async fn cancel(
    api: Api,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let id = names::parse_operation_id(&id)?;
    let command = Command::Cancel { operation: id, by: api.principal_name() };
    let done = api.submit(command, AuditNote::new("cancel", id.to_string())).await?;
    let region = &done.snapshot.region;
    let operation = region.operation(id).ok_or(core::Rejection::UnknownOperation(id))?;
    Ok(extract::ok(Operation::of(region, operation)))
}

/// Requests an operation and responds with it.
pub async fn start(api: &Api, request: Request, event: Option<EventId>, note: AuditNote) -> Result<Response, ApiError> {
    let requested = random_guid();
    let command = Command::Request { operation: requested, by: api.principal_name(), request, event };
    let done = api.submit(command, note).await?;
    let id = match done.answer {
        Answer::Operation(id) => id,
        Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Scaled { .. } => requested,
    };
    let region = &done.snapshot.region;
    match region.operation(id) {
        Some(found) => Ok(extract::accepted(Operation::of(region, found))),
        None => Err(ApiError::new(
            ErrorCode::OperationNotFound,
            format!("Operation {id} has already finished. See the history."),
        )),
    }
}

impl Operation {
    pub fn of(region: &Region, operation: &core::Operation) -> Operation {
        let summary = RequestSummary::of(region, operation);
        let (state, ended, outcome, reason) = state_of(&operation.state);
        let rollout = operation.rollout.as_ref();
        Operation {
            id: Id(operation.id),
            kind: summary.kind,
            by: operation.by.to_string(),
            asked: Some(When(operation.asked)),
            state,
            ended,
            outcome,
            reason,
            machines: summary.machines,
            host: summary.host,
            group: summary.group,
            events: operation.parts.iter().map(Part::of).collect(),
            event_type: summary.event_type,
            cause: summary.cause,
            at: summary.at,
            next_update_domain: rollout.map(|rollout| rollout.next_domain),
            resume: rollout.and_then(|rollout| rollout.resume).map(When),
        }
    }

    /// An operation that the region no longer has, reconstructed from its rows of history.
    fn of_history(id: OperationId, rows: &[HistoryRow]) -> Option<Operation> {
        let last = rows.iter().rev().find(|row| row.operation == Some(id) && row.event.is_none())?;
        let Some(HistoryFact::OperationEnded(ended)) = last.fact() else { return None };
        let (state, outcome, reason) = describe_result(&ended.result);
        let outcomes: Vec<(&HistoryRow, Outcome)> =
            rows.iter().filter_map(|row| Some((row, row.event_outcome()?))).collect();
        let mut machines: Vec<String> = outcomes.iter().flat_map(|(row, _)| row.machines.iter().cloned()).collect();
        machines.dedup();
        let outcome_of = |event| outcomes.iter().find(|(row, _)| row.event == Some(event)).map(|(_, outcome)| outcome);
        Some(Operation {
            id: Id(id),
            kind: ended.request?.into(),
            by: ended.requested_by,
            asked: ended.requested.map(When),
            state,
            ended: Some(When(last.at)),
            outcome,
            reason,
            machines,
            host: None,
            group: None,
            events: ended
                .events
                .iter()
                .map(|event| Part { id: EventName(*event), outcome: outcome_of(*event).map(EventOutcome::of) })
                .collect(),
            event_type: None,
            cause: None,
            at: None,
            next_update_domain: None,
            resume: None,
        })
    }
}

impl From<RequestKind> for OperationKind {
    fn from(kind: RequestKind) -> OperationKind {
        match kind {
            RequestKind::Restart => OperationKind::Restart,
            RequestKind::Redeploy => OperationKind::Redeploy,
            RequestKind::PerformMaintenance => OperationKind::PerformMaintenance,
            RequestKind::Evict => OperationKind::Evict,
            RequestKind::Delete => OperationKind::Delete,
            RequestKind::Maintain => OperationKind::Maintain,
            RequestKind::Fail => OperationKind::Fail,
        }
    }
}

fn state_of(state: &OperationState) -> (OperationPhase, Option<When>, Option<EventOutcome>, Option<String>) {
    match state {
        OperationState::Running => (OperationPhase::Running, None, None, None),
        OperationState::Ended { at, result } => {
            let (phase, outcome, reason) = describe_result(result);
            (phase, Some(When(*at)), outcome, reason)
        }
    }
}

fn describe_result(result: &OperationResult) -> (OperationPhase, Option<EventOutcome>, Option<String>) {
    match result {
        OperationResult::Succeeded => (OperationPhase::Succeeded, None, None),
        OperationResult::Failed(outcome) => {
            let reason = events::reason(outcome).filter(|reason| !reason.is_empty());
            (OperationPhase::Failed, Some(EventOutcome::of(outcome)), reason)
        }
        OperationResult::Canceled { by } => (OperationPhase::Canceled, None, Some(by.to_string())),
    }
}

impl Part {
    fn of(part: &core::Part) -> Part {
        Part { id: EventName(part.event), outcome: part.outcome.as_ref().map(EventOutcome::of) }
    }
}

/// The request of an operation, as the API shows it.
struct RequestSummary {
    kind: OperationKind,
    machines: Vec<String>,
    host: Option<String>,
    group: Option<String>,
    event_type: Option<EventType>,
    cause: Option<EventCause>,
    at: Option<When>,
}

impl RequestSummary {
    fn of(region: &Region, operation: &core::Operation) -> RequestSummary {
        let names = |machines: &[MachineId]| machine_names(region, operation, machines);
        let at = |kind, target: &Target| {
            let blank = RequestSummary::new(kind, Vec::new());
            match target {
                Target::Machines(machines) => RequestSummary::new(kind, names(machines)),
                Target::Host(host) => RequestSummary { host: Some(host.to_string()), ..blank },
                Target::Group(group) => RequestSummary { group: group_name(region, *group), ..blank },
            }
        };
        match &operation.request {
            Request::Restart { machines } => RequestSummary::new(OperationKind::Restart, names(machines)),
            Request::Redeploy { machines } => RequestSummary::new(OperationKind::Redeploy, names(machines)),
            Request::PerformMaintenance { machines } => {
                RequestSummary::new(OperationKind::PerformMaintenance, names(machines))
            }
            Request::Evict { machine } => RequestSummary::new(OperationKind::Evict, names(&[*machine])),
            Request::Delete { machines, group } => RequestSummary {
                group: group.and_then(|group| group_name(region, group)),
                ..RequestSummary::new(OperationKind::Delete, names(machines))
            },
            Request::Maintain { target, plan } => RequestSummary {
                event_type: Some(plan.kind.into()),
                cause: Some(plan.cause.into()),
                at: plan.at.map(When),
                ..at(OperationKind::Maintain, target)
            },
            Request::Fail { target, kind } => {
                RequestSummary { event_type: Some((*kind).into()), ..at(OperationKind::Fail, target) }
            }
        }
    }

    fn new(kind: OperationKind, machines: Vec<String>) -> RequestSummary {
        RequestSummary { kind, machines, host: None, group: None, event_type: None, cause: None, at: None }
    }
}

fn group_name(region: &Region, group: GroupId) -> Option<String> {
    region.group(group).map(|group| group.name.to_string())
}

/// The names of machines. Events keep the names of deleted machines.
fn machine_names(region: &Region, operation: &core::Operation, machines: &[MachineId]) -> Vec<String> {
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    let in_events: BTreeMap<MachineId, &Name> =
        events.flat_map(|event| event.resources.iter()).map(|resource| (resource.machine, &resource.name)).collect();
    let name = |id: &MachineId| region.machine(*id).map(|machine| &machine.name).or(in_events.get(id).copied());
    machines.iter().filter_map(name).map(|name| name.to_string()).collect()
}
