//! The single writer and everything around it: the mailbox, snapshots, waiting for events, and the clock.
//!
//! ```text
//!   Engine::submit ─▶ mailbox ─▶ writer ─▶ store ─▶ publisher (snapshots) ─▶ readers
//!                                   └─▶ effects ─▶ drivers, which report back
//! ```
//!
//! It contains no rules and no protocols: commands come in, snapshots and effects go out.

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
