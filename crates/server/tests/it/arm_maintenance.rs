//! `Microsoft.Maintenance` in the ARM API: listing and approving scheduled events.

use crate::api_support::{NONE, Server, check};
use crate::arm_support::{advance, arm, check_status, long, path, refused, server, set_body};
use serde_json::{Value, json};

const EVENTS: &str = "providers/Microsoft.Maintenance/scheduledevents";

/// A set of two, the first of them polling, and a machine on its own that polls.
fn fleet() -> Server {
    let server = server();
    arm(&server, "PUT SET/su", set_body(2, "Manual", None), 201, json!({}));
    arm(&server, "PUT VM/one", json!({ "location": "x" }), 201, json!({}));
    server.listen_as("su_0");
    server.listen_as("one");
    server
}

fn restarted(server: &Server, line: &str, machine: &str) -> (String, String) {
    let operation = long(server, line, NONE);
    let document = server.document(machine);
    let event = document["Events"].as_array().unwrap().last().unwrap()["EventId"].as_str().unwrap().to_owned();
    (operation, event)
}

/// Azure's refusal of an event that does not exist.
#[track_caller]
fn not_found(server: &Server, line: &str) {
    let expected = json!({ "Error": { "Code": "InvalidScheduledEventId", "Message": "Scheduled event not found" } });
    arm(server, line, NONE, 404, expected);
}

#[test]
fn an_acknowledged_event_starts() {
    let server = fleet();
    let (operation, event) = restarted(&server, "POST VM/one/restart", "one");
    let line = format!("POST VM/one/{EVENTS}/{}/acknowledge?api-version=2025-10-01-preview", event.to_lowercase());
    arm(&server, &line, NONE, 200, json!({ "value": "Successfully Approved" }));
    assert_eq!(server.document("one")["Events"][0]["EventStatus"], "Started");
    arm(&server, &line, NONE, 200, json!({ "value": "Successfully Approved" }));
    advance(&server, 600);
    check_status(&server, &operation, "Succeeded");
    refused(&server, &line, NONE, 409, "Conflict");
    advance(&server, 7200);
    not_found(&server, &line);
}

#[test]
fn an_event_is_only_approved_through_its_own_resource() {
    let server = fleet();
    let (_, event) = restarted(&server, "POST SET/su/virtualMachines/1/restart", "su_0");
    not_found(&server, &format!("POST VM/one/{EVENTS}/{event}/acknowledge"));
    refused(&server, &format!("POST VM/none/{EVENTS}/{event}/acknowledge"), NONE, 404, "ResourceNotFound");
    not_found(&server, &format!("POST SET/su/{EVENTS}/no-guid/acknowledge"));
    assert_eq!(server.document("su_0")["Events"][0]["EventStatus"], "Scheduled");
    arm(&server, &format!("POST SET/su/{EVENTS}/{event}/acknowledge"), NONE, 200, json!({}));
    assert_eq!(server.document("su_0")["Events"][0]["EventStatus"], "Started");
}

#[test]
fn a_list_is_approved_one_by_one_with_mixed_results() {
    let server = fleet();
    let (_, first) = restarted(&server, "POST SET/su/virtualMachines/0/restart", "su_0");
    let (_, second) = restarted(&server, "POST SET/su/virtualMachines/1/redeploy", "su_0");
    let (_, foreign) = restarted(&server, "POST VM/one/restart", "one");
    let all = json!({ "value": "Successfully approved all Scheduled Events in the list" });
    arm(&server, &format!("POST SET/su/{EVENTS}"), json!({ "value": [first] }), 200, all);
    advance(&server, 600);
    let mixed = arm(
        &server,
        &format!("POST SET/su/{EVENTS}"),
        json!({ "value": [first, second, foreign] }),
        207,
        json!({ "Response": { "Code": "MultiStatusResponse" }, "Details": [{ "Code": "Conflict" }, { "Code": "NotFound" }] }),
    );
    assert!(mixed["Response"]["Message"].as_str().unwrap().starts_with("2 of 3 events"));
    for (detail, event) in mixed["Details"].as_array().unwrap().iter().zip([&first, &foreign]) {
        assert!(detail["Message"].as_str().unwrap().contains(event.as_str()), "{detail}");
    }
    assert_eq!(server.document("su_0")["Events"][0]["EventStatus"], "Started");
    assert_eq!(server.document("one")["Events"][0]["EventStatus"], "Scheduled");
    refused(&server, &format!("POST SET/su/{EVENTS}"), json!({ "value": [] }), 400, "InvalidParameter");
    refused(&server, &format!("POST SET/su/{EVENTS}"), json!({ "value": [7] }), 400, "InvalidParameter");
}

