//! Terminate notification in the ARM API: the documented sequence, and valid and invalid settings.

use crate::api_support::{NONE, Server, check};
use crate::arm_support::{advance, arm, check_status, instances, long, profile, refused, server, set_body};
use serde_json::{Value, json};

/// The Terminate events of a document: event id and machine.
fn deletions(server: &Server, machine: &str) -> Vec<(String, String)> {
    let document = server.document(machine);
    let events = document["Events"].as_array().unwrap().iter().filter(|event| event["EventType"] == "Terminate");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.map(|event| (text(&event["EventId"]), text(&event["Resources"][0]))).collect()
}

/// The body in Azure's documentation: only the profile.
fn seed_body(timeout: &str) -> Value {
    json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": {
        "terminateNotificationProfile": { "notBeforeTimeout": timeout, "enable": true } } } } })
}

fn capacity(capacity: u32) -> Value {
    json!({ "sku": { "capacity": capacity } })
}

/// A set of three whose instances have the notification, one of them polling, and a scale-in by two.
fn scaled_in() -> (Server, String) {
    let server = server();
    arm(&server, "PUT SET/su", set_body(3, "Automatic", None), 201, json!({}));
    arm(&server, "PUT SET/su?api-version=2019-03-01", seed_body("PT5M"), 200, json!({ "sku": { "capacity": 3 } }));
    server.listen_as("su_0");
    let operation = long(&server, "PATCH SET/su", capacity(1));
    check_status(&server, &operation, "InProgress");
    (server, operation)
}

#[test]
fn instances_are_deleted_together_when_all_have_approved() {
    let (server, operation) = scaled_in();
    let leaving = deletions(&server, "su_0");
    assert_eq!(leaving.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["su_2", "su_1"]);
    let document = server.document("su_0");
    assert_eq!(document["Events"][0]["NotBefore"], "Sun, 01 Mar 2026 12:05:00 GMT");
    assert_eq!(document["Events"][1]["NotBefore"], "Sun, 01 Mar 2026 12:05:00 GMT");

    server.approve_as("su_2", &leaving[0].0);
    assert_eq!(deletions(&server, "su_0").len(), 2);
    assert_eq!(instances(&server, "su"), ["su_0", "su_1", "su_2"]);
    check_status(&server, &operation, "InProgress");

    server.approve_as("su_1", &leaving[1].0);
    assert_eq!(deletions(&server, "su_0"), []);
    assert_eq!(instances(&server, "su"), ["su_0"]);
    check_status(&server, &operation, "Succeeded");
    arm(
        &server,
        "GET SET/su",
        NONE,
        200,
        json!({ "sku": { "capacity": 1 }, "properties": { "provisioningState": "Succeeded" } }),
    );
}

#[test]
fn at_the_timeout_both_are_deleted_without_approval() {
    let (server, operation) = scaled_in();
    server.approve_as("su_2", &deletions(&server, "su_0")[0].0);
    advance(&server, 299);
    assert_eq!(instances(&server, "su").len(), 3);
    check_status(&server, &operation, "InProgress");
    advance(&server, 1);
    assert_eq!(instances(&server, "su"), ["su_0"]);
    check_status(&server, &operation, "Succeeded");
}

#[test]
fn with_manual_upgrades_an_old_model_is_deleted_without_notice() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(3, "Manual", None), 201, json!({}));
    server.listen_as("su_0");
    arm(&server, "PUT SET/su?api-version=2019-03-01", seed_body("PT5M"), 200, json!({}));
    let applied = |id: u32, expected: bool| {
        let line = format!("GET SET/su/virtualMachines/{id}");
        arm(&server, &line, NONE, 200, json!({ "properties": { "latestModelApplied": expected } }));
    };
    (0..3).for_each(|id| applied(id, false));
    check_status(&server, &long(&server, "POST SET/su/manualupgrade", json!({ "instanceIds": ["1"] })), "Succeeded");
    applied(1, true);
    applied(2, false);

    let operation = long(&server, "PATCH SET/su", capacity(1));
    assert_eq!(instances(&server, "su"), ["su_0", "su_1"], "the one with the old model is gone at once");
    let leaving = deletions(&server, "su_0");
    assert_eq!(leaving.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["su_1"]);
    check_status(&server, &operation, "InProgress");
    advance(&server, 300);
    assert_eq!(instances(&server, "su"), ["su_0"]);
    check_status(&server, &operation, "Succeeded");
}

#[test]
fn a_rolling_upgrade_reaches_the_instances_in_batches() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(5, "Rolling", None), 201, json!({}));
    arm(&server, "PATCH SET/su", seed_body("PT15M"), 200, json!({}));
    let applied = |server: &Server| {
        let list = arm(server, "GET SET/su/virtualMachines", NONE, 200, json!({}));
        let list = list["value"].as_array().unwrap();
        list.iter().filter(|one| one["properties"]["latestModelApplied"] == true).count()
    };
    assert_eq!(applied(&server), 1);
    advance(&server, 60);
    assert_eq!(applied(&server), 2);
    advance(&server, 600);
    assert_eq!(applied(&server), 5);
}

