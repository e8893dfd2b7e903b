//! The replicated log of a region that several servers share: one leader writes, the others follow.
//!
//! ```text
//!   engine ──payload──▶ Writer ──append──▶ Log (etcd) ──follow──▶ Follower ──entry──▶ Replica (a server's own copy)
//!                          │ heartbeats            ▲ take over                │
//!                          └── Machine ───────┴──────── Machine ─────────┘
//! ```
//!
//! - [`Log`] is the contract: a list of records with a fence. [`MemoryLog`] and [`EtcdLog`] implement it and pass one
//!   [`conformance`] suite.
//! - [`machine`] decides: who leads, when a commit has happened, what may be deleted. It does no I/O and reads no clock.
//! - [`Writer`] and [`Follower`] connect the two with a clock and a thread.
//!
//! Payloads are opaque: what a commit means is decided by the engine.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod contract;
pub mod encoding;
#[cfg(feature = "etcd")]
mod etcd;
mod hex;
pub mod machine;
mod memory;
mod record;
mod request;
mod seal;
mod server;

pub use contract::{
    AppendResult, Backend, BackendStatus, Conflict, Created, Heartbeat, HeartbeatResult, Leader, Log, LogError,
    LogPage, Member, MemberList, ObservedVersions, READ_ENTRIES_MAX, TakeoverResult, Token, TruncateResult, View,
};
#[cfg(feature = "etcd")]
pub use etcd::{AddressError, EtcdLog, EtcdOptions, EtcdTls, EtcdUser};
pub use memory::{Fault, Faults, FaultyLog, MemoryContents, MemoryLog};
pub use record::{Entry, Hash, Nonce, Position, Record, RecordKind};
pub use request::{Request, Response};
pub use seal::{Key, SealError};
pub use server::{BootClock, Clock, Follower, Following, Replica, Writer, random_session};
