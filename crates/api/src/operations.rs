//! Operations: what somebody asked for, and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{
    Command, GroupId, Guid, MachineId, Name, OperationId, OperationResult, OperationState, Region, Request, Target,
};
use forewarn_store::{HistoryQuery, HistoryRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::events::{OutcomeWord, first_by, reason};
use super::extract::{self, NoQuery, Nothing, OptionalBody, Page, Params, Segment};
use super::values::*;
use super::{Api, Note, history, names};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: Id,
    pub kind: OperationKind,
    /// Who asked.
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<When>,
    pub state: OperationStateWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<When>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeWord>,
    /// The driver's words, or who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The machines that it was asked for, by name.
    pub machines: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub events: Vec<Part>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseWord>,
    /// The planned time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// Of a roll-out: the first update domain that was not visited yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_update_domain: Option<u32>,
    /// Of a roll-out: when the pause is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<When>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Part {
    pub id: EventName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeWord>,
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
pub enum OperationStateWord {
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
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,15}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::limit(query.limit)?;
    let after = query.after.as_deref().map(|text| parse_cursor(text).ok_or_else(|| extract::bad_cursor(text)));
    let after = after.transpose()?;
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let key = |operation: &&Arc<core::Operation>| (operation.asked.0, operation.id);
    let found = region.operations().filter(|operation| after.is_none_or(|after| key(operation) > after));
    let found = first_by(found, limit + 1, key);
    let cursor = |operation: &&Arc<core::Operation>| format!("{}.{}", operation.asked.0, operation.id);
    Ok(extract::ok(Page::cut(found.into_iter(), limit, cursor, |operation| Operation::of(region, operation))))
}

fn parse_cursor(text: &str) -> Option<(i64, Guid)> {
    let (asked, id) = text.split_once('.')?;
    Some((asked.parse().ok()?, parse_guid(id).ok()?))
}

pub async fn get(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    find(&api, names::operation_id(&id)?).await.map(extract::ok)
}

/// An operation of the region, or what history says of one that it has forgotten.
pub async fn find(api: &Api, id: OperationId) -> Result<Operation, ApiError> {
    let snapshot = api.engine().snapshot();
    if let Some(operation) = snapshot.region.operation(id) {
        return Ok(Operation::of(&snapshot.region, operation));
    }
    let query = HistoryQuery { operation: Some(id), ..HistoryQuery::default() };
    let rows = history::read(api, query).await?;
    Operation::of_history(id, &rows).ok_or_else(|| {
        let message = format!("There is no operation {id}, nor does the history know of one.");
        ApiError::new(Refusal::OperationNotFound, message).about(id.to_string())
    })
}

pub async fn cancel(
    api: Api,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(Nothing {}): OptionalBody<Nothing>,
) -> Result<Response, ApiError> {
    let id = names::operation_id(&id)?;
    let command = Command::Cancel { operation: id, by: api.by() };
    let done = api.submit(command, Note::new("cancel", id.to_string())).await?;
    let region = &done.snapshot.region;
    let operation = region.operation(id).ok_or(core::Rejection::UnknownOperation(id))?;
    Ok(extract::ok(Operation::of(region, operation)))
}

impl Operation {
    pub fn of(region: &Region, operation: &core::Operation) -> Operation {
        let asked_for = AskedFor::of(region, operation);
        let (state, ended, outcome, reason) = state_of(&operation.state);
        let rollout = operation.rollout.as_ref();
        Operation {
            id: Id(operation.id),
            kind: asked_for.kind,
            by: operation.by.to_string(),
            asked: Some(When(operation.asked)),
            state,
            ended,
            outcome,
            reason,
            machines: asked_for.machines,
            host: asked_for.host,
            group: asked_for.group,
            events: operation.parts.iter().map(Part::of).collect(),
            event_type: asked_for.event_type,
            cause: asked_for.cause,
            at: asked_for.at,
            next_update_domain: rollout.map(|rollout| rollout.next_domain),
            resume: rollout.and_then(|rollout| rollout.resume).map(When),
        }
    }

    /// What history says of an operation that the region has forgotten.
    fn of_history(id: OperationId, rows: &[HistoryRow]) -> Option<Operation> {
        let last = rows.iter().rev().find(|row| row.kind == "operation-ended" && row.operation == Some(id))?;
        let detail: Value = serde_json::from_str(&last.detail).unwrap_or_default();
        let ended: Vec<&HistoryRow> = rows.iter().filter(|row| row.kind == "ended").collect();
        let text = |key: &str| detail.get(key).and_then(Value::as_str);
        let (state, reason) = match last.outcome.as_deref() {
            Some("succeeded") => (OperationStateWord::Succeeded, None),
            Some("canceled") => (OperationStateWord::Canceled, last.actor.clone()),
            Some(_) | None => (OperationStateWord::Failed, None),
        };
        let mut machines: Vec<String> = ended.iter().flat_map(|row| row.machines.iter().cloned()).collect();
        machines.dedup();
        let event_ids = detail.get("events").and_then(Value::as_array).into_iter().flatten();
        Some(Operation {
            id: Id(id),
            kind: kind_of_history(&detail)?,
            by: text("by").unwrap_or_default().to_owned(),
            asked: text("asked").and_then(|asked| When::parse(asked).ok()),
            state,
            ended: Some(When(last.at)),
            outcome: text("because").and_then(outcome_of_history),
            reason,
            machines,
            host: None,
            group: None,
            events: event_ids
                .filter_map(|id| parse_guid(id.as_str()?).ok())
                .map(|id| Part {
                    id: EventName(id),
                    outcome: ended
                        .iter()
                        .find(|row| row.event == Some(id))
                        .and_then(|row| outcome_of_history(row.outcome.as_deref()?)),
                })
                .collect(),
            event_type: None,
            cause: None,
            at: None,
            next_update_domain: None,
            resume: None,
        })
    }
}

