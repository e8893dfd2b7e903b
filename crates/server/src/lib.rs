//! Configuration and startup: puts the engine, the metadata endpoint, the drivers, the APIs and the portal together into a
//! running server.

mod activity_log;
mod adapters;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(not(feature = "cluster"))]
#[path = "cluster_absent.rs"]
mod cluster;
mod config;
mod drift;
mod first_machine;
mod hosts;
mod import;
mod machines;
mod open;
mod order_metrics;
mod peers;
mod preflight;
mod running;
mod start;

pub use activity_log::log_activity;
pub use cluster::{create_cluster_key, init_region};
pub use config::*;
pub use forewarn_api::{AddFaultError, RecordedFaults};
pub use forewarn_drivers::DomainDescription;
pub use forewarn_drivers::qemu::QemuMachine;
pub use forewarn_engine::Engine;
pub use forewarn_metadata::{BoundAddress, EndpointState};
pub use import::{is_listening, read_domains, read_qemu_machines};
pub use peers::read_peers;
pub use running::Running;
pub use start::{start, start_with};
