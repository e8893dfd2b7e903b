//! Handlers of faults: add, list, get and clear.

use axum::response::Response;
use forewarn_api_types::{NewFault, Page};
use forewarn_metadata::faults;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, Body, NoQuery, Params, Segment};
use super::render_fault::render_fault;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FaultsQuery {
    /// Only faults of this machine.
    pub machine: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ClearQuery {
    /// Only faults of this machine.
    pub machine: Option<String>,
}

pub async fn add(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewFault>,
) -> Result<Response, ApiError> {
    actions.add_fault(body).await.map(extract::respond_created)
}

pub async fn list(actions: Actions, Params(query): Params<FaultsQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.unwrap_or(0);
    let machine = actions.find_machine_id(query.machine.as_deref())?;
    let is_wanted = |fault: &faults::Fault| {
        fault.id.0 > after && (machine.is_none() || fault.machine.as_ref().map(|(id, _)| *id) == machine)
    };
    let found = actions.service().faults().list().into_iter().filter(is_wanted);
    Ok(extract::respond_ok(Page::split_off(found, limit, |fault| fault.id.0.to_string(), render_fault)))
}

pub async fn get(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.find_fault(&id).map(extract::respond_ok)
}

pub async fn clear(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.clear_fault(&id).await.map(extract::respond_ok)
}

pub async fn clear_all(actions: Actions, Params(query): Params<ClearQuery>) -> Result<Response, ApiError> {
    actions.clear_faults(query.machine.as_deref()).await.map(extract::respond_ok)
}
