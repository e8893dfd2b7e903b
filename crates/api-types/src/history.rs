//! Rows of history.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{EventId, Id, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRow {
    pub number: u64,
    pub at: Time,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_group: Option<u64>,
    pub machines: Vec<String>,
    /// Internal numbers of these machines, which tell machines with the same name apart. Empty in rows of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_ids: Vec<u64>,
    /// `guest:NAME`, `management:NAME` or `policy`; the actor of an audit row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Target of an audit row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Further details, depending on the kind.
    #[schema(value_type = Object)]
    pub detail: Value,
}

impl HistoryRow {
    /// A detail that is a string.
    pub fn detail_text(&self, name: &str) -> Option<&str> {
        self.detail.get(name)?.as_str()
    }
}
