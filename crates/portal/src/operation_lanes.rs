//! The timeline by cause: one lane per operation or rollout, which expands to its groups, and these to their machines.
//! The notice is filled as machines get ready; the impact is opaque and on top. The span, the filter and the folds are in the
//! address, so that a view can be shared and works without JavaScript.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use forewarn_core::{Region, ScopeId, Timestamp};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::html::{self, RenderMode};
use forewarn_widgets::lane::{Bar, Label, build_readiness_steps, clock_span};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::stage::StageFilter;
use forewarn_widgets::table::number_key;
use forewarn_widgets::timeline::Canvas;
use forewarn_widgets::window::Window;
use forewarn_widgets::{address, waits, words};

use super::page_context::PageContext;
use super::timeline::{EventTimeline, Stage, find_expected};
use forewarn_widgets::activity::{Activity, ActivityId, readiness_of};

/// Lanes of operations on the overview; the others are on the page of operations.
const LANES_MAX: usize = 40;

/// Lanes below one operation.
const LANES_BELOW_MAX: usize = 100;

/// Bars in one lane; more cannot be told apart.
const BARS_MAX: usize = 24;

/// Beyond this position, labels are on the left of their bar.
const LABEL_RIGHT_MAX: f64 = 70.0;

/// The spans to choose from, in minutes, with their labels.
const SPANS: [(i64, &str); 5] = [(20, "20 min"), (60, "1 h"), (240, "4 h"), (1440, "24 h"), (10080, "7 d")];

const SPAN_DEFAULT: i64 = 60;

/// The farthest that a window is moved, in quarters of its width.
const MOVED_MAX: i64 = 400;

/// The part of time that is shown, from the address, and the page that shows it.
#[derive(Clone, Copy)]
pub struct LaneView<'a> {
    path: &'a str,
    span_minutes: i64,
    quarters: i64,
    pub window: Window,
    /// Whether lanes expand to machines at once, because the page is about one group.
    has_one_group: bool,
}

impl<'a> LaneView<'a> {
    pub fn of(context: &PageContext, query: &PageQuery, path: &'a str) -> LaneView<'a> {
        let asked: i64 = query.text("span").parse().unwrap_or(SPAN_DEFAULT);
        let span_minutes = SPANS.iter().find(|(minutes, _)| *minutes == asked).map_or(SPAN_DEFAULT, |(span, _)| *span);
        let quarters = query.text("move").parse().unwrap_or(0i64).clamp(-MOVED_MAX, MOVED_MAX);
        let window = Window::spanning(context.now, span_minutes * 60_000, quarters);
        LaneView { path, span_minutes, quarters, window, has_one_group: false }
    }

    pub fn of_one_group(self) -> LaneView<'a> {
        LaneView { has_one_group: true, ..self }
    }
}

