//! The Gantt chart of a rollout, drawn on the server: a bar per step, in waves. The planner draws a preview with it, and the page
//! of a rollout its progress until now and the expected rest, with failures on top.

use std::collections::BTreeMap;

use askama::Template;
use forewarn_api_types::{Time, count_of};
use forewarn_core::Timestamp;

use super::html::{self, RenderMode};
use super::words;

/// Steps that are drawn; the others are counted.
const STEPS_MAX: usize = 200;

/// Waves that are open in a chart with many steps are those that need a look.
const STEPS_OPEN_MAX: usize = 30;

/// Distances between two ticks, in minutes.
const TICK_MINUTES: [i64; 9] = [5, 10, 15, 30, 60, 120, 240, 720, 1440];

/// Characters of a note that are drawn. Longer ones would be cut off at the edge of the chart.
const NOTE_MAX: usize = 30;

/// Labels are at least this far from the left edge, in percent.
const LABEL_EDGE: f64 = 3.0;

/// The ends of a chart are multiples of this, so that live updates do not move every bar.
const SPAN_STEP_MS: i64 = 300_000;

/// The time that a chart shows.
#[derive(Clone, Copy)]
pub struct GanttSpan {
    begin: i64,
    end: i64,
}

pub struct GanttStep {
    pub name: String,
    pub href: String,
    pub machines: usize,
    pub phase: GanttPhase,
    /// `None` if nothing is known about when it starts.
    pub times: Option<GanttTimes>,
    /// A few words beside the bar.
    pub note: String,
}

#[derive(Clone, Copy)]
pub struct GanttTimes {
    pub notice: i64,
    pub impact: i64,
    pub end: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GanttPhase {
    Failed,
    Running,
    Done,
    /// The rollout ended before the step.
    Canceled,
    /// Expected to start later in a rollout that runs.
    Expected,
    /// A step of a preview.
    Planned,
    /// A step of a preview during which a group is below its floor, or another operation affects the same machines.
    Conflict,
}

pub struct Gantt {
    span: GanttSpan,
    severity: &'static str,
    steps: Vec<GanttStep>,
    now: Option<(i64, RenderMode)>,
}

#[derive(Template)]
#[template(path = "gantt.html")]
struct GanttTemplate {
    ticks: Vec<(String, i64, String)>,
    waves: Vec<Wave>,
    severity: &'static str,
    more: usize,
    has_phases: bool,
    has_conflicts: bool,
    now: Option<CurrentTime>,
}

/// The line of the current time, with its label. The script moves both, so updates have no positions.
struct CurrentTime {
    begin: i64,
    end: i64,
    line_x: String,
    label_x: String,
    /// In UTC.
    clock: String,
}

/// Steps that start at the same time.
struct Wave {
    id: String,
    title: String,
    progress: String,
    /// HTML.
    times: String,
    is_open: bool,
    lanes: Vec<GanttLane>,
}

struct GanttLane {
    name: String,
    href: String,
    machines: usize,
    class: &'static str,
    /// Positions of the notice and the impact, or none.
    bars: Option<(String, String)>,
    note: String,
    /// The position of the note.
    note_x: String,
    label: String,
}

impl GanttLane {
    fn is_in_conflict(&self) -> bool {
        self.class == GanttPhase::Conflict.class()
    }
}

impl GanttSpan {
    pub fn new(begin: i64, end: i64) -> GanttSpan {
        let end = end.max(begin + 60_000);
        // Room for the last label.
        let end = end + (end - begin) / 12;
        let step = SPAN_STEP_MS;
        GanttSpan { begin: begin.div_euclid(step) * step, end: (end + step - 1).div_euclid(step) * step }
    }

    pub fn percent(self, at: i64) -> f64 {
        (at - self.begin) as f64 / (self.end - self.begin) as f64 * 100.0
    }

