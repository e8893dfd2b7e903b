//! Portal sessions and sign-in links: those of this server, or in a cluster those of the region.

use std::sync::Arc;

use forewarn_access::{Access, Holder, PlannedChange, Session, SessionChange, SessionRecord, find_region_session};
use forewarn_engine::{Bundle, Engine, SubmitError};
use forewarn_metadata::BoxFuture;

use super::Service;
use super::error::{ApiError, ErrorCode};

/// How a server in a cluster changes the sessions of its region.
pub trait RegionSessions: Send + Sync {
    /// The name of the region.
    fn region(&self) -> &str;

    /// Makes a change, at the leader. Returns the link that was used up.
    fn change(&self, change: SessionChange) -> BoxFuture<'_, Result<Option<SessionRecord>, ApiError>>;
}

/// Makes a change at the leader of a cluster.
pub struct SessionWriter {
    engine: Engine,
    access: Arc<Access>,
    /// Held while a change is planned and stored, so that a link works once.
    changing: tokio::sync::Mutex<()>,
}

impl SessionWriter {
    pub fn new(engine: Engine, access: Arc<Access>) -> SessionWriter {
        SessionWriter { engine, access, changing: tokio::sync::Mutex::default() }
    }

    pub async fn write(&self, change: SessionChange) -> Result<Option<SessionRecord>, ApiError> {
        if change.holder().is_some_and(|holder| !self.access.is_valid(&holder)) {
            return Err(refuse_session());
        }
        let _changing = self.changing.lock().await;
        let planned = self.engine.read(move |reader| change.plan(reader)).await;
        let PlannedChange { attachments, redeemed } = planned.map_err(|error| {
            tracing::warn!(%error, "cannot read the portal sessions");
            ApiError::from(SubmitError::Unavailable)
        })?;
        if !attachments.is_empty() {
            let attach = Box::new(move |_: &[forewarn_core::Answer]| attachments);
            self.engine.submit_all(Bundle { commands: Vec::new(), audit: None, attach }).await?;
        }
        Ok(redeemed)
    }
}

/// The credential of a session is not (or no longer) valid.
pub fn refuse_session() -> ApiError {
    let message = "This sign-in is no longer valid. Sign in again.";
    ApiError::new(ErrorCode::AuthorizationFailed, message)
}

impl Service {
    /// The sessions of the region; None for a single server.
    pub fn region_sessions(&self) -> Option<&Arc<dyn RegionSessions>> {
        self.0.parts.region_sessions.as_ref()
    }

    /// The session of a cookie, as long as the credential that it was started with is valid.
    pub async fn find_session(&self, cookie: &str) -> Option<Session> {
        if self.region_sessions().is_none() {
            return self.access().session(cookie);
        }
        let value = cookie.to_owned();
        let found = self.engine().read(move |reader| find_region_session(reader, &value)).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the portal sessions");
            None
        });
        found.filter(|session| self.access().is_valid(&session.holder))
    }

    /// Starts a session and returns its cookie.
    pub async fn begin_session(&self, holder: &Holder) -> Result<String, ApiError> {
        let Some(region) = self.region_sessions() else {
            return self.access().begin_session(holder).ok_or_else(refuse_session);
        };
        let (record, cookie) = SessionRecord::session(holder);
        region.change(SessionChange::Begin(record)).await?;
        Ok(cookie)
    }

    pub async fn end_session(&self, cookie: &str) -> Result<(), ApiError> {
        match self.region_sessions() {
            None => self.access().end_session(cookie),
            Some(region) => drop(region.change(SessionChange::end(cookie)).await?),
        }
        Ok(())
    }

    /// The path and query of a single-use link that signs a browser in as this holder.
    pub async fn create_portal_link(&self, holder: &Holder) -> Result<String, ApiError> {
        let Some(region) = self.region_sessions() else { return Ok(self.access().portal_link(holder)) };
        let (change, path) = SessionChange::add_link(holder);
        region.change(change).await?;
        Ok(path)
    }

    /// Exchanges the code of a link for its holder. A code works once.
    pub async fn redeem_link(&self, code: &str) -> Result<Option<Holder>, ApiError> {
        let holder = match self.region_sessions() {
            None => self.access().redeem_link(code),
            Some(region) => region.change(SessionChange::redeem(code)).await?.map(|record| record.holder()),
        };
        Ok(holder.filter(|holder| self.access().is_valid(holder)))
    }
}
