//! Handlers of operations: requested actions and their results.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{EmptyBody, Operation, Page, parse_guid};
use forewarn_core as core;
use forewarn_core::{Guid, OperationId};
use forewarn_render::{render_operation, render_operation_from_history};
use forewarn_store::HistoryQuery;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, NoQuery, OptionalBody, Params, Segment};
use super::operation_filter::{OperationFilter, OperationsQuery};
use super::smallest::smallest_by;
use super::{Actions, history, names};

pub async fn list(actions: Actions, Params(query): Params<OperationsQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = query.after.as_deref().map(|text| parse_cursor(text).ok_or_else(|| extract::invalid_cursor(text)));
    let after = after.transpose()?;
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let filter = OperationFilter::new(region, &query)?;
    let key = |operation: &&Arc<core::Operation>| (operation.requested_at.0, operation.id);
    let found = region.operations().filter(|operation| after.is_none_or(|after| key(operation) > after));
    let found = found.filter(|operation| filter.matches(region, operation));
    let found = smallest_by(found, limit + 1, key);
    let cursor = |operation: &&Arc<core::Operation>| format!("{}.{}", operation.requested_at.0, operation.id);
    Ok(extract::respond_ok(Page::split_off(found.into_iter(), limit, cursor, |operation| {
        render_operation(region, operation)
    })))
}

fn parse_cursor(text: &str) -> Option<(i64, Guid)> {
    let (asked, id) = text.split_once('.')?;
    Some((asked.parse().ok()?, Guid(parse_guid(id).ok()?)))
}

pub async fn get(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.find_operation(names::parse_operation_id(&id)?).await.map(extract::respond_ok)
}

pub async fn approve(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.approve_operation(names::parse_operation_id(&id)?).await.map(extract::respond_ok)
}

pub async fn cancel(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.cancel_operation(names::parse_operation_id(&id)?).await.map(extract::respond_ok)
}

impl Actions {
    /// An operation of the region, or from history if the region no longer has it.
    pub async fn find_operation(&self, id: OperationId) -> Result<Operation, ApiError> {
        let snapshot = self.engine().snapshot();
        if let Some(operation) = snapshot.region.operation(id) {
            return Ok(self.render_operation(&snapshot.region, operation));
        }
        let query = HistoryQuery { operation: Some(id), ..HistoryQuery::default() };
        let rows = history::read_rows(self, query).await?;
        render_operation_from_history(&snapshot.region, id, &rows).ok_or_else(|| {
            let message = format!("Operation {id} does not exist, and the history does not contain it.");
            ApiError::new(ErrorCode::OperationNotFound, message).with_target(id.to_string())
        })
    }
}
