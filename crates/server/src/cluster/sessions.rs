//! Changes of the region's portal sessions, which the leader makes for every server.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use forewarn_access::{SessionChange, SessionRecord};
use forewarn_api::{ApiError, RegionSessions, refuse_session};
use forewarn_engine::SubmitError;
use forewarn_metadata::BoxFuture;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{Cluster, LeaderResponse};

const PATH: &str = "/cluster/v1/session";

/// The leader's answer.
#[derive(Serialize, Deserialize)]
struct ChangedSession {
    revision: u64,
    redeemed: Option<SessionRecord>,
}

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new().route(PATH, post(take))
}

impl RegionSessions for Cluster {
    fn region(&self) -> &str {
        &self.region
    }

    fn change(&self, change: SessionChange) -> BoxFuture<'_, Result<Option<SessionRecord>, ApiError>> {
        Box::pin(self.change_session(change))
    }
}

impl Cluster {
    async fn change_session(&self, change: SessionChange) -> Result<Option<SessionRecord>, ApiError> {
        let body = serde_json::to_vec(&change).map_err(|_| ApiError::from(SubmitError::Unavailable))?;
        let response = match self.post_to_leader(PATH, body.into()).await {
            LeaderResponse::Here => return self.sessions.write(change).await,
            LeaderResponse::By(response) => response,
            LeaderResponse::NoLeader => return Err(SubmitError::NoLeader.into()),
            LeaderResponse::Unknown => return Err(SubmitError::Unavailable.into()),
        };
        match response.status() {
            StatusCode::OK => {
                let changed = serde_json::from_slice::<ChangedSession>(response.body());
                let changed = changed.map_err(|_| ApiError::from(SubmitError::Unavailable))?;
                self.wait_for_copy(changed.revision).await;
                Ok(changed.redeemed)
            }
            StatusCode::FORBIDDEN => Err(refuse_session()),
            _ => Err(SubmitError::Unavailable.into()),
        }
    }
}

/// Makes a change for another server.
async fn take(State(cluster): State<Arc<Cluster>>, Json(change): Json<SessionChange>) -> Response {
    if !cluster.engine.accepts_commands() {
        return StatusCode::MISDIRECTED_REQUEST.into_response();
    }
    match cluster.sessions.write(change).await {
        Ok(redeemed) => Json(ChangedSession { revision: cluster.engine.snapshot().revision, redeemed }).into_response(),
        Err(error) => error.into_response(),
    }
}
