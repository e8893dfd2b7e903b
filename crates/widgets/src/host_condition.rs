//! The condition of a host in one word: a failure of its hardware, its contact, or its state.

use std::collections::BTreeSet;

use forewarn_core::{Host, HostState, Name};

/// In the order of their urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostCondition {
    /// Off, as an operator or a fencing agent has confirmed.
    Failed,
    /// Its hardware has failed, and its machines are being restarted or moved.
    Failing,
    Unreachable,
    Draining,
    Drained,
    Active,
}

impl HostCondition {
    /// `failing` are the hosts that [`forewarn_core::Region::failing_hosts`] returns.
    pub fn of(host: &Host, failing: &BTreeSet<&Name>) -> HostCondition {
        match (host.is_unreachable(), host.state) {
            // A host is often fenced because its agent is silent. Then the machines are off, not only out of reach.
            (_, HostState::Failed) => HostCondition::Failed,
            (true, _) => HostCondition::Unreachable,
            (false, _) if failing.contains(&host.name) => HostCondition::Failing,
            (false, HostState::Draining) => HostCondition::Draining,
            (false, HostState::Drained) => HostCondition::Drained,
            (false, HostState::Active) => HostCondition::Active,
        }
    }

    pub fn is_bad(self) -> bool {
        match self {
            HostCondition::Failed | HostCondition::Failing | HostCondition::Unreachable => true,
            HostCondition::Draining | HostCondition::Drained | HostCondition::Active => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            HostCondition::Failed => "Failed",
            HostCondition::Failing => "Hardware failure",
            HostCondition::Unreachable => "Unreachable",
            HostCondition::Draining => "Draining",
            HostCondition::Drained => "Drained",
            HostCondition::Active => "Active",
        }
    }

    /// The condition without the host's name beside it.
    pub fn describe(self) -> &'static str {
        match self {
            HostCondition::Failed => "Host failed",
            HostCondition::Failing => "Hardware failure",
            HostCondition::Unreachable => "Host unreachable",
            HostCondition::Draining => "Host draining",
            HostCondition::Drained => "Host drained",
            HostCondition::Active => "Host active",
        }
    }

    /// The value of the filter that contains it.
    pub fn filter(self) -> &'static str {
        match self {
            HostCondition::Failed | HostCondition::Failing => "failed",
            HostCondition::Unreachable => "unreachable",
            HostCondition::Draining => "draining",
            HostCondition::Drained => "drained",
            HostCondition::Active => "active",
        }
    }

    /// The class of words in its color.
    pub fn color(self) -> &'static str {
        match self {
            HostCondition::Failed | HostCondition::Failing | HostCondition::Unreachable => "red",
            HostCondition::Draining => "amber",
            HostCondition::Drained => "slate",
            HostCondition::Active => "green",
        }
    }

    /// The word, with a mark in its color.
    pub fn render(self) -> String {
        let class = match self {
            HostCondition::Failed | HostCondition::Failing => "down",
            HostCondition::Unreachable => "gone",
            HostCondition::Draining => "wait",
            HostCondition::Drained => "cold",
            HostCondition::Active => "",
        };
        format!(r#"<span class="st {class}">{}</span>"#, self.as_str())
    }
}
