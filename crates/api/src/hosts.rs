//! Hosts: what machines stand on, and break with.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core as core;
use forewarn_core::{Command, Name, Region, Request, Target};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::extract::{self, NoQuery, OptionalBody, Page, Params, Segment};
use super::machine_actions::Failure;
use super::text::Word;
use super::{Api, Note};

/// Machines that one host names; those beyond are found by listing machines with `?host=`.
pub const SHOWN_MAX: usize = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub after: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Host {
    pub name: String,
    /// The machines on it, at most 1,000.
    pub machines: Vec<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::limit(query.limit)?;
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

/// Registering a host that is there changes nothing.
pub async fn put(api: Api, Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    if let Some(host) = snapshot.region.host(&name) {
        return Ok(extract::ok(Host::of(&snapshot.region, &host.name)));
    }
    let Word(name) = Word::new(name)
        .map_err(|why| ApiError::new(Refusal::InvalidPath, format!("The host's name: {why}.")).about("host"))?;
    let note = Note::new("host.register", name.as_str());
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
    let note = Note::new("host.remove", name.as_ref());
    api.submit(Command::RemoveHost { name }, note).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn fail(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<Failure>,
) -> Result<Response, ApiError> {
    let name = find(&api.engine().snapshot().region, &name)?;
    let note = body.note(&name);
    let request = Request::Fail { target: Target::Host(name), kind: body.kind() };
    api.request(request, body.event_id.map(|id| id.0), note).await
}

pub fn find(region: &Region, name: &str) -> Result<Name, ApiError> {
    region.host(name).map(|host| host.name.clone()).ok_or_else(|| {
        let message = format!("There is no host '{name}'. Register it, or name it in a machine's 'host'.");
        ApiError::new(Refusal::HostNotFound, message).about(name)
    })
}

impl Host {
    fn of(region: &Region, name: &Name) -> Host {
        let machines = region.machines_on(name).take(SHOWN_MAX).map(|machine| machine.name.to_string()).collect();
        Host { name: name.to_string(), machines }
    }
}
