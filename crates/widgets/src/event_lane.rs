//! The lane of one event: its name, its shapes on the time axis, and its details.

use askama::Template;
use forewarn_api_types::join_names;
use forewarn_core::{Region, Timestamp};

use super::event_timeline::{EventTimeline, scope_name};
use super::fragment::Fragment;
use super::html::RenderMode;
use super::stage::Stage;
use super::window::Window;
use super::words;

#[derive(Template)]
#[template(path = "lane.html")]
struct EventLane<'a> {
    id: &'a str,
    sort: &'a str,
    event: &'a EventTimeline,
    class: String,
    names: String,
    /// The event group beside the name, or empty.
    scope: &'a str,
    /// The event group in the details.
    scope_detail: &'a str,
    due_html: String,
    appeared_html: String,
    approved_html: Option<(String, &'a str)>,
    /// Short name of the approver, or empty.
    approver: &'a str,
    started_html: Option<String>,
    ended_html: Option<String>,
    /// Text for screen readers.
    description: String,
    shapes: Shapes,
}

/// The shapes of one event.
#[derive(Template)]
#[template(path = "shapes.html")]
struct Shapes {
    from: i64,
    /// End of the notice: the start, or the deadline.
    to: i64,
    due: i64,
    approved: Option<i64>,
    started: Option<i64>,
    ended: Option<i64>,
    now: i64,
    /// `None` for updates, because the script computes the positions.
    window: Option<Window>,
}

impl EventLane<'_> {
    /// Follows the status. HTML.
    fn describe_start(&self) -> String {
        match self.event.stage() {
            Stage::Scheduled => format!(", starts {}", words::countdown_at(self.event.not_before)),
            Stage::InProgress | Stage::Finished => String::new(),
        }
    }
}

impl Shapes {
    fn of(event: &EventTimeline, now: Timestamp, mode: RenderMode) -> Shapes {
        Shapes {
            from: event.appeared.0,
            to: event.started.or(event.ended).unwrap_or(event.not_before).0,
            due: event.not_before.0,
            approved: event.approved.as_ref().map(|(at, _)| at.0),
            started: event.started.map(|at| at.0),
            ended: event.ended.map(|at| at.0),
            now: now.0,
            window: (mode == RenderMode::Page).then(|| Window::centered_on(now)),
        }
    }

    fn bar(&self, begin: &i64, end: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.bar(*begin, *end))
    }

    fn line(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.line(*at))
    }

    fn mark(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.mark(*at))
    }
}

impl EventTimeline {
    pub fn render_lane(&self, region: &Region, now: Timestamp, mode: RenderMode, sort: &str) -> Fragment {
        let id = words::event_name(self.id);
        let names = join_names(&self.names);
        let current_scope = self.current_scope_name(region);
        let scope = if current_scope == names { "" } else { current_scope.as_str() };
        let lane = EventLane {
            id: &id,
            sort,
            event: self,
            class: format!("{} {}", self.kind.to_lowercase(), self.stage().class()),
            names,
            scope,
            scope_detail: &current_scope,
            due_html: words::time(self.not_before),
            appeared_html: words::time(self.appeared),
            approved_html: self.approved.as_ref().map(|(at, by)| (words::time(*at), by.as_str())),
            approver: self.approved.as_ref().map_or("", |(_, by)| short_name(by)),
            started_html: self.started.map(words::time),
            ended_html: self.ended.map(words::time),
            description: self.describe(),
            shapes: Shapes::of(self, now, mode),
        };
        Fragment::render(format!("lane-{id}"), sort, &lane)
    }

    /// The name may need a resource group that it did not need when the event appeared.
    fn current_scope_name(&self, region: &Region) -> String {
        let known = self.scope_id.map(|scope| scope_name(region, scope)).filter(|name| !name.is_empty());
        known.unwrap_or_else(|| self.scope.clone())
    }

    /// The lane as text, for screen readers.
    fn describe(&self) -> String {
        let mut text = format!(
            "{} of {}, {}: appeared {}, not before {}",
            self.kind,
            join_names(&self.names),
            self.status.to_lowercase(),
            words::utc(self.appeared),
            words::utc(self.not_before)
        );
        if let Some((at, by)) = &self.approved {
            text += &format!(", approved by {by} {}", words::utc(*at));
        }
        for (word, at) in [("started", self.started), ("ended", self.ended)] {
            text += &at.map_or_else(String::new, |at| format!(", {word} {}", words::utc(at)));
        }
        text
    }
}

/// The name without "machine" or "(management)".
fn short_name(approver: &str) -> &str {
    let name = approver.strip_prefix("machine ").unwrap_or(approver);
    name.strip_suffix(" (management)").unwrap_or(name)
}
