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
use serde_json::{Value, json};

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

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new().route(PATH, post(take))
}

impl Cluster {
    /// Has the leader carry out the command of a guest, and waits until the local copy shows it.
    pub async fn forward_guest(&self, command: &GuestCommand) -> Result<(), SourceError> {
        let body = Bytes::from(command.encode().to_string());
        match self.post_to_leader(PATH, body).await {
            LeaderResponse::By(response) => self.take_answer(response.status(), response.body()).await,
            // This server has become the leader meanwhile; the guest tries again.
            LeaderResponse::Here | LeaderResponse::NoLeader => Err(SourceError::Overloaded),
            LeaderResponse::Unknown => Err(SourceError::OutcomeUnknown),
        }
    }

    async fn take_answer(&self, status: StatusCode, body: &[u8]) -> Result<(), SourceError> {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        if let (StatusCode::OK, Some(revision)) = (status, answer["revision"].as_u64()) {
            self.wait_for_copy(revision).await;
            return Ok(());
        }
        match (status, answer["unknownEvents"].as_array()) {
            (StatusCode::CONFLICT, Some(ids)) => Err(SourceError::UnknownEvents(decode_ids(ids))),
            (StatusCode::NOT_FOUND, _) => Err(SourceError::UnknownMachine),
            (StatusCode::TOO_MANY_REQUESTS, _) => Err(SourceError::Overloaded),
            _ => Err(SourceError::OutcomeUnknown),
        }
    }
}

impl GuestCommand {
    fn encode(&self) -> Value {
        match &self.act {
            GuestAction::Seen => json!({ "machine": self.machine.0 }),
            GuestAction::Approve(events) => {
                json!({ "machine": self.machine.0, "approve": events.iter().map(ToString::to_string).collect::<Vec<_>>() })
            }
        }
    }

    fn decode(body: &[u8]) -> Option<GuestCommand> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let act = match value.get("approve") {
            Some(ids) => GuestAction::Approve(decode_ids(ids.as_array()?)),
            None => GuestAction::Seen,
        };
        Some(GuestCommand { machine: MachineId(value["machine"].as_u64()?), act })
    }
}

fn decode_ids(ids: &[Value]) -> Vec<EventId> {
    ids.iter().filter_map(|id| forewarn_api::parse_event_id(id.as_str()?).ok()).collect()
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
        Ok(done) => Json(json!({ "revision": done.snapshot.revision })).into_response(),
        Err(SubmitError::Rejected(Rejection::UnknownEvents(ids))) => {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            (StatusCode::CONFLICT, Json(json!({ "unknownEvents": ids }))).into_response()
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
            assert_eq!(GuestCommand::decode(command.encode().to_string().as_bytes()), Some(command));
        }
        assert_eq!(GuestCommand::decode(b"{}"), None);
    }
}
