//! A client of Scheduled Events, against Forewarn and against the original service.
//!
//! Machines are told what is going to happen to them: a restart, a freeze, their end. This library
//! asks, says what changed, and approves what may happen early. It finds out by itself which version
//! the service has, asks only for what is new, holds its requests where the service can, and is
//! patient with one that is slow, busy or gone.
//!
//! ```no_run
//! use forewarn_client::{Change, Client, Discovery};
//!
//! let found = Discovery::default().find()?;
//! let mut client = Client::new(found.endpoint);
//! let me = client.instance()?.name;
//! let mut changes = client.watch();
//! while let Some(change) = changes.next() {
//!     match change {
//!         Ok(Change::Appeared(event)) if event.concerns(&me) => {
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
//! | module | what it knows | does I/O |
//! |---|---|---|
//! | `event`, `document`, `instance` | what answers say | |
//! | `tracker` | what changed | |
//! | `session`, `calls`, `negotiation`, `retry` | what to ask, what an answer means, when to ask again | |
//! | `http` | requests and answers as bytes | |
//! | `discovery` | where the service is | reads lease files; asks by DHCP only when told to |
//! | `blocking`, `watch`; `asynchronous` | sockets and waiting | yes |
//!
//! With the feature `async` the same client is there on tokio, as `AsyncClient`. Not in here: the
//! management API, hooks, and the decision whether an event may be approved.

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
pub use blocking::{Client, Clock, SystemClock};
pub use calls::{HOLD_MAX, Poll};
pub use discovery::{
    Asking, Candidate, Card, Discovery, DiscoveryError, ENVIRONMENT, ENVIRONMENT_OF_SAMPLES, Origin, PORTS, Probe,
};
pub use document::{Document, DocumentError};
pub use endpoint::{Endpoint, EndpointError};
pub use error::Error;
pub use event::{EVENT_ID_BYTES_MAX, Event, EventId, Kind, Resource, Source, Status};
pub use forewarn_wire::version::{InstanceVersion, Version};
pub use http::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HttpError};
pub use instance::Instance;
pub use options::{CONNECT_TIMEOUT, FIRST_TIMEOUT, Options, TIMEOUT};
pub use retry::{Jitter, Retry, Trouble};
pub use tracker::{Change, Tracker};
pub use watch::{HOLD, INTERVAL, Watch};
