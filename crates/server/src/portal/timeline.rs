//! The time line: a lane for each event, from its appearance to its end. Positions are times; where that is on the
//! screen is one line of arithmetic, here for the first look and in `timeline.js` for every later one.

use std::collections::HashMap;
use std::time::Duration;

use askama::Template;
use forewarn_core::{Event, EventId, Outcome, Region, Status, Timestamp};
use forewarn_store::{HistoryQuery, HistoryRow};
use serde_json::Value;

use super::page::{Fragment, Look, Panel, Scene};
use super::words;
use crate::api::When;

/// More lanes than this nobody reads; the rest is found by searching.
const LANES_MAX: usize = 300;

/// Rows of history that are read for what is over, newest first.
const ROWS_MAX: u32 = 400;

/// How far back the time line goes.
const PAST: Duration = Duration::from_secs(24 * 3600);

/// What is shown at first: this much, of which a quarter is past.
const SPAN_MS: i64 = 40 * 60 * 1000;

/// One event, live or over.
pub struct Life {
    pub id: EventId,
    pub kind: String,
    pub names: Vec<String>,
    pub scope: String,
    pub status: String,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    pub approved: Option<(Timestamp, String)>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

#[derive(Template)]
#[template(path = "lane.html")]
struct Lane<'a> {
    id: &'a str,
    sort: &'a str,
    kind: &'a str,
    class: String,
    names: String,
    scope: &'a str,
    status: &'a str,
    from: i64,
    /// Where notice ends: at the start, or as announced.
    to: i64,
    due: i64,
    due_html: String,
    appeared_html: String,
    approved: Option<(i64, String, String)>,
    started: Option<(i64, String)>,
    ended: Option<(i64, String)>,
    facts: String,
    is_scheduled: bool,
    /// Where the window begins, for the first look.
    window: Option<i64>,
    now: i64,
}