#[test]
fn events_and_their_history_are_listed() {
    let server = fleet();
    let (_, event) = restarted(&server, "POST VM/one/restart", "one");
    restarted(&server, "POST SET/su/virtualMachines/1/redeploy", "su_0");
    let one = format!("GET VM/one/{EVENTS}");
    let listed = |line: &str| -> Vec<Value> {
        let list = arm(&server, line, NONE, 200, json!({}));
        list["value"].as_array().unwrap().iter().map(|event| event["properties"].clone()).collect()
    };
    let kinds = |line: &str| -> Vec<String> {
        listed(line).iter().map(|event| event["EventType"].as_str().unwrap().to_owned()).collect()
    };
    arm(
        &server,
        &one,
        NONE,
        200,
        json!({ "value": [{ "name": event, "type": "Microsoft.Maintenance/scheduledevents",
        "properties": { "EventId": event, "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": ["one"],
            "NotBefore": "2026-03-01T12:15:00Z", "EventSource": "User", "DurationInSeconds": -1 } }] }),
    );
    assert_eq!(kinds(&format!("GET SET/su/{EVENTS}")), ["Redeploy"]);
    for place in ["G", "S"] {
        let mut both = kinds(&format!("GET {place}/{EVENTS}"));
        both.sort();
        assert_eq!(both, ["Reboot", "Redeploy"]);
    }
    let id = server.call(&format!("GET /events/{event}"), &NONE).json()["operations"][0].as_str().unwrap().to_owned();
    check(&server, &format!("POST /operations/{id}/cancel"), NONE, 200, json!({}));
    assert_eq!(listed(&one)[0]["EventStatus"], "Canceled");
    // The region has forgotten it by now; history has not.
    advance(&server, 7200);
    let remembered = &listed(&one)[0];
    assert_eq!((&remembered["EventStatus"], &remembered["EventType"]), (&json!("Canceled"), &json!("Reboot")));
    assert_eq!(remembered["EventSource"], "User");
    assert_eq!(listed(&format!("GET SET/su/{EVENTS}"))[0]["EventStatus"], "Completed");
    refused(&server, &format!("GET VM/none/{EVENTS}"), NONE, 404, "ResourceNotFound");
}

const CONFIGURATIONS: &str = "G/providers/Microsoft.Maintenance/maintenanceConfigurations";

fn configuration(recurrence: &str) -> Value {
    json!({ "location": "x", "properties": { "maintenanceScope": "Host", "maintenanceWindow": {
        "startDateTime": "2026-03-01 22:00", "duration": "05:00", "timeZone": "W. Europe Standard Time",
        "recurEvery": recurrence } } })
}

