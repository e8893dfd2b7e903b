//! The kinds of history rows.

/// The kinds of history rows. Their stored words never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryKind {
    Appeared,
    Approved,
    Started,
    Ended,
    OperationEnded,
    MachineAdded,
    MachineRemoved,
    /// An event group turned on: a handler has asked for its document.
    GroupOn,
    /// An event group turned off, because no handler polls it.
    GroupOff,
    RolloutChanged,
    HostChanged,
    Audit,
}

impl HistoryKind {
    pub const ALL: [HistoryKind; 12] = [
        HistoryKind::Appeared,
        HistoryKind::Approved,
        HistoryKind::Started,
        HistoryKind::Ended,
        HistoryKind::OperationEnded,
        HistoryKind::MachineAdded,
        HistoryKind::MachineRemoved,
        HistoryKind::GroupOn,
        HistoryKind::GroupOff,
        HistoryKind::RolloutChanged,
        HistoryKind::HostChanged,
        HistoryKind::Audit,
    ];

    /// The kinds that make up the timeline of an event.
    pub const OF_EVENTS: [HistoryKind; 4] =
        [HistoryKind::Appeared, HistoryKind::Approved, HistoryKind::Started, HistoryKind::Ended];

    /// The word in stored rows.
    pub fn as_str(self) -> &'static str {
        match self {
            HistoryKind::Appeared => "appeared",
            HistoryKind::Approved => "approved",
            HistoryKind::Started => "started",
            HistoryKind::Ended => "ended",
            HistoryKind::OperationEnded => "operation-ended",
            HistoryKind::MachineAdded => "machine-added",
            HistoryKind::MachineRemoved => "machine-removed",
            HistoryKind::GroupOn => "scope-on",
            HistoryKind::GroupOff => "scope-off",
            HistoryKind::RolloutChanged => "rollout",
            HistoryKind::HostChanged => "host",
            HistoryKind::Audit => "audit",
        }
    }

    pub fn parse(word: &str) -> Option<HistoryKind> {
        HistoryKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        for kind in HistoryKind::ALL {
            assert_eq!(HistoryKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(HistoryKind::parse("other"), None);
    }
}
