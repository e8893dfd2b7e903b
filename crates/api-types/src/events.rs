//! Events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{EventCause, EventId, EventOutcome, EventSource, EventStatus, EventType, Id, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: EventId,
    /// Number in order of appearance; 0 if the event finished more than an hour ago.
    pub number: u64,
    #[serde(rename = "type")]
    pub kind: EventType,
    pub status: EventStatus,
    /// Result of a finished event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
    /// Message of the driver about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the principal that canceled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canceled_by: Option<String>,
    pub cause: EventCause,
    pub source: EventSource,
    /// Whether its machines see it. Events are hidden while no machine of the event group requests the document.
    pub visible: bool,
    /// ID of the event group.
    pub event_group: u64,
    /// Names of the affected machines.
    pub resources: Vec<String>,
    pub appeared: Time,
    pub not_before: Time,
    /// Of finished events, known only in the response of `GET /events/{event}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub description: String,
    /// Expected duration of the impact; -1 if unknown.
    pub duration_seconds: i64,
    pub operations: Vec<Id>,
    /// Names of the hosts concerned: the target of the operation, or the hosts that its machines are on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// `guest:NAME`, `management:NAME` or `policy`.
    pub approved_by: String,
    pub approved_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    #[schema(min_items = 1, max_items = 2048)]
    pub events: Vec<EventId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approved {
    pub value: Vec<Event>,
}
