//! The single writer and everything around it: the mailbox, snapshots, waiting for events, and the clock.
//!
//! ```text
//!   Engine::submit ─▶ mailbox ─▶ writer ─▶ store ─▶ publisher (snapshots) ─▶ readers
//!                                   └─▶ effects ─▶ drivers, which report back
//! ```
//!
//! It contains no rules and no protocols: commands come in, snapshots and effects go out.
//!
//! | module | contents |
//! |---|---|
//! | `engine`, `open` | the handle, and how a store and its writer are opened |
//! | `writer` | the loop: batches, deadlines, deletion of old history; `writer::gathering` decides how long a batch waits |
//! | `publish`, `watches`, `waiting` | snapshots, and readers that wait for a document or for an event |
//! | `clock`, `slew`, `system_clocks` | the time of the rules |
//! | `effects`, `metrics` | the ends of drivers and of the metrics |
//! | `cluster` | a server that leads or follows: its copy, its status, encryption of its records |

pub mod clock;
mod cluster;
mod effects;
mod engine;
mod metrics;
mod open;
mod publish;
mod slew;
mod system_clocks;
mod waiting;
mod watches;
mod writer;

pub use clock::ClockSetting;
pub use cluster::{ClusterMonitor, ClusterOptions, ClusterRole, ClusterStatus, LeaderAddress, Transfer};
pub use effects::EffectSink;
pub use engine::*;
pub use forewarn_store::ClockKind;
pub use metrics::EngineMetrics;
pub use open::{EngineOptions, OpenError, open, open_in_cluster};
pub use publish::Publisher;
pub use system_clocks::{HostClocks, Readings, SimulatedClocks, SystemClocks};
pub use waiting::{MachineFilter, Milestone, Outcome as WaitOutcome, Reached, WaitFor, WaitResult};
pub use watches::ScopeWatch;
pub use writer::BATCH_MAX;
