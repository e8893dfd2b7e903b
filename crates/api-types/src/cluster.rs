//! The servers that share a region, as `GET /api/v1/cluster` describes them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    pub region: String,
    /// The server that answers.
    pub node: String,
    /// `leader`, `follower` or `catching-up`.
    pub role: String,
    pub leader: Option<String>,
    pub term: u64,
    /// Revision of the copy of the server that answers.
    pub revision: u64,
    /// Age of the last heartbeat of the leader.
    pub heartbeat_age_ms: Option<u64>,
    /// Why etcd cannot be used.
    pub problem: Option<String>,
    pub nodes: Vec<ClusterNode>,
    /// Size of the log in etcd.
    #[serde(default)]
    pub log_bytes: u64,
    pub etcd: Vec<EtcdMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    pub name: String,
    pub address: String,
    pub is_leader: bool,
    pub revision: u64,
    /// Revisions that its copy lacks.
    pub behind: u64,
    /// The newest format of records that it reads.
    #[serde(default)]
    pub format: u32,
    /// Like [`ClusterReport::role`]. None: the node does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Difference of its clock from that of the server that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_difference_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Rules in its configuration that differ from those of the region.
    #[serde(default)]
    pub rule_differences: Vec<String>,
}

/// The response of a leader that steps down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteppedDown {
    pub node: String,
}

/// The response of a leader that gives the region the rules of its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRules {
    pub node: String,
    /// The rules that changed, with their previous values.
    pub changed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    pub endpoint: String,
    #[serde(default)]
    pub is_healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default)]
    pub is_leader: bool,
    pub errors: Vec<String>,
}
