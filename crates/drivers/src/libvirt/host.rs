//! Access to the libvirtd of this host: one connection for short calls, opened again when it ends.

use std::sync::Mutex;
use std::time::Duration;

use forewarn_core::Guid;
use forewarn_libvirt::{Affect, Connection, Domain, Error, ErrorCode, Reconnector, Result, StateInfo, Target, Uuid};

use super::mark::{KEY, Mark, URI};

pub struct Host {
    /// The name of this host, in records.
    pub name: String,
    target: Target,
    connection: Mutex<Option<Connection>>,
}

impl Host {
    pub fn new(name: String, target: Target) -> Host {
        Host { name, target, connection: Mutex::new(None) }
    }

    /// The connection for short calls. Waits until libvirtd is there.
    pub async fn connection(&self) -> Connection {
        if let Some(connection) = self.current() {
            return connection;
        }
        let connection = self.open().await;
        *self.lock() = Some(connection.clone());
        connection
    }

    /// A connection for one long call.
    pub async fn open(&self) -> Connection {
        let mut reconnector = Reconnector::new(self.target.clone());
        let warn = |error: &Error, delay: Duration| {
            tracing::warn!(%error, delay_ms = delay.as_millis(), "cannot connect to libvirtd");
        };
        reconnector.connect(warn).await.0
    }

    /// Forgets the connection, because a call has failed on it.
    pub fn forget_connection(&self) {
        *self.lock() = None;
    }

    fn current(&self) -> Option<Connection> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The domain of a machine; None if it is not here.
    pub async fn find(&self, machine: Guid) -> Result<Option<Domain>> {
        let uuid = Uuid(machine.0.to_be_bytes());
        absent_if(self.connection().await.domain_by_uuid(uuid).await, ErrorCode::NO_DOMAIN)
    }

    /// The state of a machine; None if its domain is not here.
    pub async fn inspect(&self, machine: Guid) -> Result<Option<(Domain, StateInfo)>> {
        let Some(domain) = self.find(machine).await? else { return Ok(None) };
        let state = absent_if(self.connection().await.state(&domain).await, ErrorCode::NO_DOMAIN)?;
        Ok(state.map(|state| (domain, state)))
    }

    /// The record in a domain: the live one, or else the persistent one.
    pub async fn mark(&self, domain: &Domain) -> Result<Option<Mark>> {
        let element = self.connection().await.metadata(domain, URI, Affect::NONE).await?;
        Ok(element.as_deref().and_then(Mark::parse))
    }

    /// Whether a domain has a record, even one that cannot be read.
    pub async fn has_element(&self, domain: &Domain) -> Result<bool> {
        Ok(self.connection().await.metadata(domain, URI, Affect::NONE).await?.is_some())
    }

    /// Writes the record of a domain, or removes it: live and persistent, as far as the domain has both.
    pub async fn set_mark(&self, domain: &Domain, mark: Option<&Mark>) -> Result<()> {
        let connection = self.connection().await;
        let element = mark.map(Mark::to_xml);
        let affect = self.affect(&connection, domain).await?;
        connection.set_metadata(domain, element.as_deref(), KEY, URI, affect).await
    }

    async fn affect(&self, connection: &Connection, domain: &Domain) -> Result<Affect> {
        let is_active = connection.state(domain).await?.state.is_active();
        let is_persistent = connection.is_persistent(domain).await?;
        Ok(match (is_active, is_persistent) {
            (true, true) => Affect::LIVE | Affect::CONFIG,
            (true, false) => Affect::LIVE,
            (false, _) => Affect::CONFIG,
        })
    }
}

/// Whether the error says something about the connection, not about the call.
pub fn is_connection_lost(error: &Error) -> bool {
    match error {
        Error::Connect { .. } | Error::Disconnected(_) | Error::Timeout { .. } | Error::Malformed { .. } => true,
        Error::Libvirt(_) | Error::TooLarge { .. } | Error::Busy(_) | Error::Authentication(_) => false,
    }
}

fn absent_if<T>(result: Result<T>, code: ErrorCode) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is(code) => Ok(None),
        Err(error) => Err(error),
    }
}
