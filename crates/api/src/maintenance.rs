//! The handler of platform maintenance.

use axum::response::Response;
use forewarn_api_types::NewMaintenance;

use super::Actions;
use super::error::ApiError;
use super::extract::{Body, NoQuery, Params};

pub async fn start(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewMaintenance>,
) -> Result<Response, ApiError> {
    let operation = actions.start_maintenance(body).await?;
    Ok(actions.respond_started(operation))
}
