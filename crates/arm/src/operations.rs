//! Long-running operations: `202 Accepted` with a status URL, and the resource at that URL.
//!
//! They are not stored. The name of a long-running operation says which operations of the region it stands for, so it lives
//! exactly as long as they do, survives restarts, and is answered from history after the region has dropped them:
//!
//! ```text
//!  5e3f…        one operation with this ID
//!  5e3f….3      three operations, whose IDs are derived from this one with 0, 1 and 2
//!  0197….0      none: it finished immediately, at the time in the first 48 bits
//!  0197….p3     starts or stops of three machines, since that time, with orders whose IDs are derived as above
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::settings::MACHINES_PER_GROUP_MAX;
use forewarn_core::{Command, Guid, Machine, OperationId, Request, Timestamp};
use forewarn_wire::arm::error::{ArmError, AsyncOperation, OperationStatus};
use forewarn_wire::guid;
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::call::{Arm, Call};
use forewarn_access::random_guid;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api_types::{EventOutcome, Operation, OperationPhase, Time};

const ASYNC_OPERATION: HeaderName = HeaderName::from_static("azure-asyncoperation");

/// Seconds until the next poll. Clients treat 0 as half a minute.
const RETRY_AFTER_SECS: u32 = 1;

/// The maximum number of operations behind one long-running operation.
const COUNT_MAX: u32 = MACHINES_PER_GROUP_MAX as u32;

/// The name of a long-running operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationTicket {
    One(OperationId),
    /// Deleting a resource group is one operation for each group in it.
    Many {
        seed: Guid,
        count: u32,
    },
    Finished(Guid),
    /// Changes of the power state of machines.
    Power {
        seed: Guid,
        count: u32,
    },
}

/// The state of a long-running operation.
pub struct Progress {
    pub status: OperationStatus,
    pub start: Option<Time>,
    pub end: Option<Time>,
    pub error: Option<ArmError>,
}

impl OperationTicket {
    /// The ticket of an operation that finished immediately.
    pub fn finished(now: Timestamp) -> OperationTicket {
        OperationTicket::Finished(timed_seed(now))
    }

    /// The ticket of a change of the power state of these machines.
    pub fn power(now: Timestamp, machines: &[Arc<Machine>]) -> OperationTicket {
        OperationTicket::Power { seed: timed_seed(now), count: machines.len() as u32 }
    }

    pub fn seed(self) -> Guid {
        match self {
            OperationTicket::One(seed)
            | OperationTicket::Many { seed, .. }
            | OperationTicket::Finished(seed)
            | OperationTicket::Power { seed, .. } => seed,
        }
    }

    /// The ticket of a started operation.
    pub fn of_operation(operation: &Operation) -> OperationTicket {
        OperationTicket::One(Guid(operation.id.0))
    }

    /// The commands for these requests, and one ticket for all of them.
    pub fn of_requests(arm: &Arm, requests: Vec<Request>) -> (OperationTicket, Vec<Command>) {
        let seed = random_guid();
        let ids: Vec<OperationId> = match requests.len() {
            1 => vec![seed],
            count => (0..count as u64).map(|n| seed.derive(n)).collect(),
        };
        let ticket = match requests.len() {
            0 => OperationTicket::finished(arm.actions.engine().now()),
            1 => OperationTicket::One(seed),
            count => OperationTicket::Many { seed, count: count as u32 },
        };
        let command = |(operation, request)| Command::Request { operation, by: arm.by.clone(), request, event: None };
        (ticket, ids.into_iter().zip(requests).map(command).collect())
    }

    pub fn parse(text: &str) -> Option<OperationTicket> {
        let (seed, count) = match text.split_once('.') {
            Some((seed, count)) => (seed, Some(count)),
            None => (text, None),
        };
        let seed = Guid(guid::parse(seed)?);
        if let Some(count) = count.and_then(|count| count.strip_prefix('p')) {
            let count = count.parse().ok().filter(|count| *count <= COUNT_MAX)?;
            return Some(OperationTicket::Power { seed, count });
        }
        match count.map(|count| count.parse::<u32>()).transpose().ok()? {
            None => Some(OperationTicket::One(seed)),
            Some(0) => Some(OperationTicket::Finished(seed)),
            Some(count) if count <= COUNT_MAX => Some(OperationTicket::Many { seed, count }),
            Some(_) => None,
        }
    }

