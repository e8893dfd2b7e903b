//! Handlers of rollouts.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{EmptyBody, NewRollout, Page, PauseOptions, StepSelection};
use forewarn_core as core;
use forewarn_core::{RolloutId, RolloutPreview, Snapshot, Timestamp};
use forewarn_engine::SubmitError;
use forewarn_render::{render_rollout, render_rollout_with_forecast};

use super::Actions;
use super::error::ApiError;
use super::extract::{self, Body, NoQuery, OptionalBody, Paging, Params, Segment};
use super::names;

/// Lists rollouts, newest first.
pub async fn list(actions: Actions, Params(query): Params<Paging>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let before = extract::numeric_cursor(query.after.as_deref())?;
    let mut found: Vec<&Arc<core::Rollout>> =
        region.rollouts().filter(|rollout| before.is_none_or(|before| rollout.seq < before)).collect();
    found.sort_by_key(|rollout| std::cmp::Reverse(rollout.seq));
    let cursor = |rollout: &&Arc<core::Rollout>| rollout.seq.to_string();
    Ok(extract::respond_ok(Page::split_off(found.into_iter(), limit, cursor, |rollout| {
        render_rollout(region, rollout)
    })))
}

pub async fn get(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let (snapshot, now) = (actions.engine().snapshot(), actions.engine().now());
    let id = names::find_rollout(&snapshot.region, &id)?;
    let forecast = forecast_rollout(snapshot.clone(), id, now).await?;
    let rollout = snapshot.region.rollout(id).ok_or(core::Rejection::UnknownRollout(id))?;
    Ok(extract::respond_ok(render_rollout_with_forecast(&snapshot.region, rollout, &forecast)))
}

/// The expected course of the rest of a rollout. Simulating a long one takes tens of milliseconds, so another thread does it.
pub async fn forecast_rollout(
    snapshot: Arc<Snapshot>,
    id: RolloutId,
    now: Timestamp,
) -> Result<RolloutPreview, ApiError> {
    let forecast = tokio::task::spawn_blocking(move || snapshot.region.forecast_rollout(id, now));
    Ok(forecast.await.map_err(|_| SubmitError::Unavailable)??)
}

pub async fn start(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRollout>,
) -> Result<Response, ApiError> {
    actions.start_rollout(body).await.map(extract::respond_accepted)
}

pub async fn preview(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRollout>,
) -> Result<Response, ApiError> {
    actions.preview_rollout(body).await.map(extract::respond_ok)
}

pub async fn pause(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<PauseOptions>,
) -> Result<Response, ApiError> {
    actions.pause_rollout(&id, body).await.map(extract::respond_ok)
}

pub async fn resume(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.resume_rollout(&id).await.map(extract::respond_ok)
}

pub async fn retry(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<StepSelection>,
) -> Result<Response, ApiError> {
    actions.retry_steps(&id, body).await.map(extract::respond_ok)
}

pub async fn stop(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.stop_rollout(&id).await.map(extract::respond_ok)
}
