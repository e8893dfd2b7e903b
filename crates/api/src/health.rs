//! Health and metrics of the server.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::error::ApiError;
use super::extract::{NoQuery, Params};
use super::metrics::render_metrics;
use forewarn_engine::SubmitError;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
}

pub async fn get_health(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    if !api.engine().is_healthy() {
        return Err(SubmitError::Unavailable.into());
    }
    Ok((StatusCode::OK, axum::Json(Health { status: "ok".into() })).into_response())
}

pub async fn get_metrics(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let text = render_metrics(&api.service().0.parts.registry);
    ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
}
