//! Long operations: `202 Accepted` with an address to ask, and what is there.
//!
//! Nothing is kept for them. The name of a long operation says which of the region's operations it stands for, so it lasts
//! exactly as long as they do, survives restarts, and is answered from history when the region has forgotten:
//!
//! ```text
//!  5e3f…        one operation, this one
//!  5e3f….3      three: those whose ids are derived from this one with 0, 1 and 2
//!  0197….0      none: it was over at once, at the time that is in the first 48 bits
//! ```

use axum::response::{IntoResponse, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{Command, Guid, OperationId, Request, Timestamp};
use forewarn_wire::arm::error::{ArmError, AsyncOperation, OperationStatus};
use forewarn_wire::guid;
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::call::{Arm, Call};
use forewarn_access::random_guid;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::events::OutcomeWord;
use forewarn_api::operations::{self, Operation, OperationStateWord};
use forewarn_api::values::When;

const ASYNC_OPERATION: HeaderName = HeaderName::from_static("azure-asyncoperation");

/// When to ask again, in seconds. Clients take 0 for half a minute.
const RETRY_AFTER_SECS: u32 = 1;

/// The most operations that one long operation stands for.
const COUNT_MAX: u32 = MACHINES_PER_GROUP_MAX as u32;

/// The name of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    One(OperationId),
    /// The deletion of a resource group is one for each group in it.
    Many {
        seed: Guid,
        count: u32,
    },
    Over(Guid),
}

/// How far a long operation is.
pub struct Progress {
    pub status: OperationStatus,
    pub start: Option<When>,
    pub end: Option<When>,
    pub error: Option<ArmError>,
}

impl Ticket {
    /// For what was over at once.
    pub fn over(now: Timestamp) -> Ticket {
        let millis = (now.0 as u128 & 0xffff_ffff_ffff) << 80;
        let random = random_guid().0 & ((1 << 80) - 1);
        Ticket::Over(Guid::random_shaped(millis | random))
    }

    /// These requests as commands that belong together, and the name for all of them.
    pub fn of_requests(arm: &Arm, requests: Vec<Request>) -> (Ticket, Vec<Command>) {
        let seed = random_guid();
        let ids: Vec<OperationId> = match requests.len() {
            1 => vec![seed],
            count => (0..count as u64).map(|n| seed.derive(n)).collect(),
        };
        let ticket = match requests.len() {
            0 => Ticket::over(arm.api.engine().now()),
            1 => Ticket::One(seed),
            count => Ticket::Many { seed, count: count as u32 },
        };
        let command = |(operation, request)| Command::Request { operation, by: arm.by.clone(), request, event: None };
        (ticket, ids.into_iter().zip(requests).map(command).collect())
    }

    pub fn parse(text: &str) -> Option<Ticket> {
        let (seed, count) = match text.split_once('.') {
            Some((seed, count)) => (seed, Some(count.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let seed = Guid(guid::parse(seed)?);
        match count {
            None => Some(Ticket::One(seed)),
            Some(0) => Some(Ticket::Over(seed)),
            Some(count) if count <= COUNT_MAX => Some(Ticket::Many { seed, count }),
            Some(_) => None,
        }
    }

    pub async fn progress(self, arm: &Arm) -> Result<Progress, ApiError> {
        match self {
            Ticket::Over(seed) => {
                let at = Some(When(Timestamp((seed.0 >> 80) as i64)));
                Ok(Progress { status: OperationStatus::Succeeded, start: at, end: at, error: None })
            }
            Ticket::One(id) => Ok(Progress::of(&operations::find(&arm.api, id).await?)),
            Ticket::Many { seed, count } => {
                let mut all = Vec::with_capacity(count as usize);
                for n in 0..u64::from(count) {
                    all.push(Progress::of(&operations::find(&arm.api, seed.derive(n)).await?));
                }
                Ok(Progress::of_all(all))
            }
        }
    }

    /// The answer to a request that has begun something long.
    pub fn accepted(self, call: &Call) -> Response {
        self.headed(call, StatusCode::ACCEPTED.into_response())
    }

    /// Puts the address to ask into an answer.
    pub fn headed(self, call: &Call, response: Response) -> Response {
        let location = forewarn_wire::arm::compute::LOCATION_DEFAULT;
        let path = format!(
            "/subscriptions/{}/providers/Microsoft.Compute/locations/{location}/operations/{self}",
            call.subscription()
        );
        with_address(response, &call.url(&path))
    }
}

/// Says where to ask how far it is, and when.
pub fn with_address(mut response: Response, url: &str) -> Response {
    if let Ok(url) = HeaderValue::from_str(url) {
        response.headers_mut().insert(ASYNC_OPERATION, url);
    }
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
    response
}

impl std::fmt::Display for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ticket::One(id) => write!(f, "{id}"),
            Ticket::Many { seed, count } => write!(f, "{seed}.{count}"),
            Ticket::Over(seed) => write!(f, "{seed}.0"),
        }
    }
}