#[derive(Template)]
#[template(path = "lane_controls.html")]
struct LaneControls {
    /// Address, label, and whether it is selected.
    filters: Vec<(String, &'static str, bool)>,
    spans: Vec<(String, &'static str, bool)>,
    earlier: String,
    now: String,
    later: String,
    zoom_in: String,
    zoom_out: String,
}

#[derive(Template)]
#[template(path = "operation_lane.html")]
struct OperationLane<'a> {
    id: &'a str,
    sort: &'a str,
    level: u8,
    name: &'a str,
    href: &'a str,
    /// The address that expands or collapses the lane; empty if there is nothing below.
    fold: String,
    /// The lanes below: `Groups` or `Machines`.
    below: &'static str,
    is_open: bool,
    count: String,
    class: &'static str,
    bars: Vec<Bar>,
    expected: Vec<(i64, i64, String)>,
    label: Option<Label>,
    /// Text for screen readers.
    description: String,
    height: u32,
}

/// The lanes of all matching activities.
pub fn render_operation_lanes(
    context: &PageContext,
    activities: &[Activity],
    query: &PageQuery,
    view: LaneView<'_>,
) -> Panel {
    let filter = StageFilter::parse(query.text("show"));
    let is_in_view = |activity: &&Activity| {
        let is_past = activity.stage() == Stage::Finished;
        !is_past || activity.events.iter().any(|event| event.ended.is_some_and(|at| at >= view.window.begin()))
    };
    let found: Vec<&Activity> =
        activities.iter().filter(|activity| filter.matches(activity.stage())).filter(is_in_view).collect();
    let mut lanes = Vec::new();
    for activity in found.iter().take(LANES_MAX) {
        let (rank, severity, at, id) = activity.sort_key();
        let sort = format!("{rank}-{}-{}-{id}", severity as u8, number_key(at));
        Lanes { context, query, view, activity, sort }.render(&mut lanes);
    }
    let canvas = Canvas::with_offset(view.window, context.now, view.quarters);
    let panel = Panel::new("timeline", "Timeline", lanes)
        .with_html_before(html::render(&controls(query, view, filter)))
        .with_html_inside(html::render(&canvas));
    let panel = match found.len().saturating_sub(LANES_MAX) {
        0 => panel,
        more => panel.with_html_after(format!(
            r#"<p class="foot"><span>{LANES_MAX} of {}</span> <a href="/operations">Show all operations</a></p>"#,
            more + LANES_MAX
        )),
    };
    match filter {
        StageFilter::All => panel.or_empty_text("No operations are scheduled, and none finished in this time span."),
        StageFilter::Scheduled | StageFilter::InProgress => panel.or_empty_text("No matching operations."),
    }
}

fn controls(query: &PageQuery, view: LaneView<'_>, filter: StageFilter) -> LaneControls {
    let to = |name: &str, value: String| query.with(name, &value).address(view.path);
    let span = |minutes: i64| {
        let word = if minutes == SPAN_DEFAULT { String::new() } else { minutes.to_string() };
        query.with("move", "").with("span", &word).address(view.path)
    };
    let moved = |by: i64| match view.quarters + by {
        0 => query.with("move", "").address(view.path),
        quarters => to("move", quarters.to_string()),
    };
    let place = SPANS.iter().position(|(minutes, _)| *minutes == view.span_minutes).unwrap_or(1);
    LaneControls {
        filters: StageFilter::EACH.map(|each| (to("show", each.as_str().into()), each.label(), each == filter)).into(),
        spans: SPANS.map(|(minutes, label)| (span(minutes), label, minutes == view.span_minutes)).into(),
        earlier: moved(-1),
        now: query.with("move", "").address(view.path),
        later: moved(1),
        zoom_in: span(SPANS[place.saturating_sub(1)].0),
        zoom_out: span(SPANS[(place + 1).min(SPANS.len() - 1)].0),
    }
}

/// The lanes of one activity.
struct Lanes<'a> {
    context: &'a PageContext,
    query: &'a PageQuery,
    view: LaneView<'a>,
    activity: &'a Activity,
    sort: String,
}

