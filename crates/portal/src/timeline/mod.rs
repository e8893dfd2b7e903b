//! The timeline: one lane per event, from its appearance to its end. Lanes carry times; `window` converts them to positions
//! when a page is rendered, and `timeline.js` on an open page.
//!
//! ```text
//!   region: live events ────┐
//!                           ├─▶ events ─▶ render_panel: one lane each
//!   past: finished events ──┘        └──▶ the module `operation_lanes`: one lane per operation
//! ```

mod expected;
mod lane;
mod past;

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use forewarn_core::{Event, EventId, MachineId, OperationId, Outcome, Region, ScopeId, Status, Timestamp, Visibility};
use forewarn_store::{Actor, EventTimeline as RecordedEvent, HistoryRow};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::{html, words};

use super::page_context::PageContext;
pub use expected::find_expected;
pub use forewarn_widgets::stage::Stage;
pub use forewarn_widgets::window::Window;
pub use past::FinishedEvents;

/// Lanes per page. More are not readable; the overview has a search.
const LANES_MAX: usize = 300;

/// One event, live or finished, with the times of its lifecycle.
#[derive(Clone)]
pub struct EventTimeline {
    pub id: EventId,
    pub kind: String,
    /// The names of its machines.
    pub names: Vec<String>,
    /// Its machines, as far as they are known.
    pub machines: Vec<MachineId>,
    /// The operations that requested it.
    pub operations: Vec<OperationId>,
    /// The announced duration of the impact; negative if unknown.
    pub duration_secs: i64,
    /// Whether it appeared in a document.
    pub is_shown: bool,
    pub scope_id: Option<ScopeId>,
    pub scope: String,
    pub status: String,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    pub approved: Option<(Timestamp, String)>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// The wanted events, including those that finished within the last day.
pub async fn find_events(
    context: &PageContext,
    wanted: impl Fn(&Region, &Event) -> bool,
    past: impl Fn(&HistoryRow) -> bool,
) -> Vec<Arc<EventTimeline>> {
    let mut events = live_events(context.region(), wanted);
    events.sort_by_key(|event| event.appeared);
    events.truncate(LANES_MAX);
    let room = LANES_MAX - events.len();
    let mut finished = context.portal.shared.past.find_finished(context, past).await;
    finished.sort_by_key(|event| std::cmp::Reverse(event.ended));
    finished.truncate(room);
    events.extend(finished);
    events
}

pub fn live_events(region: &Region, wanted: impl Fn(&Region, &Event) -> bool) -> Vec<Arc<EventTimeline>> {
    // Hundreds of events can share a few event groups.
    let mut scopes: HashMap<ScopeId, String> = HashMap::new();
    let events = region.events().filter(|event| event.is_live() && wanted(region, event));
    events
        .map(|event| {
            let scope = scopes.entry(event.scope).or_insert_with(|| scope_name(region, event.scope));
            Arc::new(EventTimeline::of(event, scope.clone()))
        })
        .collect()
}

/// The panel with one lane per event.
pub fn render_panel(context: &PageContext, events: &[Arc<EventTimeline>]) -> Panel {
    let lanes = events.iter().map(|event| event.render_lane(context, &event.sort_key())).collect();
    add_controls(context, Panel::new("timeline", "Timeline", lanes))
}

/// Adds the controls, the axis and the line of the current time.
fn add_controls(context: &PageContext, panel: Panel) -> Panel {
    let window = Window::around(context.now);
    let canvas = Canvas::with_offset(window, context, 0);
    panel
        .with_html_before(html::render(&Controls { selected: window.span_ms() }))
        .with_html_inside(html::render(&canvas))
        .or_empty_text("No events are scheduled, and none finished in the last 24 hours.")
}

#[derive(Template)]
#[template(path = "timeline.html")]
struct Controls {
    selected: i64,
}

#[derive(Template)]
#[template(path = "canvas.html")]
pub struct Canvas {
    /// Positions and labels, in UTC.
    ticks: Vec<(String, String)>,
    now: String,
    span: i64,
    /// The offset of the window, in quarters.
    moved: i64,
}

impl Canvas {
    /// The axis of a window that was moved by this many quarters of its width.
    pub fn with_offset(window: Window, context: &PageContext, moved: i64) -> Canvas {
        Canvas { ticks: window.ticks(), now: window.line(context.now.0), span: window.span_ms(), moved }
    }
}

impl EventTimeline {
    fn of(event: &Event, scope: String) -> EventTimeline {
        let (started, ended) = match &event.status {
            Status::Scheduled => (None, None),
            Status::Started { at } => (Some(*at), None),
            Status::Ended { at, .. } => (None, Some(*at)),
        };
        EventTimeline {
            id: event.id,
            kind: event.kind.as_str().into(),
            names: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
            machines: event.resources.iter().map(|resource| resource.machine).collect(),
            operations: event.operations.clone(),
            duration_secs: event.duration_secs,
            is_shown: event.is_shown(),
            scope_id: Some(event.scope),
            scope,
            status: words::status(event).into(),
            appeared: event.appeared,
            not_before: event.not_before,
            approved: event.approval.as_ref().map(|approval| (approval.at, words::approver(&approval.by))),
            started,
            ended,
        }
    }

