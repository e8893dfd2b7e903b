//! Operations: requested actions and their results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Event, EventCause, EventId, EventOutcome, EventType, HandlerPresence, Id, NotReadyReason, OperationKind,
    OperationPhase, RolloutOwner, Time, WaitFor,
};

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
    /// Description or ticket of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Ticket at the start of the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// Rollout that requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Id>,
    /// Progress of its events.
    #[serde(default)]
    pub progress: OperationProgress,
    /// Everything that it waits for; empty if it waits for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<WaitFor>,
    /// Its events by event group. Only in the response for a single operation, and not from history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<OperationGroup>,
    /// The first 100 machines that are not ready. Only in the response for a single operation, like the following fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<NotReadyMachine>,
    /// Number of machines that are not ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_ready_count: u32,
    /// Groups that lose machines during the impact of its events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<OperationCapacity>,
    /// Other operations and rollouts that affect its machines, or that together with it take its groups below their floor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<OperationConflict>,
}

impl Operation {
    /// Machines that are listed as not ready; more are only counted.
    pub const NOT_READY_MAX: usize = 100;
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A machine whose approval is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotReadyMachine {
    pub machine: String,
    /// Internal number of the machine, which tells machines with the same name apart.
    pub machine_id: u64,
    /// Name of its availability set, cloud service or scale set, or of the standalone machine.
    pub group: String,
    /// ID of the event group.
    pub event_group: u64,
    pub event: EventId,
    pub handler: HandlerPresence,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<Time>,
    pub reason: NotReadyReason,
}

impl NotReadyReason {
    /// The reason as a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            NotReadyReason::NoHandler => "No handler, not notified.",
            NotReadyReason::NotApproved => "Has read the event but has not approved it yet.",
            NotReadyReason::NotPolledSince => "Has not polled since the event appeared.",
            NotReadyReason::StoppedPolling => "Stopped polling.",
            NotReadyReason::NeverPolled => "Has never polled; other machines of its group do. Check its handler.",
            NotReadyReason::Unknown(_) => "Unknown reason, from a newer server.",
        }
    }
}

/// A group while an operation takes machines down or deletes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationCapacity {
    pub group: String,
    pub resource_group: String,
    /// Number of machines that run without impact now.
    pub up: u32,
    /// Number of machines that still run during the impact, if every other impact ends as expected.
    pub up_then: u32,
    /// Number of machines that are down now and are expected to be up during the impact.
    pub returning: u32,
    /// Number of machines in the group now.
    pub machines: u32,
    /// Number of machines that are still in the group during the impact.
    pub machines_then: u32,
    /// Number of machines that must stay up.
    pub floor: u32,
}

/// Another operation or rollout that affects the same machines or groups at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationConflict {
    /// ID of the operation; absent for a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Id>,
    /// ID of the rollout; absent for an operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Id>,
    /// Its effect and its target.
    pub title: String,
}

/// Numbers of events of an operation, and of the machines that they affect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationProgress {
    pub events: u32,
    /// Not started yet.
    pub scheduled: u32,
    /// Not started yet, but approved.
    pub approved: u32,
    pub started: u32,
    /// Ended without a failure.
    pub completed: u32,
    /// Failed, timed out, superseded, or without a machine.
    pub failed: u32,
    pub canceled: u32,
    /// Number of machines that its events affect. An event can affect several. Zero for an operation from the history.
    #[serde(default)]
    pub machines: u32,
    /// Number of these machines that were notified and whose event is approved.
    #[serde(default)]
    pub machines_ready: u32,
    /// Drain: number of machines that are still on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines_left: Option<u32>,
}

/// The events of an operation in one event group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationGroup {
    /// Name of the availability set, cloud service, scale set or standalone machine.
    pub name: String,
    /// ID of the event group.
    pub event_group: u64,
    /// Whether a handler gets notice.
    pub handler_connected: bool,
    pub events: Vec<Event>,
}

/// The result of a dry run: the operation that would be started, with its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DryRun {
    pub operation: Operation,
    pub events: Vec<Event>,
    /// Running rollouts that own hosts or groups of the affected machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutOwner>,
}

/// An event of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    pub id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
}
