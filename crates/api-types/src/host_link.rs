//! Messages between a server and the agents of its hosts. Not part of the management API: they travel on the listener for
//! hosts, over mutual TLS, and both ends are of the same release or the one before.
//!
//! The server sends lines of JSON ([`StreamLine`]) for as long as the agent is connected. The agent sends requests.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hosts::HostDomain;

/// Paths on the listener for hosts.
pub mod paths {
    pub const STREAM: &str = "/link/v1/stream";
    pub const HEARTBEAT: &str = "/link/v1/beat";
    pub const SEEN: &str = "/link/v1/seen";
    pub const TURN_ON: &str = "/link/v1/turn-on";
    pub const APPROVE: &str = "/link/v1/approve";
    pub const REPORT: &str = "/link/v1/report";
    pub const RENEW: &str = "/link/v1/renew";
    pub const TOKEN: &str = "/link/v1/token";
    pub const PROPERTIES: &str = "/link/v1/properties";
    pub const DOMAINS: &str = "/link/v1/domains";
}

/// Agents send this with their version as the user agent of a stream.
pub const USER_AGENT_PREFIX: &str = "forewarn-host/";

/// The query of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenStream {
    /// Identifies the process of the agent, so that a second one with the same name is refused.
    pub instance: String,
    /// Revision of the agent's copy; 0 without one.
    pub revision: u64,
    /// Whether the agent omits the `_` before resource names in api-version 2017-03-01, as the server does.
    pub plain_names: bool,
}

/// A line that the server sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamLine {
    /// Everything that the host needs, in place of what it had.
    Copy { revision: u64, put: Vec<RecordLine> },
    /// The changes since the line before.
    Change { revision: u64, put: Vec<RecordLine>, delete: Vec<RecordKey> },
    /// Nothing that the host needs has changed up to this revision.
    Unchanged { revision: u64 },
    /// All orders of the host, as `forewarn-drivers` writes them.
    Orders {
        orders: Vec<Value>,
        /// The epoch of the host. None: the server is older.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
}

/// An entity of the region, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLine {
    pub kind: String,
    pub key: String,
    pub version: u32,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordKey {
    pub kind: String,
    pub key: String,
}

/// The agent is alive and its copy has this revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostHeartbeat {
    pub instance: String,
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatResponse {
    /// Time on the server's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Addresses of the listeners for hosts of all servers. Empty: there is one server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

/// Machines that have asked for their documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenMachines {
    /// IDs of machines in the region.
    pub machines: Vec<u64>,
}

/// The first request of a machine whose event group is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnOn {
    pub machine: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestApproval {
    pub machine: u64,
    /// Event IDs.
    pub events: Vec<String>,
}

/// A machine on this host asks for a token of its managed identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestToken {
    pub machine: u64,
    pub resource: String,
    pub client_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedToken {
    /// The response to the machine.
    pub body: Value,
}

/// A machine on this host asks for its instance metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestProperties {
    pub machine: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundProperties {
    /// The properties that the machine was given through the ARM API, if any.
    pub properties: Option<Value>,
}

/// All domains of the host, as they were when the agent's copy had this revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainReport {
    pub revision: u64,
    pub domains: Vec<HostDomain>,
    /// Names of domains from which the record of an unknown order was removed.
    pub strays: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainReportAnswer {
    /// Some machines have changed meanwhile: report again once the copy has this revision.
    pub again_at: Option<u64>,
}

/// The end of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderReport {
    /// Event ID.
    pub event: String,
    /// VM ID of the machine.
    pub machine: String,
    /// As `forewarn-drivers` writes it.
    pub outcome: Value,
    /// The epoch of the order. None: the agent or the server that it is meant for is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// Certificate request, PEM.
    pub request: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewResponse {
    /// PEM.
    pub certificate: String,
}

/// A command was carried out. A copy with this revision shows its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitResponse {
    pub revision: u64,
}

/// The reason why the server did not carry out a request of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "code")]
pub enum LinkRefusal {
    /// These event IDs are not in the document of the machine.
    UnknownEvents {
        events: Vec<String>,
    },
    UnknownMachine,
    /// The machine has no identity, or not the requested one.
    IdentityNotFound,
    /// The server issues no tokens for this resource.
    ResourceUnknown,
    /// The machine is on another host.
    OtherHost {
        message: String,
    },
    /// Another agent with the same name is connected.
    OtherAgent {
        message: String,
    },
    /// The certificate was revoked.
    Revoked {
        message: String,
    },
    Invalid {
        message: String,
    },
    Overloaded,
    /// The servers of the cluster have no leader. Nothing has happened.
    NoLeader,
    /// It is unknown whether the change was stored.
    OutcomeUnknown,
    Internal,
}

impl LinkRefusal {
    pub fn status(&self) -> u16 {
        match self {
            LinkRefusal::UnknownEvents { .. }
            | LinkRefusal::IdentityNotFound
            | LinkRefusal::ResourceUnknown
            | LinkRefusal::Invalid { .. } => 400,
            LinkRefusal::Revoked { .. } => 401,
            LinkRefusal::OtherHost { .. } => 403,
            LinkRefusal::UnknownMachine => 404,
            LinkRefusal::OtherAgent { .. } => 409,
            LinkRefusal::Internal => 500,
            LinkRefusal::Overloaded | LinkRefusal::NoLeader | LinkRefusal::OutcomeUnknown => 503,
        }
    }
}

impl std::fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LinkRefusal::UnknownEvents { .. } => "the document of the machine has no such events",
            LinkRefusal::UnknownMachine => "the machine does not exist",
            LinkRefusal::IdentityNotFound => "the machine has no such identity",
            LinkRefusal::ResourceUnknown => "the server issues no tokens for this resource",
            LinkRefusal::OtherHost { message }
            | LinkRefusal::OtherAgent { message }
            | LinkRefusal::Revoked { message }
            | LinkRefusal::Invalid { message } => message,
            LinkRefusal::Overloaded => "the server is overloaded",
            LinkRefusal::NoLeader => "the servers have no leader",
            LinkRefusal::OutcomeUnknown => "the server does not know whether the change was stored",
            LinkRefusal::Internal => "the server has failed; see its log",
        })
    }
}
