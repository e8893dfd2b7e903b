//! One-time links that sign a browser in to the portal with the name and role of the caller.

use axum::Extension;
use axum::response::Response;
use forewarn_api_types::{EmptyBody, PortalLink};

use super::Actions;
use super::error::ApiError;
use super::extract::{self, NoQuery, OptionalBody, Params};
use forewarn_access::CODE_LIFE;
use forewarn_access::Holder;

pub async fn create(
    actions: Actions,
    Extension(holder): Extension<Holder>,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let path = actions.service().create_portal_link(&holder).await?;
    Ok(extract::respond_created(PortalLink { path, expires_in_seconds: CODE_LIFE.as_secs() }))
}
