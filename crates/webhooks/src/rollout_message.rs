//! Messages about rollouts, drains and hosts, made from rows of history. Messages about events are in `event_message`.

use forewarn_api_types::{EventOutcome, Time};
use forewarn_core::{GroupId, Guid, MachineId, OperationResult, Outcome, Region, Request};
use forewarn_render::{Convert, render_rollout};
use forewarn_store::{HistoryFact, HistoryRow, HostFact, OperationFact, RolloutFact};
use forewarn_wire::cloudevent::{DrainEnded, HostChanged, Notification, NotificationData, RolloutChanged};
use forewarn_wire::guid;

use super::message::Message;

/// The message for a row, or None if the row is about something else.
pub fn build_message(region: &Region, row: &HistoryRow) -> Option<Message> {
    match row.fact()? {
        HistoryFact::RolloutChanged(fact) => rollout_changed(region, row, &fact),
        HistoryFact::HostChanged(fact) => Some(host_changed(region, row, &fact)),
        HistoryFact::OperationEnded(fact) => drain_ended(region, row, &fact),
        HistoryFact::Appeared(_)
        | HistoryFact::Approved { .. }
        | HistoryFact::Started
        | HistoryFact::Ended(_)
        | HistoryFact::MachineAdded(_)
        | HistoryFact::MachineRemoved(_)
        | HistoryFact::GroupOn
        | HistoryFact::GroupOff
        | HistoryFact::Audit { .. } => None,
    }
}

fn rollout_changed(region: &Region, row: &HistoryRow, fact: &RolloutFact) -> Option<Message> {
    let id = fact.rollout?;
    let known = region.rollout(id).map(|rollout| render_rollout(region, rollout));
    let outcome: Option<EventOutcome> = fact.failure.as_ref().map(Convert::convert);
    let data = RolloutChanged {
        change: &fact.change,
        description: known.as_ref().and_then(|rollout| rollout.description.as_deref()),
        failures: fact.failures,
        group: fact.group.and_then(|group| region.group(GroupId(group))).map(|group| group.name.as_str()),
        host: fact.host.as_deref(),
        machine: fact.machine.and_then(|id| region.machine(MachineId(id))).map(|machine| machine.name.as_str()),
        outcome: outcome.map(EventOutcome::as_str),
        reason: fact.failure.as_ref().and_then(Outcome::failure_reason).map(|reason| &**reason),
        requested_by: &fact.requested_by,
        rollout: &id.to_string(),
        step: fact.step,
        step_state: fact.step_state.map(|state| state.as_str()),
        steps: known.as_ref().map(|rollout| rollout.steps.len()),
        kind: known.as_ref().map(|rollout| rollout.kind.as_str()),
        update_domain: fact.domain,
        waits_for: fact.waits_for.as_deref(),
    };
    Some(build(row, id, &format!("/rollouts/{id}"), data))
}

fn host_changed(region: &Region, row: &HistoryRow, fact: &HostFact) -> Message {
    let host = region.host(&fact.host);
    let drain = host.and_then(|host| region.drain_of(&host.name)).map(|operation| operation.id.to_string());
    let data = HostChanged {
        drain: drain.as_deref(),
        host: &fact.host,
        reachable: fact.reachable,
        state: fact.state.map(|state| state.as_str()),
    };
    // A host has no ID. The time keeps the IDs of two deployments apart.
    let about = Guid(u128::from(row.at.0.unsigned_abs()));
    build(row, about, &format!("/hosts/{}", fact.host), data)
}

/// The end of a drain: its host is empty, or the drain failed or was canceled.
fn drain_ended(region: &Region, row: &HistoryRow, fact: &OperationFact) -> Option<Message> {
    let id = row.operation.filter(|_| matches!(fact.request, Some(Request::Drain(_))))?;
    let result = match &fact.result {
        OperationResult::Succeeded => "Succeeded",
        OperationResult::Failed(_) => "Failed",
        OperationResult::Canceled { .. } => "Canceled",
    };
    let data = DrainEnded {
        host: region.operation(id).and_then(|operation| operation.request.host()).map(|host| &**host),
        operation: &id.to_string(),
        requested_by: &fact.requested_by,
        result,
    };
    Some(build(row, id, &format!("/operations/{id}"), data))
}

/// The ID is derived from the row, so that a repeated delivery has the same one.
fn build(row: &HistoryRow, about: Guid, subject: &str, data: impl NotificationData) -> Message {
    let id = about.derive(row.number);
    let time = Time(row.at.0).to_string();
    let notification = Notification { message_id: id.0, time: &time, subject, data };
    Message { id: guid::Lower(id.0).to_string(), body: notification.body(), at: row.at }
}
