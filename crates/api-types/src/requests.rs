//! Recent metadata requests of a machine.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{EventId, Time};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Requests {
    /// The last 64 requests at most, newest last.
    pub value: Vec<RequestEntry>,
    pub summary: PollingSummary,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestEntry {
    /// Number of the request since the server started.
    pub number: u64,
    /// Time of arrival on the server's clock.
    pub at: Time,
    pub method: String,
    /// Path without the prefix `/vm/…`.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Status of the response; omitted if there was none, because a fault reset the connection or the client disconnected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Events that it approved, the first eight of them.
    pub approved: Vec<EventId>,
    /// Faults that affected it.
    pub faults: Vec<FaultHit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FaultHit {
    pub id: u64,
    pub kind: String,
}

/// Statistics of the machine's GET requests for the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollingSummary {
    /// Number of polls since the server started.
    pub polls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_poll: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<Time>,
    /// Median interval between the recent polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_median_seconds: Option<f64>,
    /// Longest interval between two polls since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_longest_seconds: Option<f64>,
}
