//! Handlers of faults: add, list, get and clear.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::{MachineId, Region};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, Page, Params, Segment};
use super::fault_keeper::AddFaultError;
use super::fault_kind::FaultKind;
use super::values::{When, mirror};
use super::{Api, names};
use forewarn_metadata::faults::{self, FaultError, FaultId, Life, Method, Only, Path};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewFault {
    /// Machine whose requests are affected. Default: all machines.
    pub machine: Option<String>,
    pub fault: FaultKind,
    /// Number of requests affected.
    #[schema(minimum = 1, maximum = 2147483647)]
    pub count: Option<u32>,
    /// Duration on the server's clock.
    #[schema(minimum = 1, maximum = 34_560_000)]
    pub for_seconds: Option<u32>,
    /// Percentage of requests affected, evenly spread.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<u8>,
    /// Affect only requests with this method.
    pub method: Option<FaultMethod>,
    /// Affect only requests to `/metadata/scheduledevents`.
    #[serde(default)]
    pub documents_only: bool,
}

mirror!(
    #[serde(rename_all = "UPPERCASE")]
    FaultMethod = Method { Get, Post }
);

/// A fault, active or just cleared.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub id: u64,
    /// Machine whose requests are affected; omitted if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    pub fault: FaultKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<FaultMethod>,
    pub documents_only: bool,
    pub since: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<When>,
    /// Requests that it applied to.
    pub asked: u64,
    /// Requests that it affected.
    pub met: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Cleared {
    pub value: Vec<Fault>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
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
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewFault>,
) -> Result<Response, ApiError> {
    let new = body.into_core(&api.engine().snapshot().region)?;
    let fault = api.service().faults().add(&new, &api.principal_name()).await?;
    Ok(extract::created(Fault::of(&fault)))
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.unwrap_or(0);
    let machine = machine_id(&api, query.machine.as_deref())?;
    let is_wanted = |fault: &faults::Fault| {
        fault.id.0 > after && (machine.is_none() || fault.machine.as_ref().map(|(id, _)| *id) == machine)
    };
    let found = api.service().faults().list().into_iter().filter(is_wanted);
    Ok(extract::ok(Page::cut(found, limit, |fault| fault.id.0.to_string(), Fault::of)))
}

pub async fn get(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let fault = parse_id(&id).and_then(|id| api.service().faults().find(id));
    fault.map(|fault| extract::ok(Fault::of(&fault))).ok_or_else(|| fault_not_found(&id))
}

pub async fn clear(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let number = parse_id(&id).ok_or_else(|| fault_not_found(&id))?;
    let cleared = api.service().faults().clear(number, &api.principal_name()).await?;
    cleared.map(|fault| extract::ok(Fault::of(&fault))).ok_or_else(|| fault_not_found(&id))
}

pub async fn clear_all(api: Api, Params(query): Params<ClearQuery>) -> Result<Response, ApiError> {
    let machine = machine_id(&api, query.machine.as_deref())?;
    let cleared = api.service().faults().clear_all(machine, &api.principal_name()).await?;
    Ok(extract::ok(Cleared { value: cleared.iter().map(Fault::of).collect() }))
}

fn machine_id(api: &Api, name: Option<&str>) -> Result<Option<MachineId>, ApiError> {
    name.map(|name| Ok(names::find_machine(&api.engine().snapshot().region, name, None)?.id)).transpose()
}

fn parse_id(text: &str) -> Option<FaultId> {
    text.parse().ok().map(FaultId)
}

fn fault_not_found(text: &str) -> ApiError {
    let message = format!("Fault {text} does not exist or has ended. List the faults to find the right number.");
    ApiError::new(ErrorCode::FaultNotFound, message).with_target(text)
}

impl NewFault {
    fn into_core(self, region: &Region) -> Result<faults::NewFault, ApiError> {
        let machine = match &self.machine {
            Some(name) => Some(names::find_machine(region, name, None)?.id),
            None => None,
        };
        Ok(faults::NewFault {
            machine,
            kind: self.fault.0,
            only: Only {
                method: self.method.map(Method::from),
                path: if self.documents_only { Path::Events } else { Path::Any },
            },
            life: Life {
                count: self.count.map(u64::from),
                span: self.for_seconds.map(|secs| Duration::from_secs(secs.into())),
                percent: self.percent,
            },
        })
    }
}

impl Fault {
    fn of(fault: &faults::Fault) -> Fault {
        Fault {
            id: fault.id.0,
            machine: fault.machine.as_ref().map(|(_, name)| name.to_string()),
            fault: FaultKind(fault.kind),
            count: fault.life.count,
            for_seconds: fault.life.span.map(|span| span.as_secs()),
            percent: fault.life.percent,
            method: fault.only.method.map(FaultMethod::from),
            documents_only: fault.only.path == Path::Events,
            since: When(fault.since),
            until: fault.until.map(When),
            asked: fault.asked,
            met: fault.met,
        }
    }
}

impl From<FaultError> for ApiError {
    fn from(error: FaultError) -> Self {
        let message = error.to_string();
        let field = |name: &str| ApiError::new(ErrorCode::InvalidField, message.as_str()).with_target(name);
        match error {
            FaultError::DelayRange => field("fault.delaySeconds"),
            FaultError::RetryAfterRange => field("fault.retryAfterSeconds"),
            FaultError::PercentRange => field("percent"),
            FaultError::CountRange => field("count"),
            FaultError::LifeRange => field("forSeconds"),
            FaultError::NeverMet(_) => ApiError::new(ErrorCode::FaultNeverMet, message).with_target("method"),
            FaultError::TooMany => ApiError::new(ErrorCode::TooManyFaults, message),
            FaultError::UnknownMachine => ApiError::new(ErrorCode::MachineNotFound, message).with_target("machine"),
        }
    }
}

impl From<AddFaultError> for ApiError {
    fn from(error: AddFaultError) -> Self {
        match error {
            AddFaultError::Fault(error) => error.into(),
            AddFaultError::Submit(error) => error.into(),
        }
    }
}