    /// From the recorded lifecycle of an event that the region may no longer have.
    fn of_history(region: &Region, appeared: &HistoryRow, recorded: &RecordedEvent) -> EventTimeline {
        EventTimeline {
            id: recorded.event,
            kind: recorded.appearance.kind.as_str().into(),
            names: recorded.machines.clone(),
            machines: appeared.machine_ids.clone(),
            operations: appeared.operation.iter().chain(&appeared.joined).copied().collect(),
            duration_secs: recorded.appearance.duration_secs,
            is_shown: recorded.appearance.visibility == Visibility::Shown,
            scope_id: recorded.scope,
            scope: recorded.scope.map_or_else(String::new, |scope| scope_name(region, scope)),
            status: recorded.ended.as_ref().map_or("Scheduled", |(_, outcome)| words::outcome_word(outcome)).into(),
            appeared: recorded.appeared,
            not_before: recorded.appearance.not_before,
            approved: recorded.approved.as_ref().map(|(at, by)| (*at, approver_name(by))),
            started: recorded.started,
            ended: recorded.ended.as_ref().map(|(at, _)| *at),
        }
    }

    pub fn stage(&self) -> Stage {
        match (self.started, self.ended) {
            (_, Some(_)) => Stage::Finished,
            (Some(_), None) => Stage::InProgress,
            (None, None) => Stage::Scheduled,
        }
    }

    /// Sorts live events by deadline, then finished events, newest first.
    fn time_key(&self) -> String {
        match self.ended {
            None => format!("0-{:016}", self.not_before.0),
            Some(at) => format!("1-{:016}", i64::MAX - at.0),
        }
    }

    /// Sorts by time, then by event group and name.
    fn sort_key(&self) -> String {
        let name = self.names.first().map_or("", String::as_str);
        format!("{}-{}-{name}-{}", self.time_key(), self.scope, words::event_name(self.id))
    }
}

fn scope_name(region: &Region, scope: ScopeId) -> String {
    region.scope(scope).map_or_else(String::new, |scope| words::scope(region, scope).name)
}

pub fn approver_name(by: &Actor) -> String {
    match by {
        Actor::Guest(name) => format!("machine {name}"),
        Actor::Management(name) => format!("{name} (management)"),
        Actor::Policy => "policy".into(),
        Actor::Other(name) => name.clone(),
    }
}

/// The outcome, with the driver's message or the name of the principal that canceled the event.
pub fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(why) => format!("Failed: {why}"),
        Outcome::Canceled { by } => format!("Canceled by {by}"),
        Outcome::Completed | Outcome::TimedOut | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone => {
            words::outcome_word(outcome).into()
        }
    }
}