#[test]
fn a_maintenance_configuration_gives_the_rollout_of_a_set_its_window() {
    let server = fleet();
    let stored = arm(&server, &format!("PUT {CONFIGURATIONS}/nights"), configuration("Day"), 200, json!({}));
    assert_eq!((&stored["name"], &stored["properties"]["visibility"]), (&json!("nights"), &json!("Custom")));
    arm(&server, &format!("GET {CONFIGURATIONS}"), NONE, 200, json!({ "value": [{ "name": "nights" }] }));
    let assignment = "SET/su/providers/Microsoft.Maintenance/configurationAssignments";
    let body = json!({ "properties": { "maintenanceConfigurationId": stored["id"] } });
    arm(&server, &format!("PUT {assignment}/a"), body.clone(), 201, body.clone());
    arm(&server, &format!("PUT {assignment}/A"), body, 200, json!({}));
    arm(&server, &format!("GET {assignment}"), NONE, 200, json!({ "value": [{ "name": "A" }] }));
    let updates = "SET/su/providers/Microsoft.Maintenance/applyUpdates/default";
    let status = |line: &str, code: u16, status: &str| {
        arm(&server, line, NONE, code, json!({ "name": "default", "properties": { "status": status } }));
    };
    status(&format!("GET {updates}"), 200, "NoUpdatesPending");
    status(&format!("PUT {updates}"), 200, "Pending");
    status(&format!("PUT {updates}"), 200, "Pending");
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}));
    assert_eq!(rollouts["value"].as_array().unwrap().len(), 1, "{rollouts}");
    let window = json!([{ "start": "22:00", "end": "03:00", "timeZone": "Europe/Berlin" }]);
    assert_eq!(rollouts["value"][0]["windows"], window, "{rollouts}");
    advance(&server, 3 * 24 * 3600);
    status(&format!("GET {updates}"), 200, "Completed");
}

#[test]
fn the_updates_of_a_machine_wait_for_its_window() {
    let server = fleet();
    let nights = arm(&server, &format!("PUT {CONFIGURATIONS}/nights"), configuration("Day"), 200, json!({}));
    let body = json!({ "properties": { "maintenanceConfigurationId": nights["id"] } });
    arm(&server, "PUT VM/one/providers/Microsoft.Maintenance/configurationAssignments/a", body, 201, json!({}));
    let updates = "VM/one/providers/Microsoft.Maintenance/applyUpdates/default";
    let status = |line: &str, code: u16, status: &str| {
        arm(&server, line, NONE, code, json!({ "name": "default", "properties": { "status": status } }));
    };
    status(&format!("GET {updates}"), 200, "NoUpdatesPending");
    status(&format!("PUT {updates}"), 200, "Pending");
    status(&format!("PUT {updates}"), 200, "Pending");
    let pending = "GET VM/one/providers/Microsoft.Maintenance/updates";
    arm(&server, pending, NONE, 200, json!({ "value": [{ "impactType": "Freeze", "status": "Pending" }] }));
    assert_eq!(server.document("one")["Events"], json!([]));
    let rollout = check(&server, "GET /rollouts", NONE, 200, json!({}))["value"][0].clone();
    assert_eq!((&rollout["type"], &rollout["steps"][0]["machine"]), (&json!("Freeze"), &json!("one")), "{rollout}");
    assert_eq!((&rollout["state"], &rollout["waitsFor"]["reason"]), (&json!("Planned"), &json!("Start")), "{rollout}");
    // The window opens at 22:00 in Berlin.
    advance(&server, 9 * 3600);
    let events = server.document("one")["Events"].clone();
    assert_eq!((&events[0]["EventType"], events.as_array().unwrap().len()), (&json!("Freeze"), 1), "{events}");
    assert_eq!(events[0]["NotBefore"], "Sun, 01 Mar 2026 21:15:00 GMT");
    status(&format!("GET {updates}"), 200, "Pending");
    advance(&server, 15 * 60);
    status(&format!("GET {updates}"), 200, "InProgress");
    advance(&server, 600);
    status(&format!("GET {updates}"), 200, "Completed");
    arm(&server, pending, NONE, 200, json!({ "value": [] }));
    // Within the window, the notice decides.
    status(&format!("PUT {updates}"), 200, "Pending");
    assert_eq!(server.document("one")["Events"][0]["NotBefore"], "Sun, 01 Mar 2026 21:40:00 GMT");
    refused(&server, "PUT VM/none/providers/Microsoft.Maintenance/applyUpdates/default", NONE, 404, "ResourceNotFound");
}

