//! Operations: requested actions and their results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Event, EventCause, EventId, EventOutcome, EventType, Id, OperationKind, OperationPhase, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: Id,
    pub kind: OperationKind,
    /// Name of the principal that requested it.
    pub requested_by: String,
    /// Time of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    pub state: OperationPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Result of the event that made it fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
    /// Message of the driver about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the principal that canceled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canceled_by: Option<String>,
    /// Names of the target machines.
    pub machines: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub events: Vec<Part>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventCause>,
    /// Planned time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Rollout: the next update domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_update_domain: Option<u32>,
    /// Rollout: end of the current pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Time>,
}

/// The result of a dry run: the operation that would be started, with its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DryRun {
    pub operation: Operation,
    pub events: Vec<Event>,
}

/// An event of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    pub id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
}
