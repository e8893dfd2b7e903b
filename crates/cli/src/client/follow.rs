//! Waits for operations: fetch, show the remaining time, wait for a relevant change, fetch again. The stream of changes is
//! opened before the first fetch, so that no change is missed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forewarn_api_types::{Clock, Event, EventId, EventStatus, HistoryRow, Id, Operation, OperationPhase, Time};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Api, Call, Change, Changes, actor_name, clock_advice, describe, format_time, format_time_left, format_timeline,
    is_manual, now_since, operation_noun, status_word, unannounced_reason,
};
use crate::args::Output;
use crate::decode::decode;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, ApiValue, StatusLine};

/// Interval at which the remaining time is rewritten.
const TICK: Duration = Duration::from_secs(1);

/// An event that has not started this long after its NotBefore is held up; the operation says why.
const LATE: SignedDuration = SignedDuration::from_secs(2);

/// Prints operations that were started and are not waited for.
pub fn print_started(api: &Api, operations: ApiValue<'_>, output: Output) -> Result<(), Failure> {
    output::print_answer(operations, output, |operations: &[Operation]| {
        operations.iter().try_for_each(|operation| print_started_operation(api, operation.clone()))
    })
}

fn print_started_operation(api: &Api, operation: Operation) -> Result<(), Failure> {
    let mut view = OperationView::new(operation);
    view.refresh_events(api)?;
    for event in view.events.values() {
        output::print_line(&introduce(event))?;
    }
    output::print_line(&format!("Operation {} {}.", view.operation.id, describe_state(view.operation.state)))
}

/// Waits until an operation has finished. Fails with [`Failure::Failed`] if it did not succeed.
pub fn wait(api: &Api, operation_id: Id, output: Output) -> Result<(), Failure> {
    let (view, value) = wait_until_finished(api, operation_id)?;
    let lines = |_: &Operation| view.render_lines(Labels::WhenSeveral);
    output::print_one(&value, output, lines)?;
    view.check_result()
}

/// Waits until all operations have finished; fails with the first failure.
pub fn wait_all(api: &Api, operation_ids: &[Id], output: Output) -> Result<(), Failure> {
    let (mut views, mut values) = (Vec::new(), Vec::new());
    for &id in operation_ids {
        let (view, value) = wait_until_finished(api, id)?;
        views.push(view);
        values.push(value);
    }
    output::print_answer(ApiValue::Many(&values), output, |_: &[Operation]| {
        views.iter().flat_map(|view| view.render_lines(Labels::Always)).try_for_each(|line| output::print_line(&line))
    })?;
    views.iter().try_for_each(OperationView::check_result)
}

fn wait_until_finished(api: &Api, operation_id: Id) -> Result<(OperationView, Value), Failure> {
    let mut changes = Changes::open(api)?;
    let mut view = OperationView::new(decode(&api.get(&Call::api(&["operations", &operation_id.to_string()]))?)?);
    let _interrupt = interrupt::explain(format!(
        "Stopped waiting; the {} continues. Show it with `forewarn operation show {operation_id}`, or cancel it with \
         `forewarn operation cancel {operation_id}`.",
        view.subject()
    ));
    let mut status = StatusLine::new();
    loop {
        let value = view.refresh(api)?;
        view.report_progress(&mut status);
        if view.operation.state != OperationPhase::Running {
            return Ok((view, value));
        }
        view.announce(&mut status);
        view.announce_manual_clock(&mut status);
        wait_for_change(api, &mut changes, &mut view, &mut status)?;
    }
}

fn wait_for_change(
    api: &Api,
    changes: &mut Changes<'_>,
    view: &mut OperationView,
    status: &mut StatusLine,
) -> Result<(), Failure> {
    status.show(&view.status_text());
    loop {
        match changes.next(TICK)? {
            Change::Row(row) if view.concerns(&decode(&row)?) => return Ok(()),
            Change::Row(_) => {}
            Change::Timeout => {
                view.follow_manual_clock(api)?;
                view.follow_obstacle(api)?;
                status.show(&view.status_text());
            }
            Change::Unreachable => status.show_reconnecting(),
            Change::Reconnected => return Ok(()),
        }
    }
}

