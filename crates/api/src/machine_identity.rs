//! Handlers of the managed identities of machines.

use axum::response::{IntoResponse, Response};
use forewarn_api_types::NewIdentity;
use http::StatusCode;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, GroupQuery, OptionalBody, Params, Segment};

pub async fn get(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    actions.get_identity(&within.machine(name)).await.map(extract::respond_ok)
}

pub async fn put(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<NewIdentity>,
) -> Result<Response, ApiError> {
    actions.assign_identity(&within.machine(name), body).await.map(extract::respond_ok)
}

pub async fn delete(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    actions.remove_identity(&within.machine(name)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
