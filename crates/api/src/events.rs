//! Handlers of events of all event groups, including hidden ones and those that finished within the last hour.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{Approvals, Approved, EmptyBody, Number, Page};
use forewarn_core as core;
use forewarn_core::{ApprovalScope, Guid, MachineId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::extract::{self, Body, NoQuery, OptionalBody, Params, Segment};
use super::render::render_event;
use super::smallest::smallest_by;
use super::{Actions, names};

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
    let id = names::parse_event_id(&id)?;
    let snapshot = actions.engine().snapshot();
    Ok(extract::respond_ok(render_event(&snapshot.region, &*names::find_event(&snapshot.region, id)?)))
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
