//! The timeline: one lane per event. Lanes carry times; `window` converts them to positions when a page is rendered, and
//! `timeline.js` on an open page.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Region, Timestamp};

use super::event_timeline::EventTimeline;
use super::html::{self, RenderMode};
use super::panel::Panel;
use super::window::Window;
use super::words;

/// Ticks that are closer to the current time would be covered by its label.
const LABEL_PERCENT: f64 = 5.0;

/// The panel with one lane per event, its controls, the axis and the line of the current time.
pub fn render_panel(region: &Region, now: Timestamp, mode: RenderMode, events: &[Arc<EventTimeline>]) -> Panel {
    let lanes = events.iter().map(|event| event.render_lane(region, now, mode, &event.sort_key())).collect();
    let window = Window::centered_on(now);
    Panel::new("timeline", "Timeline", lanes)
        .with_html_before(html::render(&Controls { selected: window.span_ms() }))
        .with_html_inside(html::render(&Canvas::with_offset(window, now, 0)))
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
    /// The position of the current time above its line, and whether it is in the window.
    label_x: String,
    is_present: bool,
    /// The current time, in UTC.
    clock: String,
    span: i64,
    /// The offset of the window, in quarters.
    moved: i64,
}

impl Canvas {
    /// The axis of a window that was moved by this many quarters of its width.
    pub fn with_offset(window: Window, now: Timestamp, moved: i64) -> Canvas {
        let x = window.percent(now.0);
        let is_free = |(tick, _): &(String, String)| {
            tick.trim_end_matches('%').parse().is_ok_and(|tick: f64| (tick - x).abs() > LABEL_PERCENT)
        };
        Canvas {
            ticks: window.ticks().into_iter().filter(is_free).collect(),
            now: window.line(now.0),
            label_x: format!("{x:.2}%"),
            is_present: (0.0..=100.0).contains(&x),
            clock: words::clock(now),
            span: window.span_ms(),
            moved,
        }
    }
}
