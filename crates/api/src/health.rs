//! Health and metrics of the server.

use axum::response::{IntoResponse, Response};
use forewarn_api_types::Health;
use http::{StatusCode, header};

use super::Actions;
use super::error::ApiError;
use super::extract::{NoQuery, Params};
use super::metrics::render_metrics;
use forewarn_engine::SubmitError;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub async fn get_health(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    if !actions.engine().is_healthy() {
        return Err(SubmitError::Unavailable.into());
    }
    Ok((StatusCode::OK, axum::Json(Health { status: "ok".into() })).into_response())
}

pub async fn get_metrics(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let text = render_metrics(&actions.service().0.parts.registry);
    ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
}