    pub async fn read_progress(self, arm: &Arm) -> Result<Progress, ApiError> {
        match self {
            OperationTicket::Finished(seed) => {
                let at = Some(seed_time(seed));
                Ok(Progress { status: OperationStatus::Succeeded, start: at, end: at, error: None })
            }
            OperationTicket::Power { seed, count } => Ok(Progress::of_power(arm, seed, count)),
            OperationTicket::One(id) => Ok(Progress::of(&arm.actions.find_operation(id).await?)),
            OperationTicket::Many { seed, count } => {
                let mut all = Vec::with_capacity(count as usize);
                for n in 0..u64::from(count) {
                    all.push(Progress::of(&arm.actions.find_operation(seed.derive(n)).await?));
                }
                Ok(Progress::combine(all))
            }
        }
    }

    /// Responds to a request that started a long-running operation.
    pub fn accepted(self, call: &Call) -> Response {
        self.add_headers(call, StatusCode::ACCEPTED.into_response())
    }

    /// Adds the status URL to a response.
    pub fn add_headers(self, call: &Call, response: Response) -> Response {
        let location = forewarn_wire::arm::compute::LOCATION_DEFAULT;
        let path = format!(
            "/subscriptions/{}/providers/Microsoft.Compute/locations/{location}/operations/{self}",
            call.subscription()
        );
        add_status_url(response, &call.url(&path))
    }
}

/// Adds the headers that say where and when to poll.
pub fn add_status_url(mut response: Response, url: &str) -> Response {
    if let Ok(url) = HeaderValue::from_str(url) {
        response.headers_mut().insert(ASYNC_OPERATION, url);
    }
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
    response
}

impl std::fmt::Display for OperationTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OperationTicket::One(id) => write!(f, "{id}"),
            OperationTicket::Many { seed, count } => write!(f, "{seed}.{count}"),
            OperationTicket::Finished(seed) => write!(f, "{seed}.0"),
            OperationTicket::Power { seed, count } => write!(f, "{seed}.p{count}"),
        }
    }
}

/// `GET …/locations/L/operations/ID`.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    let name = call.name(1);
    let ticket = OperationTicket::parse(name).ok_or_else(|| {
        let message =
            format!("'{name}' is not a valid operation name. Use the URL from the Azure-AsyncOperation header.");
        ApiError::new(ErrorCode::OperationNotFound, message).with_target(name)
    })?;
    let progress = ticket.read_progress(&call.arm).await?;
    Ok(progress.respond(&call.path.to_string(), name))
}

/// A random seed with the time in its first 48 bits.
fn timed_seed(now: Timestamp) -> Guid {
    let millis = (now.0 as u128 & 0xffff_ffff_ffff) << 80;
    let random = random_guid().0 & ((1 << 80) - 1);
    Guid::from_random_bits(millis | random)
}

fn seed_time(seed: Guid) -> Time {
    Time((seed.0 >> 80) as i64)
}

impl Progress {
    /// The state of changes of the power state. A change that no machine has any more was carried out, or replaced by another.
    fn of_power(arm: &Arm, seed: Guid, count: u32) -> Progress {
        let orders: BTreeSet<Guid> = (0..u64::from(count)).map(|n| seed.derive(n)).collect();
        let snapshot = arm.snapshot();
        let changes = snapshot.region.machines_in_transfer().filter_map(|machine| machine.power_change());
        let progress = changes.filter(|change| orders.contains(&change.order)).map(|change| match &change.failure {
            None => (OperationStatus::InProgress, None),
            Some(reason) => (OperationStatus::Failed, Some(driver_failed(reason))),
        });
        let start = seed_time(seed);
        let is_ordered = snapshot.region.settings().machine_orders;
        let end = if is_ordered { Time(arm.actions.engine().now().0) } else { start };
        let done = (OperationStatus::Succeeded, None);
        let all = progress.chain([done]).map(|(status, error)| {
            let end = (status != OperationStatus::InProgress).then_some(end);
            Progress { status, start: Some(start), end, error }
        });
        Progress::combine(all.collect())
    }

