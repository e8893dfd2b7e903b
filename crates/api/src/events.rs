//! Handlers of events of all event groups, including hidden ones and those that finished within the last hour.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{Approvals, Approved, EmptyBody, Event, Number, Page, Time};
use forewarn_core as core;
use forewarn_core::{ApprovalScope, EventId, Guid, MachineId, OperationId};
use forewarn_render::{Convert, render_event, render_past_event};
use forewarn_store::{EventTimeline, HistoryFact, HistoryQuery, HistoryRow};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::extract::{self, Body, NoQuery, OptionalBody, Params, Segment};
use super::smallest::smallest_by;
use super::{Actions, history, names};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct EventsQuery {
    /// Include events that finished within the last hour.
    pub all: Option<bool>,
    /// Only events of this machine.
    pub machine: Option<String>,
    /// Only those of this event group.
    #[param(inline)]
    pub event_group: Option<Number>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(actions: Actions, Params(query): Params<EventsQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?;
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let machine: Option<MachineId> = match &query.machine {
        Some(name) => Some(names::find_machine(region, name, None)?.id),
        None => None,
    };
    let wanted = |event: &&Arc<core::Event>| {
        after.is_none_or(|after| event.seq > after)
            && (query.all == Some(true) || event.is_live())
            && query.event_group.is_none_or(|scope| event.scope.0 == scope.0)
            && machine.is_none_or(|machine| event.resources.iter().any(|resource| resource.machine == machine))
    };
    let found = smallest_by(region.events().filter(wanted), limit + 1, |event| event.seq);
    let cursor = |event: &&Arc<core::Event>| event.seq.to_string();
    Ok(extract::respond_ok(Page::split_off(found.into_iter(), limit, cursor, |event| render_event(region, event))))
}

pub async fn get(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    find(&actions, names::parse_event_id(&id)?).await.map(extract::respond_ok)
}

/// An event of the region or of history. The region knows neither when a finished event started nor, an hour later, the
/// event itself.
async fn find(actions: &Actions, id: EventId) -> Result<Event, ApiError> {
    let current = {
        let region = &actions.engine().snapshot().region;
        names::find_event(region, id).map(|event| render_event(region, &event))
    };
    if current.as_ref().is_ok_and(|event| event.ended.is_none()) {
        return current;
    }
    let rows = history::read_rows(actions, HistoryQuery { event: Some(id), ..HistoryQuery::default() }).await?;
    match current {
        Ok(event) => Ok(Event { started: find_start(&rows), ..event }),
        Err(error) => {
            let past =
                EventTimeline::from_rows(&rows).or_else(|| EventTimeline::from_hidden_rows(&rows)).ok_or(error)?;
            Ok(render_past_event(&past, &operations_of(&rows)))
        }
    }
}

fn find_start(rows: &[HistoryRow]) -> Option<Time> {
    rows.iter().find(|row| row.fact() == Some(HistoryFact::Started)).map(|row| row.at.convert())
}

/// The operations of an event: the one that created it and those that joined it.
fn operations_of(rows: &[HistoryRow]) -> Vec<OperationId> {
    let mut found: Vec<OperationId> = Vec::new();
    for id in rows.iter().flat_map(|row| row.operation.iter().chain(&row.joined)) {
        if !found.contains(id) {
            found.push(*id);
        }
    }
    found
}

pub async fn approve(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.approve_event(names::parse_event_id(&id)?).await.map(extract::respond_ok)
}

pub async fn approve_many(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<Approvals>,
) -> Result<Response, ApiError> {
    let ids = body.events.into_iter().map(|id| Guid(id.0)).collect();
    let value = actions.approve_events(ApprovalScope::Region, ids).await?;
    Ok(extract::respond_ok(Approved { value }))
}

/// Cancels all operations that require this event.
pub async fn cancel(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.cancel_event(names::parse_event_id(&id)?).await.map(extract::respond_ok)
}
