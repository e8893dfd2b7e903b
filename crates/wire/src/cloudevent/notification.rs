//! Messages of types that only Forewarn has: about rollouts, hosts and drains. Fields are in the order in which they are sent.

use serde::Serialize;

use super::{Envelope, SPEC_VERSION};
use crate::guid;

/// A message about a rollout, a host or a drain.
#[derive(Debug, Clone)]
pub struct Notification<'a, D> {
    /// ID of the envelope, the same for every delivery attempt.
    pub message_id: u128,
    /// Time of the change, in RFC 3339.
    pub time: &'a str,
    /// Path of the resource in the management API, without its prefix.
    pub subject: &'a str,
    pub data: D,
}

impl<D: NotificationData> Notification<'_, D> {
    /// The complete envelope, to be sent as [`CONTENT_TYPE`](super::CONTENT_TYPE).
    pub fn body(&self) -> String {
        Envelope {
            data: &self.data,
            id: guid::Lower(self.message_id).to_string(),
            source: "/api/v1",
            specversion: SPEC_VERSION,
            subject: Some(self.subject),
            time: self.time,
            message_type: D::TYPE,
        }
        .render()
    }
}

/// The data of a notification.
pub trait NotificationData: Serialize {
    /// The type of the message.
    const TYPE: &'static str;
}

/// A change of a rollout. Everything but the rollout itself can be unknown, because the rollout may have been removed since.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutChanged<'a> {
    /// `started`, `step-ended` and so on.
    pub change: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    pub failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<&'a str>,
    /// The outcome of the event because of which the step failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    pub requested_by: &'a str,
    pub rollout: &'a str,
    /// The number of the step, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_state: Option<&'a str>,
    /// The number of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_domain: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<&'a str>,
}

impl NotificationData for RolloutChanged<'_> {
    const TYPE: &'static str = "Forewarn.RolloutChanged";
}

/// A change of the state or the reachability of a host.
#[derive(Debug, Clone, Serialize)]
pub struct HostChanged<'a> {
    /// The operation of the drain in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<&'a str>,
    pub host: &'a str,
    pub reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'a str>,
}

impl NotificationData for HostChanged<'_> {
    const TYPE: &'static str = "Forewarn.HostChanged";
}

/// The end of a drain.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainEnded<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<&'a str>,
    pub operation: &'a str,
    pub requested_by: &'a str,
    /// `Succeeded`, `Failed` or `Canceled`.
    pub result: &'a str,
}

impl NotificationData for DrainEnded<'_> {
    const TYPE: &'static str = "Forewarn.DrainEnded";
}
