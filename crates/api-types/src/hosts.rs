//! Hosts, on which machines run, and drains, which empty them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{EventType, HostPhase, Id, Nullable, Number, ResourceName, RolloutOwner, Text, Time, WaitFor};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    pub name: String,
    pub state: HostPhase,
    /// Whether its agent is in contact. Absent for a host without an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable: Option<bool>,
    /// The agent, in responses of `GET`. Absent for a host without an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<HostAgent>,
    pub pool: String,
    pub labels: BTreeMap<String, String>,
    /// Memory for machines, in MiB. Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Memory that its machines need, in MiB.
    pub memory_used_mib: u64,
    pub machine_count: u64,
    /// Names of its machines, at most 1,000.
    pub machines: Vec<String>,
    /// Operation of the drain in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Id>,
    /// Why the drain waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitFor>,
    /// Rollout that the host belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Id>,
    /// The statement that the host is off, in the response of `GET` for one host. Absent if the history no longer has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fenced: Option<Fencing>,
}

/// The statement that a host is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fencing {
    pub by: String,
    pub at: Time,
}

/// The agent of a host. Times and address are absent if it is connected to another server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAgent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// Revision of its copy of the region.
    pub revision: u64,
    /// Where it connects from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Time>,
}

/// A change of a host. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<ResourceName>,
    /// Replaces all labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Memory for machines, in MiB; null for unlimited.
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<Number>)]
    pub memory_mib: Nullable<Number>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewDrain {
    /// Pool to which machines move. Default: the pool of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ResourceName>,
    /// Maximum number of machines that move at a time. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub parallel: Option<u32>,
    /// Maximum number of unavailable machines in each group. Default: the size of its largest update domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_unavailable: Option<u32>,
    /// Notice period, if longer than the minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 34_560_000)]
    pub notice_seconds: Option<u64>,
    /// Restart machines that cannot move while they run, instead of moving them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_in_place: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
}

/// The expected moves of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainPreview {
    pub machines: Vec<DrainMove>,
    /// Running rollouts that own the host, or groups of its machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutOwner>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainMove {
    pub machine: String,
    /// Event type. Absent if the machine cannot move.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventType>,
    /// Host to which it moves. Absent if it restarts in place or cannot move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why it cannot move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitFor>,
    /// Whether a handler gets notice of the move.
    pub has_handler: bool,
}

/// A domain of a host's hypervisor, as its agent reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostDomain {
    pub name: String,
    /// UUID of the domain.
    pub vm_id: String,
    /// Whether it runs, or is paused.
    pub active: bool,
    pub memory_mib: u64,
    pub macs: Vec<String>,
    pub addresses: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

/// A token with which a host joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostToken {
    pub host: String,
    /// Works once.
    pub token: String,
    /// End of its validity.
    pub expires: Time,
}

/// A request to join, sent by a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewJoin {
    pub token: String,
    /// Certificate request, PEM.
    pub request: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinResponse {
    pub host: String,
    /// Certificate of the host, PEM.
    pub certificate: String,
    /// Authority of the listener for hosts, PEM.
    pub authority: String,
    /// Port of the listener for hosts.
    pub port: u16,
    /// Addresses of the listeners for hosts of all servers of a cluster. Empty: there is one server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}
