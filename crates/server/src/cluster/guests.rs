//! The two commands that guests cause at a metadata endpoint, forwarded to the leader.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use forewarn_api::ApiError;
use forewarn_core::{ApprovalScope, Approver, Command, EventId, MachineId, Rejection};
use forewarn_engine::SubmitError;
use forewarn_metadata::SourceError;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{Cluster, LeaderResponse};

/// A command of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestCommand {
    pub machine: MachineId,
    pub act: GuestAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestAction {
    /// The guest has asked for its document.
    Seen,
    Approve(Vec<EventId>),
}

const PATH: &str = "/cluster/v1/guest";

/// The body of a forwarded command.
#[derive(Serialize, Deserialize)]
struct GuestRequest {
    machine: u64,
    /// None: the guest has asked for its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approve: Option<Vec<String>>,
}

/// The leader's answer to a command that it has carried out.
#[derive(Serialize, Deserialize)]
struct Committed {
    revision: u64,
}

/// The leader's answer to an approval of events that do not exist.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnknownEvents {
    unknown_events: Vec<String>,
}

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new().route(PATH, post(take))
}

impl Cluster {
    /// Has the leader carry out the command of a guest, and waits until the local copy shows it.
    pub async fn forward_guest(&self, command: &GuestCommand) -> Result<(), SourceError> {
        let body = Bytes::from(command.encode());
        match self.post_to_leader(PATH, body).await {
            LeaderResponse::By(response) => self.take_answer(response.status(), response.body()).await,
            // This server has become the leader meanwhile; the guest tries again.
            LeaderResponse::Here | LeaderResponse::NoLeader => Err(SourceError::Overloaded),
            LeaderResponse::Unknown => Err(SourceError::OutcomeUnknown),
        }
    }

    async fn take_answer(&self, status: StatusCode, body: &[u8]) -> Result<(), SourceError> {
        match status {
            StatusCode::OK => {
                let committed: Committed = serde_json::from_slice(body).map_err(|_| SourceError::OutcomeUnknown)?;
                self.wait_for_copy(committed.revision).await;
                Ok(())
            }
            StatusCode::CONFLICT => {
                let unknown: UnknownEvents = serde_json::from_slice(body).map_err(|_| SourceError::OutcomeUnknown)?;
                Err(SourceError::UnknownEvents(decode_ids(&unknown.unknown_events)))
            }
            StatusCode::NOT_FOUND => Err(SourceError::UnknownMachine),
            StatusCode::TOO_MANY_REQUESTS => Err(SourceError::Overloaded),
            _ => Err(SourceError::OutcomeUnknown),
        }
    }
}

impl GuestCommand {
    fn encode(&self) -> Vec<u8> {
        let approve = match &self.act {
            GuestAction::Seen => None,
            GuestAction::Approve(events) => Some(encode_ids(events)),
        };
        let request = GuestRequest { machine: self.machine.0, approve };
        serde_json::to_vec(&request).expect("numbers and texts can be written as JSON")
    }

    fn decode(body: &[u8]) -> Option<GuestCommand> {
        let GuestRequest { machine, approve } = serde_json::from_slice(body).ok()?;
        let act = approve.map_or(GuestAction::Seen, |ids| GuestAction::Approve(decode_ids(&ids)));
        Some(GuestCommand { machine: MachineId(machine), act })
    }
}

fn encode_ids(ids: &[EventId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn decode_ids(ids: &[String]) -> Vec<EventId> {
    ids.iter().filter_map(|id| forewarn_api::parse_event_id(id).ok()).collect()
}

/// Carries out the command of a guest of another server.
async fn take(State(cluster): State<Arc<Cluster>>, body: Bytes) -> Response {
    let Some(GuestCommand { machine, act }) = GuestCommand::decode(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let command = match act {
        GuestAction::Seen => Command::Seen { machine },
        GuestAction::Approve(events) => {
            let snapshot = cluster.engine.snapshot();
            let Some(found) = snapshot.region.machine(machine) else { return StatusCode::NOT_FOUND.into_response() };
            let by = Approver::Guest { machine, name: found.name.clone() };
            Command::Approve { by, within: ApprovalScope::ScopeOf(machine), events }
        }
    };
    match cluster.engine.submit(command, None).await {
        Ok(done) => Json(Committed { revision: done.snapshot.revision }).into_response(),
        Err(SubmitError::Rejected(Rejection::UnknownEvents(ids))) => {
            (StatusCode::CONFLICT, Json(UnknownEvents { unknown_events: encode_ids(&ids) })).into_response()
        }
        Err(SubmitError::Rejected(Rejection::UnknownMachine(_))) => StatusCode::NOT_FOUND.into_response(),
        Err(SubmitError::NoLeader) => StatusCode::MISDIRECTED_REQUEST.into_response(),
        Err(SubmitError::Busy | SubmitError::Stopping) => StatusCode::TOO_MANY_REQUESTS.into_response(),
        Err(error @ (SubmitError::Unavailable | SubmitError::Rejected(_) | SubmitError::ServersOutdated)) => {
            ApiError::from(error).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use forewarn_core::Guid;

    use super::*;

    #[test]
    fn commands_of_guests_survive_encoding() {
        for act in [GuestAction::Seen, GuestAction::Approve(vec![Guid(7), Guid(u128::MAX)])] {
            let command = GuestCommand { machine: MachineId(3), act };
            assert_eq!(GuestCommand::decode(&command.encode()), Some(command));
        }
        assert_eq!(GuestCommand::decode(b"{}"), None);
    }
}
