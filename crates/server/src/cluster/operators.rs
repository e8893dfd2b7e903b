//! The cluster as operators see it: its servers, its leader, the health of etcd; stepping down, removing a server, and applying
//! other rules.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use forewarn_access::{Principal, remove_host_listener};
use forewarn_api::error::ErrorCode;
use forewarn_api::{ApiError, AuditDetail, ClusterReporter};
use forewarn_api_types::{AppliedRules, ClusterNode, ClusterReport, EtcdMember, SteppedDown};
use forewarn_cluster::{Backend, LogError, Member, MemberList};
use forewarn_engine::{AuditEntry, Bundle, SubmitError};
use forewarn_store::{compare_rules, put_rules};
use http::StatusCode;

use super::Cluster;
use super::node_report::ReceivedReport;

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new()
        .route("/api/v1/cluster", get(show))
        .route("/api/v1/cluster/step-down", post(step_down))
        .route("/api/v1/cluster/apply-rules", post(apply_rules))
        .route("/api/v1/cluster/nodes/{node}", delete(remove))
}

async fn show(State(cluster): State<Arc<Cluster>>) -> Json<ClusterReport> {
    Json(cluster.report().await)
}

impl ClusterReporter for Cluster {
    fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClusterReport> + Send>> {
        Box::pin(async move {
            let (roster, problem) = match self.with_log(|log| log.roster()).await {
                Ok(roster) => (self.remember_roster(roster), None),
                Err(error) => (self.last_roster(), Some(error)),
            };
            let backends = self.with_log(|log| log.health()).await.unwrap_or_default();
            let sightings = self.ask_nodes(&roster.members).await;
            self.describe(&roster, problem.as_ref(), &sightings, &backends)
        })
    }
}

impl Cluster {
    fn remember_roster(&self, roster: MemberList) -> Arc<MemberList> {
        let roster = Arc::new(roster);
        self.last_roster.store(roster.clone());
        roster
    }

    /// The servers that etcd named last. Operators need the list most while etcd is unavailable.
    fn last_roster(&self) -> Arc<MemberList> {
        self.last_roster.load_full()
    }

    fn describe(
        &self,
        roster: &MemberList,
        roster_problem: Option<&LogError>,
        sightings: &[Result<ReceivedReport, String>],
        backends: &[Backend],
    ) -> ClusterReport {
        let status = self.monitor.status();
        let revision = self.engine.snapshot().revision;
        let leader = status.leader.as_ref().map(|leader| leader.node.clone());
        let problem = status.problem.clone().or_else(|| roster_problem.map(ToString::to_string));
        let members = &roster.members;
        let applied = |(member, sighting): (&Member, &Result<ReceivedReport, String>)| match sighting {
            Ok(sighting) => sighting.report.revision,
            Err(_) => member.applied,
        };
        let newest = members.iter().zip(sightings).map(applied).chain([revision]).max().unwrap_or(0);
        let nodes = members.iter().zip(sightings).map(|(member, sighting)| {
            let revision = applied((member, sighting));
            let received = sighting.as_ref().ok();
            ClusterNode {
                name: member.name.clone(),
                address: member.address.clone(),
                is_leader: Some(&member.name) == leader.as_ref(),
                revision,
                behind: newest.saturating_sub(revision),
                format: member.format,
                role: received.map(|received| received.report.role.clone()),
                version: received.map(|received| received.report.version.clone()),
                clock_difference_ms: received.map(|received| received.clock_difference_ms),
                problem: sighting.as_ref().err().cloned(),
                rule_differences: received.map_or_else(Vec::new, |received| received.report.rule_differences.clone()),
            }
        });
        ClusterReport {
            region: self.region.clone(),
            node: self.node.clone(),
            role: status.role.as_str().to_owned(),
            nodes: nodes.collect(),
            leader,
            term: status.term,
            revision,
            heartbeat_age_ms: self.monitor.heartbeat_age().map(|age| age.as_millis() as u64),
            problem,
            log_bytes: roster.log_bytes,
            etcd: backends.iter().map(describe_backend).collect(),
        }
    }
}

fn describe_backend(backend: &Backend) -> EtcdMember {
    let status = backend.status.as_ref();
    let errors = status.map_or_else(|problem| vec![problem.clone()], |status| status.errors.clone());
    EtcdMember {
        endpoint: backend.endpoint.clone(),
        is_healthy: errors.is_empty(),
        version: status.ok().map(|status| status.version.clone()),
        bytes: status.ok().map(|status| status.bytes),
        is_leader: status.is_ok_and(|status| status.is_leader),
        errors,
    }
}

/// Forwarded to the leader like every change.
async fn step_down(State(cluster): State<Arc<Cluster>>) -> Result<Json<SteppedDown>, ApiError> {
    cluster.engine.step_down()?;
    Ok(Json(SteppedDown { node: cluster.node.clone() }))
}

/// Gives the region the rules in the configuration of the leader.
async fn apply_rules(
    State(cluster): State<Arc<Cluster>>,
    Extension(principal): Extension<Principal>,
) -> Result<Json<AppliedRules>, ApiError> {
    let rules = cluster.monitor.configured_rules();
    let changed = compare_rules(cluster.engine.snapshot().region.settings(), rules);
    if !changed.is_empty() {
        let asked = AuditEntry {
            actor: principal.name.to_string(),
            action: "cluster.apply-rules".into(),
            target: cluster.region.clone(),
            detail: AuditDetail::Rules { before: changed.clone() }.to_json(),
        };
        let attachment = put_rules(rules);
        let attach = Box::new(move |_: &[forewarn_core::Answer]| vec![attachment]);
        cluster.engine.submit_all(Bundle { commands: Vec::new(), audit: Some(asked), attach }).await?;
    }
    Ok(Json(AppliedRules { node: cluster.node.clone(), changed }))
}

async fn remove(State(cluster): State<Arc<Cluster>>, Path(node): Path<String>) -> Result<StatusCode, ApiError> {
    if node == cluster.node {
        let message = format!("Node '{node}' leads the cluster. Run 'forewarn cluster step-down' first.");
        return Err(ApiError::new(ErrorCode::NodeLeads, message).with_target(node));
    }
    let unavailable = |error: LogError| {
        tracing::warn!(%error, "cannot remove a node");
        ApiError::from(SubmitError::Unavailable)
    };
    let roster = cluster.with_log(|log| log.roster()).await.map_err(unavailable)?;
    if !roster.members.iter().any(|member| member.name == node) {
        let names: Vec<_> = roster.members.iter().map(|member| member.name.as_str()).collect();
        let message = format!("There is no node '{node}' in the cluster. Its nodes are: {}.", names.join(", "));
        return Err(ApiError::new(ErrorCode::NodeNotFound, message).with_target(node));
    }
    let listener = remove_host_listener(&node);
    cluster.with_log(move |log| log.remove(&node)).await.map_err(unavailable)?;
    // Agents no longer try its address. If this fails, they keep trying it without success.
    let bundle = Bundle { commands: Vec::new(), audit: None, attach: Box::new(move |_| vec![listener]) };
    let _ = cluster.engine.submit_all(bundle).await;
    Ok(StatusCode::NO_CONTENT)
}