#[test]
fn the_updates_of_a_member_wait_for_the_window_of_its_set_unless_it_has_its_own() {
    let server = fleet();
    arm(&server, "PUT AS/av", json!({ "location": "x" }), 200, json!({}));
    let member = json!({ "location": "x", "properties": { "availabilitySet": { "id": path("AS/av") } } });
    arm(&server, "PUT VM/member", member, 201, json!({}));
    server.listen_as("member");
    let assign = |resource: &str, name: &str, body: Value| {
        let configuration = arm(&server, &format!("PUT {CONFIGURATIONS}/{name}"), body, 200, json!({}));
        let body = json!({ "properties": { "maintenanceConfigurationId": configuration["id"] } });
        let line = format!("PUT {resource}/providers/Microsoft.Maintenance/configurationAssignments/a");
        arm(&server, &line, body, 201, json!({}));
    };
    assign("SET/su", "nights", configuration("Day"));
    assign("AS/av", "sundays", configuration("Week Sunday"));
    assign("SET/su/virtualMachines/1", "always", json!({ "location": "x" }));
    let resources = ["SET/su/virtualMachines/0", "VM/member", "SET/su/virtualMachines/1"];
    for resource in resources {
        let updates = format!("PUT {resource}/providers/Microsoft.Maintenance/applyUpdates/default");
        arm(&server, &updates, NONE, 200, json!({ "properties": { "status": "Pending" } }));
    }
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}))["value"].clone();
    let waits = |machine: &str| {
        let mut found = rollouts.as_array().unwrap().iter();
        found.find(|rollout| rollout["steps"][0]["machine"] == machine).unwrap()["waitsFor"]["reason"].clone()
    };
    assert_eq!(["su_0", "member", "su_1"].map(waits), ["Start", "Start", "Approvals"]);
    let events = server.document("su_0")["Events"].clone();
    assert_eq!((&events[0]["Resources"], events.as_array().unwrap().len()), (&json!(["su_1"]), 1), "{events}");
    assert_eq!(events[0]["NotBefore"], "Sun, 01 Mar 2026 12:15:00 GMT");
    advance(&server, 9 * 3600);
    for machine in ["su_0", "member"] {
        let events = server.document(machine)["Events"].clone();
        assert_eq!(events[0]["Resources"], json!([machine]), "{events}");
        assert_eq!(events[0]["NotBefore"], "Sun, 01 Mar 2026 21:15:00 GMT");
    }
}

#[test]
fn updates_of_two_instances_keep_the_floor_of_their_set() {
    let server = fleet();
    let updates = |instance: u8| {
        format!("SET/su/virtualMachines/{instance}/providers/Microsoft.Maintenance/applyUpdates/default")
    };
    let status = |method: &str, instance: u8, status: &str| {
        let expected = json!({ "properties": { "status": status } });
        arm(&server, &format!("{method} {}", updates(instance)), NONE, 200, expected);
    };
    status("PUT", 0, "Pending");
    status("PUT", 1, "Pending");
    advance(&server, 15 * 60);
    status("GET", 0, "InProgress");
    status("GET", 1, "Pending");
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}))["value"].clone();
    let waits: Vec<_> = rollouts.as_array().unwrap().iter().map(|it| it["waitsFor"]["reason"].clone()).collect();
    assert_eq!(waits.iter().filter(|reason| *reason == "Availability").count(), 1, "{rollouts}");
    refused(&server, "PUT SET/su/providers/Microsoft.Maintenance/applyUpdates/default", NONE, 409, "GroupOwned");
    advance(&server, 3600);
    status("GET", 0, "Completed");
    status("GET", 1, "Completed");
}

#[test]
fn the_updates_of_an_instance_continue_those_of_its_set() {
    let server = fleet();
    let updates = |resource: &str| format!("{resource}/providers/Microsoft.Maintenance/applyUpdates/default");
    let status = |line: String, status: &str| {
        arm(&server, &line, NONE, 200, json!({ "properties": { "status": status } }));
    };
    let instance = |number: u8| updates(&format!("SET/su/virtualMachines/{number}"));
    status(format!("PUT {}", updates("SET/su")), "Pending");
    status(format!("PUT {}", instance(0)), "Pending");
    status(format!("PUT {}", instance(1)), "Pending");
    advance(&server, 15 * 60);
    status(format!("GET {}", instance(0)), "InProgress");
    advance(&server, 600);
    // Its step is over, and the rollout is not.
    status(format!("PUT {}", instance(0)), "Completed");
    status(format!("GET {}", instance(1)), "Pending");
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}))["value"].clone();
    assert_eq!(rollouts.as_array().unwrap().len(), 1, "{rollouts}");
    advance(&server, 3600);
    status(format!("GET {}", instance(1)), "Completed");
}