/// `GET …/locations/L/operations/ID`.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    let name = call.name(1);
    let ticket = Ticket::parse(name).ok_or_else(|| {
        let message =
            format!("'{name}' is not the name of an operation. Take it from the header Azure-AsyncOperation.");
        ApiError::new(Refusal::OperationNotFound, message).about(name)
    })?;
    let progress = ticket.progress(&call.arm).await?;
    Ok(progress.shown(&call.path.to_string(), name))
}

impl Progress {
    fn of(operation: &Operation) -> Progress {
        let (status, error) = match operation.state {
            OperationStateWord::Running => (OperationStatus::InProgress, None),
            OperationStateWord::Succeeded => (OperationStatus::Succeeded, None),
            OperationStateWord::Failed => (OperationStatus::Failed, Some(failure(operation))),
            OperationStateWord::Canceled => (OperationStatus::Failed, Some(canceled(operation.reason.as_deref()))),
        };
        Progress { status, start: operation.asked, end: operation.ended, error }
    }

    /// Succeeded when all have, and over when all are.
    pub fn of_all(all: Vec<Progress>) -> Progress {
        let is_over = all.iter().all(|one| one.status != OperationStatus::InProgress);
        let end = all.iter().filter_map(|one| one.end).max_by_key(|end| end.0);
        let start = all.iter().filter_map(|one| one.start).min_by_key(|start| start.0);
        let error = all.into_iter().find_map(|one| one.error);
        match (is_over, error) {
            (false, _) => Progress { status: OperationStatus::InProgress, start, end: None, error: None },
            (true, None) => Progress { status: OperationStatus::Succeeded, start, end, error: None },
            (true, error) => Progress { status: OperationStatus::Failed, start, end, error },
        }
    }

    pub fn is_over(&self) -> bool {
        self.status != OperationStatus::InProgress
    }

    pub fn shown(&self, path: &str, name: &str) -> Response {
        let start = self.start.map(|start| start.to_string()).unwrap_or_default();
        let end = self.end.map(|end| end.to_string());
        let body = AsyncOperation {
            id: path,
            name,
            status: self.status,
            start_time: &start,
            end_time: end.as_deref(),
            error: self.error.as_ref(),
        };
        let mut response = axum::Json(body.body()).into_response();
        if !self.is_over() {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
        }
        response
    }
}

fn failure(operation: &Operation) -> ArmError {
    let (code, message) = match operation.outcome {
        Some(OutcomeWord::TimedOut) => ("DriverTimedOut", "The driver said nothing for too long.".to_owned()),
        Some(OutcomeWord::Superseded) => {
            ("Superseded", "Something that does not wait, such as a deletion, took the machine.".to_owned())
        }
        Some(OutcomeWord::ResourceGone) => ("ResourceGone", "The machine was gone before it could happen.".to_owned()),
        Some(OutcomeWord::Canceled) => return canceled(operation.reason.as_deref()),
        Some(OutcomeWord::Failed | OutcomeWord::Completed | OutcomeWord::NoEffect) | None => {
            let reason = operation.reason.as_deref().unwrap_or("the history says no more");
            ("DriverFailed", format!("The driver could not do it: {}.", reason.trim_end_matches('.')))
        }
    };
    ArmError::new(code, message)
}

fn canceled(by: Option<&str>) -> ArmError {
    let by = by.map(|by| by.trim_start_matches("management:")).unwrap_or("somebody");
    ArmError::new("OperationCanceled", format!("The operation was cancelled by '{by}'."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_long_operations_are_read_as_they_are_written() {
        let seed = Guid::random_shaped(7);
        let over = Ticket::over(Timestamp(1_772_366_400_123));
        for ticket in [Ticket::One(seed), Ticket::Many { seed, count: 3 }, over] {
            assert_eq!(Ticket::parse(&ticket.to_string()), Some(ticket));
        }
        for text in ["", "x", "5.5", &format!("{seed}.x"), &format!("{seed}.-1"), &format!("{seed}.10001")] {
            assert_eq!(Ticket::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_over_at_once_tells_when() {
        let Ticket::Over(seed) = Ticket::over(Timestamp(1_772_366_400_123)) else { panic!("it is over") };
        assert_eq!(seed.0 >> 80, 1_772_366_400_123);
    }
}
