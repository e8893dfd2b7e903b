//! Handlers of webhooks.

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{EmptyBody, NewWebhook, Page, WebhookChange};
use http::StatusCode;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, Body, NoQuery, OptionalBody, Params, Segment};

pub async fn list(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    Ok(extract::respond_ok(Page::complete(actions.list_webhooks().await?)))
}

pub async fn create(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewWebhook>,
) -> Result<Response, ApiError> {
    actions.create_webhook(body).await.map(extract::respond_created)
}

pub async fn get(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.render_webhook(&*actions.find_webhook(&name)?, None).await.map(extract::respond_ok)
}

pub async fn change(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<WebhookChange>,
) -> Result<Response, ApiError> {
    actions.change_webhook(&name, body).await.map(extract::respond_ok)
}

pub async fn delete(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.delete_webhook(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn test(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.test_webhook(&name).await.map(extract::respond_ok)
}
