//! Registration for events.

use crate::connection::Connection;
use crate::domain::Domain;
use crate::error::Result;
use crate::event::{CallbackId, EventKind};
use crate::procedure::Procedure;
use crate::xdr::Encoder;

impl Connection {
    /// Asks for events of one kind, of all domains or of one.
    ///
    /// Events that happen before this call returns can arrive through [`Events`](crate::Events) already.
    ///
    /// # Errors
    ///
    /// If libvirt refuses, or the connection has ended.
    pub async fn register(&self, kind: EventKind, domain: Option<&Domain>) -> Result<CallbackId> {
        let arguments = Encoder::new().i32(kind as i32);
        let arguments = match domain {
            Some(domain) => domain.encode(arguments.u32(1)),
            None => arguments.u32(0),
        };
        let procedure = Procedure::ConnectDomainEventCallbackRegisterAny;
        self.call(procedure, arguments, |decoder| decoder.i32()).await.map(CallbackId)
    }

    /// Ends a registration. Events of it can still be on their way.
    ///
    /// # Errors
    ///
    /// If there is no such registration, or the connection has ended.
    pub async fn deregister(&self, callback: CallbackId) -> Result<()> {
        let arguments = Encoder::new().i32(callback.0);
        self.call_empty(Procedure::ConnectDomainEventCallbackDeregisterAny, arguments).await
    }
}
