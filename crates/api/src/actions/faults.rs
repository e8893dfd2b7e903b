//! Adds and clears faults of the metadata endpoint.

use std::time::Duration;

use forewarn_api_types::{
    ClearedFaults, FAULT_DELAY_MAX, FAULT_RETRY_AFTER_SECS_MAX, Fault, FaultKind, FaultMethod, NewFault,
};
use forewarn_core::{MachineId, Region};
use forewarn_metadata::faults::{
    self, DELAY_MAX, FaultError, FaultId, FaultLimit, Method, Path, RETRY_AFTER_SECS_MAX, RequestFilter, Status,
};

use crate::Actions;
use crate::action::Action;
use crate::error::{ApiError, ErrorCode};
use crate::names;
use crate::recorded_faults::AddFaultError;
use crate::render_fault::render_fault;

const _: () = assert!(FAULT_DELAY_MAX.as_secs() == DELAY_MAX.as_secs());
const _: () = assert!(FAULT_RETRY_AFTER_SECS_MAX == RETRY_AFTER_SECS_MAX);

/// Default of the `Retry-After` header.
const RETRY_AFTER_SECS_DEFAULT: u32 = 1;

impl Actions {
    pub async fn add_fault(&self, new: NewFault) -> Result<Fault, ApiError> {
        self.permit(Action::AddFault)?;
        let new = new_fault(new, &self.engine().snapshot().region)?;
        let fault = self.service().faults().add(&new, &self.principal_name()).await?;
        Ok(render_fault(&fault))
    }

    pub async fn clear_fault(&self, id: &str) -> Result<Fault, ApiError> {
        self.permit(Action::ClearFault)?;
        let number = parse_id(id).ok_or_else(|| fault_not_found(id))?;
        let cleared = self.service().faults().clear(number, &self.principal_name()).await?;
        cleared.as_ref().map(render_fault).ok_or_else(|| fault_not_found(id))
    }

    /// Clears all faults, or those of one machine.
    pub async fn clear_faults(&self, machine: Option<&str>) -> Result<ClearedFaults, ApiError> {
        self.permit(Action::ClearFault)?;
        let machine = self.find_machine_id(machine)?;
        let cleared = self.service().faults().clear_all(machine, &self.principal_name()).await?;
        Ok(ClearedFaults { value: cleared.iter().map(render_fault).collect() })
    }

    pub(crate) fn find_machine_id(&self, name: Option<&str>) -> Result<Option<MachineId>, ApiError> {
        name.map(|name| Ok(names::find_machine(&self.engine().snapshot().region, name, None)?.id)).transpose()
    }

    /// An active fault.
    pub(crate) fn find_fault(&self, id: &str) -> Result<Fault, ApiError> {
        let fault = parse_id(id).and_then(|id| self.service().faults().find(id));
        fault.as_ref().map(render_fault).ok_or_else(|| fault_not_found(id))
    }
}

fn parse_id(text: &str) -> Option<FaultId> {
    text.parse().ok().map(FaultId)
}

fn fault_not_found(text: &str) -> ApiError {
    let message = format!("Fault {text} does not exist or has ended. List the faults to find the right number.");
    ApiError::new(ErrorCode::FaultNotFound, message).with_target(text)
}

fn new_fault(new: NewFault, region: &Region) -> Result<faults::NewFault, ApiError> {
    let machine = match &new.machine {
        Some(name) => Some(names::find_machine(region, name, None)?.id),
        None => None,
    };
    Ok(faults::NewFault {
        machine,
        kind: kind_of(new.fault)?,
        only: RequestFilter {
            method: new.method.map(|method| match method {
                FaultMethod::Get => Method::Get,
                FaultMethod::Post => Method::Post,
            }),
            path: if new.documents_only { Path::Events } else { Path::Any },
        },
        limit: FaultLimit {
            count: new.count.map(u64::from),
            span: new.for_seconds.map(|secs| Duration::from_secs(secs.into())),
            percent: new.percent,
        },
    })
}

fn kind_of(kind: FaultKind) -> Result<faults::FaultKind, ApiError> {
    Ok(match kind {
        FaultKind::Status { status, retry_after_seconds } => {
            let status = Status::of(status);
            let status = status.ok_or_else(|| ApiError::field("fault.status", "must be from 200 to 599"))?;
            faults::FaultKind::Status {
                status,
                retry_after_secs: retry_after_seconds.unwrap_or(RETRY_AFTER_SECS_DEFAULT),
            }
        }
        FaultKind::Delay(delay) => faults::FaultKind::Delay(delay),
        FaultKind::SlowFirstCall(delay) => faults::FaultKind::SlowFirstCall(delay),
        FaultKind::Reset => faults::FaultKind::Reset,
        FaultKind::Truncated => faults::FaultKind::Truncated,
        FaultKind::Malformed => faults::FaultKind::Malformed,
        FaultKind::IncarnationRestart => faults::FaultKind::IncarnationRestart,
        FaultKind::EventsVanish => faults::FaultKind::EventsVanish,
        FaultKind::UnknownType => faults::FaultKind::UnknownType,
    })
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
            FaultError::DurationRange => field("forSeconds"),
            FaultError::NeverAffects(_) => ApiError::new(ErrorCode::FaultNeverMet, message).with_target("method"),
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
