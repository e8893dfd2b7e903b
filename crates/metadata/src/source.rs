//! Where the endpoint gets its data: a copy of the region to read from, and a way to send the few commands that guests
//! can cause. A server implements this on its engine; a host agent implements it on its local copy.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use forewarn_core::{EventId, Machine, MachineId, ScopeId, Snapshot, Timestamp};

use forewarn_access::MachineIdentity;
use serde_json::Value;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The `Retry-After` of a request that a host agent cannot serve: its link is usually back within seconds.
pub const HOST_RETRY_AFTER_SECS: u32 = 2;

pub trait Source: Send + Sync + 'static {
    /// The newest snapshot, borrowed for the length of one request.
    fn peek(&self) -> Guard<Arc<Snapshot>>;

    fn snapshot(&self) -> Arc<Snapshot> {
        Guard::into_inner(self.peek())
    }

    /// The time on the program's clock.
    fn now(&self) -> Timestamp;

    /// Watches the document of one event group. Read the snapshot after this call, or a change can be missed.
    fn watch(&self, scope: ScopeId) -> Box<dyn DocumentWatch>;

    /// Waits until the snapshot has everything that was committed before this call. The result is false if this takes longer
    /// than the limit. None: the snapshot is always current, or cannot become current.
    fn catch_up(&self, _limit: Duration) -> Option<BoxFuture<'_, bool>> {
        None
    }

    /// Approves events on behalf of a machine. Once this returns, the approval is durable and visible.
    fn approve<'a>(&'a self, machine: &'a Machine, events: Vec<EventId>) -> BoxFuture<'a, Result<(), SourceError>>;

    /// Records that a machine requested its document, which turns its event group on or keeps it on.
    fn record_seen(&self, machine: MachineId) -> BoxFuture<'_, Result<(), SourceError>>;

    /// The properties that a machine was given through the ARM API, for instance metadata.
    fn properties(&self, _machine: MachineId) -> BoxFuture<'_, Result<Option<Value>, SourceError>> {
        Box::pin(async { Ok(None) })
    }

    /// The managed identity of a machine, if it has one.
    fn identity(&self, machine: MachineId) -> BoxFuture<'_, Result<Option<MachineIdentity>, SourceError>>;

    /// Lets a server issue a token, and returns the body of its response. None: tokens are issued here.
    fn forward_token<'a>(&'a self, _request: &'a TokenRequest) -> Option<BoxFuture<'a, Result<Value, TokenError>>> {
        None
    }

    /// The machines that the snapshot contains.
    fn coverage(&self) -> Coverage {
        Coverage::Region
    }

    /// Seconds since the snapshot was last known to be current; None while it is. Sent as `Age`.
    fn age_secs(&self) -> Option<u64> {
        None
    }

    /// Whether a machine is about to move to another host. Its held requests are answered, and their connections closed.
    fn is_leaving(&self, _machine: MachineId) -> bool {
        false
    }
}

/// The machines that a snapshot contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All of them.
    Region,
    /// Those of one host. Another machine may arrive there at any time.
    Host,
    /// None, so that no document can be shown: the agent has no copy, or its host is fenced.
    Nothing,
}

pub trait DocumentWatch: Send {
    fn changed(&mut self) -> BoxFuture<'_, ()>;
}

/// Why a command of a guest was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    UnknownEvents(Vec<EventId>),
    UnknownMachine,
    Overloaded,
    OutcomeUnknown,
    /// The server that must decide cannot be reached.
    Unreachable,
    Internal,
}

/// A machine asks for a token of its managed identity.
pub struct TokenRequest {
    pub machine: Arc<Machine>,
    pub resource: String,
    pub client_id: Option<String>,
}

/// Why a server issued no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    IdentityNotFound,
    ResourceUnknown,
    Unreachable,
    Internal,
}
