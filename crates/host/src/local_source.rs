//! The metadata endpoint's view of the agent: documents come from the copy, commands go to the server.
//!
//! A command is answered only when the copy shows its result, so that the guest's next request does too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::Guard;
use forewarn_access::MachineIdentity;
use forewarn_api_types::host_link::{
    CommitResponse, FoundProperties, GuestApproval, GuestProperties, GuestToken, IssuedToken, LinkRefusal, TurnOn,
    paths,
};
use forewarn_core::{EventId, Guid, Machine, MachineId, ScopeId, Snapshot, Timestamp};
use forewarn_metadata::{BoxFuture, Coverage, DocumentWatch, Source, SourceError, TokenError, TokenRequest};
use forewarn_wire::guid;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::status::Status;
use crate::upstream::{Upstream, UpstreamError};

/// How long a commit may take to reach the copy. Usually milliseconds.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

pub struct LocalSource {
    status: Arc<Status>,
    upstream: Arc<Upstream>,
    /// The last known properties of the machines, for the time without contact.
    properties: Mutex<HashMap<MachineId, Option<Value>>>,
}

impl Source for LocalSource {
    fn peek(&self) -> Guard<Arc<Snapshot>> {
        self.status.peek()
    }

    fn now(&self) -> Timestamp {
        self.status.now()
    }

    /// Every change of the copy wakes all watches: a host has few machines, and its copy changes rarely.
    fn watch(&self, _: ScopeId) -> Box<dyn DocumentWatch> {
        Box::new(CopyWatch(self.status.content()))
    }

    fn approve<'a>(&'a self, machine: &'a Machine, events: Vec<EventId>) -> BoxFuture<'a, Result<(), SourceError>> {
        let events = events.iter().map(Guid::to_string).collect();
        Box::pin(self.command(paths::APPROVE, GuestApproval { machine: machine.id.0, events }))
    }

    fn record_seen(&self, machine: MachineId) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let is_on = {
                let snapshot = self.status.peek();
                let region = &snapshot.region;
                region.machine(machine).is_some_and(|machine| region.is_on(machine.scope))
            };
            if is_on {
                self.status.note_seen(machine);
                return Ok(());
            }
            self.command(paths::TURN_ON, TurnOn { machine: machine.0 }).await
        })
    }

    /// Properties are not in the copy: they would take most of it, and guests ask for them rarely.
    fn properties(&self, machine: MachineId) -> BoxFuture<'_, Result<Option<Value>, SourceError>> {
        Box::pin(async move {
            let found = self.upstream.post(paths::PROPERTIES, &GuestProperties { machine: machine.0 }).await;
            Ok(match found {
                Ok(FoundProperties { properties }) => self.keep_properties(machine, properties),
                Err(error) => {
                    tracing::debug!(%error, "serving the last known properties as instance metadata");
                    self.known_properties().get(&machine).cloned().flatten()
                }
            })
        })
    }

    /// Identities are not in the copy: the server issues tokens.
    fn identity(&self, _: MachineId) -> BoxFuture<'_, Result<Option<MachineIdentity>, SourceError>> {
        Box::pin(async { Ok(None) })
    }

    fn forward_token<'a>(&'a self, request: &'a TokenRequest) -> Option<BoxFuture<'a, Result<Value, TokenError>>> {
        let body = GuestToken {
            machine: request.machine.id.0,
            resource: request.resource.clone(),
            client_id: request.client_id.clone(),
        };
        Some(Box::pin(async move {
            let issued = self.upstream.post::<IssuedToken>(paths::TOKEN, &body).await;
            issued.map(|issued| issued.body).map_err(token_error)
        }))
    }

    fn coverage(&self) -> Coverage {
        if self.status.is_serving() { Coverage::Host } else { Coverage::Nothing }
    }

    fn age_secs(&self) -> Option<u64> {
        (!self.status.is_connected()).then(|| self.status.silence_secs())
    }

    fn is_leaving(&self, machine: MachineId) -> bool {
        self.status.is_leaving(machine)
    }
}

impl LocalSource {
    pub fn new(status: Arc<Status>, upstream: Arc<Upstream>) -> LocalSource {
        LocalSource { status, upstream, properties: Mutex::default() }
    }

    fn known_properties(&self) -> MutexGuard<'_, HashMap<MachineId, Option<Value>>> {
        self.properties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the properties of the machines in the copy, and forgets those of others.
    fn keep_properties(&self, machine: MachineId, properties: Option<Value>) -> Option<Value> {
        let snapshot = self.status.peek();
        let mut known = self.known_properties();
        known.retain(|id, _| snapshot.region.machine(*id).is_some());
        known.insert(machine, properties.clone());
        properties
    }

    async fn command(&self, path: &str, body: impl serde::Serialize) -> Result<(), SourceError> {
        let CommitResponse { revision } = self.upstream.post(path, &body).await.map_err(source_error)?;
        let mut revisions = self.status.revisions();
        let reached = timeout(COPY_TIMEOUT, revisions.wait_for(|have| *have >= revision)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(SourceError::OutcomeUnknown),
        }
    }
}

fn token_error(error: UpstreamError) -> TokenError {
    match error {
        UpstreamError::Refused(LinkRefusal::IdentityNotFound) => TokenError::IdentityNotFound,
        UpstreamError::Refused(LinkRefusal::ResourceUnknown) => TokenError::ResourceUnknown,
        // The machine may have moved to another host, which the next copy will show.
        UpstreamError::Unreachable
        | UpstreamError::Unexpected(_)
        | UpstreamError::Refused(
            LinkRefusal::UnknownMachine
            | LinkRefusal::OtherHost { .. }
            | LinkRefusal::OtherAgent { .. }
            | LinkRefusal::Revoked { .. }
            | LinkRefusal::Overloaded
            | LinkRefusal::NoLeader
            | LinkRefusal::OutcomeUnknown,
        ) => TokenError::Unreachable,
        UpstreamError::Refused(
            refusal @ (LinkRefusal::UnknownEvents { .. } | LinkRefusal::Invalid { .. } | LinkRefusal::Internal),
        ) => {
            tracing::error!(%refusal, "the server refused a guest's request for a token");
            TokenError::Internal
        }
    }
}

fn source_error(error: UpstreamError) -> SourceError {
    match error {
        UpstreamError::Unreachable | UpstreamError::Unexpected(_) => SourceError::Unreachable,
        UpstreamError::Refused(LinkRefusal::UnknownEvents { events }) => {
            SourceError::UnknownEvents(events.iter().filter_map(|id| guid::parse(id)).map(Guid).collect())
        }
        UpstreamError::Refused(LinkRefusal::UnknownMachine | LinkRefusal::OtherHost { .. }) => {
            SourceError::UnknownMachine
        }
        UpstreamError::Refused(LinkRefusal::Overloaded | LinkRefusal::NoLeader) => SourceError::Overloaded,
        UpstreamError::Refused(LinkRefusal::OutcomeUnknown) => SourceError::OutcomeUnknown,
        UpstreamError::Refused(LinkRefusal::OtherAgent { .. } | LinkRefusal::Revoked { .. }) => {
            SourceError::Unreachable
        }
        UpstreamError::Refused(
            refusal @ (LinkRefusal::Invalid { .. }
            | LinkRefusal::IdentityNotFound
            | LinkRefusal::ResourceUnknown
            | LinkRefusal::Internal),
        ) => {
            tracing::error!(%refusal, "the server refused a guest's request");
            SourceError::Internal
        }
    }
}

struct CopyWatch(watch::Receiver<u64>);

impl DocumentWatch for CopyWatch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
