//! Reads from history: the start time of finished events, and events that the server has forgotten, which it does an
//! hour after they finish.

use forewarn_api_types::{
    Approval, Event, EventCause, EventId, EventOutcome, EventSource, EventStatus, EventType, HistoryRow, Id, Time,
};

use super::{Api, Call};
use crate::decode::decode_all;
use crate::failure::Failure;

/// Adds the start time to a finished event.
pub fn add_start(api: &Api, mut event: Event) -> Result<Event, Failure> {
    if event.ended.is_some() && event.started.is_none() {
        event.started = fetch_rows(api, event.id)?.iter().find(|row| row.kind == "started").map(|row| row.at);
    }
    Ok(event)
}

pub fn find_event(api: &Api, id: EventId) -> Result<Option<Event>, Failure> {
    Ok(build_event(id, &fetch_rows(api, id)?))
}

/// The operation that an event belongs to.
pub fn find_operation(api: &Api, event_id: EventId) -> Result<Option<Id>, Failure> {
    Ok(fetch_rows(api, event_id)?.into_iter().find_map(|row| row.operation))
}

fn fetch_rows(api: &Api, event_id: EventId) -> Result<Vec<HistoryRow>, Failure> {
    decode_all(&api.list(Call::api(&["history"]).with("event", Some(event_id)))?)
}

fn build_event(id: EventId, rows: &[HistoryRow]) -> Option<Event> {
    let of_kind = |kind: &str| rows.iter().find(|row| row.kind == kind);
    let first = rows.first()?;
    let ended = of_kind("ended");
    let text = |name: &str| first.detail_text(name).unwrap_or_default();
    let outcome = ended.and_then(|row| EventOutcome::parse(&to_api_word(row.outcome.as_deref()?)));
    Some(Event {
        id,
        number: 0,
        kind: EventType::parse(text("type"))?,
        status: EventStatus::Ended,
        outcome,
        reason: ended.and_then(|row| row.detail_text("reason").map(str::to_owned)),
        canceled_by: ended.and_then(|row| row.actor.clone()),
        // Rows of the first stored format have no cause.
        cause: EventCause::parse(&to_api_word(text("cause"))).unwrap_or(EventCause::HostMaintenance),
        source: EventSource::parse(text("source")).unwrap_or(EventSource::Platform),
        visible: of_kind("appeared").is_some(),
        event_group: first.event_group.unwrap_or_default(),
        resources: first.machines.clone(),
        appeared: first.at,
        not_before: Time::parse(text("not_before")).unwrap_or(first.at),
        started: of_kind("started").map(|row| row.at),
        ended: ended.map(|row| row.at),
        approval: of_kind("approved")
            .and_then(|row| Some(Approval { approved_by: row.actor.clone()?, approved_at: row.at })),
        description: text("description").to_owned(),
        duration_seconds: -1,
        operations: first.operation.into_iter().collect(),
        hosts: Vec::new(),
    })
}

/// Converts an outcome from history, `timed-out`, to the spelling of the API, `TimedOut`.
fn to_api_word(word: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    word.split('-').filter(|part| part.is_ascii() && !part.is_empty()).map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_timeline;
    use serde_json::json;

    #[test]
    fn a_forgotten_event_is_rebuilt_from_its_rows() {
        let row = |minute: u32, kind: &str, outcome: Option<&str>, actor: Option<&str>| {
            json!({"at": format!("2026-07-28T10:{minute:02}:00Z"), "kind": kind, "outcome": outcome, "actor": actor,
                "number": minute, "machines": ["web_1"], "operation": "51941b56-8080-45ac-81ae-8bda818f5958", "detail": {"type": "Reboot"}})
        };
        let rows = [
            row(0, "appeared", Some("Reboot"), None),
            row(1, "approved", None, Some("guest:web_1")),
            row(2, "started", None, None),
            row(3, "ended", Some("timed-out"), None),
        ];
        let event = build_event(EventId(7), &decode_all(&rows).unwrap()).unwrap();
        let expected = "Scheduled 10:00:00 · approved by web_1 10:01:00 · Started 10:02:00 · TimedOut 10:03:00";
        assert_eq!((event.kind, format_timeline(&event).as_str()), (EventType::Reboot, expected));
    }
}
