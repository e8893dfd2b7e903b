//! Client for the Scheduled Events metadata endpoint of Forewarn and of Azure.
//!
//! Scheduled Events tells a virtual machine about upcoming restarts, freezes, redeployments, evictions and deletions.
//! This library polls the endpoint, reports what changed, and approves events so that they can start early. It
//! negotiates the newest API version, polls conditionally, uses long polling where the service supports it, and retries
//! when the service is slow, overloaded or unreachable.
//!
//! Watch for events and approve those that affect this machine:
//!
//! ```no_run
//! use forewarn_client::{Change, Client, Discovery};
//!
//! let found = Discovery::default().find()?;
//! let mut client = Client::new(found.endpoint);
//! let machine = client.instance()?.name;
//! let mut changes = client.watch();
//! while let Some(change) = changes.next() {
//!     match change {
//!         Ok(Change::Appeared(event)) if event.affects(&machine) => {
//!             println!("{} not before {}", event.kind, event.not_before_text());
//!             changes.approve(&[event.id])?;
//!         }
//!         Ok(change) => println!("{change:?}"),
//!         Err(error) => eprintln!("{}", error.to_line()),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `async`, `AsyncClient` and `AsyncWatch` do the same on tokio.
//!
//! | module | purpose | I/O |
//! |---|---|---|
//! | `event`, `document`, `instance` | parse responses | |
//! | `tracker` | detect changes between documents | |
//! | `session`, `calls`, `negotiation`, `retry` | choose requests, interpret responses, schedule retries | |
//! | `http` | encode requests, decode responses | |
//! | `watch` | decide when to poll | |
//! | `discovery` | find the endpoint | reads lease files; sends DHCP packets only if enabled |
//! | `blocking`, `asynchronous` | sockets and waiting | yes |
//!
//! Out of scope: the management API, running hooks, and deciding whether an event may be approved.

#[cfg(feature = "async")]
mod asynchronous;
mod blocking;
mod calls;
mod discovery;
mod document;
mod endpoint;
mod error;
mod event;
mod http;
mod instance;
mod negotiation;
mod options;
mod retry;
mod session;
mod time;
mod tracker;
mod watch;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncClient, AsyncWatch};
pub use blocking::{Client, Clock, SystemClock, Watch};
pub use calls::{HOLD_MAX, Poll};
pub use discovery::{
    Candidate, DHCP_PORTS, DhcpQuery, Discovery, DiscoveryError, ENDPOINT_VARIABLE, NetworkInterface, Origin, Probe,
    SAMPLES_ADDRESS_VARIABLE,
};
pub use document::{Document, DocumentError};
pub use endpoint::{Endpoint, EndpointError};
pub use error::Error;
pub use event::{EVENT_ID_BYTES_MAX, Event, EventId, EventKind, EventSource, EventStatus, Resource};
pub use forewarn_wire::version::{InstanceVersion, Version};
pub use http::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HttpError};
pub use instance::Instance;
pub use options::{CONNECT_TIMEOUT_DEFAULT, FIRST_TIMEOUT_DEFAULT, Options, TIMEOUT_DEFAULT};
pub use retry::{Jitter, RetryCause, RetryPolicy};
pub use tracker::{Change, Tracker};
pub use watch::{HOLD_DEFAULT, INTERVAL_DEFAULT};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
