//! The shell around the rules: the single writer, the metadata listeners, the management API, drivers,
//! clock and telemetry.

pub mod api;
pub mod arm;
pub mod clock;
mod config;
mod digest;
mod driver;
mod engine;
pub mod faults;
pub mod identity;
mod metadata;
pub mod nearest;
pub mod plain;
mod portal;
mod publish;
mod random;
mod requests;
pub mod scenario;
mod secret_file;
pub mod span;
mod start;
mod telemetry;
mod tls;
mod waiting;
mod webhooks;
mod writer;

pub use config::*;
pub use engine::*;
/// What the engine is asked with and answers with.
pub use forewarn_core::{Found, MachineId, Timestamp};
pub use forewarn_store::{HistoryQuery, HistoryRow};
pub use requests::{
    APPROVED_KEPT_MAX, REQUESTS_KEPT_MAX, RequestLog, RequestRecord, RequestSeen, Summary as RequestSummary,
};
pub use secret_file::SecretFileError;
pub use start::{BoundAddress, Running, start, start_with};
pub use telemetry::Telemetry;
pub use waiting::{Milestone, Outcome as WaitOutcome, Reached, WaitFor, Waited, Whose};
