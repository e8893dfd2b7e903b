//! The progress of an operation: how many of its machines the event was announced to, have seen it, are ready, went down, and are up
//! again.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use forewarn_core::{Event, EventKind, Operation, Outcome, Request, Resource, Status, Timestamp};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words;

use super::handler::Handler;
use super::page_context::PageContext;

#[derive(Template)]
#[template(path = "progress.html")]
struct Progress {
    stages: Vec<ProgressStage>,
}

struct ProgressStage {
    label: &'static str,
    done: usize,
    all: usize,
    class: &'static str,
    /// The missing machines, or the time. HTML.
    note: String,
}

impl ProgressStage {
    fn width(&self) -> usize {
        (100 * self.done).checked_div(self.all).unwrap_or(0)
    }
}

pub fn render_panel(context: &PageContext, operation: &Operation, events: &[&Arc<Event>]) -> Panel {
    let progress = Progress { stages: list_stages(context, operation, events) };
    Panel::with_content("progress", "Progress", &progress)
}

/// The number of machines in wanted events.
pub fn machines_in(events: &[&Arc<Event>], wanted: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| wanted(event)).map(|event| event.resources.len()).sum()
}

pub fn is_scheduled(event: &Event) -> bool {
    event.status == Status::Scheduled
}

/// The last start of the scheduled events.
fn find_last_start(events: &[&Arc<Event>]) -> Option<Timestamp> {
    events.iter().filter(|event| is_scheduled(event)).map(|event| event.not_before).max()
}

fn list_stages(context: &PageContext, operation: &Operation, events: &[&Arc<Event>]) -> Vec<ProgressStage> {
    // Events that ended more than an hour ago are gone. Each had one machine at least.
    let forgotten = operation.parts.len().saturating_sub(events.len());
    let all = machines_in(events, |_| true) + forgotten;
    let announced = machines_in(events, Event::is_shown);
    let has_impact = events.iter().all(|event| event.kind != EventKind::SpotRebalanceRecommendation);
    let stage = |label, done, class, note| ProgressStage { label, done, all, class, note };
    let mut stages = vec![
        stage("Announced", announced, "p-ok", count_missing(all - announced - forgotten, "without a handler")),
        count_seen(context, events, announced, all),
    ];
    if has_impact {
        let ready = machines_in(events, |event| event.approval.is_some());
        let rest = if find_last_start(events).is_some() { "not ready" } else { "were not ready" };
        stages.push(stage("Ready", ready, "p-wait", count_missing(all - ready - forgotten, rest)));
    }
    let (down, up) = label_impact(operation);
    let gone = machines_in(events, |event| !is_scheduled(event)) + forgotten;
    let start = find_last_start(events).map(|due| format!("{} at the latest", words::time(due)));
    stages.push(stage(down, gone, "p-bad", start.unwrap_or_default()));
    let failed = machines_in(events, has_failed);
    let ended = machines_in(events, |event| !event.is_live()) + forgotten - failed;
    let note = match failed {
        0 => find_expected_end(events).map_or_else(String::new, words::about),
        failed => format!("{failed} failed"),
    };
    stages.push(stage(up, ended, "p-ok", note));
    stages
}

fn count_missing(machines: usize, what: &str) -> String {
    if machines == 0 { String::new() } else { format!("{machines} {what}") }
}

/// Machines whose handlers have requested the document since the event appeared.
fn count_seen(context: &PageContext, events: &[&Arc<Event>], announced: usize, all: usize) -> ProgressStage {
    let has_seen = |event: &Event, resource: &Resource| {
        Handler::of(context, resource.machine).last_poll().is_some_and(|at| at >= event.appeared)
    };
    let shown = events.iter().filter(|event| event.is_shown());
    let seen = shown.map(|event| event.resources.iter().filter(|resource| has_seen(event, resource)).count()).sum();
    let note = count_missing(announced - seen, if announced - seen == 1 { "has not" } else { "have not" });
    ProgressStage { label: "Seen", done: seen, all, class: "p-ok", note }
}

/// The labels of the start and the end of the impact.
fn label_impact(operation: &Operation) -> (&'static str, &'static str) {
    match operation.request {
        Request::Delete { .. } => ("Deletion started", "Deleted"),
        Request::RecommendRebalance { .. } => ("Started", "Ended"),
        Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::Maintain { .. }
        | Request::Drain(_)
        | Request::Fail { .. } => ("Down", "Up again"),
    }
}

fn has_failed(event: &Event) -> bool {
    match &event.status {
        Status::Ended { outcome: Outcome::Failed(_) | Outcome::TimedOut, .. } => true,
        Status::Ended { .. } | Status::Scheduled | Status::Started { .. } => false,
    }
}

/// The end of the last event, if its length is known.
pub fn find_expected_end(events: &[&Arc<Event>]) -> Option<Timestamp> {
    let ends = events.iter().filter_map(|event| {
        let length = Duration::from_secs(u64::try_from(event.duration_secs).ok().filter(|secs| *secs > 0)?);
        match event.status {
            Status::Scheduled => Some(event.not_before + length),
            Status::Started { at } => Some(at + length),
            Status::Ended { .. } => None,
        }
    });
    ends.max()
}