    fn of(operation: &Operation) -> Progress {
        let (status, error) = match operation.state {
            OperationPhase::Running | OperationPhase::Unknown(_) => (OperationStatus::InProgress, None),
            OperationPhase::Succeeded => (OperationStatus::Succeeded, None),
            OperationPhase::Failed => (OperationStatus::Failed, Some(failure(operation))),
            OperationPhase::Canceled => (OperationStatus::Failed, Some(canceled(operation.canceled_by.as_deref()))),
        };
        Progress { status, start: operation.requested_at, end: operation.ended, error }
    }

    /// Combines several: finished when all are finished, succeeded when all succeeded.
    pub fn combine(all: Vec<Progress>) -> Progress {
        let is_finished = all.iter().all(|one| one.status != OperationStatus::InProgress);
        let end = all.iter().filter_map(|one| one.end).max_by_key(|end| end.0);
        let start = all.iter().filter_map(|one| one.start).min_by_key(|start| start.0);
        let error = all.into_iter().find_map(|one| one.error);
        match (is_finished, error) {
            (false, _) => Progress { status: OperationStatus::InProgress, start, end: None, error: None },
            (true, None) => Progress { status: OperationStatus::Succeeded, start, end, error: None },
            (true, error) => Progress { status: OperationStatus::Failed, start, end, error },
        }
    }

    pub fn is_finished(&self) -> bool {
        self.status != OperationStatus::InProgress
    }

    pub fn respond(&self, path: &str, name: &str) -> Response {
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
        if !self.is_finished() {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
        }
        response
    }
}

fn failure(operation: &Operation) -> ArmError {
    let (code, message) = match operation.outcome {
        Some(EventOutcome::TimedOut) => ("DriverTimedOut", "The driver did not report in time.".to_owned()),
        Some(EventOutcome::Superseded) => (
            "Superseded",
            "Another operation that does not wait, such as a deletion, took over the machine.".to_owned(),
        ),
        Some(EventOutcome::ResourceGone) => {
            ("ResourceGone", "The machine was deleted before the operation could start.".to_owned())
        }
        Some(EventOutcome::Canceled) => return canceled(operation.canceled_by.as_deref()),
        Some(EventOutcome::Failed | EventOutcome::Completed | EventOutcome::NoEffect | EventOutcome::Unknown(_))
        | None => {
            return driver_failed(operation.reason.as_deref().unwrap_or("the history gives no reason"));
        }
    };
    ArmError::new(code, message)
}

fn driver_failed(reason: &str) -> ArmError {
    ArmError::new("DriverFailed", format!("The driver failed: {}.", reason.trim_end_matches('.')))
}

fn canceled(by: Option<&str>) -> ArmError {
    let by = by.map(|by| by.trim_start_matches("management:")).unwrap_or("another caller");
    ArmError::new("OperationCanceled", format!("The operation was canceled by '{by}'."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_names_round_trip() {
        let seed = Guid::from_random_bits(7);
        let finished = OperationTicket::finished(Timestamp(1_772_366_400_123));
        let power = OperationTicket::Power { seed, count: 3 };
        for ticket in [OperationTicket::One(seed), OperationTicket::Many { seed, count: 3 }, finished, power] {
            assert_eq!(OperationTicket::parse(&ticket.to_string()), Some(ticket));
        }
        for text in [
            "",
            "x",
            "5.5",
            &format!("{seed}.x"),
            &format!("{seed}.-1"),
            &format!("{seed}.10001"),
            &format!("{seed}.p"),
            &format!("{seed}.p10001"),
        ] {
            assert_eq!(OperationTicket::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_finished_ticket_contains_its_time() {
        let OperationTicket::Finished(seed) = OperationTicket::finished(Timestamp(1_772_366_400_123)) else {
            panic!("it is finished")
        };
        assert_eq!(seed.0 >> 80, 1_772_366_400_123);
    }
}
