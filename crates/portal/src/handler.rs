//! Handlers of machines on pages: whether they poll, since when, how often, and their last approval. Known across restarts of
//! the server.

use std::time::Duration;

use forewarn_api::HandlerRecord;
use forewarn_api_types::span::format_span;
use forewarn_core::{Group, MachineId, ScopeId, Timestamp};
use forewarn_widgets::words;

use super::page_context::PageContext;

/// Intervals are rounded down to this, so that live updates stay rare.
const INTERVAL_STEP_MILLIS: u64 = 100;

/// The handler of one machine.
#[derive(Clone, Copy)]
pub struct Handler {
    pub is_polling: bool,
    /// `None`: the machine has never polled.
    record: Option<HandlerRecord>,
}

impl Handler {
    pub fn of(context: &PageContext, machine: MachineId) -> Handler {
        let handlers = context.portal.handlers();
        let record = handlers.find(machine);
        Handler { is_polling: record.is_some_and(|record| handlers.is_polling(&record)), record }
    }

    pub fn last_poll(&self) -> Option<Timestamp> {
        self.record.map(|record| record.last_poll)
    }

    /// How it polls, in sentences. HTML.
    pub fn describe(&self) -> String {
        let Some(record) = self.record else {
            return "No handler: the machine has never requested its document.".into();
        };
        let state = if self.is_polling { "Handler connected" } else { "Handler stopped polling" };
        let often = record.interval.and_then(round_interval);
        let often = often.map_or_else(String::new, |span| format!(", typically every {}", format_span(span)));
        let (since, last) = (words::time(record.since), words::time(record.last_poll));
        let polls = if record.polls == 1 { "1 poll".into() } else { format!("{} polls", record.polls) };
        let approval =
            record.last_approval.map_or_else(String::new, |at| format!(" Last approval: {}.", words::time(at)));
        format!("{state}: {polls} since {since}{often}. Last poll: {last}.{approval}")
    }
}

/// The handlers of an event group together: the approval of one machine counts for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeHandler {
    /// Events come without notice.
    Missing,
    Polling,
    /// Events have notice, but no handler polls any longer.
    Silent,
}

impl ScopeHandler {
    pub fn of(context: &PageContext, scope: ScopeId) -> ScopeHandler {
        let region = context.region();
        let mut members = region.members(scope);
        match (region.is_on(scope), members.any(|machine| Handler::of(context, machine.id).is_polling)) {
            (false, _) => ScopeHandler::Missing,
            (true, true) => ScopeHandler::Polling,
            (true, false) => ScopeHandler::Silent,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ScopeHandler::Missing => "no handler",
            ScopeHandler::Polling => "handler connected",
            ScopeHandler::Silent => "handler silent",
        }
    }

    /// The class of its mark.
    pub fn class(self) -> &'static str {
        match self {
            ScopeHandler::Missing => "",
            ScopeHandler::Polling => "good",
            ScopeHandler::Silent => "warm",
        }
    }
}

/// `2 event groups, 1 with a handler that polls`.
pub fn count_scopes(context: &PageContext, scopes: impl ExactSizeIterator<Item = ScopeId>) -> String {
    let all = scopes.len();
    let polling = scopes.filter(|scope| ScopeHandler::of(context, *scope) == ScopeHandler::Polling).count();
    format!("{all}, {polling} with a handler that polls")
}

fn round_interval(interval: Duration) -> Option<Duration> {
    let millis = interval.as_millis() as u64 / INTERVAL_STEP_MILLIS * INTERVAL_STEP_MILLIS;
    (millis > 0).then_some(Duration::from_millis(millis))
}

/// How many of the machines of a group that are up poll, when one last did, and the last approval. HTML.
pub fn describe_group(context: &PageContext, group: &Group, polling: usize, up: usize) -> String {
    let handlers = context.portal.handlers().render_group(context.region(), group);
    let last = describe_poll(context.now, handlers.last_poll.map(|at| Timestamp(at.0)));
    let approval = handlers.last_approval.map(|at| format!(", last approval {}", words::time(Timestamp(at.0))));
    let up = if up == 1 { "1 that is up".to_owned() } else { format!("{up} that are up") };
    format!("{polling} of the {up}, last poll {last}{}", approval.unwrap_or_default())
}

/// How often the machines of a group have polled, since when, and their median interval. HTML.
pub fn describe_polls(context: &PageContext, group: &Group) -> String {
    let found = context.portal.handlers().render_group(context.region(), group);
    let Some(since) = found.since else { return "none".into() };
    let members = context.region().group_members(group);
    let mut intervals: Vec<Duration> =
        members.filter_map(|machine| Handler::of(context, machine.id).record?.interval).collect();
    intervals.sort_unstable();
    let median = intervals.get(intervals.len() / 2).copied().and_then(round_interval);
    let often = median.map_or_else(String::new, |span| format!(", typically every {}", format_span(span)));
    format!("{} since {}{often}", found.polls, words::time(Timestamp(since.0)))
}

/// The time since the last poll. Coarse, so that live updates stay rare.
pub fn describe_poll(now: Timestamp, last_poll: Option<Timestamp>) -> String {
    let Some(at) = last_poll else { return "never".into() };
    match now.since(at).as_secs() {
        ..60 => "under 1 min ago".into(),
        secs @ 60..3600 => format!("{} min ago", secs / 60),
        secs @ 3600..86_400 => format!("{} h ago", secs / 3600),
        secs => format!("{} d ago", secs / 86_400),
    }
}
