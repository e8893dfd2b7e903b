//! Detection of changes from one document to the next. Pure; time is an argument.
//!
//! ```text
//!             Appeared          Started
//!   (absent) ─────────▶ Scheduled ────▶ Started
//!       ▲                 │    │           │
//!       │    Canceled     │    │ Finished  │ Finished
//!       ├─────────────────┘    ▼           │
//!       └──────────────────────────────────┘
//! ```
//!
//! - An event that is first seen Started appears and starts in one step.
//! - An event that disappears while Scheduled was canceled, unless it was approved or `NotBefore` has passed. In that
//!   case it started and finished between two polls.
//! - Incarnation numbers are ignored, because a service can start counting over.
//! - A version that does not show events of a type says nothing about the end of such an event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::document::Document;
use crate::event::{Event, EventId, EventStatus};

/// Difference between two consecutive documents. Each variant holds the event as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The event is new. Always the first change of an event.
    Appeared(Event),
    /// The event is in progress.
    Started(Event),
    /// The event has finished. If it was last seen Scheduled, it started and finished between two polls.
    Finished(Event),
    /// The event was canceled.
    Canceled(Event),
}

impl Change {
    /// Event that changed.
    pub fn event(&self) -> &Event {
        match self {
            Change::Appeared(event) | Change::Started(event) | Change::Finished(event) | Change::Canceled(event) => {
                event
            }
        }
    }
}

/// Remembers the events that have not finished, and compares them with each new document.
///
/// ```
/// use std::time::SystemTime;
/// use forewarn_client::{Change, Document, Tracker, Version};
///
/// let body = br#"{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled","EventType":"Reboot",
///     "Resources":["web"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]}"#;
/// let document = Document::parse(Version::V2020_07_01, body)?;
/// let changes = Tracker::new().update(&document, SystemTime::now());
/// assert!(matches!(&changes[..], [Change::Appeared(event)] if event.affects("web")));
/// # Ok::<(), forewarn_client::DocumentError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    events: BTreeMap<EventId, Event>,
    approved: BTreeSet<EventId>,
}

impl Tracker {
    /// Creates a tracker that has seen no events.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// Creates a tracker that has seen these events, for example in an earlier run of the program.
    pub fn resume(events: impl IntoIterator<Item = Event>) -> Tracker {
        let events = events.into_iter().map(|event| (event.id.clone(), event)).collect();
        Tracker { events, approved: BTreeSet::new() }
    }

    /// Records that an event was approved and can start before `NotBefore`. If it then disappears without having been
    /// seen Started, it counts as finished, not as canceled.
    pub fn mark_approved(&mut self, id: &EventId) {
        if self.events.contains_key(id) {
            self.approved.insert(id.clone());
        }
    }

    /// Events that have not finished, as they were last seen.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }

    /// Event with this ID, if it has not finished.
    pub fn get(&self, id: &EventId) -> Option<&Event> {
        self.events.get(id)
    }

    /// Compares a document with the known events. Returns finished and canceled events first, then the other changes in
    /// the order of the document.
    pub fn update(&mut self, document: &Document, now: SystemTime) -> Vec<Change> {
        let mut changes = self.remove_missing(document, now);
        for event in &document.events {
            self.update_event(event, &mut changes);
        }
        changes
    }

    fn remove_missing(&mut self, document: &Document, now: SystemTime) -> Vec<Change> {
        let present: BTreeSet<&EventId> = document.events.iter().map(|event| &event.id).collect();
        let is_gone = |(id, event): &(&EventId, &Event)| {
            !present.contains(id) && event.kind.is_visible_in(document.version, event.version)
        };
        let gone: Vec<EventId> = self.events.iter().filter(is_gone).map(|(id, _)| id.clone()).collect();
        gone.iter().filter_map(|id| self.remove(id, now)).collect()
    }

    fn remove(&mut self, id: &EventId, now: SystemTime) -> Option<Change> {
        let event = self.events.remove(id)?;
        let approved = self.approved.remove(id);
        let may_have_started = approved || event.not_before.is_some_and(|time| time <= now);
        Some(match event.status {
            EventStatus::Scheduled if !may_have_started => Change::Canceled(event),
            EventStatus::Scheduled | EventStatus::Started => Change::Finished(event),
        })
    }

    fn update_event(&mut self, event: &Event, changes: &mut Vec<Change>) {
        let before = self.events.get(&event.id);
        let mut event = match before {
            Some(before) => event.clone().with_gaps_filled_from(before),
            None => event.clone(),
        };
        let was_started = before.is_some_and(|before| before.status == EventStatus::Started);
        if before.is_none() {
            changes.push(Change::Appeared(event.clone()));
        }
        match event.status {
            EventStatus::Started if !was_started => changes.push(Change::Started(event.clone())),
            // Events never return to Scheduled: this response is outdated.
            EventStatus::Scheduled if was_started => event.status = EventStatus::Started,
            EventStatus::Started | EventStatus::Scheduled => {}
        }
        self.events.insert(event.id.clone(), event);
    }
}
