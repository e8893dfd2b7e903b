//! Handlers of the server's clock.

use axum::response::Response;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, Body, NoQuery, Params};
use forewarn_api_types::{AdvanceClock, SetClock};

pub async fn get(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    extract::respond_ok(actions.get_clock())
}

pub async fn advance(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<AdvanceClock>,
) -> Result<Response, ApiError> {
    actions.advance_clock(body).await.map(extract::respond_ok)
}

pub async fn set(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<SetClock>,
) -> Result<Response, ApiError> {
    actions.set_clock(body).await.map(extract::respond_ok)
}
