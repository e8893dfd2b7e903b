//! Events of all event groups, including hidden ones and those that finished within the last hour.

use std::collections::BinaryHeap;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::settings::APPROVALS_MAX;
use forewarn_core::{Approver, Command, EventId, MachineId, Outcome, Status, Within};
use forewarn_wire::guid;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{self, Body, EmptyBody, NoQuery, OptionalBody, Page, Params, Segment};
use super::text::Number;
use super::values::*;
use super::{Api, AuditNote, names};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: EventName,
    /// Number in order of appearance.
    pub number: u64,
    #[serde(rename = "type")]
    pub kind: EventType,
    pub status: EventStatus,
    /// Result of a finished event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
    /// Message of the driver, or name of the principal that canceled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub cause: EventCause,
    pub source: EventSource,
    /// Whether its machines see it. Events are hidden while no machine of the event group requests the document.
    pub shown: bool,
    /// ID of the event group.
    pub scope: u64,
    /// Names of the affected machines.
    pub resources: Vec<String>,
    pub appeared: When,
    pub not_before: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub description: String,
    /// Expected duration of the impact; -1 if unknown.
    pub duration_seconds: i64,
    pub operations: Vec<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum EventStatus {
    Scheduled,
    Started,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum EventOutcome {
    Completed,
    Failed,
    TimedOut,
    Superseded,
    NoEffect,
    ResourceGone,
    Canceled,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Approval {
    /// `guest:NAME`, `management:NAME` or `policy`.
    pub by: String,
    pub at: When,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Include events that finished within the last hour.
    pub all: Option<bool>,
    /// Only events of this machine.
    pub machine: Option<String>,
    #[param(inline)]
    pub scope: Option<Number>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    #[schema(min_items = 1, max_items = 2048)]
    pub events: Vec<EventName>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Approved {
    pub value: Vec<Event>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?;
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let machine: Option<MachineId> = match &query.machine {
        Some(name) => Some(names::find_machine(region, name, None)?.id),
        None => None,
    };
    let wanted = |event: &&Arc<core::Event>| {
        after.is_none_or(|after| event.seq > after)
            && (query.all == Some(true) || event.is_live())
            && query.scope.is_none_or(|scope| event.scope.0 == scope.0)
            && machine.is_none_or(|machine| event.resources.iter().any(|resource| resource.machine == machine))
    };
    let found = smallest_by(region.events().filter(wanted), limit + 1, |event| event.seq);
    let cursor = |event: &&Arc<core::Event>| event.seq.to_string();
    Ok(extract::ok(Page::cut(found.into_iter(), limit, cursor, |event| Event::of(event))))
}

pub async fn get(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let id = names::parse_event_id(&id)?;
    Ok(extract::ok(Event::of(&*names::find_event(&api.engine().snapshot().region, id)?)))
}

pub async fn approve(
    api: Api,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let mut approved = approve_all(&api, vec![names::parse_event_id(&id)?]).await?;
    approved.pop().map(extract::ok).ok_or_else(|| ApiError::from(core::Rejection::UnknownEvents(Vec::new())))
}

pub async fn approve_many(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<Approvals>,
) -> Result<Response, ApiError> {
    if body.events.is_empty() {
        return Err(ApiError::field("events", "must contain at least one event"));
    }
    if body.events.len() > APPROVALS_MAX {
        return Err(core::Rejection::TooManyApprovals.into());
    }
    let value = approve_all(&api, body.events.into_iter().map(|id| id.0).collect()).await?;
    Ok(extract::ok(Approved { value }))
}

async fn approve_all(api: &Api, ids: Vec<EventId>) -> Result<Vec<Event>, ApiError> {
    let target = ids.iter().map(|id| guid::Upper(id.0).to_string()).collect::<Vec<_>>().join(", ");
    let by = Approver::Management(api.principal_name());
    let command = Command::Approve { by, within: Within::Region, events: ids.clone() };
    let done = api.submit(command, AuditNote::new("approve", target)).await?;
    Ok(ids.iter().filter_map(|id| done.snapshot.region.event(*id)).map(|event| Event::of(event)).collect())
}

/// Cancels all operations that require this event.
pub async fn cancel(
    api: Api,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let id = names::parse_event_id(&id)?;
    let note = AuditNote::new("cancel", guid::Upper(id.0).to_string());
    let done = api.submit(Command::CancelEvent { event: id, by: api.principal_name() }, note).await?;
    Ok(extract::ok(Event::of(&*names::find_event(&done.snapshot.region, id)?)))
}

/// The `count` smallest entries by `key`, in order, without sorting all of them.
pub fn smallest_by<T, K: Ord>(entries: impl Iterator<Item = T>, count: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    struct Entry<T, K>(K, T);
    impl<T, K: Ord> PartialEq for Entry<T, K> {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl<T, K: Ord> Eq for Entry<T, K> {}
    impl<T, K: Ord> PartialOrd for Entry<T, K> {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl<T, K: Ord> Ord for Entry<T, K> {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            self.0.cmp(&other.0)
        }
    }
    let mut smallest = BinaryHeap::new();
    for entry in entries {
        smallest.push(Entry(key(&entry), entry));
        if smallest.len() > count {
            smallest.pop();
        }
    }
    smallest.into_sorted_vec().into_iter().map(|Entry(_, entry)| entry).collect()
}

impl Event {
    pub fn of(event: &core::Event) -> Event {
        let (status, started, ended, outcome) = match &event.status {
            Status::Scheduled => (EventStatus::Scheduled, None, None, None),
            Status::Started { at } => (EventStatus::Started, Some(When(*at)), None, None),
            Status::Ended { at, outcome } => (EventStatus::Ended, None, Some(When(*at)), Some(outcome)),
        };
        Event {
            id: EventName(event.id),
            number: event.seq,
            kind: event.kind.into(),
            status,
            outcome: outcome.map(EventOutcome::of),
            reason: outcome.and_then(reason),
            cause: event.cause.into(),
            source: event.cause.source().into(),
            shown: event.is_shown(),
            scope: event.scope.0,
            resources: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
            appeared: When(event.appeared),
            not_before: When(event.not_before),
            started,
            ended,
            approval: event.approval.as_ref().map(Approval::of),
            description: event.description.to_string(),
            duration_seconds: event.duration_secs,
            operations: event.operations.iter().map(|id| Id(*id)).collect(),
        }
    }
}

impl Approval {
    fn of(approval: &core::Approval) -> Approval {
        let by = match &approval.by {
            Approver::Guest { name, .. } => format!("guest:{name}"),
            Approver::Management(name) => format!("management:{name}"),
            Approver::Policy => "policy".into(),
        };
        Approval { by, at: When(approval.at) }
    }
}

impl EventOutcome {
    pub fn of(outcome: &Outcome) -> EventOutcome {
        match outcome {
            Outcome::Completed => EventOutcome::Completed,
            Outcome::Failed(_) => EventOutcome::Failed,
            Outcome::TimedOut => EventOutcome::TimedOut,
            Outcome::Superseded => EventOutcome::Superseded,
            Outcome::NoEffect => EventOutcome::NoEffect,
            Outcome::ResourceGone => EventOutcome::ResourceGone,
            Outcome::Canceled { .. } => EventOutcome::Canceled,
        }
    }
}

/// The driver's message, or the name of the principal that canceled the event.
pub fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed(reason) => Some(reason.to_string()),
        Outcome::Canceled { by } => Some(by.to_string()),
        Outcome::Completed | Outcome::TimedOut | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone => {
            None
        }
    }
}
