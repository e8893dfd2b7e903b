//! Faults over HTTP: add, see, clear.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::{MachineId, Region};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::extract::{self, Body, NoQuery, Page, Params, Segment};
use super::fault_keeper::AddFaultError;
use super::fault_kind::FaultKind;
use super::values::When;
use super::{Api, names};
use forewarn_metadata::faults::{self, FaultError, FaultId, Life, Method, Only, Path};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewFault {
    /// The machine whose requests meet it; of all machines when left out.
    pub machine: Option<String>,
    pub fault: FaultKind,
    /// So many requests meet it.
    #[schema(minimum = 1, maximum = 2147483647)]
    pub count: Option<u32>,
    /// So long, on the program's clock.
    #[schema(minimum = 1, maximum = 34_560_000)]
    pub for_seconds: Option<u32>,
    /// So many of a hundred requests meet it, evenly spread.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<u8>,
    /// Only requests with this method.
    pub method: Option<MethodWord>,
    /// Only requests to `/metadata/scheduledevents`.
    #[serde(default)]
    pub documents_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum MethodWord {
    Get,
    Post,
}

/// A fault that is there, or, in the answer to its end, was.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub id: u64,
    /// Without it: of all machines.
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
    pub method: Option<MethodWord>,
    pub documents_only: bool,
    pub since: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<When>,
    /// Requests that it was for.
    pub asked: u64,
    /// Those of them that met it.
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
    /// Those that are for this machine alone.
    pub machine: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ClearQuery {
    /// Only those that are for this machine alone.
    pub machine: Option<String>,
}

pub async fn add(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewFault>,
) -> Result<Response, ApiError> {
    let new = body.meant(&api.engine().snapshot().region)?;
    let fault = api.faults().add(&new, &api.by()).await?;
    Ok(extract::created(Fault::of(&fault)))
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::limit(query.limit)?;
    let after = extract::after_number(query.after.as_deref())?.unwrap_or(0);
    let machine = machine_id(&api, query.machine.as_deref())?;
    let is_wanted = |fault: &faults::Fault| {
        fault.id.0 > after && (machine.is_none() || fault.machine.as_ref().map(|(id, _)| *id) == machine)
    };
    let found = api.faults().list().into_iter().filter(is_wanted);
    Ok(extract::ok(Page::cut(found, limit, |fault| fault.id.0.to_string(), Fault::of)))
}

pub async fn get(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let fault = parse_id(&id).and_then(|id| api.faults().find(id));
    fault.map(|fault| extract::ok(Fault::of(&fault))).ok_or_else(|| no_fault(&id))
}

pub async fn clear(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let number = parse_id(&id).ok_or_else(|| no_fault(&id))?;
    let cleared = api.faults().clear(number, &api.by()).await?;
    cleared.map(|fault| extract::ok(Fault::of(&fault))).ok_or_else(|| no_fault(&id))
}

pub async fn clear_all(api: Api, Params(query): Params<ClearQuery>) -> Result<Response, ApiError> {
    let machine = machine_id(&api, query.machine.as_deref())?;
    let cleared = api.faults().clear_all(machine, &api.by()).await?;
    Ok(extract::ok(Cleared { value: cleared.iter().map(Fault::of).collect() }))
}

fn machine_id(api: &Api, name: Option<&str>) -> Result<Option<MachineId>, ApiError> {
    name.map(|name| Ok(names::machine(&api.engine().snapshot().region, name, None)?.id)).transpose()
}

fn parse_id(text: &str) -> Option<FaultId> {
    text.parse().ok().map(FaultId)
}

fn no_fault(text: &str) -> ApiError {
    let message = format!("There is no fault {text}, or it is over. List the faults to see which there are.");
    ApiError::new(Refusal::FaultNotFound, message).about(text)
}

impl NewFault {
    fn meant(self, region: &Region) -> Result<faults::NewFault, ApiError> {
        let machine = match &self.machine {
            Some(name) => Some(names::machine(region, name, None)?.id),
            None => None,
        };
        Ok(faults::NewFault {
            machine,
            kind: self.fault.0,
            only: Only {
                method: self.method.map(|method| match method {
                    MethodWord::Get => Method::Get,
                    MethodWord::Post => Method::Post,
                }),
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
            method: fault.only.method.map(|method| match method {
                Method::Get => MethodWord::Get,
                Method::Post => MethodWord::Post,
            }),
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
        let words = message.trim_end_matches('.');
        match error {
            FaultError::DelayRange => ApiError::field("fault.delaySeconds", words),
            FaultError::RetryAfterRange => ApiError::field("fault.retryAfterSeconds", words),
            FaultError::PercentRange => ApiError::field("percent", words),
            FaultError::CountRange => ApiError::field("count", words),
            FaultError::LifeRange => ApiError::field("forSeconds", words),
            FaultError::NeverMet(_) => ApiError::new(Refusal::FaultNeverMet, message).about("method"),
            FaultError::TooMany => ApiError::new(Refusal::TooManyFaults, message),
            FaultError::UnknownMachine => ApiError::new(Refusal::MachineNotFound, message).about("machine"),
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
