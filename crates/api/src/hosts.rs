//! Handlers of hosts, on which machines run.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{EmptyBody, FailureOptions, Host, HostChange, NewDrain, Page};
use forewarn_core as core;
use forewarn_core::{Name, Region};
use forewarn_render::render_host;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Actions;
use super::actions::Registration;
use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, OptionalBody, Params, Segment};
use super::fencing::find_fencing;
use super::history::store_error;
use super::names::find_host;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HostsQuery {
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

pub async fn list(actions: Actions, Params(query): Params<HostsQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let after = query.after.as_deref();
    let found = region.hosts().filter(|host| after.is_none_or(|after| host.name.as_str() > after));
    let cursor = |host: &&Arc<core::Host>| host.name.to_string();
    Ok(extract::respond_ok(Page::split_off(found, limit, cursor, |host| describe_host(&actions, region, &host.name))))
}

pub async fn get(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let snapshot = actions.engine().snapshot();
    let name = find_host(&snapshot.region, &name)?;
    let mut described = describe_host(&actions, &snapshot.region, &name);
    if let Some(host) = snapshot.region.host(&name) {
        described.fenced = find_fencing(actions.engine(), host).await.map_err(|error| store_error(&error))?;
    }
    Ok(extract::respond_ok(described))
}

/// A host with its agent.
fn describe_host(actions: &Actions, region: &Region, name: &Name) -> Host {
    let agent = region.host(name).and_then(|host| actions.service().agents().describe(host));
    Host { agent, ..render_host(region, name) }
}

/// The domains that the host's agent has reported.
pub async fn domains(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let host = find_host(&actions.engine().snapshot().region, &name)?;
    let domains = actions.service().host_domains().of(&host).ok_or_else(|| {
        let message = format!(
            "No agent has reported the domains of host '{host}' to this server. Start the agent with the libvirt driver: \
             forewarn host run"
        );
        ApiError::new(ErrorCode::NotFound, message)
    })?;
    Ok(extract::respond_ok(Page::complete(domains)))
}

/// Registers a host. An existing host is not changed.
pub async fn put(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    Ok(match actions.register_host(&name).await? {
        (Registration::New, host) => extract::respond_created(host),
        (Registration::Existing, host) => extract::respond_ok(host),
    })
}

pub async fn delete(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.remove_host(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn fail(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<FailureOptions>,
) -> Result<Response, ApiError> {
    let operation = actions.fail_host(&name, body).await?;
    Ok(actions.respond_started(operation))
}

pub async fn change(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<HostChange>,
) -> Result<Response, ApiError> {
    actions.change_host(&name, body).await.map(extract::respond_ok)
}

pub async fn drain(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<NewDrain>,
) -> Result<Response, ApiError> {
    actions.drain_host(&name, body).await.map(extract::respond_accepted)
}

pub async fn preview_drain(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<NewDrain>,
) -> Result<Response, ApiError> {
    actions.preview_drain(&name, body).map(extract::respond_ok)
}

pub async fn activate(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.activate_host(&name).await.map(extract::respond_ok)
}

pub async fn fence(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.fence_host(&name).await.map(extract::respond_ok)
}
