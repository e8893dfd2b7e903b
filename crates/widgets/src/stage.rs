//! The stages of an event or operation, and the filter for them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Scheduled,
    InProgress,
    Finished,
}

impl Stage {
    pub fn class(self) -> &'static str {
        match self {
            Stage::Scheduled => "scheduled",
            Stage::InProgress => "in-progress",
            Stage::Finished => "finished",
        }
    }
}

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
        StageFilter::EACH.into_iter().find(|filter| filter.as_str() == word).unwrap_or(StageFilter::All)
    }

    pub fn as_str(self) -> &'static str {
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

    pub fn matches(self, stage: Stage) -> bool {
        match self {
            StageFilter::All => true,
            StageFilter::Scheduled => stage == Stage::Scheduled,
            StageFilter::InProgress => stage == Stage::InProgress,
        }
    }
}
