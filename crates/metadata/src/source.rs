//! Where the endpoint gets its data: a copy of the region to read from, and a way to send the few commands that guests
//! can cause. A server implements this on its engine; a host agent implements it on its local copy.

use std::pin::Pin;
use std::sync::Arc;

use arc_swap::Guard;
use forewarn_core::{EventId, Machine, MachineId, ScopeId, Snapshot, Timestamp};

use forewarn_access::MachineIdentity;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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

    /// Approves events on behalf of a machine. Once this returns, the approval is durable and visible.
    fn approve<'a>(&'a self, machine: &'a Machine, events: Vec<EventId>) -> BoxFuture<'a, Result<(), SourceError>>;

    /// Records that a machine asked for its document, which turns its event group on or keeps it on.
    fn record_seen(&self, machine: MachineId) -> BoxFuture<'_, Result<(), SourceError>>;

    /// The managed identity of a machine, if it has one.
    fn identity(&self, machine: MachineId) -> BoxFuture<'_, Result<Option<MachineIdentity>, SourceError>>;
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
    Internal,
}
