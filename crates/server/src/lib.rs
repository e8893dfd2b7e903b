//! The shell around the rules: the single writer, the metadata listeners, the management API, drivers,
//! clock and telemetry.

pub mod api;
pub mod arm;
pub mod clock;
mod config;
mod digest;
mod driver;
mod effects;
mod engine;
pub mod faults;
pub mod identity;
mod metadata;
mod metrics;
pub mod nearest;
mod open;
pub mod plain;
mod portal;
mod publish;
mod random;
mod requests;
pub mod scenario;
mod secret_file;
mod source;
pub mod span;
mod start;
mod tls;
mod waiting;
mod webhooks;
mod writer;

pub use api::{AddFaultError, ApiMetrics, FaultKeeper};
pub use config::*;
pub use engine::*;
/// What the engine is asked with and answers with.
pub use forewarn_core::{Found, MachineId, Snapshot, Timestamp};
pub use forewarn_store::{HistoryQuery, HistoryRow};
pub use metadata::{BoundAddress, EndpointState};
pub use requests::{
    APPROVED_KEPT_MAX, REQUESTS_KEPT_MAX, RequestLog, RequestRecord, RequestSeen, Summary as RequestSummary,
};
pub use secret_file::SecretFileError;
pub use start::{Running, start, start_with};
pub use waiting::{Milestone, Outcome as WaitOutcome, Reached, WaitFor, Waited, Whose};
