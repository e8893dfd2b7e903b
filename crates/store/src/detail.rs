//! The JSON object in a history row, by kind of row: written by `history`, read by `fact`. Rows outlive the types, so fields keep
//! their names and are in the order in which they are written. A row of an older version lacks some of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::HistoryRow;

/// Of the row of an event's appearance.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AppearedDetail<'a> {
    #[serde(borrow)]
    pub cause: Cow<'a, str>,
    #[serde(borrow)]
    pub description: Cow<'a, str>,
    #[serde(default = "unknown_duration")]
    pub duration_secs: i64,
    #[serde(borrow)]
    pub not_before: Cow<'a, str>,
    #[serde(borrow)]
    pub source: Cow<'a, str>,
    #[serde(borrow)]
    pub subscription: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub visibility: Cow<'a, str>,
}

fn unknown_duration() -> i64 {
    -1
}

/// Of every other row of an event.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EventDetail<'a> {
    #[serde(borrow)]
    pub cause: Cow<'a, str>,
    /// Why the event failed.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OperationDetail<'a> {
    #[serde(borrow)]
    pub asked: Cow<'a, str>,
    /// The outcome because of which the operation failed.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub because: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    pub events: Vec<String>,
    pub request: Value,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub subscription: Cow<'a, str>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RolloutDetail<'a> {
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Cow<'a, str>>,
    pub failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub host: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub state: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub step_state: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HostDetail<'a> {
    #[serde(borrow)]
    pub pool: Cow<'a, str>,
    pub reachable: bool,
}

impl Default for HostDetail<'_> {
    fn default() -> Self {
        HostDetail { pool: Cow::default(), reachable: true }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MachineDetail<'a> {
    pub group: Option<u64>,
    pub machine: u64,
    #[serde(borrow)]
    pub resource_group: Cow<'a, str>,
    #[serde(borrow)]
    pub subscription: Cow<'a, str>,
    #[serde(borrow)]
    pub vm_id: Cow<'a, str>,
}

/// Reads the detail of a row; empty if it is damaged.
pub(crate) fn read<'a, D: Default + Deserialize<'a>>(row: &'a HistoryRow) -> D {
    serde_json::from_str(&row.detail).unwrap_or_default()
}

pub(crate) fn write(detail: &impl Serialize) -> String {
    serde_json::to_string(detail).expect("texts, numbers and lists can be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'a, D: Default + Deserialize<'a> + Serialize>(json: &'a str) {
        let detail: D = serde_json::from_str(json).unwrap();
        assert_eq!(write(&detail), json);
    }

    /// Each text was written by the first version of its row.
    #[test]
    fn details_are_written_as_in_earlier_versions() {
        check::<AppearedDetail<'_>>(
            r#"{"cause":"user-restart","description":"a \"b\"","duration_secs":-1,"not_before":"2026-07-28T10:15:00.000Z","source":"User","subscription":"s","type":"Reboot","visibility":"shown"}"#,
        );
        check::<EventDetail<'_>>(r#"{"cause":"user-restart","type":"Reboot"}"#);
        check::<EventDetail<'_>>(r#"{"cause":"user-restart","reason":"no power","type":"Reboot"}"#);
        check::<OperationDetail<'_>>(
            r#"{"asked":"2026-07-28T10:00:00.000Z","by":"ann","events":["e1","e2"],"request":{"restart":{"machine":4}},"subscription":"s"}"#,
        );
        check::<OperationDetail<'_>>(
            r#"{"asked":"","because":"timed-out","by":"","events":[],"request":null,"rollout":"r","subscription":""}"#,
        );
        check::<RolloutDetail<'_>>(r#"{"by":"ann","failures":0,"state":"running"}"#);
        check::<RolloutDetail<'_>>(
            r#"{"by":"ann","domain":2,"failure":"failed","failures":1,"group":3,"host":"h1","machine":4,"reason":"HostFailed","state":"running","step":0,"step_state":"failed","waits_for":"approvals"}"#,
        );
        check::<HostDetail<'_>>(r#"{"pool":"default","reachable":false}"#);
        check::<MachineDetail<'_>>(
            r#"{"group":null,"machine":4,"resource_group":"rg","subscription":"s","vm_id":"v"}"#,
        );
        check::<MachineDetail<'_>>(r#"{"group":3,"machine":4,"resource_group":"rg","subscription":"s","vm_id":"v"}"#);
    }

    #[test]
    fn a_detail_without_fields_has_defaults() {
        let appeared: AppearedDetail<'_> = serde_json::from_str("{}").unwrap();
        assert_eq!(appeared.duration_secs, -1);
        let host: HostDetail<'_> = serde_json::from_str("{}").unwrap();
        assert!(host.reachable);
    }
}