/// With the first and the last day of its windows.
fn lasting(begins: &str, expires: &str) -> Value {
    let mut body = configuration("Day");
    body["properties"]["maintenanceWindow"]["startDateTime"] = begins.into();
    body["properties"]["maintenanceWindow"]["expirationDateTime"] = expires.into();
    body
}

#[test]
fn a_window_opens_neither_before_its_first_day_nor_after_its_last() {
    let server = fleet();
    let assign = |resource: &str, name: &str, body: Value| {
        let configuration = arm(&server, &format!("PUT {CONFIGURATIONS}/{name}"), body, 200, json!({}));
        let body = json!({ "properties": { "maintenanceConfigurationId": configuration["id"] } });
        let line = format!("PUT {resource}/providers/Microsoft.Maintenance/configurationAssignments/{name}");
        arm(&server, &line, body, 201, json!({}));
    };
    let updates = |resource: &str| format!("PUT {resource}/providers/Microsoft.Maintenance/applyUpdates/default");
    // The clock shows noon of 2026-03-01.
    assign("VM/one", "old", lasting("2026-01-01 10:00", "2026-02-01 00:00"));
    refused(&server, &updates("VM/one"), NONE, 409, "OperationNotAllowed");
    assign("VM/one", "later", lasting("2026-03-05 22:00", "9999-12-31 00:00"));
    arm(&server, &updates("VM/one"), NONE, 200, json!({ "properties": { "status": "Pending" } }));
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}));
    assert_eq!(rollouts["value"][0]["at"], "2026-03-05T21:00:00Z", "{rollouts}");
    assign("SET/su", "later", lasting("2026-03-05 22:00", "9999-12-31 00:00"));
    arm(&server, &updates("SET/su"), NONE, 200, json!({ "properties": { "status": "Pending" } }));
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}));
    let times: Vec<_> = rollouts["value"].as_array().unwrap().iter().map(|rollout| &rollout["at"]).collect();
    assert_eq!(times, ["2026-03-05T21:00:00Z"; 2], "{rollouts}");
    advance(&server, 4 * 24 * 3600);
    assert_eq!(server.document("su_0")["Events"], json!([]), "2026-03-05 12:00");
    advance(&server, 12 * 3600);
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}));
    assert_ne!(rollouts["value"][0]["state"], "Planned", "{rollouts}");
}

#[test]
fn invalid_configurations_and_assignments_are_refused() {
    let server = fleet();
    let put = format!("PUT {CONFIGURATIONS}/c");
    let mut elsewhere = configuration("Day");
    elsewhere["properties"]["maintenanceWindow"]["timeZone"] = "Mars/Base".into();
    refused(&server, &put, elsewhere, 400, "InvalidParameter");
    refused(&server, &put, lasting("99999-01-01 10:00", ""), 400, "InvalidParameter");
    refused(&server, &put, lasting("2026-03-01 22:00", "2026-03-01 00:00"), 400, "InvalidParameter");
    refused(&server, &put, configuration("Month First Monday"), 400, "InvalidParameter");
    let guest = json!({ "location": "x", "properties": { "maintenanceScope": "InGuestPatch" } });
    refused(&server, &put, guest, 400, "InvalidParameter");
    refused(&server, &put, json!({}), 400, "InvalidParameter");
    refused(&server, &format!("PATCH {CONFIGURATIONS}/c"), json!({}), 404, "ResourceNotFound");
    let assignment = "PUT VM/one/providers/Microsoft.Maintenance/configurationAssignments/a";
    refused(&server, assignment, json!({}), 400, "InvalidParameter");
    let nowhere = json!({ "properties": { "maintenanceConfigurationId":
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Maintenance/maintenanceConfigurations/none" } });
    refused(&server, assignment, nowhere, 404, "ResourceNotFound");
}
