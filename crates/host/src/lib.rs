//! The host agent: one per hypervisor. It serves the metadata endpoint to the machines of its host from its own copy, drives
//! the machines, and is linked to a server.
//!
//! ```text
//!  guests ──▶ metadata ──▶ LocalSource ─▶ Copy ◀── link ◀── server: the host's part of the region, orders
//!                               └─ approvals, first GETs ──▶ link ──▶ server
//!  machines ◀── MachineDriver ◀── orders ── reports ───────▶ link
//! ```
//!
//! The agent decides nothing. Without contact it keeps serving its last copy, which is also on disk, finishes the orders
//! that it has begun, and starts nothing new.

mod agent;
mod config;
mod config_file;
mod copy;
mod copy_file;
pub mod doctor;
mod domains;
mod enroll;
mod facts;
mod facts_qemu;
mod health;
mod host_driver;
mod link;
mod local_source;
mod orders;
mod renew;
mod run;
mod servers;
mod service_manager;
mod status;
mod upstream;

pub use agent::{RunningAgent, start};
pub use config::{HostConfig, KnownPeers, TapSettings, Timing};
pub use config_file::{CONFIG_FILE, ConfigFile, DATA_DIRECTORY};
pub use copy::{Copy, CopyError};
pub use domains::to_host_domain;
pub use enroll::{Identity, JoinError, join};
pub use facts::{gather, read_clock_ahead};
pub use host_driver::{DriverOptions, HostDriver, LIBVIRT_SOCKET, OpenDriver};
pub use run::run;
pub use status::Status;
