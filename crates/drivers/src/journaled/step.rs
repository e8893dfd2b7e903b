//! The stages of orders, and their steps as points at which a test can kill the driver.

use std::str::FromStr;
use std::sync::Arc;

/// A step. Its name is that of the change it makes, to a record or to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    RecordBegun,
    Suspend,
    RecordHeld,
    Wait,
    Reset,
    RecordDone,
    Resume,
    Shutdown,
    Destroy,
    RecordDown,
    Start,
    /// Wait for the process of a start command.
    AwaitStart,
    Migrate,
    MoveDefinition,
    Undefine,
    /// Run the cleanup command of a machine that was deleted.
    Cleanup,
    DeleteDisks,
    /// Write the outcome to the journal.
    RecordOutcome,
    /// Remove the record from the domain.
    Clear,
}

impl Step {
    pub const ALL: [Step; 19] = [
        Step::RecordBegun,
        Step::Suspend,
        Step::RecordHeld,
        Step::Wait,
        Step::Reset,
        Step::RecordDone,
        Step::Resume,
        Step::Shutdown,
        Step::Destroy,
        Step::RecordDown,
        Step::Start,
        Step::AwaitStart,
        Step::Migrate,
        Step::MoveDefinition,
        Step::Undefine,
        Step::Cleanup,
        Step::DeleteDisks,
        Step::RecordOutcome,
        Step::Clear,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Step::RecordBegun => "record-begun",
            Step::Suspend => "suspend",
            Step::RecordHeld => "record-held",
            Step::Wait => "wait",
            Step::Reset => "reset",
            Step::RecordDone => "record-done",
            Step::Resume => "resume",
            Step::Shutdown => "shutdown",
            Step::Destroy => "destroy",
            Step::RecordDown => "record-down",
            Step::Start => "start",
            Step::AwaitStart => "await-start",
            Step::Migrate => "migrate",
            Step::MoveDefinition => "move-definition",
            Step::Undefine => "undefine",
            Step::Cleanup => "cleanup",
            Step::DeleteDisks => "delete-disks",
            Step::RecordOutcome => "record-outcome",
            Step::Clear => "clear",
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        Step::ALL.into_iter().find(|step| step.as_str() == text).ok_or_else(|| format!("there is no step '{text}'"))
    }
}

/// Called before each step. Tests kill the process there; otherwise it does nothing.
pub type StepHook = Arc<dyn Fn(Step) + Send + Sync>;

/// Names the step before which a server or a host agent ends at once, without any cleanup. For tests, and only in debug
/// builds.
#[cfg(debug_assertions)]
const ABORT_BEFORE: &str = "FOREWARN_TEST_ABORT_BEFORE";

/// The hook of servers and host agents.
pub fn default_hook() -> StepHook {
    #[cfg(debug_assertions)]
    if let Some(fatal) = std::env::var(ABORT_BEFORE).ok().and_then(|text| text.parse().ok()) {
        return Arc::new(move |step: Step| {
            if step == fatal {
                std::process::abort();
            }
        });
    }
    Arc::new(|_| {})
}

/// How far an order got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Begun,
    /// The machine is paused.
    Held,
    /// The machine is shut off.
    Down,
    /// Only cleanup is left: the machine runs, or can run again.
    Done,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Begun => "begun",
            Stage::Held => "held",
            Stage::Down => "down",
            Stage::Done => "done",
        }
    }

    pub fn parse(text: &str) -> Option<Stage> {
        [Stage::Begun, Stage::Held, Stage::Down, Stage::Done].into_iter().find(|stage| stage.as_str() == text)
    }
}
