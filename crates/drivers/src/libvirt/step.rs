//! The steps of orders, as points at which a test can kill the driver.

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
    Migrate,
    MoveDefinition,
    Undefine,
    DeleteDisks,
    /// Write the outcome to the journal.
    RecordOutcome,
    /// Remove the record from the domain.
    Clear,
}

impl Step {
    pub const ALL: [Step; 17] = [
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
        Step::Migrate,
        Step::MoveDefinition,
        Step::Undefine,
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
            Step::Migrate => "migrate",
            Step::MoveDefinition => "move-definition",
            Step::Undefine => "undefine",
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