fn optional_suffix(before: &str, text: Option<&str>) -> String {
    text.map_or(String::new(), |text| format!("{before}{}", output::escape(text)))
}

/// Whether lines name the event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labels {
    Always,
    WhenSeveral,
}

/// The latest known state of an operation.
struct OperationView {
    operation: Operation,
    /// By position in the operation.
    events: BTreeMap<usize, Event>,
    clock: Option<(Clock, Instant)>,
    announced: Vec<EventId>,
    /// Lines of the timeline that were printed.
    reported: Vec<String>,
    clock_mentioned: bool,
}

impl OperationView {
    fn new(operation: Operation) -> OperationView {
        OperationView {
            operation,
            events: BTreeMap::new(),
            clock: None,
            announced: Vec::new(),
            reported: Vec::new(),
            clock_mentioned: false,
        }
    }

    fn refresh(&mut self, api: &Api) -> Result<Value, Failure> {
        let value = api.get(&Call::api(&["operations", &self.operation.id.to_string()]))?;
        self.operation = decode(&value)?;
        self.refresh_events(api)?;
        self.refresh_clock(api)?;
        Ok(value)
    }

    fn refresh_clock(&mut self, api: &Api) -> Result<(), Failure> {
        self.clock = Some((decode(&api.get(&Call::api(&["clock"]))?)?, Instant::now()));
        Ok(())
    }

    /// Moving a manual clock does not always cause a change, so it is polled.
    fn follow_manual_clock(&mut self, api: &Api) -> Result<(), Failure> {
        let is_manual = self.clock.as_ref().is_some_and(|(clock, _)| is_manual(clock));
        if is_manual { self.refresh_clock(api) } else { Ok(()) }
    }

    /// The operation does not change when the notice ends or when something then holds the event up, so both are polled.
    fn follow_obstacle(&mut self, api: &Api) -> Result<(), Failure> {
        if self.events.values().any(|event| event.started.is_none() && self.is_held_up(event)) {
            self.operation = decode(&api.get(&Call::api(&["operations", &self.operation.id.to_string()]))?)?;
        }
        Ok(())
    }

    /// Whether an event could have started: it is due, or approved.
    fn is_held_up(&self, event: &Event) -> bool {
        let is_late = |now: Timestamp| now.duration_since(event.not_before.timestamp()) > LATE;
        event.approval.is_some() || self.now().is_some_and(is_late)
    }

    /// Finished events do not change.
    fn refresh_events(&mut self, api: &Api) -> Result<(), Failure> {
        for (place, part) in self.operation.events.iter().enumerate() {
            if self.events.get(&place).is_some_and(|event| event.ended.is_some()) {
                continue;
            }
            let event = match api.get(&Call::api(&["events", &part.id.to_string()])) {
                Ok(value) => Some(decode(&value)?),
                // History no longer contains the event.
                Err(Failure::Refused(_)) => None,
                Err(failure) => return Err(failure),
            };
            self.events.extend(event.map(|event| (place, event)));
        }
        Ok(())
    }

    fn concerns(&self, row: &HistoryRow) -> bool {
        row.operation == Some(self.operation.id)
            || self.operation.events.iter().any(|part| row.event == Some(part.id))
            || row.machines.iter().any(|name| self.operation.machines.contains(name))
    }

    /// Prints each event once, with the ID that approves or cancels it.
    fn announce(&mut self, status: &mut StatusLine) {
        for event in self.events.values().filter(|event| event.ended.is_none()) {
            if !self.announced.contains(&event.id) {
                status.clear();
                output::print_stderr(&introduce(event));
                self.announced.push(event.id);
            }
        }
    }

