//! Availability sets and cloud services, and the fields that all groups have.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Policy, ResourceName, Time, object};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub id: u64,
    pub name: String,
    pub subscription: String,
    pub resource_group: String,
    pub policy: Policy,
    pub update_domains: u32,
    pub fault_domains: u32,
    /// Number of machines.
    pub machines: usize,
    /// Event groups: the sets of machines that share one document.
    pub event_groups: Vec<EventGroup>,
    /// Whether the group is being deleted.
    pub deleting: bool,
    /// How its handlers poll. Only in lists and in the response for a single group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handlers: Option<GroupHandlers>,
}

/// An event group: the machines that share one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventGroup {
    pub id: u64,
    /// Whether a handler is connected: a machine of the event group requests the document.
    pub handler_connected: bool,
    pub incarnation: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewGroup {
    pub name: ResourceName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<ResourceName>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub update_domains: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub fault_domains: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyChange {
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// How the handlers of a group poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupHandlers {
    /// Number of machines with a handler that polls.
    pub polling: u32,
    /// Number of polls of all machines.
    pub polls: u64,
    /// The first poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_approval: Option<Time>,
}

/// How the handler of a machine polls. Counts across restarts of the server, and starts over after a day of silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandlerHealth {
    /// Whether it has polled within three of its intervals, and at least within the last minute.
    pub polling: bool,
    pub polls: u64,
    /// The first poll.
    pub since: Time,
    pub last_poll: Time,
    /// Median interval between the latest polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_milliseconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_approval: Option<Time>,
}
