//! Links that sign a browser in at the portal, in the name and with the role of who asks for one.

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::error::ApiError;
use super::extract::{self, NoQuery, Nothing, OptionalBody, Params};
use forewarn_access::CODE_LIFE;
use forewarn_access::Holder;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortalLink {
    /// Path and query; it works once.
    pub path: String,
    /// For how long.
    pub expires_in_seconds: u64,
}

pub async fn create(
    api: Api,
    Extension(holder): Extension<Holder>,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(Nothing {}): OptionalBody<Nothing>,
) -> Result<Response, ApiError> {
    let path = api.0.parts.access.portal_link(&holder);
    Ok(extract::created(PortalLink { path, expires_in_seconds: CODE_LIFE.as_secs() }))
}
