//! Text for events and operations, such as the timeline `Scheduled 10:00:00 · approved by web_1 10:00:12 · Started
//! 10:00:12 · Completed 10:01:20`. Times are in UTC.

use forewarn_api_types::{Event, EventOutcome, EventType, OperationKind, Time, join_first};
use jiff::Timestamp;

use crate::terminal::escape;

pub fn format_timeline(event: &Event) -> String {
    let mut steps = Steps::default();
    let announced = event.started.is_none_or(|started| started > event.appeared) || event.approval.is_some();
    if event.visible && announced {
        steps.add("Scheduled", event.appeared);
    }
    if let Some(approval) = &event.approval {
        steps.add(&format!("approved by {}", actor_name(&approval.approved_by)), approval.approved_at);
    }
    if let Some(started) = event.started {
        steps.add("Started", started);
    }
    if let Some(ended) = event.ended {
        steps.add(&describe_end(event), ended);
    }
    let unseen = unannounced_reason(event).map_or(String::new(), |reason| format!(" ({reason})"));
    format!("{}{unseen}", escape(&steps.words.join(" · ")))
}

/// Why machines did not see an event. Deletions are also silent if the machine has no terminate notification.
pub fn unannounced_reason(event: &Event) -> Option<&'static str> {
    match event.kind {
        _ if event.visible => None,
        EventType::Terminate => Some("without notice"),
        EventType::Freeze
        | EventType::Reboot
        | EventType::Redeploy
        | EventType::Preempt
        | EventType::SpotRebalanceRecommendation => Some("no handler connected"),
    }
}

#[derive(Default)]
struct Steps {
    words: Vec<String>,
    day: Option<String>,
}

impl Steps {
    /// Writes the day only when it differs from the previous one.
    fn add(&mut self, what: &str, at: Time) {
        let day = at.timestamp().strftime("%Y-%m-%d").to_string();
        let same = self.day.as_ref().is_none_or(|before| *before == day);
        let time = if same { at.timestamp().strftime("%H:%M:%S").to_string() } else { format_time(at) };
        self.words.push(format!("{what} {time}"));
        self.day = Some(day);
    }
}

fn describe_end(event: &Event) -> String {
    match (event.outcome, event.canceled_by.as_deref().or(event.reason.as_deref())) {
        (Some(EventOutcome::Canceled), Some(by)) => format!("Canceled by {}", actor_name(by)),
        (Some(outcome), Some(reason)) => format!("{outcome} ({reason})"),
        (Some(outcome), None) => outcome.to_string(),
        (None, Some(reason)) => format!("Ended ({reason})"),
        (None, None) => "Ended".into(),
    }
}

/// The name without its prefix: `web_1` for `guest:web_1`.
pub fn actor_name(actor: &str) -> &str {
    actor.split_once(':').map_or(actor, |(_, name)| name)
}

/// `2026-07-28 10:00:00`.
pub fn format_time(at: Time) -> String {
    at.timestamp().strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `14:32`, `2:00:05`, `0:00` when it is past.
pub fn format_time_left(until: Timestamp, now: Timestamp) -> String {
    let secs = until.duration_since(now).as_secs().max(0);
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{secs:02}") } else { format!("{minutes}:{secs:02}") }
}

/// `Reboot of web_1, web_2`.
pub fn describe(kind: &str, resources: &[String]) -> String {
    if resources.is_empty() { kind.into() } else { escape(&format!("{kind} of {}", join_few(resources))) }
}

/// Machines named in one line of text.
const NAMED_MAX: usize = 3;

/// `web_1, web_2, web_3 and 6 more`.
pub fn join_few(names: &[String]) -> String {
    escape(&join_first(names, names.len(), NAMED_MAX))
}

/// The name of an operation kind in text.
pub fn operation_noun(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Evict => "Eviction",
        OperationKind::RecommendRebalance => "Rebalance recommendation",
        OperationKind::Delete => "Deletion",
        OperationKind::Maintain | OperationKind::PerformMaintenance => "Maintenance",
        OperationKind::Drain => "Drain",
        OperationKind::Fail => "Hardware failure",
        OperationKind::Restart | OperationKind::Redeploy | OperationKind::Unknown(_) => kind.as_str(),
    }
}

/// The outcome of a finished event, or its status.
pub fn status_word(event: &Event) -> &'static str {
    event.outcome.map_or(event.status.as_str(), EventOutcome::as_str)
}

/// All details of an event.
pub fn event_facts(event: &Event) -> Vec<(&'static str, String)> {
    let duration = Some(event.duration_seconds).filter(|seconds| *seconds >= 0);
    let mut facts = vec![
        ("event", event.id.to_string()),
        ("type", event.kind.to_string()),
        ("status", status_word(event).to_owned()),
        ("machines", event.resources.join(", ")),
        ("not before", format_time(event.not_before)),
        ("timeline", format_timeline(event)),
    ];
    facts.push(("source", event.source.to_string()));
    facts.push(("cause", event.cause.to_string()));
    facts.extend(duration.map(|seconds| ("duration", format!("{seconds} s"))));
    facts.push(("description", event.description.clone()));
    facts.extend(event.operations.iter().map(|id| ("operation", id.to_string())));
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::{Value, json};

    fn check(facts: Value, expected: &str) {
        assert_eq!(format_timeline(&sample::event(facts)), expected);
    }

    #[test]
    fn timelines_are_one_line() {
        check(
            json!({"approval": {"approvedBy": "guest:web_1", "approvedAt": "2026-07-28T10:00:12Z"}, "started": "2026-07-28T10:00:12Z",
                "ended": "2026-07-28T10:01:20Z", "outcome": "Completed"}),
            "Scheduled 10:00:00 · approved by web_1 10:00:12 · Started 10:00:12 · Completed 10:01:20",
        );
        check(
            json!({"started": "2026-07-28T10:15:00Z", "ended": "2026-07-29T00:00:00Z", "outcome": "Failed", "reason": "no power"}),
            "Scheduled 10:00:00 · Started 10:15:00 · Failed (no power) 2026-07-29 00:00:00",
        );
        check(
            json!({"ended": "2026-07-28T10:01:00Z", "outcome": "Canceled", "canceledBy": "management:eve"}),
            "Scheduled 10:00:00 · Canceled by eve 10:01:00",
        );
        check(
            json!({"visible": false, "started": "2026-07-28T10:00:00Z", "ended": "2026-07-28T10:01:00Z", "outcome": "Completed"}),
            "Started 10:00:00 · Completed 10:01:00 (no handler connected)",
        );
    }

    #[test]
    fn many_names_are_counted() {
        let names = |n: usize| (0..n).map(|i| format!("m{i}")).collect::<Vec<_>>();
        assert_eq!(describe("Freeze", &names(3)), "Freeze of m0, m1 and m2");
        assert_eq!(describe("Freeze", &names(9)), "Freeze of m0, m1, m2 and 6 more");
    }

    #[test]
    fn time_left_is_short() {
        let check = |secs: i64, expected: &str| {
            let now = Timestamp::from_second(1_000_000).unwrap();
            assert_eq!(format_time_left(Timestamp::from_second(1_000_000 + secs).unwrap(), now), expected);
        };
        check(872, "14:32");
        check(7205, "2:00:05");
        check(-3, "0:00");
    }
}
