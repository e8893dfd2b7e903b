//! Stands in for `cluster` in programs that are built without the feature of that name.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use forewarn_access::{Access, SessionChange, SessionRecord};
use forewarn_api as api;
use forewarn_api_types::ClusterReport;
use forewarn_core::{EventId, MachineId};
use forewarn_engine::{ClusterOptions, Engine};
use forewarn_metadata::{BoxFuture, SourceError};
use forewarn_portal::Portal;
use forewarn_store::Replicated;
use forewarn_webhooks::Webhooks;
use http::{HeaderMap, Response as HttpResponse};
use tokio_util::sync::CancellationToken;

use crate::config::{ClusterConfig, EtcdAccess};

/// Has no values, because there is no cluster.
pub enum Cluster {}

pub enum Preparation {}

#[expect(dead_code, reason = "there is no leader to send it to")]
pub struct GuestCommand {
    pub machine: MachineId,
    pub act: GuestAction,
}

#[expect(dead_code, reason = "there is no leader to send it to")]
pub enum GuestAction {
    Seen,
    Approve(Vec<EventId>),
}

#[expect(dead_code, reason = "there is no leader to send it to")]
pub struct LeaderRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub is_repeatable: bool,
}

#[expect(dead_code, reason = "there is no leader that answers")]
pub enum LeaderResponse {
    By(HttpResponse<Bytes>),
    Here,
    NoLeader,
    Unknown,
}

impl Preparation {
    pub fn new(_: &ClusterConfig, _: &dyn Replicated, _: &Arc<Access>, _: PathBuf) -> anyhow::Result<Preparation> {
        bail!(
            "this program was built without clusters: build it with the feature 'cluster', or start without --cluster"
        )
    }

    pub fn engine_options(&self) -> anyhow::Result<ClusterOptions> {
        match *self {}
    }

    pub fn finish(self, _: &Engine) -> anyhow::Result<Arc<Cluster>> {
        match self {}
    }
}

impl Cluster {
    pub async fn forward_guest(&self, GuestCommand { machine: _, act: _ }: GuestCommand) -> Result<(), SourceError> {
        match *self {}
    }

    pub async fn send_to_leader(&self, _: &LeaderRequest) -> LeaderResponse {
        match *self {}
    }

    pub async fn catch_up(&self, _: Duration) -> bool {
        match *self {}
    }

    pub async fn wait_for_copy(&self, _: u64) {
        match *self {}
    }

    pub fn is_current(&self) -> bool {
        match *self {}
    }

    pub fn is_stale(&self) -> bool {
        match *self {}
    }
}

impl api::ClusterReporter for Cluster {
    fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClusterReport> + Send>> {
        match *self {}
    }
}

pub fn remove_left_over(_: &Path) {}

pub fn init_region(_: &Path, _: &str, _: &EtcdAccess) -> anyhow::Result<u64> {
    bail!("this program was built without clusters: build it with the feature 'cluster'")
}

pub fn share_secrets(_: &ClusterConfig, _: &Path) -> anyhow::Result<()> {
    Ok(())
}

pub fn create_cluster_key(_: &Path) -> anyhow::Result<()> {
    bail!("this program was built without clusters: build it with the feature 'cluster'")
}

pub fn routes(cluster: &Arc<Cluster>) -> Router<api::Service> {
    match **cluster {}
}

pub async fn forward(State(cluster): State<Arc<Cluster>>, _: Request, _: Next) -> Response {
    match *cluster {}
}

pub async fn forward_form(State((cluster, _)): State<(Arc<Cluster>, Portal)>, _: Request, _: Next) -> Response {
    match *cluster {}
}

impl api::RegionSessions for Cluster {
    fn region(&self) -> &str {
        match *self {}
    }

    fn change(&self, _: SessionChange) -> BoxFuture<'_, Result<Option<SessionRecord>, api::ApiError>> {
        match *self {}
    }
}

pub async fn supervise(cluster: Arc<Cluster>, _: Arc<Webhooks>, _: Option<String>, _: CancellationToken) {
    match *cluster {}
}
