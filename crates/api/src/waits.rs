//! Waits for an event to reach a status: the request is held until then or until a timeout.

use std::time::Duration;

use axum::response::Response;
use forewarn_api_types::{EventId, EventType, Number, Time, WaitAnswer, WaitStatus};
use forewarn_core::{Guid, Region};
use forewarn_render::{Convert, render_event};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Params};
use super::{Actions, history, names};
use forewarn_engine::SubmitError;
use forewarn_engine::{MachineFilter, Milestone, WaitFor, WaitOutcome as Outcome, WaitResult};
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
    pub event: Option<EventId>,
    /// Count statuses that were reached at this time or later.
    #[param(inline)]
    pub since: Option<Time>,
    /// `after` of a previous response, to continue without a gap.
    #[param(inline)]
    pub after: Option<Number>,
    /// Timeout in seconds. Default: 30.
    #[param(maximum = 300)]
    pub timeout: Option<u64>,
}

pub async fn wait(actions: Actions, Params(query): Params<WaitQuery>) -> Result<Response, ApiError> {
    let timeout = query.timeout.unwrap_or(WAIT_SECS_DEFAULT);
    if timeout > WAIT_SECS_MAX {
        return Err(ApiError::query(
            "timeout",
            format!("must be at most {WAIT_SECS_MAX} seconds. Repeat the request to wait longer"),
        ));
    }
    let wait = query.to_wait(&actions.engine().snapshot().region)?;
    let _stream = actions.service().acquire_stream()?;
    let _waiting = GaugeGuard::new(&actions.service().0.parts.metrics.waiting);
    let until = Instant::now() + Duration::from_secs(timeout);
    let waited = actions.service().stopping().run_until_cancelled(actions.engine().wait_for(&wait, until)).await;
    let waited = waited.ok_or(SubmitError::Stopping)?.map_err(|error| history::store_error(&error))?;
    Ok(extract::respond_ok(render_answer(&actions, &waited)))
}

fn render_answer(actions: &Actions, waited: &WaitResult) -> WaitAnswer {
    let snapshot = actions.engine().snapshot();
    let (reached, missed, found) = match waited.outcome {
        Outcome::Reached(found) => (true, false, Some(found)),
        Outcome::Missed(found) => (false, true, Some(found)),
        Outcome::TimedOut => (false, false, None),
    };
    let event = found.and_then(|found| snapshot.region.event(found.event));
    WaitAnswer {
        reached,
        missed,
        id: found.map(|found| EventId(found.event.0)),
        at: found.map(|found| found.at.convert()),
        event: event.map(|event| render_event(&snapshot.region, event)),
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
            kind: self.kind.map(Convert::convert),
            event: self.event.map(|id| Guid(id.0)),
            since: self.since.map(Convert::convert),
            after: self.after.map(|after| after.0),
        })
    }

    /// A wait that includes the past can name a deleted machine.
    fn find_machine(&self, region: &Region, name: &str) -> Result<MachineFilter, ApiError> {
        let includes_past = self.event.is_some() || self.since.is_some() || self.after.is_some();
        match names::find_machine(region, name, None) {
            Ok(machine) => Ok(MachineFilter::of(&machine)),
            Err(error) if includes_past && error.code == ErrorCode::MachineNotFound.status_and_code().1 => {
                Ok(MachineFilter::past(names::without_group(name)))
            }
            Err(error) => Err(error),
        }
    }
}
