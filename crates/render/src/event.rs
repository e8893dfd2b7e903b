//! Events as the API shows them.

use forewarn_api_types::{Approval, Event, EventCause, EventId, EventStatus};
use forewarn_core as core;
use forewarn_core::{Approver, OperationId, Outcome, Region, Status, Visibility};
use forewarn_store::{Actor, EventTimeline};

use crate::convert::Convert;

pub fn render_event(region: &Region, event: &core::Event) -> Event {
    let (status, started, ended, outcome) = match &event.status {
        Status::Scheduled => (EventStatus::Scheduled, None, None, None),
        Status::Started { at } => (EventStatus::Started, Some(at.convert()), None, None),
        Status::Ended { at, outcome } => (EventStatus::Ended, None, Some(at.convert()), Some(outcome)),
    };
    Event {
        id: EventId(event.id.0),
        number: event.seq,
        kind: event.kind.convert(),
        status,
        outcome: outcome.map(Convert::convert),
        reason: outcome.and_then(Outcome::failure_reason).map(ToString::to_string),
        canceled_by: outcome.and_then(Outcome::canceled_by).map(ToString::to_string),
        cause: event.cause.convert(),
        source: event.cause.source().convert(),
        visible: event.is_shown(),
        event_group: event.scope.0,
        resources: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
        appeared: event.appeared.convert(),
        not_before: event.not_before.convert(),
        started,
        ended,
        approval: event.approval.as_ref().map(render_approval),
        description: event.description.to_string(),
        duration_seconds: event.duration_secs,
        operations: event.operations.iter().map(|id| id.convert()).collect(),
        hosts: hosts_of(region, event),
    }
}

/// A finished event that the region no longer has, as history records it.
pub fn render_past_event(past: &EventTimeline, operations: &[OperationId]) -> Event {
    let outcome = past.ended.as_ref().map(|(_, outcome)| outcome);
    Event {
        id: EventId(past.event.0),
        number: 0,
        kind: past.appearance.kind.convert(),
        status: EventStatus::Ended,
        outcome: outcome.map(Convert::convert),
        reason: outcome.and_then(Outcome::failure_reason).map(ToString::to_string),
        canceled_by: outcome.and_then(Outcome::canceled_by).map(ToString::to_string),
        // Rows of the first stored format have no cause.
        cause: past.appearance.cause.map_or(EventCause::HostMaintenance, Convert::convert),
        source: past.appearance.source.convert(),
        visible: past.appearance.visibility == Visibility::Shown,
        event_group: past.scope.map_or(0, |scope| scope.0),
        resources: past.machines.clone(),
        appeared: past.appeared.convert(),
        not_before: past.appearance.not_before.convert(),
        started: past.started.map(Convert::convert),
        ended: past.ended.as_ref().map(|(at, _)| at.convert()),
        approval: past.approved.as_ref().map(|(at, approver)| render_past_approval(*at, approver)),
        description: past.appearance.description.clone(),
        duration_seconds: past.appearance.duration_secs,
        operations: operations.iter().map(|id| id.convert()).collect(),
        hosts: Vec::new(),
    }
}

/// The host that the operation of an event is about. Otherwise the hosts that its machines are on.
fn hosts_of(region: &Region, event: &core::Event) -> Vec<String> {
    let target = event.operations.iter().find_map(|id| region.operation(*id)?.request.host());
    if let Some(host) = target {
        return vec![host.to_string()];
    }
    let machines = event.resources.iter().filter_map(|resource| region.machine(resource.machine));
    let mut hosts: Vec<String> =
        machines.filter_map(|machine| machine.host.as_ref()).map(|host| host.to_string()).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn render_approval(approval: &core::Approval) -> Approval {
    let approved_by = match &approval.by {
        Approver::Guest { name, .. } => format!("guest:{name}"),
        Approver::Management(name) => format!("management:{name}"),
        Approver::Policy => "policy".into(),
    };
    Approval { approved_by, approved_at: approval.at.convert() }
}

fn render_past_approval(at: core::Timestamp, approver: &Actor) -> Approval {
    let approved_by = match approver {
        Actor::Guest(name) => format!("guest:{name}"),
        Actor::Management(name) => format!("management:{name}"),
        Actor::Policy => "policy".into(),
        Actor::Other(text) => text.clone(),
    };
    Approval { approved_by, approved_at: at.convert() }
}