fn kind_of_history(detail: &Value) -> Option<OperationKind> {
    let request = detail.get("request")?.as_object()?.keys().next()?;
    Some(match request.as_str() {
        "restart" => OperationKind::Restart,
        "redeploy" => OperationKind::Redeploy,
        "perform-maintenance" => OperationKind::PerformMaintenance,
        "evict" => OperationKind::Evict,
        "delete" => OperationKind::Delete,
        "maintain" => OperationKind::Maintain,
        "fail" => OperationKind::Fail,
        _ => return None,
    })
}

/// The words of history, which outlive the program that wrote them.
fn outcome_of_history(word: &str) -> Option<OutcomeWord> {
    Some(match word {
        "completed" => OutcomeWord::Completed,
        "failed" => OutcomeWord::Failed,
        "timed-out" => OutcomeWord::TimedOut,
        "superseded" => OutcomeWord::Superseded,
        "no-effect" => OutcomeWord::NoEffect,
        "resource-gone" => OutcomeWord::ResourceGone,
        "canceled" => OutcomeWord::Canceled,
        _ => return None,
    })
}

fn state_of(state: &OperationState) -> (OperationStateWord, Option<When>, Option<OutcomeWord>, Option<String>) {
    match state {
        OperationState::Running => (OperationStateWord::Running, None, None, None),
        OperationState::Ended { at, result } => {
            let (word, outcome, why) = match result {
                OperationResult::Succeeded => (OperationStateWord::Succeeded, None, None),
                OperationResult::Failed(outcome) => {
                    (OperationStateWord::Failed, Some(OutcomeWord::of(outcome)), reason(outcome))
                }
                OperationResult::Canceled { by } => (OperationStateWord::Canceled, None, Some(by.to_string())),
            };
            (word, Some(When(*at)), outcome, why)
        }
    }
}

impl Part {
    fn of(part: &core::Part) -> Part {
        Part { id: EventName(part.event), outcome: part.outcome.as_ref().map(OutcomeWord::of) }
    }
}

/// A request in words.
struct AskedFor {
    kind: OperationKind,
    machines: Vec<String>,
    host: Option<String>,
    group: Option<String>,
    event_type: Option<EventType>,
    cause: Option<CauseWord>,
    at: Option<When>,
}

impl AskedFor {
    fn of(region: &Region, operation: &core::Operation) -> AskedFor {
        let named = |machines: &[MachineId]| named(region, operation, machines);
        let at = |kind, target: &Target| {
            let blank = AskedFor::new(kind, Vec::new());
            match target {
                Target::Machines(machines) => AskedFor::new(kind, named(machines)),
                Target::Host(host) => AskedFor { host: Some(host.to_string()), ..blank },
                Target::Group(group) => AskedFor { group: group_name(region, *group), ..blank },
            }
        };
        match &operation.request {
            Request::Restart { machines } => AskedFor::new(OperationKind::Restart, named(machines)),
            Request::Redeploy { machines } => AskedFor::new(OperationKind::Redeploy, named(machines)),
            Request::PerformMaintenance { machines } => {
                AskedFor::new(OperationKind::PerformMaintenance, named(machines))
            }
            Request::Evict { machine } => AskedFor::new(OperationKind::Evict, named(&[*machine])),
            Request::Delete { machines, group } => AskedFor {
                group: group.and_then(|group| group_name(region, group)),
                ..AskedFor::new(OperationKind::Delete, named(machines))
            },
            Request::Maintain { target, plan } => AskedFor {
                event_type: Some(plan.kind.into()),
                cause: Some(plan.cause.into()),
                at: plan.at.map(When),
                ..at(OperationKind::Maintain, target)
            },
            Request::Fail { target, kind } => {
                AskedFor { event_type: Some((*kind).into()), ..at(OperationKind::Fail, target) }
            }
        }
    }

    fn new(kind: OperationKind, machines: Vec<String>) -> AskedFor {
        AskedFor { kind, machines, host: None, group: None, event_type: None, cause: None, at: None }
    }
}

fn group_name(region: &Region, group: GroupId) -> Option<String> {
    region.group(group).map(|group| group.name.to_string())
}

/// Events name their machines also when those are gone.
fn named(region: &Region, operation: &core::Operation, machines: &[MachineId]) -> Vec<String> {
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    let remembered: BTreeMap<MachineId, &Name> =
        events.flat_map(|event| event.resources.iter()).map(|resource| (resource.machine, &resource.name)).collect();
    let name = |id: &MachineId| region.machine(*id).map(|machine| &machine.name).or(remembered.get(id).copied());
    machines.iter().filter_map(name).map(|name| name.to_string()).collect()
}
