//! Handlers for hosts that join.

use axum::extract::State;
use axum::response::Response;
use forewarn_api_types::{EmptyBody, NewJoin};
use http::Extensions;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, OptionalBody, Params, Segment};
use super::{Actions, Service};

pub async fn create_token(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.create_host_token(&name).await.map(extract::respond_created)
}

/// The token in the body takes the place of a role. Guessing is slowed down like failed sign-ins.
pub async fn join(
    State(service): State<Service>,
    Params(NoQuery {}): Params<NoQuery>,
    extensions: Extensions,
    Body(body): Body<NewJoin>,
) -> Result<Response, ApiError> {
    let joined = service.join_host(body).await;
    if let Err(error) = &joined
        && error.code == ErrorCode::JoinRefused.status_and_code().1
    {
        service.record_failed_sign_in(&extensions, "join token").await;
    }
    joined.map(extract::respond_created)
}
