//! Waiting for an event over HTTP: the request is held until it is true, or the time is over.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::Region;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::events::Event;
use super::extract::{self, Params};
use super::text::Number;
use super::values::{EventName, EventType, When};
use super::{Api, history, names};
use forewarn_engine::SubmitError;
use forewarn_engine::{Milestone, WaitFor, WaitOutcome as Outcome, Waited, Whose};
use forewarn_metadata::GaugeGuard;

/// How long a request may be held, as on the metadata endpoint.
pub const WAIT_SECS_MAX: u64 = 300;

/// How long it is held when nobody says.
const WAIT_SECS_DEFAULT: u64 = 30;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// How far it shall have come.
    #[param(inline)]
    pub status: MilestoneWord,
    /// An event of this machine.
    pub machine: Option<String>,
    #[serde(rename = "type")]
    #[param(inline)]
    pub kind: Option<EventType>,
    /// This event, also when it is over, and also when it is still to come.
    #[param(inline)]
    pub event: Option<EventName>,
    /// What was reached at this time or later counts.
    #[param(inline)]
    pub since: Option<When>,
    /// `after` of an answer before: nothing is missed in between.
    #[param(inline)]
    pub after: Option<Number>,
    /// Seconds, 30 when left out.
    #[param(maximum = 300)]
    pub timeout: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MilestoneWord {
    Scheduled,
    Approved,
    Started,
    Gone,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WaitAnswer {
    /// Whether it came true; false: the time is over, or it was missed.
    pub met: bool,
    /// The event ended without it, and no other that is meant is there; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<EventName>,
    /// When it came true, or was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// The event as it is now, unless it is over for more than an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Where to go on waiting.
    pub after: u64,
}

pub async fn wait(api: Api, Params(query): Params<WaitQuery>) -> Result<Response, ApiError> {
    let timeout = query.timeout.unwrap_or(WAIT_SECS_DEFAULT);
    if timeout > WAIT_SECS_MAX {
        return Err(ApiError::query("timeout", format!("it may be {WAIT_SECS_MAX} seconds. Ask again after that")));
    }
    let wait = query.meant(&api.engine().snapshot().region)?;
    let _place = api.stream()?;
    let _waiting = GaugeGuard::new(&api.metrics().waiting);
    let until = Instant::now() + Duration::from_secs(timeout);
    let waited = api.0.parts.stop.run_until_cancelled(api.engine().wait_for(&wait, until)).await;
    let waited = waited.ok_or(SubmitError::Stopping)?.map_err(|error| history::unreadable(&error))?;
    Ok(extract::ok(answer(&api, &waited)))
}

fn answer(api: &Api, waited: &Waited) -> WaitAnswer {
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
    fn meant(&self, region: &Region) -> Result<WaitFor, ApiError> {
        let machine = match &self.machine {
            Some(name) => Some(self.whose(region, name)?),
            None => None,
        };
        Ok(WaitFor {
            milestone: match self.status {
                MilestoneWord::Scheduled => Milestone::Scheduled,
                MilestoneWord::Approved => Milestone::Approved,
                MilestoneWord::Started => Milestone::Started,
                MilestoneWord::Gone => Milestone::Gone,
            },
            machine,
            kind: self.kind.map(Into::into),
            event: self.event.map(|id| id.0),
            since: self.since.map(|when| when.0),
            after: self.after.map(|after| after.0),
        })
    }

    /// Who asks for what has been may name a machine that is gone.
    fn whose(&self, region: &Region, name: &str) -> Result<Whose, ApiError> {
        let asks_for_the_past = self.event.is_some() || self.since.is_some() || self.after.is_some();
        match names::machine(region, name, None) {
            Ok(machine) => Ok(Whose::of(&machine)),
            Err(error) if asks_for_the_past && error.code == Refusal::MachineNotFound.status_and_code().1 => {
                Ok(Whose::past(names::without_group(name)))
            }
            Err(error) => Err(error),
        }
    }
}
