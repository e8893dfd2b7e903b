//! Waiting for an operation: look, show how much time is left, wait for a change that concerns it, look
//! again. The stream is opened before the first look, so nothing can happen in between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Api, Call, Changes, Clock, Event, HistoryRow, Next, Operation, day_time, describe, noun, past, read, timeline,
};
use crate::args::Output;
use crate::failure::Failure;
use crate::output::{self, StatusLine};

/// How often the time that is left is written anew.
const TICK: Duration = Duration::from_secs(1);

/// An event starts at its NotBefore or soon after, unless another one holds it up.
const LATE: SignedDuration = SignedDuration::from_secs(2);

/// What was asked for and is not waited for.
pub fn asked(api: &Api, operation: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(operation);
    }
    let mut look = Look::new(read(operation)?);
    look.refresh_events(api)?;
    for event in look.events.values() {
        output::line(&introduction(event))?;
    }
    output::line(&format!("Operation {} {}.", look.operation.id, state_words(&look.operation.state)))
}

/// Until the operation is over. What became of it is the result: success, or [`Failure::Ended`].
pub fn wait(api: &Api, operation_id: &str, output: Output) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    let mut look = Look::new(read(&api.get(&Call::to(&["operations", operation_id]))?)?);
    let mut status = StatusLine::new();
    loop {
        let value = look.refresh(api)?;
        if look.operation.state != "Running" {
            drop(status);
            return finish(&look, &value, output);
        }
        look.announce(&mut status);
        next_change(&mut changes, &look, &mut status)?;
    }
}

fn next_change(changes: &mut Changes<'_>, look: &Look, status: &mut StatusLine) -> Result<(), Failure> {
    status.show(&look.status_text());
    loop {
        match changes.next(TICK)? {
            Next::Row(row) if look.concerns(&read(&row)?) => return Ok(()),
            Next::Row(_) | Next::Nothing => status.show(&look.status_text()),
            Next::Gone => status.show_gone(),
            Next::Again => return Ok(()),
        }
    }
}

fn finish(look: &Look, value: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => output::json(value)?,
        Output::Table => look.lines().iter().try_for_each(|line| output::line(line))?,
    }
    let operation = &look.operation;
    let because = operation.reason.as_deref().or(operation.outcome.as_deref());
    match (operation.state.as_str(), because) {
        ("Succeeded", _) => Ok(()),
        ("Canceled", by) => Err(Failure::Ended(format!("{} was cancelled{}.", look.subject(), phrase(" by ", by)))),
        (_, because) => Err(Failure::Ended(format!("{} failed{}.", look.subject(), phrase(": ", because)))),
    }
}

fn phrase(before: &str, text: Option<&str>) -> String {
    text.map_or(String::new(), |text| format!("{before}{}", output::tame(text)))
}

/// The operation as it was last seen.
struct Look {
    operation: Operation,
    /// In order of appearance as far as the operation names them so.
    events: BTreeMap<usize, Event>,
    clock: Option<(Clock, Instant)>,
    announced: Vec<String>,
}

impl Look {
    fn new(operation: Operation) -> Look {
        Look { operation, events: BTreeMap::new(), clock: None, announced: Vec::new() }
    }

    fn refresh(&mut self, api: &Api) -> Result<Value, Failure> {
        let value = api.get(&Call::to(&["operations", &self.operation.id]))?;
        self.operation = read(&value)?;
        self.refresh_events(api)?;
        self.clock = Some((read(&api.get(&Call::to(&["clock"]))?)?, Instant::now()));
        Ok(value)
    }

    /// An event that is over does not change, and is forgotten by the server after a while.
    fn refresh_events(&mut self, api: &Api) -> Result<(), Failure> {
        for (place, part) in self.operation.events.iter().enumerate() {
            if self.events.get(&place).is_some_and(|event| event.ended.is_some()) {
                continue;
            }
            let event = match api.get(&Call::to(&["events", &part.id])) {
                Ok(value) => Some(past::with_start(api, read(&value)?)?),
                Err(Failure::Refused(_)) => past::event(api, &part.id)?,
                Err(failure) => return Err(failure),
            };
            self.events.extend(event.map(|event| (place, event)));
        }
        Ok(())
    }

    fn concerns(&self, row: &HistoryRow) -> bool {
        let same = |a: &Option<String>, b: &str| a.as_ref().is_some_and(|a| a.eq_ignore_ascii_case(b));
        same(&row.operation, &self.operation.id)
            || self.operation.events.iter().any(|part| same(&row.event, &part.id))
            || row.machines.iter().any(|name| self.operation.machines.contains(name))
    }

    /// Each event is mentioned once, with the id by which it can be approved or cancelled.
    fn announce(&mut self, status: &mut StatusLine) {
        for event in self.events.values().filter(|event| event.ended.is_none()) {
            if !self.announced.contains(&event.id) {
                status.clear();
                output::aside(&introduction(event));
                self.announced.push(event.id.clone());
            }
        }
    }

