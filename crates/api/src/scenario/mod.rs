//! Scenarios: a fleet and a sequence of steps and expectations, written in a file and run on a server.
//!
//! ```text
//!   file     parses TOML into a Scenario; every error has a line and column
//!   step     the steps and expectations
//!   verdict  whether an expectation holds: now, not yet, or never
//!   run      runs one scenario step by step
//!   runs     current and recent runs
//!   builtin  the built-in scenarios
//! ```
//!
//! A run calls the actions of the management API as the principal that started it, so the same rules and roles apply. The actions of guests (requesting the
//! document, approving) are submitted to the engine, as the metadata endpoint does.

mod builtin;
mod file;
mod run;
mod runs;
mod step;
mod verdict;

pub use builtin::{BUILTIN_SCENARIOS, BuiltinScenario, find_builtin};
pub use file::{FileError, Scenario};
pub use run::{HandlerMode, check_run};
pub use runs::{BeginError, Progress, RunState, Runs, StepState, StepStatus};
