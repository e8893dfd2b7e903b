//! The answers of the management API, as far as they are used. Words are strings, because a newer server may know more of
//! them.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::parse::span_text;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub outcome: Option<String>,
    pub reason: Option<String>,
    pub shown: bool,
    pub resources: Vec<String>,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub approval: Option<Approval>,
    #[serde(default)]
    pub scope: u64,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub cause: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub duration_seconds: i64,
    #[serde(default)]
    pub operations: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Approval {
    pub by: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: String,
    pub kind: String,
    pub by: String,
    pub asked: Option<Timestamp>,
    pub state: String,
    pub ended: Option<Timestamp>,
    pub outcome: Option<String>,
    pub reason: Option<String>,
    #[serde(default)]
    pub machines: Vec<String>,
    pub host: Option<String>,
    pub group: Option<String>,
    #[serde(default)]
    pub events: Vec<EventRef>,
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    pub resume: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct EventRef {
    pub id: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub name: String,
    pub vm_id: String,
    pub resource_group: String,
    pub availability_set: Option<String>,
    pub cloud_service: Option<String>,
    pub scale_set: Option<String>,
    /// Set for instances of a Uniform scale set.
    pub instance_id: Option<u32>,
    pub latest_model_applied: Option<bool>,
    pub scope: u64,
    pub host: Option<String>,
    pub update_domain: u32,
    pub fault_domain: u32,
    pub zone: Option<String>,
    pub priority: String,
    pub power: String,
    pub listening: bool,
    pub addresses: Vec<Address>,
    pub terminate_notification: Option<TerminateNotification>,
    pub protected: bool,
    /// Instance metadata.
    pub details: Map<String, Value>,
    pub tags: Map<String, Value>,
}

impl Machine {
    /// The group that makes the name unique: GROUP in GROUP/NAME.
    pub fn group(&self) -> &String {
        self.cloud_service.as_ref().unwrap_or(&self.resource_group)
    }

    /// The set or service of the machine.
    pub fn set(&self) -> Option<&String> {
        self.availability_set.as_ref().or(self.cloud_service.as_ref()).or(self.scale_set.as_ref())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateNotification {
    pub not_before_timeout: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub name: String,
    pub resource_group: String,
    pub policy: Policy,
    pub update_domains: u32,
    pub fault_domains: u32,
    pub machines: u64,
    pub scopes: Vec<ScopeState>,
    pub leaving: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub approve_user_reboot: bool,
    pub approve_user_redeploy: bool,
    pub approve_all_instances_down: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ScopeState {
    pub listening: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSet {
    #[serde(flatten)]
    pub group: Group,
    pub orchestration: String,
    pub upgrade_mode: String,
    pub capacity: u32,
    pub model: Model,
    pub model_version: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub priority: String,
    pub terminate_notification: Option<TerminateNotification>,
}

/// The result of changing a scale set.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSetChanged {
    pub scale_set: Value,
    pub added: Vec<String>,
    pub removing: Vec<String>,
    pub operation: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Host {
    pub name: String,
    pub machines: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Address {
    pub network: String,
    pub ip: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    pub kind: String,
    pub now: Timestamp,
    pub notice_scale: u32,
    pub next_deadline: Option<Timestamp>,
    /// Description of the next deadline.
    pub next_deadline_of: Option<String>,
}

impl Clock {
    pub fn is_manual(&self) -> bool {
        self.kind == "Manual"
    }

    /// The next deadline and its description, without housekeeping.
    pub fn next(&self) -> Option<(Timestamp, &str)> {
        let of = self.next_deadline_of.as_deref().filter(|of| *of != "housekeeping")?;
        Some((self.next_deadline?, of))
    }

    /// Advice for a manual clock; None if the clock is real.
    pub fn advice(&self) -> Option<String> {
        let next = self.next().and_then(|(at, _)| Duration::try_from(at.duration_since(self.now)).ok());
        let span = next.filter(|span| !span.is_zero()).map_or("15m".into(), |span| span_text(whole_secs(span)));
        self.is_manual().then(|| format!("The clock is manual: run `forewarn clock advance {span}` to let time pass."))
    }

    /// The server's time, given when the clock was fetched. A manual clock does not advance.
    pub fn now_since(&self, seen: Instant) -> Option<Timestamp> {
        let passed = if self.is_manual() { Duration::ZERO } else { seen.elapsed() };
        self.now.checked_add(passed).ok()
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct HistoryRow {
    pub at: Timestamp,
    pub kind: String,
    pub event: Option<String>,
    pub operation: Option<String>,
    #[serde(default)]
    pub machines: Vec<String>,
    pub actor: Option<String>,
    pub outcome: Option<String>,
    /// The target of a management action.
    pub target: Option<String>,
    #[serde(default)]
    pub detail: Value,
}

/// Rounds up to whole seconds.
pub fn whole_secs(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0))
}
