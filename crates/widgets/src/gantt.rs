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

/// Waves that are summarized above the chart; earlier ones that have ended and later ones are left out.
const WAVES_MAX: usize = 8;

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

#[derive(Template)]
#[template(path = "wave_segments.html")]
struct WaveSegments {
    waves: Vec<SegmentedWave>,
    more: usize,
}

/// One bar, with a segment per step.
struct SegmentedWave {
    title: String,
    /// HTML.
    progress: String,
    /// The class, position and width of each segment.
    segments: Vec<(&'static str, f64, f64)>,
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

    /// The color of a segment.
    fn fill(self) -> &'static str {
        match self {
            GanttPhase::Failed => "p-bad",
            GanttPhase::Running => "p-wait",
            GanttPhase::Done => "p-ok",
            GanttPhase::Canceled => "p-gone",
            GanttPhase::Expected | GanttPhase::Planned | GanttPhase::Conflict => "p-off",
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

    /// The progress of each wave: a bar with a segment per step. Empty for a single wave, which the chart shows as well.
    pub fn render_segments(&self) -> String {
        let waves = self.waves_by_start();
        let is_open = |steps: &Vec<&GanttStep>| steps.iter().any(|step| !step.phase.has_ended());
        let current = waves.iter().position(is_open).unwrap_or(waves.len());
        // The wave before the current one has just ended.
        let first = current.saturating_sub(1).min(waves.len().saturating_sub(WAVES_MAX));
        if waves.len() < 2 {
            return String::new();
        }
        let drawn = waves.iter().enumerate().skip(first).take(WAVES_MAX);
        html::render(&WaveSegments {
            waves: drawn.map(|(number, steps)| SegmentedWave::of(number + 1, steps)).collect(),
            more: waves.len().saturating_sub(WAVES_MAX),
        })
    }

    /// The steps with a time that are drawn, by the minute of their start. The waves are numbered in this order.
    fn waves_by_start(&self) -> Vec<Vec<&GanttStep>> {
        let mut by_start: BTreeMap<i64, Vec<&GanttStep>> = BTreeMap::new();
        for step in self.drawn() {
            if let Some(times) = step.times {
                by_start.entry(times.notice / 60_000).or_default().push(step);
            }
        }
        by_start.into_values().collect()
    }

    fn drawn(&self) -> impl Iterator<Item = &GanttStep> {
        self.steps.iter().take(STEPS_MAX)
    }

    /// Failed steps, waves by the time of their start, and steps without a time.
    fn waves(&self) -> Vec<Wave> {
        let has_failed = |step: &&GanttStep| step.phase == GanttPhase::Failed;
        let failed: Vec<&GanttStep> = self.drawn().filter(has_failed).collect();
        let later: Vec<&GanttStep> = self.drawn().filter(|step| step.times.is_none() && !has_failed(step)).collect();
        let mut waves = Vec::new();
        waves.extend((!failed.is_empty()).then(|| self.wave("failed", "Failed".into(), &failed, true)));
        let by_start = self.waves_by_start();
        let next = by_start.iter().position(|steps| steps.iter().any(|step| !step.phase.has_ended()));
        for (number, mut steps) in by_start.into_iter().enumerate() {
            let is_current = steps.iter().any(|step| step.phase == GanttPhase::Running) || Some(number) == next;
            steps.retain(|step| !has_failed(step));
            if !steps.is_empty() {
                let title = format!("Wave {}", number + 1);
                waves.push(self.wave(&(number + 1).to_string(), title, &steps, is_current));
            }
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

impl SegmentedWave {
    fn of(number: usize, steps: &[&GanttStep]) -> SegmentedWave {
        let ended = steps.iter().filter(|step| step.phase.has_ended()).count();
        let failed = steps.iter().filter(|step| step.phase == GanttPhase::Failed).count();
        let is_running = steps.iter().any(|step| step.phase == GanttPhase::Running);
        let impact = steps.iter().filter_map(|step| step.times).map(|times| times.impact).min();
        let width = 100.0 / steps.len() as f64;
        SegmentedWave {
            title: format!("Wave {number}"),
            progress: match (ended, failed, impact) {
                (0, _, Some(impact)) if !is_running => words::about(Timestamp(impact)),
                (_, 0, _) => format!("{ended} of {} ended", steps.len()),
                _ => format!(r#"{ended} of {} ended, <span class="red">{failed} failed</span>"#, steps.len()),
            },
            segments: (0..)
                .zip(steps)
                .map(|(place, step)| (step.phase.fill(), f64::from(place) * width, width))
                .collect(),
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

    const MINUTE: i64 = 60_000;

    fn step(phase: GanttPhase, notice: i64) -> GanttStep {
        let times = GanttTimes { notice, impact: notice + 5 * MINUTE, end: notice + 10 * MINUTE };
        GanttStep { name: "n".into(), href: String::new(), machines: 1, phase, times: Some(times), note: String::new() }
    }

    #[test]
    fn each_wave_has_a_segment_per_step() {
        let phases = [[GanttPhase::Done, GanttPhase::Failed], [GanttPhase::Running, GanttPhase::Done]];
        let started = (0..).zip(phases).flat_map(|(wave, phases)| phases.map(|phase| step(phase, wave * 20 * MINUTE)));
        let steps = started.chain([step(GanttPhase::Expected, 40 * MINUTE)]).collect();
        let html = Gantt::new(GanttSpan::new(0, 60 * MINUTE), "amber", steps).render_segments();
        for part in [
            r#"<b>Wave 1</b> <span>2 of 2 ended, <span class="red">1 failed</span></span>"#,
            r#"<rect class="p-ok" x="0%" width="50%" height="10"></rect><rect class="p-bad" x="50%""#,
            "<b>Wave 2</b> <span>1 of 2 ended</span>",
            "<b>Wave 3</b> <span>about <time",
            r#"<rect class="p-off" x="0%" width="100%""#,
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn of_many_waves_those_around_the_current_one_are_summarized() {
        let phase = |wave| if wave < 20 { GanttPhase::Done } else { GanttPhase::Expected };
        let steps = |waves| (0..waves).map(|wave| step(phase(wave), wave * 20 * MINUTE)).collect::<Vec<_>>();
        let render =
            |waves| Gantt::new(GanttSpan::new(0, waves * 20 * MINUTE), "amber", steps(waves)).render_segments();
        let html = render(30);
        assert!(!html.contains("Wave 19<") && html.contains("Wave 20<") && html.contains("Wave 27<"), "{html}");
        assert!(!html.contains("Wave 28<") && html.contains("22 more waves are in the chart"), "{html}");
        assert_eq!(render(1), "");
    }

    #[test]
    fn a_wave_keeps_its_number_if_all_of_an_earlier_one_failed() {
        let steps = vec![step(GanttPhase::Failed, 0), step(GanttPhase::Running, 20 * MINUTE)];
        let html = Gantt::new(GanttSpan::new(0, 60 * MINUTE), "amber", steps).render();
        assert!(html.contains("id=\"wave-failed\"") && html.contains("<b>Wave 2</b>"), "{html}");
        assert!(!html.contains("<b>Wave 1</b>"), "{html}");
    }

    #[test]
    fn long_notes_are_shortened() {
        for (length, expected) in [(NOTE_MAX, "é".repeat(NOTE_MAX)), (NOTE_MAX + 1, "é".repeat(NOTE_MAX - 1) + "…")]
        {
            assert_eq!(shorten_note(&"é".repeat(length)), expected);
        }
    }
}
