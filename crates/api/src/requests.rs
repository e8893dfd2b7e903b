//! What a machine asked of the metadata endpoint lately.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{self, Params, Segment};
use super::text::Number;
use super::values::{EventName, When};
use super::{Api, names};
use forewarn_metadata::requests::{PollSummary, RequestSeen};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RequestsQuery {
    /// Resource group (or cloud service of a role instance), when the name alone is not unique.
    pub group: Option<String>,
    /// Requests after the one with this number.
    #[param(inline)]
    pub after: Option<Number>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Requests {
    /// The last 64 at the most, newest last.
    pub value: Vec<RequestMade>,
    pub summary: Rhythm,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RequestMade {
    /// Counts the requests of the machine since the server started.
    pub number: u64,
    /// When it arrived, on the program's clock.
    pub at: When,
    pub method: String,
    /// Without `/vm/…` in front.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Without it there was no answer: a fault reset the connection, or the machine did not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The events that it approved, the first eight of them.
    pub approved: Vec<EventName>,
    /// The faults that it met.
    pub faults: Vec<FaultMet>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FaultMet {
    pub id: u64,
    pub kind: String,
}

/// How the machine polls: its GETs of the document.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rhythm {
    /// Since the server started.
    pub polls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_poll: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<When>,
    /// The middle one of the times between the polls that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_median_seconds: Option<f64>,
    /// The longest time between two polls since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_longest_seconds: Option<f64>,
}

pub async fn list(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<RequestsQuery>,
) -> Result<Response, ApiError> {
    let machine = names::machine(&api.engine().snapshot().region, &name, query.group.as_deref())?;
    let log = api.endpoint().requests.log_of(machine.id, query.after.map_or(0, |after| after.0));
    Ok(extract::ok(Requests {
        value: log.requests.into_iter().map(RequestMade::of).collect(),
        summary: Rhythm::of(&log.summary),
    }))
}

impl RequestMade {
    fn of(seen: RequestSeen) -> RequestMade {
        let RequestSeen { number, at, method, path, version, status, approved, faults } = seen;
        RequestMade {
            number,
            at: When(at),
            method,
            path,
            version,
            status,
            approved: approved.into_iter().map(EventName).collect(),
            faults: faults.iter().map(|met| FaultMet { id: met.fault.0, kind: met.kind.to_owned() }).collect(),
        }
    }
}

impl Rhythm {
    fn of(summary: &PollSummary) -> Rhythm {
        Rhythm {
            polls: summary.polls,
            first_poll: summary.first_poll.map(When),
            last_poll: summary.last_poll.map(When),
            interval_median_seconds: summary.interval_median.map(|span| span.as_secs_f64()),
            gap_longest_seconds: summary.gap_longest.map(|span| span.as_secs_f64()),
        }
    }
}
