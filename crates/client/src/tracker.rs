//! What changed from one document to the next.
//!
//! ```text
//!             Appeared          Started
//!   (absent) ─────────▶ Scheduled ────▶ Started
//!       ▲                 │    │           │
//!       │    Cancelled    │    │  Ended    │ Ended
//!       ├─────────────────┘    ▼           │
//!       └──────────────────────────────────┘
//! ```
//!
//! An event that is first seen Started appears and starts in one step. One that vanishes while it was
//! last seen Scheduled was cancelled, unless its time had come or it was approved: then it started
//! and ended while nobody looked. The numbers of documents are not looked at, because a service that
//! was turned off for a while begins to count anew. A version that never shows an event does not say
//! that it is over.
//!
//! Time is an argument; nothing here waits or asks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::document::Document;
use crate::event::{Event, EventId, Status};

/// Something that a document says and the one before did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The event was not there before. Comes before everything else of an event.
    Appeared(Event),
    /// It happens now.
    Started(Event),
    /// It is over; the machines will not be touched again without another event. The event is as it
    /// was last seen: one that is still Scheduled started and ended unseen.
    Ended(Event),
    /// It will not happen.
    Cancelled(Event),
}

impl Change {
    pub fn event(&self) -> &Event {
        match self {
            Change::Appeared(event) | Change::Started(event) | Change::Ended(event) | Change::Cancelled(event) => event,
        }
    }
}

/// Remembers the events that were seen and are not over.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    events: BTreeMap<EventId, Event>,
    approved: BTreeSet<EventId>,
}

impl Tracker {
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// Goes on where an earlier program stopped: these events were seen, as they are, and whatever
    /// happened to them since comes out of the next document.
    pub fn resume(events: impl IntoIterator<Item = Event>) -> Tracker {
        let events = events.into_iter().map(|event| (event.id.clone(), event)).collect();
        Tracker { events, approved: BTreeSet::new() }
    }

    /// This machine approved the event, so that it may start before its time. If it vanishes without
    /// having been seen Started it counts as ended, not as cancelled.
    pub fn approved(&mut self, id: &EventId) {
        if self.events.contains_key(id) {
            self.approved.insert(id.clone());
        }
    }

    /// The events that are not over, as they were last seen.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }

    pub fn get(&self, id: &EventId) -> Option<&Event> {
        self.events.get(id)
    }

    /// The changes that this document brings: first what is over, then what is new, in its order.
    pub fn feed(&mut self, document: &Document, now: SystemTime) -> Vec<Change> {
        let mut changes = self.remove_vanished(document, now);
        for event in &document.events {
            self.see(event, &mut changes);
        }
        changes
    }

    fn remove_vanished(&mut self, document: &Document, now: SystemTime) -> Vec<Change> {
        let shown: BTreeSet<&EventId> = document.events.iter().map(|event| &event.id).collect();
        let is_gone = |(id, event): &(&EventId, &Event)| {
            !shown.contains(id) && event.kind.is_shown(document.version, event.version)
        };
        let gone: Vec<EventId> = self.events.iter().filter(is_gone).map(|(id, _)| id.clone()).collect();
        gone.iter().filter_map(|id| self.remove(id, now)).collect()
    }

    fn remove(&mut self, id: &EventId, now: SystemTime) -> Option<Change> {
        let event = self.events.remove(id)?;
        let approved = self.approved.remove(id);
        let may_have_started = approved || event.not_before.is_some_and(|time| time <= now);
        Some(match event.status {
            Status::Scheduled if !may_have_started => Change::Cancelled(event),
            Status::Scheduled | Status::Started => Change::Ended(event),
        })
    }

    fn see(&mut self, event: &Event, changes: &mut Vec<Change>) {
        let before = self.events.get(&event.id);
        let mut event = match before {
            Some(before) => event.clone().with_what_was_known(before),
            None => event.clone(),
        };
        let was_started = before.is_some_and(|before| before.status == Status::Started);
        if before.is_none() {
            changes.push(Change::Appeared(event.clone()));
        }
        match event.status {
            Status::Started if !was_started => changes.push(Change::Started(event.clone())),
            // Events never go back. An answer that says so is an old one that came late.
            Status::Scheduled if was_started => event.status = Status::Started,
            Status::Started | Status::Scheduled => {}
        }
        self.events.insert(event.id.clone(), event);
    }
}
