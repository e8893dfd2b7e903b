//! A row of history as text: one cell of a table, or a whole line.

use forewarn_api_types::HistoryRow;

use super::format_time;
use crate::terminal::escape;

/// `ended completed`, `ended failed (no power)`, `audit machine.register web_1`.
pub fn describe_row(row: &HistoryRow) -> String {
    let words = [Some(&row.kind), row.outcome.as_ref(), row.target.as_ref()];
    let reason = row.detail_text("reason").map(|text| format!("({text})"));
    words.into_iter().flatten().chain(&reason).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// `2026-07-28 10:00:12  approved  web_1  by guest:web_1  602D9444-…`.
pub fn format_history_line(row: &HistoryRow) -> String {
    let mut words = vec![format_time(row.at), describe_row(row), row.machines.join(", ")];
    words.extend(row.actor.as_ref().map(|actor| format!("by {actor}")));
    words.extend(row.event.map(|id| id.to_string()));
    words.retain(|word| !word.is_empty());
    escape(&words.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;

    #[test]
    fn a_failed_event_is_shown_with_its_reason() {
        let row = serde_json::json!({"at": "2026-07-28T10:00:00Z", "kind": "ended", "outcome": "failed",
            "number": 1, "machines": ["web_1"], "event": "602D9444-D2CD-49C7-8624-8643E7171297", "detail": {"reason": "no power"}});
        let row: HistoryRow = decode(&row).unwrap();
        assert_eq!(
            format_history_line(&row),
            "2026-07-28 10:00:00  ended failed (no power)  web_1  602D9444-D2CD-49C7-8624-8643E7171297"
        );
    }
}
