//! Scenarios: a fleet and a time line of steps and expectations, written in a file and run on a server.
//!
//! ```text
//!   file     TOML ─▶ Scenario: every word checked, every complaint with its line and column
//!   step     what a step does or expects
//!   verdict  whether an expectation holds in a region: now, not yet, or never
//!   run      one scenario on one server, step by step
//!   runs     those that run and those that ran lately
//!   shipped  the published sequences
//! ```
//!
//! A run speaks to the server as its users do, through the routes of the management API, so a scenario can
//! do what they can and is refused what they are. What only guests do (asking for the document, approving)
//! goes to the engine as the metadata listener's commands do.

mod file;
mod run;
mod runs;
mod shipped;
mod step;
mod verdict;

pub use file::{Problem, Scenario};
pub use run::Handler;
pub use runs::{BeginError, Inside, Runs};
pub use runs::{Progress, RunState, StepState, StepStatus};
pub use shipped::{SHIPPED, Shipped, shipped};
