//! What is asked about the server itself: whether it is well, what it counts, what the API looks like.

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{NoQuery, Params};
use super::{Api, openapi};
use forewarn_engine::SubmitError;

/// The one path that needs no token.
pub const HEALTH_PATH: &str = "/healthz";

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

pub async fn health(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    if !api.engine().is_healthy() {
        return Err(SubmitError::Unavailable.into());
    }
    Ok((StatusCode::OK, axum::Json(Health { status: "ok".into() })).into_response())
}

pub async fn metrics(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    ([(header::CONTENT_TYPE, OPENMETRICS)], render_metrics(&api.0.parts.registry)).into_response()
}

/// Everything that is counted, as OpenMetrics text.
pub fn render_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string does not fail");
    text
}

pub async fn openapi(Params(NoQuery {}): Params<NoQuery>) -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        serde_json::to_vec(&openapi::document()).expect("the document is made of texts and numbers").into()
    });
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}
