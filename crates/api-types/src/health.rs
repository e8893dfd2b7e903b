//! Health of a server and of a host agent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Nullable;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `degraded` if there are problems.
    pub status: String,
    /// Problems that need an operator although the server accepts changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The answer of a server to a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ok`, `catching-up`, `stale` or `failing`.
    pub status: String,
    /// `single`, `leader`, `follower` or `catching-up`.
    pub role: String,
    /// The name of this server. Only in a cluster, like the fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The name of the leader; `null` if there is none.
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<String>)]
    pub leader: Nullable<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// The health of a host agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHealth {
    /// `ok`, `degraded` or `no contact`.
    pub status: String,
    pub host: String,
    /// Time without contact with a server.
    pub silence_seconds: u64,
    /// How far the clock of this host is ahead of the server's; none before the first contact.
    pub clock_ahead_ms: Option<i64>,
    pub revision: u64,
    pub problem: Option<String>,
}
