//! One-time links that sign a browser in to the portal with the name and role of the caller.

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::error::ApiError;
use super::extract::{self, EmptyBody, NoQuery, OptionalBody, Params};
use forewarn_access::CODE_LIFE;
use forewarn_access::Holder;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortalLink {
    /// Path and query of the link. It works once.
    pub path: String,
    /// Seconds until the link expires.
    pub expires_in_seconds: u64,
}

pub async fn create(
    api: Api,
    Extension(holder): Extension<Holder>,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let path = api.service().access().portal_link(&holder);
    Ok(extract::created(PortalLink { path, expires_in_seconds: CODE_LIFE.as_secs() }))
}
