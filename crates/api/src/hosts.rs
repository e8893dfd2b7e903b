//! Handlers of hosts, on which machines run.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core as core;
use forewarn_core::{Command, Name, Region, Request, Target};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::extract::{self, NoQuery, OptionalBody, Page, Params, Segment};
use super::machine_actions::FailureOptions;
use super::text::ResourceName;
use super::{Api, AuditNote, operations};

/// Machines listed for one host; use `/machines?host=` for all of them.
pub const MACHINES_LISTED_MAX: usize = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Host {
    pub name: String,
    /// Names of its machines, at most 1,000.
    pub machines: Vec<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let after = query.after.as_deref();
    let found = region.hosts().filter(|host| after.is_none_or(|after| host.name.as_ref() > after));
    let cursor = |host: &&Arc<core::Host>| host.name.to_string();
    Ok(extract::ok(Page::cut(found, limit, cursor, |host| Host::of(region, &host.name))))
}

pub async fn get(api: Api, Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let host = find(&snapshot.region, &name)?;
    Ok(extract::ok(Host::of(&snapshot.region, &host)))
}

/// Registers a host. An existing host is not changed.
pub async fn put(api: Api, Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    if let Some(host) = snapshot.region.host(&name) {
        return Ok(extract::ok(Host::of(&snapshot.region, &host.name)));
    }
    let ResourceName(name) = ResourceName::new(name)
        .map_err(|reason| ApiError::new(ErrorCode::InvalidPath, format!("{reason}.")).with_target("host"))?;
    let note = AuditNote::new("host.register", name.as_str());
    let name = Name::from(name);
    let done = api.submit(Command::RegisterHost { name: name.clone() }, note).await?;
    Ok(extract::created(Host::of(&done.snapshot.region, &name)))
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let name = find(&api.engine().snapshot().region, &name)?;
    let note = AuditNote::new("host.remove", name.as_ref());
    api.submit(Command::RemoveHost { name }, note).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn fail(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<FailureOptions>,
) -> Result<Response, ApiError> {
    let name = find(&api.engine().snapshot().region, &name)?;
    let note = body.note(&name);
    let request = Request::Fail { target: Target::Host(name), kind: body.kind() };
    operations::start(&api, request, body.event_id.map(|id| id.0), note).await
}

pub fn find(region: &Region, name: &str) -> Result<Name, ApiError> {
    region.host(name).map(|host| host.name.clone()).ok_or_else(|| {
        let message = format!("No host is named '{name}'. Register it first, or set it as the 'host' of a machine.");
        ApiError::new(ErrorCode::HostNotFound, message).with_target(name)
    })
}

impl Host {
    fn of(region: &Region, name: &Name) -> Host {
        let machines =
            region.machines_on(name).take(MACHINES_LISTED_MAX).map(|machine| machine.name.to_string()).collect();
        Host { name: name.to_string(), machines }
    }
}
