//! Waiting for an event to reach a status.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Event, EventId, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    Scheduled,
    Approved,
    Started,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitAnswer {
    /// Whether the status was reached; false after a timeout or if it was missed.
    pub reached: bool,
    /// Whether the event finished without reaching the status and no other event matches; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// Time at which the status was reached or missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Current state of the event, unless it finished more than an hour ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Position to continue from.
    pub after: u64,
}
