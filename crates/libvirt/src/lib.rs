//! An asynchronous client for libvirt's RPC protocol, in pure Rust.
//!
//! The client talks to libvirtd over its Unix socket. It needs no `libvirt.so`, so a program that uses it can be linked
//! statically. It covers the domain calls that a host agent needs, about 40 procedures, not all of libvirt's API.
//!
//! ```no_run
//! use forewarn_libvirt::{Event, EventKind, SYSTEM_SOCKET, Target};
//!
//! # async fn example() -> forewarn_libvirt::Result<()> {
//! let (connection, mut events) = Target::qemu(SYSTEM_SOCKET).connect().await?;
//! connection.register(EventKind::Lifecycle, None).await?;
//! for domain in connection.domains().await? {
//!     let state = connection.state(&domain).await?;
//!     println!("{} {} {:?}", domain.uuid, domain.name, state.state);
//! }
//! while let Some(event) = events.next().await {
//!     if let Event::Lifecycle { domain, change, .. } = event {
//!         println!("{} {change:?}", domain.name);
//!     }
//! }
//! println!("connection ended: {}", connection.closed().await);
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! An [`Error`] is either libvirt's own, with its code and its message ([`LibvirtError`]), or one of the connection.
//! After [`Error::Disconnected`] and [`Error::Timeout`] the call may have taken effect: look before you try again.
//!
//! # Limits
//!
//! Messages, lists and queues are bounded ([`MESSAGE_BYTES_MAX`], [`DOMAINS_MAX`], [`CALLS_MAX`], [`EVENTS_MAX`]). A
//! libvirtd that sends malformed messages causes errors, never a panic.
//!
//! # Not covered
//!
//! TLS, TCP and SSH transports, SASL, streams, and file descriptors in messages. Libvirtds talk to each other by
//! themselves in a migration, so a client on each host needs none of them.

#![warn(missing_docs)]

mod address;
mod connection;
mod domain;
mod domain_calls;
mod error;
mod event;
mod flags;
mod migrate;
mod node;
mod packet;
mod params;
mod procedure;
mod reconnect;
#[cfg(test)]
mod recorded;
mod register;
mod shared;
mod storage;
mod tasks;
mod uuid;
mod xdr;

pub use address::{AddressSource, Interface, Lease, Network};
pub use connection::{CALL_TIMEOUT, Connection, Keepalive, SYSTEM_SOCKET, Target};
pub use domain::{DOMAINS_MAX, Domain, DomainInfo, PausedReason, State, StateInfo};
pub use error::{Error, ErrorCode, LibvirtError, Result};
pub use event::{CallbackId, Event, EventKind, Events, Lifecycle};
pub use flags::{Affect, CreateFlags, DefineFlags, DestroyFlags, MigrateFlags, ShutdownFlags, UndefineFlags, XmlFlags};
pub use migrate::{JobInfo, JobKind, JobStats, Migration};
pub use node::{NodeInfo, Version};
pub use packet::MESSAGE_BYTES_MAX;
pub use params::{Parameter, Value};
pub use reconnect::{RETRY_DELAY, RETRY_DELAY_MAX, Reconnector};
pub use shared::{CALLS_MAX, EVENTS_MAX};
pub use storage::{Pool, Volume};
pub use uuid::{InvalidUuid, Uuid};
pub use xdr::XdrError;
