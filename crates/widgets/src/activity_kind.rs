//! The kinds of activities: what they do to machines, in the words that pages use.

use forewarn_core::EventKind;

use super::words;

/// The effect of an activity on machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// It creates events of this type.
    Events(EventKind),
    /// It creates events of the types that each machine needs.
    Drain,
    /// An operation of the history, of a type that this version does not know.
    Unknown,
}

impl ActivityKind {
    /// The kind of events whose type has this name in the history.
    pub fn of_word(kind: &str) -> ActivityKind {
        let all = [
            EventKind::Freeze,
            EventKind::Reboot,
            EventKind::Redeploy,
            EventKind::Preempt,
            EventKind::Terminate,
            EventKind::SpotRebalanceRecommendation,
        ];
        all.into_iter().find(|known| known.as_str() == kind).map_or(ActivityKind::Unknown, ActivityKind::Events)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ActivityKind::Events(kind) => words::event_kind(kind),
            ActivityKind::Drain => "Drain",
            ActivityKind::Unknown => "Event",
        }
    }

    /// The effect as a noun in a sentence.
    pub fn noun(self) -> String {
        match self {
            ActivityKind::Events(EventKind::Terminate) => "deletion".into(),
            ActivityKind::Events(EventKind::Preempt) => "eviction".into(),
            ActivityKind::Events(EventKind::SpotRebalanceRecommendation) => "recommendation".into(),
            ActivityKind::Events(EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy)
            | ActivityKind::Drain
            | ActivityKind::Unknown => self.as_str().to_lowercase(),
        }
    }

    /// The effect as a verb whose object are machines.
    pub fn verb(self) -> &'static str {
        match self {
            ActivityKind::Events(EventKind::Freeze) => "freeze",
            ActivityKind::Events(EventKind::Reboot) => "reboot",
            ActivityKind::Events(EventKind::Redeploy) => "redeploy",
            ActivityKind::Events(EventKind::Preempt) => "evict",
            ActivityKind::Events(EventKind::Terminate) => "delete",
            ActivityKind::Drain => "move",
            ActivityKind::Events(EventKind::SpotRebalanceRecommendation) | ActivityKind::Unknown => "start",
        }
    }

    /// The state of machines after the start, before a time: `down at 03:00`.
    pub fn effect(self) -> &'static str {
        match self {
            ActivityKind::Events(EventKind::Freeze) => "paused",
            ActivityKind::Events(EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt) => "down",
            ActivityKind::Events(EventKind::Terminate) => "deleted",
            ActivityKind::Drain => "moved",
            ActivityKind::Events(EventKind::SpotRebalanceRecommendation) | ActivityKind::Unknown => "starts",
        }
    }

    pub fn is_deletion(self) -> bool {
        self == ActivityKind::Events(EventKind::Terminate)
    }
}
