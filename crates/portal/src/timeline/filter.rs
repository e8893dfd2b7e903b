//! The search and the filter of the overview, which apply to the timeline and to the list of event groups.

use forewarn_core::{Region, Scope, ScopeId, Status};

use super::{EventTimeline, Stage};
use crate::words;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageFilter {
    All,
    Scheduled,
    InProgress,
}

impl StageFilter {
    pub const EACH: [StageFilter; 3] = [StageFilter::All, StageFilter::Scheduled, StageFilter::InProgress];

    /// Parses the value in an address. Unknown values select everything.
    pub fn parse(word: &str) -> StageFilter {
        StageFilter::EACH.into_iter().find(|filter| filter.word() == word).unwrap_or(StageFilter::All)
    }

    pub fn word(self) -> &'static str {
        match self {
            StageFilter::All => "",
            StageFilter::Scheduled => "scheduled",
            StageFilter::InProgress => "in-progress",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            StageFilter::All => "All",
            StageFilter::Scheduled => "Scheduled",
            StageFilter::InProgress => "In progress",
        }
    }

    fn matches(self, stage: Stage) -> bool {
        match self {
            StageFilter::All => true,
            StageFilter::Scheduled => stage == Stage::Scheduled,
            StageFilter::InProgress => stage == Stage::InProgress,
        }
    }
}

pub struct EventFilter<'a> {
    pub stage: StageFilter,
    /// In lower case.
    pub search: &'a str,
}

impl EventFilter<'_> {
    pub fn matches_everything(&self) -> bool {
        self.stage == StageFilter::All && self.search.is_empty()
    }

    pub fn matches_event(&self, event: &EventTimeline) -> bool {
        let has_name = || self.matches_name(&event.scope) || event.names.iter().any(|name| self.matches_name(name));
        self.stage.matches(event.stage()) && has_name()
    }

    /// Whether events that are expected in this event group match.
    pub fn matches_expected(&self, region: &Region, scope: ScopeId) -> bool {
        self.stage.matches(Stage::Scheduled) && region.scope(scope).is_some_and(|scope| self.has_name(region, scope))
    }

    pub fn matches_scope(&self, region: &Region, scope: &Scope) -> bool {
        let has_stage = || match self.stage {
            StageFilter::All => true,
            StageFilter::Scheduled | StageFilter::InProgress => {
                scope.live.iter().filter_map(|id| region.event(*id)).any(|event| {
                    let is_started = matches!(event.status, Status::Started { .. });
                    self.stage.matches(if is_started { Stage::InProgress } else { Stage::Scheduled })
                })
            }
        };
        has_stage() && self.has_name(region, scope)
    }

    fn has_name(&self, region: &Region, scope: &Scope) -> bool {
        self.search.is_empty()
            || self.matches_name(&words::scope(region, scope).name)
            || region.members(scope.id).any(|machine| self.matches_name(&machine.name))
    }

    fn matches_name(&self, name: &str) -> bool {
        self.search.is_empty() || name.to_lowercase().contains(self.search)
    }
}