impl Lanes<'_> {
    fn render(&self, lanes: &mut Vec<Fragment>) {
        let activity = self.activity;
        let key = activity.id.key();
        let is_open = self.query.has_word("open", &key);
        let scopes = activity.scopes();
        let is_flat = self.view.has_one_group && scopes.len() == 1;
        let events: Vec<&Arc<EventTimeline>> = activity.events.iter().collect();
        lanes.push(self.render_lane(LaneText {
            id: key.clone(),
            sort: format!("{}-0", self.sort),
            level: 0,
            name: activity.title.clone(),
            href: activity.href(),
            fold: if scopes.is_empty() { String::new() } else { self.fold(&key) },
            below: if is_flat { "Machines" } else { "Groups" },
            is_open,
            count: activity.machine_count().to_string(),
            label: self.label(),
            events: &events,
        }));
        if !is_open {
            return;
        }
        if is_flat {
            return self.render_machines(&key, &self.sort, 1, &events, lanes);
        }
        for (number, (scope, events)) in scopes.into_iter().take(LANES_BELOW_MAX).enumerate() {
            self.render_scope(scope, &events, number, lanes);
        }
    }

    fn fold(&self, key: &str) -> String {
        self.query.with_toggled("open", key).address(self.view.path)
    }

    fn render_scope(
        &self,
        scope: Option<ScopeId>,
        events: &[&Arc<EventTimeline>],
        number: usize,
        lanes: &mut Vec<Fragment>,
    ) {
        let region = self.context.region();
        let name = scope.and_then(|scope| region.scope(scope)).map(|scope| words::scope(region, scope));
        let (name, href) = name.map_or_else(
            || (events.first().map_or_else(String::new, |event| event.scope.clone()), String::new()),
            |name| (name.name, name.href),
        );
        let key = format!("{}-g{}", self.activity.id.key(), scope.map_or(0, |scope| scope.0));
        let is_open = self.query.has_word("open", &key);
        let sort = format!("{}-1-{number:04}", self.sort);
        let found = readiness_of(events.iter().copied());
        lanes.push(self.render_lane(LaneText {
            id: key.clone(),
            sort: format!("{sort}-0"),
            level: 1,
            name: if name.is_empty() { "Deleted group".into() } else { name },
            href,
            fold: self.fold(&key),
            below: "Machines",
            is_open,
            count: found.describe(),
            label: None,
            events,
        }));
        if is_open {
            self.render_machines(&key, &sort, 2, events, lanes);
        }
    }

    fn render_machines(
        &self,
        key: &str,
        sort: &str,
        level: u8,
        events: &[&Arc<EventTimeline>],
        lanes: &mut Vec<Fragment>,
    ) {
        let machines = events.iter().flat_map(|event| self.machines_of(self.context.region(), event));
        for (number, (name, href, event)) in machines.take(LANES_BELOW_MAX).enumerate() {
            let text = LaneText {
                id: format!("{key}-m{number}"),
                sort: format!("{sort}-1-{number:04}"),
                level,
                name,
                href: if href.is_empty() { format!("/events/{}", words::event_name(event.id)) } else { href },
                fold: String::new(),
                below: "",
                is_open: false,
                count: describe_machine(event),
                label: None,
                events: &[event],
            };
            lanes.push(self.render_lane(text));
        }
    }

    fn machines_of<'e>(
        &self,
        region: &Region,
        event: &'e Arc<EventTimeline>,
    ) -> Vec<(String, String, &'e Arc<EventTimeline>)> {
        let href = |number: usize| {
            let machine = event.machines.get(number).and_then(|id| region.machine(*id));
            machine.map_or_else(String::new, |machine| address::of_machine(machine))
        };
        event.names.iter().enumerate().map(|(number, name)| (name.clone(), href(number), event)).collect()
    }

    fn render_lane(&self, text: LaneText<'_>) -> Fragment {
        let (y, height) = match text.level {
            0 => (8, 22),
            1 => (7, 12),
            _ => (6, 8),
        };
        let bars = self.bars(text.events, y, height);
        let window = self.view.window;
        let expected = if text.level == 0 { self.expected(window) } else { Vec::new() };
        let label = text.label.clone().map(|label| self.place_label(label, &bars));
        let class = if self.activity.stage() == Stage::Finished { "finished" } else { "" };
        let lane = OperationLane {
            id: &text.id,
            sort: &text.sort,
            level: text.level,
            name: &text.name,
            href: &text.href,
            description: describe(&text.name, &bars, text.label_text()),
            fold: text.fold.clone(),
            below: text.below,
            is_open: text.is_open,
            count: text.count.clone(),
            class,
            bars,
            expected,
            label,
            height: if text.level == 0 { 38 } else { 26 },
        };
        Fragment::render(text.id.as_str(), text.sort.as_str(), &lane)
    }

    /// The bars of these events, without duplicates.
    fn bars(&self, events: &[&Arc<EventTimeline>], y: u32, height: u32) -> Vec<Bar> {
        let mut alike: BTreeMap<[i64; 5], Vec<&Arc<EventTimeline>>> = BTreeMap::new();
        for event in events {
            let or = |at: Option<Timestamp>| at.map_or(-1, |at| at.0);
            let key = [or(event.ended), or(event.started), event.appeared.0, event.not_before.0, event.duration_secs];
            alike.entry(key).or_default().push(event);
        }
        // Impacts that last are drawn last, on top.
        let mut bars: Vec<Bar> =
            alike.into_values().rev().take(BARS_MAX).filter_map(|events| self.bar(&events, y, height)).collect();
        bars.sort_by_key(|bar| (!bar.is_finished, bar.impact.is_some_and(|(from, _)| from <= bar.now)));
        bars
    }

    fn bar(&self, events: &[&Arc<EventTimeline>], y: u32, height: u32) -> Option<Bar> {
        let event = events.first()?;
        let secs = u64::try_from(event.duration_secs).unwrap_or(0);
        let expected = |from: Timestamp| (from + std::time::Duration::from_secs(secs)).0;
        let stage = event.stage();
        let impact = match (event.started, event.ended) {
            (Some(started), Some(ended)) => Some((started.0, Some(ended.0))),
            (Some(started), None) => Some((started.0, Some(expected(started)).filter(|end| *end > self.context.now.0))),
            (None, Some(_)) => None,
            (None, None) => Some((event.not_before.0, Some(expected(event.not_before)))),
        };
        Some(Bar {
            from: event.appeared.0,
            to: event.started.or(event.ended).unwrap_or(event.not_before).0,
            impact,
            severity: Severity::of_word(&event.kind).class(),
            is_finished: stage == Stage::Finished,
            has_notice: events.iter().any(|event| event.is_shown),
            steps: if stage == Stage::Scheduled { find_readiness_steps(events) } else { Vec::new() },
            y,
            height,
            now: self.context.now.0,
            window: (self.context.mode == RenderMode::Page).then_some(self.view.window),
        })
    }

    fn expected(&self, window: Window) -> Vec<(i64, i64, String)> {
        let ActivityId::Operation(id) = self.activity.id else { return Vec::new() };
        let Some(operation) = self.context.region().operation(id) else { return Vec::new() };
        let next = find_expected(self.context.region(), operation).into_iter();
        let position = |from: i64, due: i64| match self.context.mode {
            RenderMode::Page => window.bar(from, due),
            RenderMode::Update => String::new(),
        };
        next.map(|one| (one.from.0, one.due.0, position(one.from.0, one.due.0))).collect()
    }

    /// The most important words about the activity, and the time at which the label is drawn.
    fn label(&self) -> Option<(String, i64)> {
        let activity = self.activity;
        let ready = activity.readiness();
        let at = |event: &Arc<EventTimeline>| {
            let secs = u64::try_from(event.duration_secs).unwrap_or(0);
            let start = event.started.unwrap_or(event.not_before);
            event.ended.unwrap_or((start + std::time::Duration::from_secs(secs)).max(start)).0
        };
        let end = activity.events.iter().map(at).max().unwrap_or(self.context.now.0);
        let text = match (activity.stage(), activity.is_failure, activity.expected_end()) {
            (Stage::Finished, _, _) => return None,
            (Stage::InProgress, _, Some(end)) if end < self.context.now => {
                format!("{} longer than planned", clock_span(self.context.now.since(end).as_secs()))
            }
            (Stage::InProgress, true, _) => "no notice".into(),
            (_, _, _) if ready.all() > 0 => ready.describe(),
            (Stage::Scheduled, _, _) => waits::shorten(activity.waits_for.as_ref()?),
            (Stage::InProgress, _, _) => return None,
        };
        Some((text, end.max(if activity.stage() == Stage::InProgress { self.context.now.0 } else { end })))
    }

    fn place_label(&self, (text, at): (String, i64), bars: &[Bar]) -> Label {
        let window = self.view.window;
        let is_left = window.percent(at) > LABEL_RIGHT_MAX;
        let first = bars.iter().map(|bar| bar.from.min(bar.impact.map_or(bar.to, |(from, _)| from))).min();
        let at = if is_left { first.unwrap_or(at) } else { at };
        let x = match self.context.mode {
            RenderMode::Page => format!(r#"x="{:.2}%""#, window.percent(at)),
            RenderMode::Update => String::new(),
        };
        Label { text, at, x, is_left }
    }
}

