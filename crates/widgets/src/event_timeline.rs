//! One event over time, from its appearance to its end.

use std::collections::HashMap;
use std::sync::Arc;

use forewarn_core::{Event, EventId, MachineId, OperationId, Outcome, Region, ScopeId, Status, Timestamp};

use super::stage::Stage;
use super::words;

/// One event, live or finished, with the times of its lifecycle.
#[derive(Clone)]
pub struct EventTimeline {
    pub id: EventId,
    pub kind: String,
    /// The names of its machines.
    pub names: Vec<String>,
    /// Its machines, as far as they are known.
    pub machines: Vec<MachineId>,
    /// The operations that requested it.
    pub operations: Vec<OperationId>,
    /// The announced duration of the impact; negative if unknown.
    pub duration_secs: i64,
    /// Whether it appeared in a document.
    pub is_shown: bool,
    pub scope_id: Option<ScopeId>,
    pub scope: String,
    pub status: String,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    pub approved: Option<(Timestamp, String)>,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

pub fn live_events(region: &Region, wanted: impl Fn(&Region, &Event) -> bool) -> Vec<Arc<EventTimeline>> {
    // Hundreds of events can share a few event groups.
    let mut scopes: HashMap<ScopeId, String> = HashMap::new();
    let events = region.events().filter(|event| event.is_live() && wanted(region, event));
    events
        .map(|event| {
            let scope = scopes.entry(event.scope).or_insert_with(|| scope_name(region, event.scope));
            Arc::new(EventTimeline::of(event, scope.clone()))
        })
        .collect()
}

impl EventTimeline {
    fn of(event: &Event, scope: String) -> EventTimeline {
        let (started, ended) = match &event.status {
            Status::Scheduled => (None, None),
            Status::Started { at } => (Some(*at), None),
            Status::Ended { at, .. } => (None, Some(*at)),
        };
        EventTimeline {
            id: event.id,
            kind: event.kind.as_str().into(),
            names: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
            machines: event.resources.iter().map(|resource| resource.machine).collect(),
            operations: event.operations.clone(),
            duration_secs: event.duration_secs,
            is_shown: event.is_shown(),
            scope_id: Some(event.scope),
            scope,
            status: words::status(event).into(),
            appeared: event.appeared,
            not_before: event.not_before,
            approved: event.approval.as_ref().map(|approval| (approval.at, words::approver(&approval.by))),
            started,
            ended,
        }
    }

    pub fn stage(&self) -> Stage {
        match (self.started, self.ended) {
            (_, Some(_)) => Stage::Finished,
            (Some(_), None) => Stage::InProgress,
            (None, None) => Stage::Scheduled,
        }
    }

    /// Sorts live events by deadline, then finished events, newest first.
    fn time_key(&self) -> String {
        match self.ended {
            None => format!("0-{:016}", self.not_before.0),
            Some(at) => format!("1-{:016}", i64::MAX - at.0),
        }
    }

    /// Sorts by time, then by event group and name.
    pub fn sort_key(&self) -> String {
        let name = self.names.first().map_or("", String::as_str);
        format!("{}-{}-{name}-{}", self.time_key(), self.scope, words::event_name(self.id))
    }
}

pub fn scope_name(region: &Region, scope: ScopeId) -> String {
    region.scope(scope).map_or_else(String::new, |scope| words::scope(region, scope).name)
}

/// The outcome, with the driver's message or the name of the principal that canceled the event.
pub fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(why) => format!("Failed: {why}"),
        Outcome::Canceled { by } => format!("Canceled by {by}"),
        Outcome::Completed | Outcome::TimedOut | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone => {
            words::outcome_word(outcome).into()
        }
    }
}
