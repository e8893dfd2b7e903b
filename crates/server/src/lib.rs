//! The shell around the rules: the single writer, the metadata listeners, the management API, drivers,
//! clock and telemetry.

mod config;

pub use config::*;
