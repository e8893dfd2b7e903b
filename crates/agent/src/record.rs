//! The record of an event: how it was last seen, which steps ran, and whether it was approved.

use std::fmt;
use std::time::SystemTime;

use forewarn_client::Event;
use serde::{Deserialize, Serialize};

/// Part of an event's lifecycle in which a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// The event is scheduled: get ready.
    Prepare,
    /// The event is in progress.
    Started,
    /// The event has finished or was canceled: undo what `prepare` did.
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

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// With the reason, such as `exit status: 1`.
    Failed(String),
    /// Killed because it exceeded its time limit.
    Late,
    /// The agent stopped while the step was running.
    Interrupted,
}

impl Outcome {
    /// Value in the state file and in metrics.
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
            Outcome::Failed(reason) => write!(f, "failed: {reason}"),
            Outcome::Late => f.write_str("exceeded its time limit and was killed"),
            Outcome::Interrupted => f.write_str("was interrupted"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Running,
    Ended(Outcome),
}

/// A step that has started. A record has at most one entry per step name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRun {
    pub phase: Phase,
    pub name: String,
    pub progress: Progress,
    /// Known soon after the start.
    pub process: Option<ProcessIdentity>,
}

impl StepRun {
    pub fn begin(phase: Phase, name: String) -> StepRun {
        StepRun { phase, name, progress: Progress::Running, process: None }
    }
}

/// Identity of a process that is unique across reuse of process IDs and restarts of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Boot ID and start time.
    pub started: String,
}

/// Reason why an event is no longer in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEnd {
    Finished,
    Canceled,
}

impl EventEnd {
    /// Value in the state file.
    pub fn as_stored(self) -> &'static str {
        match self {
            EventEnd::Finished => "ended",
            EventEnd::Canceled => "cancelled",
        }
    }

    pub fn parse_stored(text: &str) -> Option<EventEnd> {
        [EventEnd::Finished, EventEnd::Canceled].into_iter().find(|end| end.as_stored() == text)
    }
}

impl fmt::Display for EventEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EventEnd::Finished => "finished",
            EventEnd::Canceled => "canceled",
        })
    }
}

/// Everything that the agent knows about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub event: Event,
    /// Position of this machine among the event's machines, from 0.
    pub rank: usize,
    /// Time at which this agent first saw the event. The leader's share of the notice counts from here.
    pub seen_at: SystemTime,
    pub runs: Vec<StepRun>,
    /// Whether the service accepted this machine's approval.
    pub approved: bool,
    pub end: Option<EventEnd>,
}

impl Record {
    /// Creates a record. Returns `None` if the event does not affect this machine.
    pub fn new(machine: &str, event: Event, seen_at: SystemTime) -> Option<Record> {
        let rank = event.resources.iter().position(|resource| resource.matches(machine))?;
        Some(Record { event, rank, seen_at, runs: Vec::new(), approved: false, end: None })
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
