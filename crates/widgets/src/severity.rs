//! The severity of an event type, which decides its color: red for machines that are lost or moved, amber for restarts,
//! slate for short pauses.

use forewarn_core::EventKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Red,
    Amber,
    Slate,
}

impl Severity {
    pub fn of(kind: EventKind) -> Severity {
        match kind {
            EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => Severity::Red,
            EventKind::Reboot => Severity::Amber,
            EventKind::Freeze | EventKind::SpotRebalanceRecommendation => Severity::Slate,
        }
    }

    /// The severity of an event type as the timeline names it.
    pub fn of_word(kind: &str) -> Severity {
        match kind {
            "Freeze" | "Rebalance" | "SpotRebalanceRecommendation" => Severity::Slate,
            "Reboot" => Severity::Amber,
            _ => Severity::Red,
        }
    }

    pub fn class(self) -> &'static str {
        match self {
            Severity::Red => "red",
            Severity::Amber => "amber",
            Severity::Slate => "slate",
        }
    }
}
