//! Waits for an event to reach a status: the request is held until then or until a timeout.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::Region;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::events::Event;
use super::extract::{self, Params};
use super::text::Number;
use super::values::{EventName, EventType, When};
use super::{Api, history, names};
use forewarn_engine::SubmitError;
use forewarn_engine::{Milestone, WaitFor, WaitOutcome as Outcome, Waited, Whose};
use forewarn_metadata::GaugeGuard;

/// Maximum time that a request is held, as on the metadata endpoint.
pub const WAIT_SECS_MAX: u64 = 300;

/// Default time that a request is held.
const WAIT_SECS_DEFAULT: u64 = 30;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Status to wait for.
    #[param(inline)]
    pub status: WaitStatus,
    /// Only events of this machine.
    pub machine: Option<String>,
    #[serde(rename = "type")]
    #[param(inline)]
    pub kind: Option<EventType>,
    /// Only this event, whether it is finished or does not exist yet.
    #[param(inline)]
    pub event: Option<EventName>,
    /// Count statuses that were reached at this time or later.
    #[param(inline)]
    pub since: Option<When>,
    /// `after` of a previous response, to continue without a gap.
    #[param(inline)]
    pub after: Option<Number>,
    /// Timeout in seconds. Default: 30.
    #[param(maximum = 300)]
    pub timeout: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    Scheduled,
    Approved,
    Started,
    Gone,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WaitAnswer {
    /// Whether the status was reached; false after a timeout or if it was missed.
    pub met: bool,
    /// Whether the event finished without reaching the status and no other event matches; omitted if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<EventName>,
    /// Time at which the status was reached or missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// Current state of the event, unless it finished more than an hour ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Position to continue from.
    pub after: u64,
}

pub async fn wait(api: Api, Params(query): Params<WaitQuery>) -> Result<Response, ApiError> {
    let timeout = query.timeout.unwrap_or(WAIT_SECS_DEFAULT);
    if timeout > WAIT_SECS_MAX {
        return Err(ApiError::query(
            "timeout",
            format!("must be at most {WAIT_SECS_MAX} seconds. Repeat the request to wait longer"),
        ));
    }
    let wait = query.to_wait(&api.engine().snapshot().region)?;
    let _stream = api.service().acquire_stream()?;
    let _waiting = GaugeGuard::new(&api.service().0.parts.metrics.waiting);
    let until = Instant::now() + Duration::from_secs(timeout);
    let waited = api.service().stopping().run_until_cancelled(api.engine().wait_for(&wait, until)).await;
    let waited = waited.ok_or(SubmitError::Stopping)?.map_err(|error| history::store_error(&error))?;
    Ok(extract::ok(render_answer(&api, &waited)))
}

fn render_answer(api: &Api, waited: &Waited) -> WaitAnswer {
    let snapshot = api.engine().snapshot();
    let (met, missed, found) = match waited.outcome {
        Outcome::Reached(found) => (true, false, Some(found)),
        Outcome::Missed(found) => (false, true, Some(found)),
        Outcome::TimedOut => (false, false, None),
    };
    let event = found.and_then(|found| snapshot.region.event(found.event));
    WaitAnswer {
        met,
        missed,
        id: found.map(|found| EventName(found.event)),
        at: found.map(|found| When(found.at)),
        event: event.map(|event| Event::of(event)),
        after: waited.after,
    }
}

impl WaitQuery {
    fn to_wait(&self, region: &Region) -> Result<WaitFor, ApiError> {
        let machine = match &self.machine {
            Some(name) => Some(self.find_machine(region, name)?),
            None => None,
        };
        Ok(WaitFor {
            milestone: match self.status {
                WaitStatus::Scheduled => Milestone::Scheduled,
                WaitStatus::Approved => Milestone::Approved,
                WaitStatus::Started => Milestone::Started,
                WaitStatus::Gone => Milestone::Gone,
            },
            machine,
            kind: self.kind.map(Into::into),
            event: self.event.map(|id| id.0),
            since: self.since.map(|when| when.0),
            after: self.after.map(|after| after.0),
        })
    }

    /// A wait that includes the past can name a deleted machine.
    fn find_machine(&self, region: &Region, name: &str) -> Result<Whose, ApiError> {
        let includes_past = self.event.is_some() || self.since.is_some() || self.after.is_some();
        match names::find_machine(region, name, None) {
            Ok(machine) => Ok(Whose::of(&machine)),
            Err(error) if includes_past && error.code == ErrorCode::MachineNotFound.status_and_code().1 => {
                Ok(Whose::past(names::without_group(name)))
            }
            Err(error) => Err(error),
        }
    }
}