    fn status_text(&self) -> String {
        let open = self.events.values().find(|event| event.ended.is_none());
        let what = match (open, self.operation.resume) {
            (Some(event), _) if event.started.is_some() => {
                format!("{} is Started", describe(&event.kind, &event.resources))
            }
            (Some(event), _) => {
                let left = match self.now() {
                    Some(now) if now.duration_since(event.not_before) > LATE => "waits for another event to end".into(),
                    Some(now) => format!("{} left", time_left(event.not_before, now)),
                    None => standing(event),
                };
                format!("{}: {left}", describe(&event.kind, &event.resources))
            }
            (None, Some(resume)) => format!("The next update domain is due at {}", day_time(resume)),
            (None, None) => format!("{} is running", self.subject()),
        };
        format!("{what} (Ctrl-C: stop waiting)")
    }

    /// The server's time. A manual clock stands still while nobody advances it.
    fn now(&self) -> Option<Timestamp> {
        let (clock, seen) = self.clock.as_ref()?;
        let passed = if clock.kind == "Manual" { Duration::ZERO } else { seen.elapsed() };
        clock.now.checked_add(passed).ok()
    }

    fn lines(&self) -> Vec<String> {
        match self.events.len() {
            0 => vec![format!("{} is over: {}.", self.subject(), self.operation.state)],
            1 => self.events.values().map(timeline).collect(),
            _ => {
                let line = |event: &Event| format!("{}: {}", describe(&event.kind, &event.resources), timeline(event));
                self.events.values().map(line).collect()
            }
        }
    }

    fn subject(&self) -> String {
        let operation = &self.operation;
        let what = noun(&operation.kind);
        match (&operation.host, &operation.group) {
            (Some(host), _) => format!("{what} of host {host}"),
            (None, Some(group)) => format!("{what} of {group}"),
            (None, None) => describe(what, &operation.machines),
        }
    }
}

/// `Reboot of web_1: event 602D…, Scheduled, NotBefore 2026-07-28 10:15:00`.
fn introduction(event: &Event) -> String {
    format!("{}: event {}, {}", describe(&event.kind, &event.resources), event.id, standing(event))
}

fn state_words(state: &str) -> String {
    match state {
        "Running" => "is running".into(),
        "Canceled" => "was cancelled".into(),
        over => format!("has {}", over.to_lowercase()),
    }
}

fn standing(event: &Event) -> String {
    match event.status.as_str() {
        "Scheduled" => format!("Scheduled, NotBefore {}", day_time(event.not_before)),
        other => event.outcome.clone().unwrap_or_else(|| other.to_owned()),
    }
}

/// `14:32`, `2:00:05`, `0:00` when it is past.
fn time_left(until: Timestamp, now: Timestamp) -> String {
    let secs = until.duration_since(now).as_secs().max(0);
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{secs:02}") } else { format!("{minutes}:{secs:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_what_is_waited_for_in_80_columns() {
        let check = |now: &str, facts: serde_json::Value, expected: &str| {
            let operation = serde_json::json!({"id": "O", "kind": "Restart", "by": "b", "state": "Running"});
            let mut event = serde_json::json!({"id": "E", "type": "Reboot", "status": "Scheduled", "shown": true,
                "resources": ["web_1"], "appeared": "2026-07-28T10:00:00Z", "notBefore": "2026-07-28T10:15:00Z"});
            event.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
            let clock = serde_json::json!({"kind": "Manual", "now": now, "noticeScale": 1});
            let mut look = Look::new(read(&operation).unwrap());
            look.events.insert(0, read(&event).unwrap());
            look.clock = Some((read(&clock).unwrap(), Instant::now()));
            assert_eq!(look.status_text(), format!("Reboot of web_1{expected} (Ctrl-C: stop waiting)"));
            assert!(look.status_text().len() < 80);
        };
        let nothing = serde_json::json!({});
        check("2026-07-28T10:00:28Z", nothing.clone(), ": 14:32 left");
        check("2026-07-28T10:15:01Z", nothing.clone(), ": 0:00 left");
        check("2026-07-28T10:15:30Z", nothing, ": waits for another event to end");
        check("2026-07-28T10:15:30Z", serde_json::json!({"started": "2026-07-28T10:15:00Z"}), " is Started");
    }

    #[test]
    fn states_are_said_in_english() {
        let said = ["Running", "Succeeded", "Failed", "Canceled"].map(state_words);
        assert_eq!(said, ["is running", "has succeeded", "has failed", "was cancelled"]);
    }

    #[test]
    fn time_left_is_short() {
        let check = |secs: i64, expected: &str| {
            let now = Timestamp::from_second(1_000_000).unwrap();
            assert_eq!(time_left(Timestamp::from_second(1_000_000 + secs).unwrap(), now), expected);
        };
        check(872, "14:32");
        check(7205, "2:00:05");
        check(-3, "0:00");
    }
}
