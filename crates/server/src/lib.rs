//! Configuration and startup: puts the engine, the metadata endpoint, the drivers, the APIs and the portal together into a
//! running server.
//!
//! | module | contents |
//! |---|---|
//! | `config`, `preflight`, `peers` | the configuration of a server, and checks before it starts |
//! | `open`, `start`, `first_machine`, `running` | how a server starts and stops |
//! | `adapters` | the engine as the source of the metadata endpoint and of the drivers |
//! | `machines`, `drift`, `import`, `order_metrics` | drivers of real machines at the server, and changes that were made outside Forewarn |
//! | `hosts` | the listener for host agents: their part of the region, heartbeats, orders and reports |
//! | `cluster` | several servers: forwarding to the leader, the region's secrets, copies of the region |
//! | `activity_log` | the log lines about events, approvals and operations |

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
