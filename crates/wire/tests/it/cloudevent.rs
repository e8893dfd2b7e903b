//! Webhook messages at every stage, compared with a golden file.

use forewarn_wire::cloudevent::{EventMessage, Stage};
use forewarn_wire::document::{Kind, Source};

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

#[test]
fn every_stage_matches_the_golden_file() {
    let lines: String = Stage::ALL.map(|stage| format!("{}\n", sample(stage).body())).concat();
    check_golden("cloudevents.jsonl", lines.as_bytes());
}

#[test]
fn only_scheduled_events_have_not_before() {
    for stage in Stage::ALL {
        let body = sample(stage).body();
        let not_before = &body["data"]["resourceInfo"]["properties"]["NotBefore"];
        let expected = if stage == Stage::Scheduled { "Sat, 19 Sep 2026 18:29:47 GMT" } else { "" };
        assert_eq!(not_before, expected, "{stage:?}");
    }
    let unknown = EventMessage { not_before_unix_secs: None, ..sample(Stage::Scheduled) }.body();
    assert_eq!(unknown["data"]["resourceInfo"]["properties"]["NotBefore"], "");
}

#[test]
fn the_subject_names_the_event_and_the_envelope_has_its_own_id() {
    let body = sample(Stage::Completed).body();
    let info = &body["data"]["resourceInfo"];
    assert_eq!(body["subject"], info["id"]);
    assert!(body["subject"].as_str().unwrap().ends_with("/scheduledevents/602d9444-d2cd-49c7-8624-8643e7171297"));
    assert_eq!(info["name"], info["properties"]["EventId"]);
    assert_eq!(body["id"], "3da1b9aa-5204-4335-8c33-c54e315dcffe");
    assert_eq!(body["specversion"], "1.0");
}