    fn bar(self, from: i64, to: i64) -> String {
        let (from, to) = (self.percent(from), self.percent(to));
        format!(r#"x="{from:.2}%" width="{:.2}%""#, (to - from).max(0.3))
    }

    fn ticks(self) -> Vec<(String, i64, String)> {
        let span = self.end - self.begin;
        let steps = TICK_MINUTES.map(|minutes| minutes * 60_000);
        let step = steps.into_iter().find(|step| span / step <= 8).unwrap_or(span.max(1));
        let first = (self.begin + step - 1).div_euclid(step) * step;
        let ticks = (0..).map(|n| first + n * step).take_while(|at| *at < self.end);
        // A label at the edge would be cut off.
        let ticks = ticks.filter(|at| self.percent(*at) > LABEL_EDGE);
        let label = |at: i64| {
            let iso = Time(at).to_string();
            let text = if step >= 720 * 60_000 { iso.get(5..10) } else { iso.get(11..16) };
            text.unwrap_or_default().to_owned()
        };
        ticks.map(|at| (format!("{:.2}%", self.percent(at)), at, label(at))).collect()
    }
}

impl GanttPhase {
    fn class(self) -> &'static str {
        match self {
            GanttPhase::Failed => "g-failed",
            GanttPhase::Running | GanttPhase::Planned => "",
            GanttPhase::Done => "g-done",
            GanttPhase::Canceled => "g-gone",
            GanttPhase::Expected => "g-expected",
            GanttPhase::Conflict => "g-conflict",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            GanttPhase::Failed => "failed, ",
            GanttPhase::Running => "in progress, ",
            GanttPhase::Done => "finished, ",
            GanttPhase::Canceled => "canceled, ",
            GanttPhase::Expected => "expected, ",
            GanttPhase::Planned => "",
            GanttPhase::Conflict => "conflict, ",
        }
    }

    fn has_ended(self) -> bool {
        match self {
            GanttPhase::Failed | GanttPhase::Done | GanttPhase::Canceled => true,
            GanttPhase::Running | GanttPhase::Expected | GanttPhase::Planned | GanttPhase::Conflict => false,
        }
    }
}

impl Gantt {
    pub fn new(span: GanttSpan, severity: &'static str, steps: Vec<GanttStep>) -> Gantt {
        Gantt { span, severity, steps, now: None }
    }

    /// Draws the current time. The script moves the line while the page is open.
    #[must_use]
    pub fn with_now(self, now: Timestamp, mode: RenderMode) -> Gantt {
        Gantt { now: Some((now.0, mode)), ..self }
    }

