//! The host agent: one per hypervisor. It serves the metadata endpoint to the machines of its host from its own copy, drives
//! the machines, and is linked to a server.
//!
//! ```text
//!  guests ──▶ metadata ──▶ CopySource ──▶ Copy ◀── link ◀── server: the host's part of the region, orders
//!                               └─ approvals, first GETs ──▶ link ──▶ server
//!  machines ◀── MachineDriver ◀── orders ── reports ───────▶ link
//! ```
//!
//! The agent decides nothing. Without contact it goes on to serve its last copy, which is also on disk, finishes the orders
//! that it has begun, and starts nothing new.

mod agent;
mod config;
mod config_file;
mod copy;
mod copy_file;
pub mod doctor;
mod enroll;
mod facts;
mod health;
mod host_driver;
mod link;
mod local_source;
mod orders;
mod renew;
mod run;
mod service_manager;
mod status;
mod upstream;

pub use agent::{RunningAgent, start};
pub use config::{HostConfig, Timing};
pub use config_file::{CONFIG_FILE, ConfigFile, DATA_DIRECTORY};
pub use copy::{Copy, CopyError};
pub use enroll::{Identity, join};
pub use facts::gather;
pub use host_driver::{HostDriver, LIBVIRT_SOCKET};
pub use run::run;
pub use status::Status;
