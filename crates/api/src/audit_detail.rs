//! The details of entries in the audit trail, by action. Stored as JSON in history, whose rows outlive the types: fields keep
//! their names, and are in the order in which they are written.

use forewarn_access::Role;
use forewarn_api_types::{EventType, MaintenanceType, Time, UpgradePolicy};
use forewarn_metadata::faults::{Fault, FaultEnd, Parameters, Path};
use serde::Serialize;

/// The content of an entry besides its actor, action and target.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AuditDetail {
    Nothing {},
    ClockAdvance {
        seconds: u64,
    },
    ClockSetting {
        now: Time,
    },
    Failure {
        #[serde(rename = "type")]
        kind: EventType,
    },
    Fault(FaultDetail),
    Identity {
        role: Role,
    },
    Instances {
        instances: Vec<String>,
    },
    /// Of a request of the ARM API, which writes the names as one text.
    InstanceNames {
        instances: String,
    },
    #[serde(rename_all = "camelCase")]
    Maintenance {
        at: Option<Time>,
        notice_seconds: Option<u64>,
        #[serde(rename = "type")]
        kind: MaintenanceType,
    },
    Pause {
        now: bool,
    },
    #[serde(rename_all = "camelCase")]
    Registration {
        vm_id: String,
    },
    /// The rules of a region that were replaced, one text for each setting.
    Rules {
        before: Vec<String>,
    },
    ScaleSet {
        capacity: u32,
    },
    #[serde(rename_all = "camelCase")]
    ScaleSetChange {
        capacity: Option<u32>,
        upgrade_mode: Option<UpgradePolicy>,
    },
    Scenario {
        title: String,
    },
    Steps {
        steps: usize,
    },
    Webhook {
        url: String,
    },
}

impl AuditDetail {
    /// The text in history.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and lists can be written as JSON")
    }
}

/// A fault when it is added, cleared or ends.
#[derive(Debug, Serialize)]
pub struct FaultDetail {
    /// Why the fault ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_only: Option<bool>,
    fault: u64,
    kind: &'static str,
    /// The number of requests that matched.
    met: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_secs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl FaultDetail {
    pub fn of(fault: &Fault, end: Option<FaultEnd>) -> FaultDetail {
        let (status, retry_after_secs, delay_secs) = match fault.kind.parameters() {
            Parameters::Status { status, retry_after_secs } => (Some(status.code()), retry_after_secs, None),
            Parameters::Delay(delay) => (None, None, Some(delay.as_secs_f64())),
            Parameters::Nothing => (None, None, None),
        };
        FaultDetail {
            because: end.map(|end| match end {
                FaultEnd::Counted => "counted",
                FaultEnd::Elapsed => "elapsed",
                FaultEnd::MachineGone => "machine-gone",
            }),
            count: fault.limit.count,
            delay_secs,
            documents_only: (fault.only.path == Path::Events).then_some(true),
            fault: fault.id.0,
            kind: fault.kind.as_str(),
            met: fault.affected,
            method: fault.only.method.map(|method| method.as_str()),
            percent: fault.limit.percent.map(u64::from),
            retry_after_secs,
            secs: fault.limit.span.map(|span| span.as_secs()),
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forewarn_core::{MachineId, Timestamp};
    use forewarn_metadata::faults::{FaultKind, FaultLimit, Faults, Method, NewFault, RequestFilter, Status};

    use super::*;

    fn check(detail: AuditDetail, expected: &str) {
        assert_eq!(detail.to_json(), expected);
    }

    #[test]
    fn every_detail_is_written_as_before() {
        check(AuditDetail::Nothing {}, "{}");
        check(AuditDetail::ClockAdvance { seconds: 600 }, r#"{"seconds":600}"#);
        check(AuditDetail::ClockSetting { now: Time(1_785_232_800_000) }, r#"{"now":"2026-07-28T10:00:00Z"}"#);
        check(AuditDetail::Failure { kind: EventType::Redeploy }, r#"{"type":"Redeploy"}"#);
        check(AuditDetail::Identity { role: Role::Operator }, r#"{"role":"operator"}"#);
        check(AuditDetail::Instances { instances: vec!["0".into(), "web_1".into()] }, r#"{"instances":["0","web_1"]}"#);
        check(AuditDetail::InstanceNames { instances: "web_0, web_1".into() }, r#"{"instances":"web_0, web_1"}"#);
        let maintenance =
            |at, notice_seconds| AuditDetail::Maintenance { at, notice_seconds, kind: MaintenanceType::Freeze };
        check(maintenance(None, None), r#"{"at":null,"noticeSeconds":null,"type":"Freeze"}"#);
        check(
            maintenance(Some(Time(1_785_232_800_000)), Some(7200)),
            r#"{"at":"2026-07-28T10:00:00Z","noticeSeconds":7200,"type":"Freeze"}"#,
        );
        check(AuditDetail::Pause { now: true }, r#"{"now":true}"#);
        check(AuditDetail::Registration { vm_id: "5f".into() }, r#"{"vmId":"5f"}"#);
        check(AuditDetail::Rules { before: vec!["a is 1".into()] }, r#"{"before":["a is 1"]}"#);
        check(AuditDetail::ScaleSet { capacity: 3 }, r#"{"capacity":3}"#);
        let change = |capacity, upgrade_mode| AuditDetail::ScaleSetChange { capacity, upgrade_mode };
        check(change(Some(2), Some(UpgradePolicy::Rolling)), r#"{"capacity":2,"upgradeMode":"Rolling"}"#);
        check(change(None, None), r#"{"capacity":null,"upgradeMode":null}"#);
        check(AuditDetail::Scenario { title: "A reboot".into() }, r#"{"title":"A reboot"}"#);
        check(AuditDetail::Steps { steps: 2 }, r#"{"steps":2}"#);
        check(AuditDetail::Webhook { url: "http://h/".into() }, r#"{"url":"http://h/"}"#);
    }

    fn fault(new: &NewFault) -> Fault {
        let machine = new.machine.map(|id| (id, "web".into()));
        Faults::default().prepare(new, machine, Timestamp::from_secs(0)).unwrap()
    }

    #[test]
    fn a_fault_is_written_as_before() {
        let plain = NewFault::new(FaultKind::Reset);
        let of = |new: &NewFault, end| AuditDetail::Fault(FaultDetail::of(&fault(new), end));
        check(of(&plain, None), r#"{"fault":1,"kind":"Reset","met":0}"#);
        let delayed = NewFault { kind: FaultKind::Delay(Duration::from_millis(2500)), ..plain };
        check(
            of(&delayed, Some(FaultEnd::Elapsed)),
            r#"{"because":"elapsed","delay_secs":2.5,"fault":1,"kind":"Delay","met":0}"#,
        );
        let limited = NewFault {
            machine: Some(MachineId(4)),
            kind: FaultKind::Status { status: Status::ServiceUnavailable, retry_after_secs: 9 },
            only: RequestFilter { method: Some(Method::Get), path: Path::Events },
            limit: FaultLimit { count: Some(3), span: Some(Duration::from_secs(60)), percent: Some(50) },
        };
        check(
            of(&limited, Some(FaultEnd::Counted)),
            r#"{"because":"counted","count":3,"documents_only":true,"fault":1,"kind":"Status","met":0,"method":"GET","percent":50,"retry_after_secs":9,"secs":60,"status":503}"#,
        );
    }
}