    pub fn render(&self) -> String {
        let now = self.now.map(|(now, mode)| {
            let GanttSpan { begin, end } = self.span;
            let x = self.span.percent(now);
            let [line_x, label_x, clock] = match mode {
                RenderMode::Page => {
                    let clock = words::clock(Timestamp(now));
                    let label_x = x.clamp(LABEL_EDGE, 100.0 - LABEL_EDGE);
                    [format!(r#"x1="{x:.2}%" x2="{x:.2}%""#), format!(r#"x="{label_x:.2}%""#), clock]
                }
                RenderMode::Update => Default::default(),
            };
            CurrentTime { begin, end, line_x, label_x, clock }
        });
        html::render(&GanttTemplate {
            ticks: self.span.ticks(),
            waves: self.waves(),
            severity: self.severity,
            more: self.steps.len().saturating_sub(STEPS_MAX),
            has_phases: self.now.is_some(),
            has_conflicts: self.steps.iter().any(|step| step.phase == GanttPhase::Conflict),
            now,
        })
    }

    /// Failed steps, waves by the time of their start, and steps without a time.
    fn waves(&self) -> Vec<Wave> {
        let drawn = || self.steps.iter().take(STEPS_MAX);
        let failed: Vec<&GanttStep> = drawn().filter(|step| step.phase == GanttPhase::Failed).collect();
        let mut by_start: BTreeMap<i64, Vec<&GanttStep>> = BTreeMap::new();
        let mut later = Vec::new();
        for step in drawn().filter(|step| step.phase != GanttPhase::Failed) {
            match step.times {
                Some(times) => by_start.entry(times.notice / 60_000).or_default().push(step),
                None => later.push(step),
            }
        }
        let next = by_start.values().position(|steps| steps.iter().any(|step| !step.phase.has_ended()));
        let mut waves = Vec::new();
        waves.extend((!failed.is_empty()).then(|| self.wave("failed", "Failed".into(), &failed, true)));
        for (number, steps) in by_start.into_values().enumerate() {
            let is_current = steps.iter().any(|step| step.phase == GanttPhase::Running) || Some(number) == next;
            let title = format!("Wave {}", number + 1);
            waves.push(self.wave(&(number + 1).to_string(), title, &steps, is_current));
        }
        waves.extend((!later.is_empty()).then(|| self.wave("later", "No time yet".into(), &later, false)));
        waves
    }

    fn wave(&self, key: &str, title: String, steps: &[&GanttStep], is_current: bool) -> Wave {
        let times = || steps.iter().filter_map(|step| step.times);
        let span = times().map(|times| times.impact).min().zip(times().map(|times| times.end).max());
        let machines = count_of(steps.iter().map(|step| step.machines).sum(), "machine");
        let ended = steps.iter().filter(|step| step.phase.has_ended()).count();
        let has_ended = ended == steps.len();
        Wave {
            id: format!("wave-{key}"),
            title,
            progress: match ended {
                0 => machines,
                ended => format!("{machines}, {ended}/{} ended", count_of(steps.len(), "step")),
            },
            times: span.map_or_else(String::new, |(from, to)| {
                let about = if has_ended { "to" } else { "to about" };
                format!("{} {about} {}", words::time(Timestamp(from)), words::time(Timestamp(to)))
            }),
            is_open: is_current || self.steps.len() <= STEPS_OPEN_MAX || self.now.is_none(),
            lanes: steps.iter().map(|step| self.lane(step)).collect(),
        }
    }

    fn lane(&self, step: &GanttStep) -> GanttLane {
        let label = match step.times {
            Some(times) => format!(
                "{}: {}notice from {}, impact from {} to {}{}",
                step.name,
                step.phase.as_str(),
                words::utc(Timestamp(times.notice)),
                words::utc(Timestamp(times.impact)),
                if step.phase.has_ended() { "" } else { "about " },
                words::utc(Timestamp(times.end))
            ),
            None => format!("{}: {}no time yet", step.name, step.phase.as_str()),
        };
        GanttLane {
            name: step.name.clone(),
            href: step.href.clone(),
            machines: step.machines,
            class: step.phase.class(),
            bars: step
                .times
                .map(|times| (self.span.bar(times.notice, times.impact), self.span.bar(times.impact, times.end))),
            note_x: self.place_note(step),
            label: if step.note.is_empty() { label } else { format!("{label}; {}", step.note) },
            note: shorten_note(&step.note),
        }
    }

    /// The note stands after the bar, or before it where there is more room.
    fn place_note(&self, step: &GanttStep) -> String {
        let Some(times) = step.times else { return r#"x="0" dx="8""#.into() };
        let (from, to) = (self.span.percent(times.notice), self.span.percent(times.end));
        if to <= 100.0 - from {
            format!(r#"x="{to:.2}%" dx="6""#)
        } else {
            format!(r#"x="{from:.2}%" dx="-6" text-anchor="end""#)
        }
    }
}

fn shorten_note(note: &str) -> String {
    match note.char_indices().nth(NOTE_MAX) {
        Some(_) => note.chars().take(NOTE_MAX - 1).chain(['…']).collect(),
        None => note.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_shortened() {
        for (length, expected) in [(NOTE_MAX, "é".repeat(NOTE_MAX)), (NOTE_MAX + 1, "é".repeat(NOTE_MAX - 1) + "…")]
        {
            assert_eq!(shorten_note(&"é".repeat(length)), expected);
        }
    }
}
