//! The time line: a lane for each event, from its appearance to its end. Positions are times; where that is on the
//! screen is one line of arithmetic, in `window` for the first look and in `timeline.js` for every later one.
//!
//! ```text
//!   region: what is live ─┐
//!                         ├─▶ lives ─▶ panel: a lane each
//!   past: what is over ───┘       └──▶ strands: by scope, folded when there are many
//! ```

mod expected;
mod lane;
mod past;
mod scope_groups;
mod window;

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Event, EventId, Outcome, Region, ScopeId, Status, Timestamp};
use forewarn_store::HistoryRow;
use serde_json::Value;

use super::page::{Panel, Scene};
use super::{sign_in, words};
use forewarn_api::When;
pub use past::Past;
pub use scope_groups::{SHELF, strands};
use window::Window;

/// More lanes than this nobody reads; the rest is found by searching.
const LANES_MAX: usize = 300;

/// One event, live or over.
#[derive(Clone)]
pub struct Life {
    pub id: EventId,
    pub kind: String,
    pub names: Vec<String>,
    pub scope_id: Option<ScopeId>,
    pub scope: String,
    pub status: String,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    pub approved: Option<(Timestamp, String)>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Coming,
    UnderWay,
    Over,
}

/// Events that are wanted; what is over for less than a day included.
pub async fn lives(
    scene: &Scene,
    wanted: impl Fn(&Region, &Event) -> bool,
    past: impl Fn(&HistoryRow) -> bool,
) -> Vec<Arc<Life>> {
    let mut lives = live(scene.region(), wanted);
    lives.sort_by_key(|life| life.appeared);
    lives.truncate(LANES_MAX);
    let room = LANES_MAX - lives.len();
    let mut over = scene.service.shared.past.over(scene, past).await;
    over.sort_by_key(|life| std::cmp::Reverse(life.ended));
    over.truncate(room);
    lives.extend(over);
    lives
}

fn live(region: &Region, wanted: impl Fn(&Region, &Event) -> bool) -> Vec<Arc<Life>> {
    let events = region.events().filter(|event| event.is_live() && wanted(region, event));
    events.map(|event| Arc::new(Life::of(region, event))).collect()
}

/// The panel with a lane for each of these, and its controls.
pub fn panel(scene: &Scene, lives: &[Arc<Life>]) -> Panel {
    let lanes = lives.iter().map(|life| life.lane(scene, &life.place(), lane::Scope::Told)).collect();
    frame(scene, Panel::new("timeline", "Time line", lanes))
}

/// Controls above, the axis and the line of the present around the lanes.
fn frame(scene: &Scene, panel: Panel) -> Panel {
    let window = Window::first(scene.now);
    let canvas = Canvas { ticks: window.ticks(), now: window.line(scene.now.0), span: window.span_ms() };
    panel
        .below(sign_in::rendered(&Controls { chosen: window.span_ms() }).0)
        .around(sign_in::rendered(&canvas).0)
        .or("Nothing is coming, and nothing happened in the last day.")
}

#[derive(Template)]
#[template(path = "timeline.html")]
struct Controls {
    chosen: i64,
}

#[derive(Template)]
#[template(path = "canvas.html")]
struct Canvas {
    /// Where each is, and its label, in UTC.
    ticks: Vec<(String, String)>,
    now: String,
    span: i64,
}

impl Life {
    fn of(region: &Region, event: &Event) -> Life {
        let (started, ended) = match &event.status {
            Status::Scheduled => (None, None),
            Status::Started { at } => (Some(*at), None),
            Status::Ended { at, .. } => (None, Some(*at)),
        };
        Life {
            id: event.id,
            kind: words::kind(event.kind).into(),
            names: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
            scope_id: Some(event.scope),
            scope: scope_name(region, event.scope),
            status: words::status(event).into(),
            appeared: event.appeared,
            not_before: event.not_before,
            approved: event.approval.as_ref().map(|approval| (approval.at, words::approver(&approval.by))),
            started,
            ended,
        }
    }

    fn appeared(region: &Region, id: EventId, row: &HistoryRow) -> Life {
        let detail: Value = serde_json::from_str(&row.detail).unwrap_or_default();
        let not_before = detail["not_before"].as_str().and_then(|text| When::parse(text).ok());
        let scope_id = row.scope.map(ScopeId);
        Life {
            id,
            kind: capitalised(detail["type"].as_str().unwrap_or_default()),
            names: row.machines.clone(),
            scope_id,
            scope: scope_id.map_or_else(String::new, |scope| scope_name(region, scope)),
            status: "Scheduled".into(),
            appeared: row.at,
            not_before: not_before.map_or(row.at, |when| when.0),
            approved: None,
            started: None,
            ended: None,
        }
    }

    fn went_on(&mut self, row: &HistoryRow) {
        match row.kind.as_str() {
            "approved" => self.approved = Some((row.at, approver(row.actor.as_deref().unwrap_or_default()))),
            "started" => self.started = Some(row.at),
            "ended" => {
                self.ended = Some(row.at);
                self.status = match row.outcome.as_deref().unwrap_or_default() {
                    "canceled" => "Cancelled".into(),
                    word => capitalised(&word.replace('-', " ")),
                };
            }
            _ => {}
        }
    }

    pub fn stage(&self) -> Stage {
        match (self.started, self.ended) {
            (_, Some(_)) => Stage::Over,
            (Some(_), None) => Stage::UnderWay,
            (None, None) => Stage::Coming,
        }
    }

    /// What is coming first, in order of the deadline; then what is over, newest first.
    fn order(&self) -> String {
        match self.ended {
            None => format!("0-{:016}", self.not_before.0),
            Some(at) => format!("1-{:016}", i64::MAX - at.0),
        }
    }

    /// Where it stands among the others; of the same time by scope and name.
    fn place(&self) -> String {
        let name = self.names.first().map_or("", String::as_str);
        format!("{}-{}-{name}-{}", self.order(), self.scope, words::event_name(self.id))
    }
}

fn scope_name(region: &Region, scope: ScopeId) -> String {
    region.scope(scope).map_or_else(String::new, |scope| words::scope(region, scope).name)
}

fn approver(actor: &str) -> String {
    match actor.split_once(':') {
        Some(("guest", name)) => format!("machine {name}"),
        Some(("management", name)) => format!("{name} (management)"),
        Some(_) | None => actor.to_owned(),
    }
}

/// History's words are in lower case.
fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// How an event ended, with the driver's words or who cancelled it.
pub fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(why) => format!("Failed: {why}"),
        Outcome::Canceled { by } => format!("Cancelled by {by}"),
        Outcome::Completed | Outcome::TimedOut | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone => {
            words::outcome_word(outcome).into()
        }
    }
}
