//! Recent metadata requests of a machine.

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
    /// Resource group, or cloud service of a role instance, if the name alone is not unique.
    pub group: Option<String>,
    /// Only requests after the one with this number.
    #[param(inline)]
    pub after: Option<Number>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Requests {
    /// The last 64 requests at most, newest last.
    pub value: Vec<RequestEntry>,
    pub summary: PollingSummary,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RequestEntry {
    /// Number of the request since the server started.
    pub number: u64,
    /// Time of arrival on the server's clock.
    pub at: When,
    pub method: String,
    /// Path without the prefix `/vm/…`.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Status of the response; omitted if there was none, because a fault reset the connection or the client disconnected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Events that it approved, the first eight of them.
    pub approved: Vec<EventName>,
    /// Faults that affected it.
    pub faults: Vec<FaultHit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FaultHit {
    pub id: u64,
    pub kind: String,
}

/// Statistics of the machine's GET requests for the document.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollingSummary {
    /// Number of polls since the server started.
    pub polls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_poll: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<When>,
    /// Median interval between the recent polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_median_seconds: Option<f64>,
    /// Longest interval between two polls since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_longest_seconds: Option<f64>,
}

pub async fn list(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<RequestsQuery>,
) -> Result<Response, ApiError> {
    let machine = names::find_machine(&api.engine().snapshot().region, &name, query.group.as_deref())?;
    let log = api.service().endpoint().requests.log_of(machine.id, query.after.map_or(0, |after| after.0));
    Ok(extract::ok(Requests {
        value: log.requests.into_iter().map(RequestEntry::of).collect(),
        summary: PollingSummary::of(&log.summary),
    }))
}

impl RequestEntry {
    fn of(seen: RequestSeen) -> RequestEntry {
        let RequestSeen { number, at, method, path, version, status, approved, faults } = seen;
        RequestEntry {
            number,
            at: When(at),
            method,
            path,
            version,
            status,
            approved: approved.into_iter().map(EventName).collect(),
            faults: faults.iter().map(|met| FaultHit { id: met.fault.0, kind: met.kind.to_owned() }).collect(),
        }
    }
}

impl PollingSummary {
    fn of(summary: &PollSummary) -> PollingSummary {
        PollingSummary {
            polls: summary.polls,
            first_poll: summary.first_poll.map(When),
            last_poll: summary.last_poll.map(When),
            interval_median_seconds: summary.interval_median.map(|span| span.as_secs_f64()),
            gap_longest_seconds: summary.gap_longest.map(|span| span.as_secs_f64()),
        }
    }
}
