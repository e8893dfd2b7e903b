//! The cluster as operators see it: its servers, its leader, the health of etcd; stepping down, and removing a server.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use forewarn_api::ApiError;
use forewarn_cluster::{Backend, LogError, Roster};
use forewarn_engine::SubmitError;
use http::StatusCode;
use serde_json::{Value, json};

use super::Cluster;

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new()
        .route("/api/v1/cluster", get(show))
        .route("/api/v1/cluster/step-down", post(step_down))
        .route("/api/v1/cluster/nodes/{node}", delete(remove))
}

async fn show(State(cluster): State<Arc<Cluster>>) -> Json<Value> {
    let roster = cluster.with_log(|log| log.roster()).await;
    let backends = cluster.with_log(|log| log.health()).await;
    Json(cluster.describe(roster, backends))
}

impl Cluster {
    fn describe(&self, roster: Result<Roster, LogError>, backends: Result<Vec<Backend>, LogError>) -> Value {
        let status = self.monitor.status();
        let revision = self.engine.snapshot().revision;
        let leader = status.leader.as_ref().map(|leader| leader.node.clone());
        let problem = status.problem.clone().or_else(|| roster.as_ref().err().map(ToString::to_string));
        let (members, log_bytes) = roster.map_or((Vec::new(), 0), |roster| (roster.members, roster.log_bytes));
        let newest = members.iter().map(|member| member.applied).chain([revision]).max().unwrap_or(0);
        let nodes: Vec<Value> = members
            .iter()
            .map(|member| {
                let applied = if member.name == self.node { revision } else { member.applied };
                json!({
                    "name": member.name,
                    "address": member.address,
                    "isLeader": Some(&member.name) == leader.as_ref(),
                    "revision": applied,
                    "behind": newest.saturating_sub(applied),
                    "format": member.format,
                })
            })
            .collect();
        json!({
            "region": self.region,
            "node": self.node,
            "role": status.role.as_str(),
            "leader": leader,
            "term": status.term,
            "revision": revision,
            "beatAgeMs": self.monitor.beat_age().map(|age| age.as_millis() as u64),
            "problem": problem,
            "nodes": nodes,
            "logBytes": log_bytes,
            "etcd": backends.unwrap_or_default().iter().map(describe_backend).collect::<Vec<_>>(),
        })
    }
}

fn describe_backend(backend: &Backend) -> Value {
    match &backend.status {
        Ok(status) => json!({
            "endpoint": backend.endpoint,
            "version": status.version,
            "bytes": status.bytes,
            "isLeader": status.is_leader,
            "errors": status.errors,
        }),
        Err(problem) => json!({ "endpoint": backend.endpoint, "errors": [problem] }),
    }
}

/// Forwarded to the leader like every change.
async fn step_down(State(cluster): State<Arc<Cluster>>) -> Result<Json<Value>, ApiError> {
    cluster.engine.step_down()?;
    Ok(Json(json!({ "node": cluster.node })))
}

async fn remove(State(cluster): State<Arc<Cluster>>, Path(node): Path<String>) -> Response {
    if node == cluster.node {
        let message = format!("node '{node}' leads the cluster: run 'forewarn cluster step-down' first\n");
        return (StatusCode::CONFLICT, message).into_response();
    }
    match cluster.with_log(move |log| log.remove(&node)).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => {
            tracing::warn!(%error, "cannot remove a node");
            ApiError::from(SubmitError::Unavailable).into_response()
        }
    }
}
