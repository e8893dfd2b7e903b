//! What the agent remembers of an event: how it was last seen, which steps ran, whether it was approved.

use std::fmt;
use std::time::SystemTime;

use forewarn_client::Event;
use serde::{Deserialize, Serialize};

/// When in the life of an event a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// It is announced: get ready.
    Prepare,
    /// It happens now.
    Started,
    /// It is over, or will not happen: undo what `prepare` did.
    Restore,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Prepare, Phase::Started, Phase::Restore];

    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Started => "started",
            Phase::Restore => "restore",
        }
    }

    pub fn parse(text: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.as_str() == text)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// With the reason, such as `exit status: 1`.
    Failed(String),
    /// It was killed because its time was over.
    Late,
    /// The agent stopped while it ran; nobody knows how far it came.
    Interrupted,
}

impl Outcome {
    /// In one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed(_) => "failed",
            Outcome::Late => "late",
            Outcome::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded => f.write_str("succeeded"),
            Outcome::Failed(reason) => write!(f, "failed, {reason}"),
            Outcome::Late => f.write_str("was late and was killed"),
            Outcome::Interrupted => f.write_str("was interrupted"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Running,
    Ended(Outcome),
}

/// One step that was begun. There is never a second entry of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRun {
    pub phase: Phase,
    pub name: String,
    pub progress: Progress,
    /// Known soon after it began.
    pub process: Option<ProcessMark>,
}

impl StepRun {
    pub fn begin(phase: Phase, name: String) -> StepRun {
        StepRun { phase, name, progress: Progress::Running, process: None }
    }
}

/// A process, so that no other one is ever taken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMark {
    pub pid: u32,
    /// Which start of the operating system, and when after it.
    pub started: String,
}

/// How an event left the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Ended,
    Cancelled,
}

impl Over {
    pub fn as_str(self) -> &'static str {
        match self {
            Over::Ended => "ended",
            Over::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Over> {
        [Over::Ended, Over::Cancelled].into_iter().find(|over| over.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub event: Event,
    /// This machine's place among the event's machines, from 0.
    pub rank: usize,
    /// When this agent saw it first; the leader's share of the notice counts from here.
    pub seen_at: SystemTime,
    pub runs: Vec<StepRun>,
    /// The service took the approval of this machine.
    pub approved: bool,
    pub over: Option<Over>,
}

impl Record {
    /// `None` when the event is not about the machine of that name.
    pub fn new(me: &str, event: Event, seen_at: SystemTime) -> Option<Record> {
        let rank = event.resources.iter().position(|resource| resource.is(me))?;
        Some(Record { event, rank, seen_at, runs: Vec::new(), approved: false, over: None })
    }

    pub fn run(&self, name: &str) -> Option<&StepRun> {
        self.runs.iter().find(|run| run.name == name)
    }

    pub fn run_mut(&mut self, name: &str) -> Option<&mut StepRun> {
        self.runs.iter_mut().find(|run| run.name == name)
    }

    pub fn is_running(&self) -> bool {
        self.runs.iter().any(|run| run.progress == Progress::Running)
    }
}
