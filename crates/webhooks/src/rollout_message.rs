//! Messages about rollouts, drains and hosts, made from rows of history. Messages about events are in `event_message`.

use forewarn_api_types::{EventOutcome, Time};
use forewarn_core::{GroupId, Guid, MachineId, OperationResult, Outcome, Region, Request};
use forewarn_render::{Convert, render_rollout};
use forewarn_store::{HistoryFact, HistoryRow, HostFact, OperationFact, RolloutFact};
use forewarn_wire::cloudevent::{self, Notification};
use forewarn_wire::guid;
use serde_json::{Map, Value, json};

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
    let group = fact.group.and_then(|group| region.group(GroupId(group))).map(|group| group.name.to_string());
    let machine = fact.machine.and_then(|id| region.machine(MachineId(id))).map(|machine| machine.name.to_string());
    let data = object([
        ("rollout", Some(json!(id.to_string()))),
        ("change", Some(json!(fact.change))),
        ("requestedBy", Some(json!(fact.requested_by))),
        ("failures", Some(json!(fact.failures))),
        ("type", known.as_ref().map(|rollout| json!(rollout.kind))),
        ("description", known.as_ref().and_then(|rollout| rollout.description.as_ref()).map(|text| json!(text))),
        ("steps", known.as_ref().map(|rollout| json!(rollout.steps.len()))),
        ("step", fact.step.map(|step| json!(step))),
        ("stepState", fact.step_state.map(|state| json!(state.as_str()))),
        ("outcome", fact.failure.as_ref().map(|outcome| json!(Convert::<EventOutcome>::convert(outcome)))),
        ("reason", fact.failure.as_ref().and_then(Outcome::failure_reason).map(|reason| json!(&**reason))),
        ("host", fact.host.as_ref().map(|host| json!(host))),
        ("group", group.map(|group| json!(group))),
        ("updateDomain", fact.domain.map(|domain| json!(domain))),
        ("machine", machine.map(|machine| json!(machine))),
        ("waitsFor", fact.waits_for.as_ref().map(|reason| json!(reason))),
    ]);
    Some(build(row, id, cloudevent::ROLLOUT_TYPE, &format!("/rollouts/{id}"), data))
}

fn host_changed(region: &Region, row: &HistoryRow, fact: &HostFact) -> Message {
    let host = region.host(&fact.host);
    let drain = host.and_then(|host| region.drain_of(&host.name)).map(|operation| operation.id.to_string());
    let data = object([
        ("host", Some(json!(fact.host))),
        ("state", fact.state.map(|state| json!(state.as_str()))),
        ("reachable", Some(json!(fact.reachable))),
        ("drain", drain.map(|id| json!(id))),
    ]);
    // A host has no ID. The time keeps the IDs of two deployments apart.
    let about = Guid(u128::from(row.at.0.unsigned_abs()));
    build(row, about, cloudevent::HOST_TYPE, &format!("/hosts/{}", fact.host), data)
}

/// The end of a drain: its host is empty, or the drain failed or was canceled.
fn drain_ended(region: &Region, row: &HistoryRow, fact: &OperationFact) -> Option<Message> {
    let id = row.operation.filter(|_| matches!(fact.request, Some(Request::Drain(_))))?;
    let host = region.operation(id).and_then(|operation| operation.request.host()).map(|host| json!(&**host));
    let result = match &fact.result {
        OperationResult::Succeeded => "Succeeded",
        OperationResult::Failed(_) => "Failed",
        OperationResult::Canceled { .. } => "Canceled",
    };
    let data = object([
        ("operation", Some(json!(id.to_string()))),
        ("host", host),
        ("requestedBy", Some(json!(fact.requested_by))),
        ("result", Some(json!(result))),
    ]);
    Some(build(row, id, cloudevent::DRAIN_TYPE, &format!("/operations/{id}"), data))
}

/// The ID is derived from the row, so that a repeated delivery has the same one.
fn build(row: &HistoryRow, about: Guid, message_type: &str, subject: &str, data: Value) -> Message {
    let id = about.derive(row.number);
    let time = Time(row.at.0).to_string();
    let notification = Notification { message_id: id.0, message_type, time: &time, subject, data };
    Message { id: guid::Lower(id.0).to_string(), body: notification.body().to_string(), at: row.at }
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}
