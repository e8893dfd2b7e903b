//! `forewarn history`: what happened.

use crate::args::{HistoryArgs, Output};
use crate::client::{Api, Call, HistoryRow, day_time};
use crate::failure::Failure;
use crate::output::{self, Cell, Shown, tame};

pub fn run(api: &Api, args: &HistoryArgs) -> Result<(), Failure> {
    let kinds = (!args.kinds.is_empty()).then(|| args.kinds.join(","));
    let call = Call::to(&["history"])
        .with("event", args.event.as_ref())
        .with("operation", args.operation.as_ref())
        .with("machine", args.vm.as_ref())
        .with("kind", kinds)
        .with("since", args.since)
        .with("until", args.until)
        .with("newest", Some("true"))
        .with("limit", Some(args.limit));
    let answer = api.get(&call)?;
    let values = answer["value"].as_array().cloned().unwrap_or_default();
    if values.is_empty() && is_filtered(args) && args.connection.output == Output::Table {
        return output::line("Nothing matches.");
    }
    output::list::<HistoryRow>(&values, args.connection.output)
}

fn is_filtered(args: &HistoryArgs) -> bool {
    let names = [&args.vm, &args.event, &args.operation];
    names.iter().any(|name| name.is_some()) || !args.kinds.is_empty() || args.since.or(args.until).is_some()
}

impl Shown for HistoryRow {
    const HEAD: &'static [&'static str] = &["TIME", "WHAT", "MACHINES", "BY", "EVENT"];
    const NONE: &'static str = "Nothing has happened.";

    fn row(&self) -> Vec<Cell> {
        vec![
            Cell::new(day_time(self.at)),
            Cell::new(what(self)),
            Cell::new(self.machines.join(", ")),
            Cell::new(self.actor.clone().unwrap_or_default()),
            Cell::new(self.event.clone().unwrap_or_default()),
        ]
    }
}

/// `ended completed`, `ended failed (no power)`, `audit machine.register web_1`.
fn what(row: &HistoryRow) -> String {
    let words = [Some(&row.kind), row.outcome.as_ref(), row.target.as_ref()];
    let reason = row.detail["reason"].as_str().map(|text| format!("({text})"));
    words.into_iter().flatten().chain(&reason).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// One row as a line: `10:00:12 approved web_1 by guest:web_1 602D9444-…`.
pub fn sentence(row: &HistoryRow) -> String {
    let mut words = vec![day_time(row.at), what(row), row.machines.join(", ")];
    words.extend(row.actor.as_ref().map(|actor| format!("by {actor}")));
    words.extend(row.event.clone());
    words.retain(|word| !word.is_empty());
    tame(&words.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_with_its_reason() {
        let row = serde_json::json!({"at": "2026-07-28T10:00:00Z", "kind": "ended", "outcome": "failed",
            "machines": ["web_1"], "event": "E", "detail": {"reason": "no power"}});
        let row: HistoryRow = crate::client::read(&row).unwrap();
        assert_eq!(sentence(&row), "2026-07-28 10:00:00  ended failed (no power)  web_1  E");
    }
}
