//! Webhook messages at every stage, compared with a golden file.

use forewarn_wire::cloudevent::{
    DrainEnded, EventMessage, HostChanged, MessageSummary, Notification, NotificationData, RolloutChanged, Stage,
    test_body,
};
use forewarn_wire::document::{Kind, Source};
use serde_json::Value;

use crate::support::check_golden;

fn sample(stage: Stage) -> EventMessage<'static> {
    EventMessage {
        message_id: 0x3DA1B9AA_5204_4335_8C33_C54E315DCFFE,
        time: "2026-09-19T18:14:47Z",
        subscription: "8d10da13-8125-4ba9-a717-bf7490507b3d",
        resource_id: "/subscriptions/8d10da13-8125-4ba9-a717-bf7490507b3d/resourceGroups/shop/providers/Microsoft.Compute/virtualMachineScaleSets/web",
        location: "westeurope",
        event_id: 0x602D9444_D2CD_49C7_8624_8643E7171297,
        stage,
        kind: Kind::Reboot,
        resources: &["web_1", "web_2"],
        not_before_unix_secs: Some(1_789_842_587),
        description: "Virtual machine is going to be restarted as requested by authorized user.",
        source: Source::User,
        duration_secs: -1,
    }
}

fn parse(message: &EventMessage<'_>) -> Value {
    serde_json::from_str(&message.body()).unwrap()
}

const ID: &str = "3da1b9aa-5204-4335-8c33-c54e315dcffe";

fn notify<D: NotificationData>(subject: &str, data: D) -> String {
    Notification { message_id: 7, time: "2026-09-19T22:20:05Z", subject, data }.body()
}

/// A rollout change with and without its optional fields, and the other notifications.
fn notifications() -> Vec<String> {
    let began = RolloutChanged { change: "started", requested_by: "owner", rollout: ID, ..RolloutChanged::default() };
    let ended = RolloutChanged {
        change: "step-ended",
        description: Some("CHG-7"),
        failures: 1,
        group: Some("web"),
        host: Some("node04"),
        machine: Some("web_1"),
        outcome: Some("Failed"),
        reason: Some("HostFailed"),
        step: Some(3),
        step_state: Some("Failed"),
        steps: Some(20),
        kind: Some("Reboot"),
        update_domain: Some(2),
        waits_for: Some("approvals"),
        ..began.clone()
    };
    let host = |drain, state| HostChanged { drain, host: "node04", reachable: false, state };
    let drain = |host| DrainEnded { host, operation: ID, requested_by: "owner", result: "Succeeded" };
    vec![
        notify("/rollouts/1", began),
        notify("/rollouts/1", ended),
        notify("/hosts/node04", host(None, None)),
        notify("/hosts/node04", host(Some(ID), Some("Draining"))),
        notify("/operations/1", drain(None)),
        notify("/operations/1", drain(Some("node04"))),
        test_body(7, "2026-09-19T18:14:47Z", "ops"),
    ]
}

#[test]
fn notifications_and_tests_match_the_golden_file() {
    check_golden("notifications.jsonl", format!("{}\n", notifications().join("\n")).as_bytes());
}

#[test]
fn a_summary_says_what_a_message_reports() {
    let of = |body: &str| {
        let MessageSummary { event_id, kind, status, machines } = MessageSummary::read(body);
        format!("{event_id:x?} {kind} {status} {machines:?}")
    };
    let event = sample(Stage::Canceled).body();
    assert_eq!(of(&event), r#"Some(602d9444d2cd49c786248643e7171297) Reboot Canceled ["web_1", "web_2"]"#);
    let found: Vec<String> = notifications().iter().map(|body| of(body)).collect();
    let expected = [
        "None Forewarn.RolloutChanged started []",
        "None Forewarn.RolloutChanged step-ended []",
        "None Forewarn.HostChanged  []",
        "None Forewarn.HostChanged Draining []",
        "None Forewarn.DrainEnded Succeeded []",
        "None Forewarn.DrainEnded Succeeded []",
        "None Forewarn.WebhookTest  []",
    ];
    assert_eq!(found, expected);
    assert_eq!(of("{"), "None   []");
}

#[test]
fn every_stage_matches_the_golden_file() {
    let lines: String = Stage::ALL.map(|stage| format!("{}\n", sample(stage).body())).concat();
    check_golden("cloudevents.jsonl", lines.as_bytes());
}

#[test]
fn only_scheduled_events_have_not_before() {
    for stage in Stage::ALL {
        let body = parse(&sample(stage));
        let not_before = &body["data"]["resourceInfo"]["properties"]["NotBefore"];
        let expected = if stage == Stage::Scheduled { "Sat, 19 Sep 2026 18:29:47 GMT" } else { "" };
        assert_eq!(not_before, expected, "{stage:?}");
    }
    let unknown = parse(&EventMessage { not_before_unix_secs: None, ..sample(Stage::Scheduled) });
    assert_eq!(unknown["data"]["resourceInfo"]["properties"]["NotBefore"], "");
}

#[test]
fn the_subject_names_the_event_and_the_envelope_has_its_own_id() {
    let body = parse(&sample(Stage::Completed));
    let info = &body["data"]["resourceInfo"];
    assert_eq!(body["subject"], info["id"]);
    assert!(body["subject"].as_str().unwrap().ends_with("/scheduledevents/602d9444-d2cd-49c7-8624-8643e7171297"));
    assert_eq!(info["name"], info["properties"]["EventId"]);
    assert_eq!(body["id"], "3da1b9aa-5204-4335-8c33-c54e315dcffe");
    assert_eq!(body["specversion"], "1.0");
}