/// The parts of a lane that depend on its level.
struct LaneText<'a> {
    id: String,
    sort: String,
    level: u8,
    name: String,
    href: String,
    fold: String,
    below: &'static str,
    is_open: bool,
    count: String,
    label: Option<(String, i64)>,
    events: &'a [&'a Arc<EventTimeline>],
}

impl LaneText<'_> {
    fn label_text(&self) -> &str {
        self.label.as_ref().map_or("", |(text, _)| text)
    }
}

/// The state of a machine in one of its events.
fn describe_machine(event: &EventTimeline) -> String {
    match (event.stage(), event.is_shown, &event.approved) {
        (Stage::Finished, _, _) => event.status.to_lowercase(),
        (Stage::InProgress, _, _) => "in progress".into(),
        (Stage::Scheduled, false, _) => "no handler".into(),
        (Stage::Scheduled, true, Some(_)) => "ready".into(),
        (Stage::Scheduled, true, None) => "not ready".into(),
    }
}

fn find_readiness_steps(events: &[&Arc<EventTimeline>]) -> Vec<(i64, Option<i64>, u32)> {
    let all = events.iter().map(|event| event.names.len()).sum();
    let approvals = events.iter().filter_map(|event| Some((event.approved.as_ref()?.0.0, event.names.len())));
    build_readiness_steps(all, approvals.collect())
}

/// A lane as text, for screen readers.
fn describe(name: &str, bars: &[Bar], label: &str) -> String {
    let mut text = name.to_owned();
    for bar in bars.iter().take(3) {
        let to = words::utc(Timestamp(bar.to));
        match (bar.impact, bar.is_finished) {
            (Some((from, Some(end))), true) => {
                text += &format!("; impact from {} to {}", words::utc(Timestamp(from)), words::utc(Timestamp(end)));
            }
            (_, true) => text += "; ended without impact",
            (Some((from, _)), false) if from <= bar.now => {
                text += &format!("; in progress since {}", words::utc(Timestamp(from)));
            }
            (_, false) => text += &format!("; not before {to}"),
        }
    }
    if label.is_empty() { text } else { format!("{text}; {label}") }
}