#[test]
fn deleting_an_instance_again_keeps_the_first_not_before() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(2, "Automatic", Some("PT10M")), 201, json!({}));
    server.listen_as("su_0");
    let first = long(&server, "DELETE SET/su/virtualMachines/1", NONE);
    advance(&server, 60);
    let second = long(&server, "POST SET/su/delete", json!({ "instanceIds": ["1"] }));
    assert_eq!(server.document("su_0")["Events"][0]["NotBefore"], "Sun, 01 Mar 2026 12:10:00 GMT");
    arm(&server, "GET SET/su", NONE, 200, json!({ "sku": { "capacity": 1 } }));
    advance(&server, 540);
    check_status(&server, &first, "Succeeded");
    check_status(&server, &second, "Succeeded");
    assert_eq!(instances(&server, "su"), ["su_0"]);
}

#[test]
fn a_standalone_machine_gets_notice_of_its_deletion() {
    let server = server();
    arm(
        &server,
        "PUT VM/one",
        json!({ "location": "x", "properties": { "scheduledEventsProfile": profile("PT7M30S") } }),
        201,
        json!({}),
    );
    server.listen_as("one");
    let operation = long(&server, "DELETE VM/one", NONE);
    arm(&server, "GET VM/one", NONE, 200, json!({ "properties": { "provisioningState": "Deleting" } }));
    server.approve_as("one", &deletions(&server, "one")[0].0);
    check_status(&server, &operation, "Succeeded");
    refused(&server, "GET VM/one", NONE, 404, "ResourceNotFound");
}

#[test]
fn the_notification_is_shown_as_set_and_omitted_when_disabled() {
    let server = server();
    let mut body = set_body(1, "Automatic", None);
    // As templates write it.
    body["properties"]["virtualMachineProfile"]["scheduledEventsProfile"] =
        json!({ "terminateNotificationProfile": { "enable": "true", "notBeforeTimeout": "PT300S" } });
    let shown = |timeout: &str| json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": profile(timeout) } } });
    arm(&server, "PUT SET/su", body, 201, shown("PT300S"));
    arm(&server, "PATCH SET/su", seed_body("PT15M"), 200, shown("PT15M"));
    // The default is five minutes.
    let mut other = set_body(1, "Automatic", None);
    other["properties"]["virtualMachineProfile"]["scheduledEventsProfile"] =
        json!({ "terminateNotificationProfile": { "enable": true } });
    arm(&server, "PUT SET/other", other, 201, shown("PT5M"));
    let off = json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": { "terminateNotificationProfile": { "enable": false } } } } });
    let without = arm(&server, "PUT SET/su", off, 200, json!({}));
    assert_eq!(without["properties"]["virtualMachineProfile"].get("scheduledEventsProfile"), None);
    check(&server, "GET /machines/su_0", NONE, 200, json!({ "name": "su_0" }));
    assert_eq!(arm(&server, "GET SET/su", NONE, 200, json!({})), without);
}

#[test]
fn invalid_settings_are_refused_and_change_nothing() {
    let server = server();
    let before = arm(&server, "PUT SET/su", set_body(1, "Automatic", Some("PT5M")), 201, json!({}));
    for timeout in ["PT4M", "PT16M", "PT4M59S", "PT30M", "5", "P1M", "PT5M0.5S", ""] {
        let message = refused(&server, "PATCH SET/su", seed_body(timeout), 400, "InvalidTerminateNotification");
        assert_eq!(message, "notBeforeTimeout must be from 5 to 15 minutes (PT5M to PT15M).", "{timeout}");
    }
    let message = refused(&server, "PUT SET/su?api-version=2018-10-01", seed_body("PT5M"), 400, "BadRequest");
    assert_eq!(message, "Could not find member 'scheduledEventsProfile' on object of type 'VirtualMachineProfile'");
    refused(
        &server,
        "PUT VM/old?api-version=2018-10-01",
        json!({ "location": "x", "properties": { "scheduledEventsProfile": profile("PT5M") } }),
        400,
        "BadRequest",
    );
    let image = json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": {
        "osImageNotificationProfile": { "enable": true, "notBeforeTimeout": "PT5M" } } } } });
    refused(&server, "PATCH SET/su", image, 400, "InvalidParameter");
    let mut spot = set_body(1, "Automatic", Some("PT5M"));
    spot["properties"]["virtualMachineProfile"]["priority"] = json!("Low");
    refused(&server, "PUT SET/spot", spot, 409, "TerminateNotificationOnSpot");
    refused(&server, "GET SET/spot", NONE, 404, "ResourceNotFound");
    assert_eq!(arm(&server, "GET SET/su", NONE, 200, json!({})), before);
    // Azure's notice for image upgrades is kept.
    let image = json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": {
        "osImageNotificationProfile": { "enable": true, "notBeforeTimeout": "PT15M" } } } } });
    arm(&server, "PATCH SET/su", image.clone(), 200, image);
}