    /// Prints each step of the timelines once, on a terminal.
    fn report_progress(&mut self, status: &mut StatusLine) {
        if !status.is_terminal() {
            return;
        }
        for line in self.events.values().filter(|event| self.announced.contains(&event.id)).flat_map(timeline_steps) {
            if !self.reported.contains(&line) {
                status.clear();
                output::print_stderr(&line);
                self.reported.push(line);
            }
        }
    }

    /// Mentions once that a manual clock does not advance by itself.
    fn announce_manual_clock(&mut self, status: &mut StatusLine) {
        let advice = self.clock.as_ref().and_then(|(clock, _)| clock_advice(clock));
        if let Some(advice) = advice.filter(|_| !self.clock_mentioned) {
            status.clear();
            output::print_stderr(&advice);
            self.clock_mentioned = true;
        }
    }

    fn status_text(&self) -> String {
        let open = self.events.values().find(|event| event.ended.is_none());
        let what = match (open, self.operation.resume) {
            (Some(event), _) => format!("{}{}", describe(event.kind.as_str(), &event.resources), self.progress(event)),
            (None, Some(resume)) => format!("Next update domain at {}", format_time(resume)),
            (None, None) => format!("{} is running", self.subject()),
        };
        format!("{what} (Ctrl-C: stop waiting)")
    }

    /// The part of the status line after the name of an open event.
    fn progress(&self, event: &Event) -> String {
        let approved =
            event.approval.as_ref().map(|approval| format!("approved by {}", actor_name(&approval.approved_by)));
        if event.started.is_some() {
            return approved.map_or(" is Started".into(), |approved| format!(" is Started, {approved}"));
        }
        if let Some(wait) = self.operation.waits_for.first().filter(|_| self.is_held_up(event)) {
            return format!(": waiting for {}", wait.describe(format_time, output::escape));
        }
        let left = match self.now() {
            Some(now) => format!("{} left", format_time_left(event.not_before.timestamp(), now)),
            None => describe_status(event),
        };
        format!(": {left}, {}", approved.unwrap_or_else(|| "waiting for approval".to_owned()))
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().and_then(|(clock, seen)| now_since(clock, *seen))
    }

    fn render_lines(&self, labels: Labels) -> Vec<String> {
        match (self.events.len(), labels) {
            (0, _) => vec![format!("{} finished: {}.", self.subject(), self.operation.state)],
            (1, Labels::WhenSeveral) => self.events.values().map(format_timeline).collect(),
            (_, Labels::WhenSeveral | Labels::Always) => {
                let line = |event: &Event| {
                    format!("{}: {}", describe(event.kind.as_str(), &event.resources), format_timeline(event))
                };
                self.events.values().map(line).collect()
            }
        }
    }

    fn check_result(&self) -> Result<(), Failure> {
        let outcome = self.operation.outcome.map(|outcome| outcome.as_str());
        let because = self.operation.reason.as_deref().or(outcome);
        match (self.operation.state, because) {
            (OperationPhase::Succeeded, _) => Ok(()),
            (OperationPhase::Canceled, _) => {
                let by = optional_suffix(" by ", self.operation.canceled_by.as_deref());
                Err(Failure::Failed(format!("operation canceled{by}: {}", self.subject())))
            }
            (OperationPhase::Failed | OperationPhase::Running | OperationPhase::Unknown(_), because) => {
                Err(Failure::Failed(format!("operation failed: {}{}", self.subject(), optional_suffix(": ", because))))
            }
        }
    }

    fn subject(&self) -> String {
        let operation = &self.operation;
        let what = operation_noun(operation.kind);
        match (&operation.host, &operation.group) {
            (Some(host), _) => format!("{what} of host {host}"),
            (None, Some(group)) => format!("{what} of {group}"),
            (None, None) => describe(what, &operation.machines),
        }
    }
}

/// `Reboot of web_1: event 602D…, Scheduled, NotBefore 2026-07-28 10:15:00`.
fn introduce(event: &Event) -> String {
    format!("{}: event {}, {}", describe(event.kind.as_str(), &event.resources), event.id, describe_status(event))
}

