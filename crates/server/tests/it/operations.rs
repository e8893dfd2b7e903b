//! Operations in the API: cause, progress, what they wait for and for which machines, and their events by event group.

use serde_json::{Value, json};

use crate::api_support::*;
use crate::portal_support::Browser;

/// An availability set of three on two hosts, and a standalone machine without a handler, which is on the first host too.
fn fleet() -> Server {
    let server = Server::start();
    let new = |body: Value| check(&server, "POST /machines", body, 201, json!({}));
    check(&server, "POST /availability-sets", json!({ "name": "web", "updateDomains": 1 }), 201, json!({}));
    for (name, host) in [("web_1", "h1"), ("web_2", "h1"), ("web_3", "h2")] {
        new(json!({ "name": name, "host": host, "availabilitySet": "web" }));
    }
    new(json!({ "name": "quiet", "host": "h1" }));
    server.listen_as("web_1");
    server
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_operation_names_its_cause_progress_and_missing_approvals() {
    let server = fleet();
    let plan =
        json!({ "target": { "machines": ["web_1", "web_2", "web_3"] }, "type": "Reboot", "description": "CHG-7" });
    let started = check(&server, "POST /maintenance", plan, 202, json!({ "description": "CHG-7" }));
    let path = format!("GET /operations/{}", id_of(&started));
    let shown = check(
        &server,
        &path,
        NONE,
        200,
        json!({
            "cause": "HostMaintenance", "description": "CHG-7", "ticket": "CHG-7", "state": "Running",
            "progress": { "events": 1, "scheduled": 1, "approved": 0, "started": 0, "machines": 3, "machinesReady": 0 },
            "waitsFor": [{ "reason": "Approvals", "approvalsMissing": 3, "approvalsTotal": 3, "machineCount": 3,
                "machines": ["web_1", "web_2", "web_3"], "until": "2026-03-01T12:15:00Z" }],
            "groups": [{ "name": "web", "handlerConnected": true,
                "events": [{ "resources": ["web_1", "web_2", "web_3"], "hosts": ["h1", "h2"], "operations": [id_of(&started)] }] }],
        }),
    );
    // The page counts the same machines, although they share one event.
    let page = Browser::at_once(&server).page(&format!("/operations/{}", id_of(&started)));
    assert!(page.contains("3 of 3 not ready: web_1") && page.contains("0/3 <small>ready</small>"), "{page}");
    assert!(page.contains("<b>Ready</b> <span>0/3, 3 not ready</span>"), "{page}");
    let event = id_of(&shown["groups"][0]["events"][0]);
    server.approve_as("web_1", &event);
    let running =
        check(&server, &path, NONE, 200, json!({ "progress": { "started": 1, "scheduled": 0, "machinesReady": 3 } }));
    assert_eq!(running.get("waitsFor"), None);
    check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
    check(&server, &path, NONE, 200, json!({ "state": "Succeeded", "progress": { "completed": 1 } }));
}

#[test]
fn approving_an_operation_approves_all_of_its_events_in_one_commit() {
    let server = fleet();
    let restart = json!({ "name": "set", "capacity": 3, "orchestration": "Uniform" });
    check(&server, "POST /scale-sets", restart, 201, json!({}));
    server.listen_as("set_0");
    let started = check(&server, "POST /scale-sets/set/restart", NONE, 202, json!({ "cause": "UserRestart" }));
    let missing =
        |count: u32| json!({ "waitsFor": [{ "reason": "Approvals", "approvalsMissing": count, "approvalsTotal": 3 }] });
    let path = format!("/operations/{}", id_of(&started));
    let shown = check(&server, &format!("GET {path}"), NONE, 200, missing(3));
    server.approve_as("set_1", shown["groups"][0]["events"][1]["id"].as_str().unwrap());
    check(&server, &format!("GET {path}"), NONE, 200, missing(2));
    let before = server.revision();
    let approved = check(&server, &format!("POST {path}/approve"), NONE, 200, json!({ "progress": { "started": 3 } }));
    assert_eq!(server.revision(), before + 1);
    assert_eq!(approved["groups"][0]["events"][0]["approval"]["approvedBy"], "management:owner");
    check(&server, &format!("POST {path}/approve"), NONE, 200, json!({ "progress": { "started": 3 } }));
    assert_eq!(server.revision(), before + 1, "approving again changes nothing");
    check(&server, "POST /clock/advance", json!({ "seconds": 600 }), 200, json!({}));
    refused(&server, &format!("POST {path}/approve"), NONE, 409, "OperationOver");
    let unknown = "/operations/00000000-0000-0000-0000-000000000001/approve";
    refused(&server, &format!("POST {unknown}"), NONE, 404, "OperationNotFound");
}

#[test]
fn a_planned_event_without_a_handler_waits_for_its_time_and_cannot_be_approved() {
    let server = fleet();
    let plan = json!({ "target": { "machine": "quiet" }, "type": "Reboot", "at": "2026-03-01T20:00:00Z" });
    let started = check(&server, "POST /maintenance", plan, 202, json!({}));
    let wait = json!({ "waitsFor": [{ "reason": "Notice", "until": "2026-03-01T20:00:00Z", "machines": ["quiet"] }] });
    let path = format!("/operations/{}", id_of(&started));
    check(&server, &format!("GET {path}"), NONE, 200, wait.clone());
    let approved = check(&server, &format!("POST {path}/approve"), NONE, 200, wait);
    assert_eq!(approved["groups"][0]["handlerConnected"], false);
    check(
        &server,
        &format!("POST {path}/cancel"),
        NONE,
        200,
        json!({ "state": "Canceled", "progress": { "canceled": 1 } }),
    );
}

#[test]
fn an_approved_event_waits_for_the_event_in_progress_on_its_machine() {
    let server = fleet();
    let reboot = |target: &str| json!({ "target": { "machine": target }, "type": "Reboot" });
    let first = check(&server, "POST /maintenance", reboot("web_1"), 202, json!({}));
    let second = check(&server, "POST /maintenance", reboot("web_1"), 202, json!({}));
    check(&server, &format!("POST /operations/{}/approve", id_of(&first)), NONE, 200, json!({}));
    let wait = json!({ "waitsFor": [{ "reason": "Event", "machines": ["web_1"] }], "progress": { "approved": 1 } });
    check(&server, &format!("POST /operations/{}/approve", id_of(&second)), NONE, 200, wait);
}

#[test]
fn a_drain_shows_the_machines_that_are_left_and_why_it_waits() {
    let server = fleet();
    check(&server, "PUT /hosts/h9", NONE, 201, json!({}));
    check(&server, "PATCH /hosts/h9", json!({ "memoryMib": 1 }), 200, json!({}));
    for name in ["web_1", "web_2", "quiet"] {
        check(&server, &format!("PATCH /machines/{name}"), json!({ "memoryMib": 4096 }), 200, json!({}));
    }
    check(&server, "PATCH /hosts/h2", json!({ "memoryMib": 1 }), 200, json!({}));
    let drain = check(&server, "POST /hosts/h1/drain", json!({ "description": "CHG-8" }), 202, json!({}));
    let expected = json!({ "kind": "Drain", "host": "h1", "description": "CHG-8",
        "progress": { "machinesLeft": 3 }, "waitsFor": [{ "reason": "Capacity" }] });
    check(&server, &format!("GET /operations/{}", id_of(&drain)), NONE, 200, expected);
}

#[test]
fn a_machine_has_at_most_4_pib_of_memory() {
    let server = fleet();
    for (memory, status) in [(u64::from(u32::MAX), 200), (u64::from(u32::MAX) + 1, 400)] {
        check(&server, "PATCH /machines/web_1", json!({ "memoryMib": memory }), status, json!({}));
    }
    check(&server, "GET /machines/web_1", NONE, 200, json!({ "memoryMib": u32::MAX }));
}

#[test]
fn the_list_of_operations_is_filtered_and_paged() {
    let server = fleet();
    let reboot = |target: Value| json!({ "target": target, "type": "Reboot" });
    check(&server, "POST /maintenance", reboot(json!({ "machine": "web_3" })), 202, json!({}));
    check(&server, "POST /maintenance", reboot(json!({ "host": "h1" })), 202, json!({}));
    check(&server, "POST /machines/quiet/restart", NONE, 202, json!({}));
    let count = |query: &str| {
        let page = check(&server, &format!("GET /operations{query}"), NONE, 200, json!({}));
        page["value"].as_array().unwrap().len()
    };
    assert_eq!(count(""), 3);
    for (query, expected) in [
        ("?state=Running", 3),
        ("?state=Failed", 0),
        ("?kind=Maintain", 2),
        ("?machine=quiet", 2),
        ("?host=h2", 1),
        ("?host=h1", 2),
        ("?group=web", 2),
        ("?group=web&host=h2", 1),
        ("?limit=2", 2),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    for (query, status) in [("?host=h8", 404), ("?machine=x", 404), ("?group=x", 404), ("?state=Odd", 400)] {
        assert_eq!(server.call(&format!("GET /operations{query}"), &NONE).status, status, "{query}");
    }
    let first = check(&server, "GET /operations?limit=2&kind=Maintain", NONE, 200, json!({}));
    assert_eq!(first.get("next"), None, "the filter applies before the page is cut");
}

#[test]
fn an_operation_of_a_rollout_names_its_rollout_and_ticket() {
    let server = fleet();
    let plan = json!({ "type": "Reboot", "hosts": ["h1"], "description": "CHG-9" });
    let rollout = check(&server, "POST /rollouts", plan, 202, json!({}));
    let found = check(&server, &format!("GET /operations?rollout={}", id_of(&rollout)), NONE, 200, json!({}));
    let expected = json!({ "rollout": id_of(&rollout), "description": "CHG-9", "host": "h1" });
    check(&server, &format!("GET /operations/{}", id_of(&found["value"][0])), NONE, 200, expected);
}