impl Lane<'_> {
    /// A share of the window's width.
    fn percent(from: i64, at: i64) -> f64 {
        ((at - from) as f64 / SPAN_MS as f64 * 100.0).clamp(-1.0, 101.0)
    }

    fn bar(&self, begin: &i64, end: &i64) -> String {
        self.window.map_or_else(String::new, |from| {
            let (begin, end) = (Self::percent(from, *begin), Self::percent(from, *end));
            format!(r#"x="{begin:.2}%" width="{:.2}%""#, (end - begin).max(0.25))
        })
    }

    fn line(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |from| {
            let x = Self::percent(from, *at);
            format!(r#"x1="{x:.2}%" x2="{x:.2}%""#)
        })
    }

    fn mark(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |from| format!(r#"cx="{:.2}%""#, Self::percent(from, *at)))
    }
}

/// Events of these scopes, or of all; what is over for less than a day included.
pub async fn lives(
    scene: &Scene,
    wanted: impl Fn(&Region, &Event) -> bool,
    past: impl Fn(&HistoryRow) -> bool,
) -> Vec<Life> {
    let region = scene.region();
    let mut lives: Vec<Life> = region
        .events()
        .filter(|event| event.is_live() && wanted(region, event))
        .map(|event| Life::of(region, event))
        .collect();
    lives.sort_by_key(|life| life.appeared);
    lives.truncate(LANES_MAX);
    let room = LANES_MAX - lives.len();
    let mut over = over(scene, past).await;
    over.sort_by_key(|life| std::cmp::Reverse(life.ended));
    over.truncate(room);
    lives.extend(over);
    lives
}

/// The panel with these lanes and its controls.
pub fn panel(scene: &Scene, lives: &[Life]) -> Panel {
    let fragments = lives.iter().map(|life| life.fragment(scene)).collect();
    let controls = Controls { now: scene.now.0, span: SPAN_MS };
    let before = super::sign_in::rendered(&controls).0;
    Panel::new("timeline", "Time line", fragments)
        .below(before)
        .or("Nothing is coming, and nothing happened in the last day.")
}

#[derive(Template)]
#[template(path = "timeline.html")]
struct Controls {
    now: i64,
    span: i64,
}

/// What ended, from history.
async fn over(scene: &Scene, wanted: impl Fn(&HistoryRow) -> bool) -> Vec<Life> {
    let kinds = ["appeared", "approved", "started", "ended"].map(str::to_owned).to_vec();
    let since = Some(scene.now - PAST);
    let query = HistoryQuery { kinds, since, newest: true, limit: Some(ROWS_MAX), ..HistoryQuery::default() };
    let rows = scene.service.engine().history(query).await.unwrap_or_else(|error| {
        tracing::error!(%error, "history cannot be read");
        Vec::new()
    });
    let mut lives: HashMap<EventId, Life> = HashMap::new();
    for row in rows.iter().filter(|row| wanted(row)) {
        let Some(id) = row.event else { continue };
        if row.kind == "appeared" {
            lives.insert(id, Life::appeared(scene.region(), id, row));
        } else if let Some(life) = lives.get_mut(&id) {
            life.went_on(row);
        }
    }
    lives.into_values().filter(|life| life.ended.is_some()).collect()
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
            scope: scope_name(region, event.scope.0),
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
        Life {
            id,
            kind: capitalised(detail["type"].as_str().unwrap_or_default()),
            names: row.machines.clone(),
            scope: row.scope.map_or_else(String::new, |scope| scope_name(region, scope)),
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
                self.status = capitalised(&row.outcome.clone().unwrap_or_default().replace('-', " "));
            }
            _ => {}
        }
    }

    fn fragment(&self, scene: &Scene) -> Fragment {
        let id = words::event_name(self.id);
        // What is coming first, in order of the deadline and by scope; then what is over, newest first.
        let sort = match self.ended {
            None => format!("0-{:016}-{}-{id}", self.not_before.0, self.scope),
            Some(at) => format!("1-{:016}-{id}", i64::MAX - at.0),
        };
        let lane = Lane {
            id: &id,
            sort: &sort,
            kind: &self.kind,
            class: format!("{} {}", self.kind.to_lowercase(), if self.ended.is_some() { "over" } else { "live" }),
            names: words::few(&self.names),
            scope: &self.scope,
            status: &self.status,
            from: self.appeared.0,
            to: self.started.or(self.ended).unwrap_or(self.not_before).0,
            due: self.not_before.0,
            due_html: words::time(self.not_before),
            appeared_html: words::time(self.appeared),
            approved: self.approved.as_ref().map(|(at, by)| (at.0, words::time(*at), by.clone())),
            started: self.started.map(|at| (at.0, words::time(at))),
            ended: self.ended.map(|at| (at.0, words::time(at))),
            facts: self.facts(),
            is_scheduled: self.started.is_none() && self.ended.is_none(),
            window: (scene.look == Look::First).then_some(scene.now.0 - SPAN_MS / 4),
            now: scene.now.0,
        };
        Fragment::of(format!("lane-{id}"), sort.clone(), &lane)
    }

    /// For those who cannot see the picture.
    fn facts(&self) -> String {
        let mut facts = format!(
            "{} of {}, {}: appeared {}, not before {}",
            self.kind,
            words::few(&self.names),
            self.status.to_lowercase(),
            words::utc(self.appeared),
            words::utc(self.not_before)
        );
        if let Some((at, by)) = &self.approved {
            facts += &format!(", approved by {by} {}", words::utc(*at));
        }
        for (word, at) in [("started", self.started), ("ended", self.ended)] {
            facts += &at.map_or_else(String::new, |at| format!(", {word} {}", words::utc(at)));
        }
        facts
    }
}

fn scope_name(region: &Region, scope: u64) -> String {
    region.scope(forewarn_core::ScopeId(scope)).map_or_else(String::new, |scope| words::scope(region, scope).name)
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