/// The steps of an open event so far: `10:00:12  Reboot of web_1 approved by web_1`.
fn timeline_steps(event: &Event) -> Vec<String> {
    let what = describe(event.kind.as_str(), &event.resources);
    let line = |at: Time, text: String| format!("{}  {what} {text}", at.timestamp().strftime("%H:%M:%S"));
    let approval = event.approval.as_ref();
    let approved = approval
        .map(|approval| line(approval.approved_at, format!("approved by {}", actor_name(&approval.approved_by))));
    let started = event.started.map(|at| line(at, "started".into()));
    approved.into_iter().chain(started).collect()
}

fn describe_state(state: OperationPhase) -> &'static str {
    match state {
        OperationPhase::Running => "is running",
        OperationPhase::Succeeded => "has succeeded",
        OperationPhase::Failed => "has failed",
        OperationPhase::Canceled => "was canceled",
        OperationPhase::Unknown(word) => word.as_str(),
    }
}

/// The status of an event, for a person.
pub fn describe_status(event: &Event) -> String {
    match event.status {
        EventStatus::Scheduled => format!("Scheduled, NotBefore {}", format_time(event.not_before)),
        EventStatus::Started | EventStatus::Ended | EventStatus::Unknown(_) => {
            let reason = unannounced_reason(event).map_or(String::new(), |reason| format!(" ({reason})"));
            format!("{}{reason}", status_word(event))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::sample;

    #[test]
    fn the_status_fits_80_columns() {
        let host = serde_json::json!([{"reason": "Host", "host": "node1", "machines": ["web_1"]}]);
        let event = serde_json::json!([{"reason": "Event", "machines": ["web_1"]}]);
        let approvals = serde_json::json!([
            {"reason": "Approvals", "approvalsMissing": 1, "approvalsTotal": 1, "machines": ["web_1"]}
        ]);
        let check = |now: &str, waits: &serde_json::Value, facts: serde_json::Value, expected: &str| {
            let clock = serde_json::json!({"kind": "Manual", "now": now, "noticeScale": 1});
            let mut view = OperationView::new(sample::operation(serde_json::json!({"waitsFor": waits})));
            view.events.insert(0, sample::event(facts));
            view.clock = Some((decode(&clock).unwrap(), Instant::now()));
            assert_eq!(view.status_text(), format!("Reboot of web_1{expected} (Ctrl-C: stop waiting)"));
            assert!(view.status_text().len() <= 80);
        };
        let nothing = serde_json::json!({});
        let none = serde_json::json!([]);
        check("2026-07-28T10:00:28Z", &approvals, nothing.clone(), ": 14:32 left, waiting for approval");
        check("2026-07-28T10:15:01Z", &none, nothing.clone(), ": 0:00 left, waiting for approval");
        check("2026-07-28T10:00:28Z", &host, nothing.clone(), ": 14:32 left, waiting for approval");
        check("2026-07-28T10:15:30Z", &host, nothing.clone(), ": waiting for host node1");
        check("2026-07-28T10:15:30Z", &event, nothing, ": waiting for another event on web_1");
        check("2026-07-28T10:15:30Z", &none, serde_json::json!({"started": "2026-07-28T10:15:00Z"}), " is Started");
        let approval = serde_json::json!({"approvedBy": "guest:web_1", "approvedAt": "2026-07-28T10:00:12Z"});
        let approved = serde_json::json!({"approval": approval});
        check("2026-07-28T10:00:28Z", &none, approved.clone(), ": 14:32 left, approved by web_1");
        check("2026-07-28T10:00:28Z", &host, approved, ": waiting for host node1");
        let started = serde_json::json!({"approval": approval, "started": "2026-07-28T10:00:12Z"});
        check("2026-07-28T10:00:28Z", &none, started, " is Started, approved by web_1");
    }

    #[test]
    fn states_are_described() {
        let described = OperationPhase::ALL.iter().copied().map(describe_state).collect::<Vec<_>>();
        assert_eq!(described, ["is running", "has succeeded", "has failed", "was canceled"]);
    }
}
