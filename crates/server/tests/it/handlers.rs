//! Handler health in the API: how machines poll, across restarts of the server.

use serde_json::json;

use crate::api_support::*;

#[test]
fn a_machine_that_never_polled_has_no_handler() {
    let server = Server::with_machines(&["a"]);
    let machine = check(&server, "GET /machines/a", NONE, 200, json!({}));
    assert_eq!(machine.get("handler"), None);
    check(&server, "POST /availability-sets", json!({ "name": "web" }), 201, json!({}));
    check(&server, "GET /availability-sets/web", NONE, 200, json!({ "handlers": { "polling": 0, "polls": 0 } }));
}

#[test]
fn a_machine_shows_since_when_and_how_often_its_handler_polls() {
    let server = Server::with_machines(&["a"]);
    for _ in 0..3 {
        server.listen_as("a");
        check(&server, "POST /clock/advance", json!({ "seconds": 20 }), 200, json!({}));
    }
    let expected = json!({ "handler": { "polling": true, "polls": 3, "since": START, "lastPoll": "2026-03-01T12:00:40Z",
        "intervalMilliseconds": 20000 } });
    check(&server, "GET /machines/a", NONE, 200, expected.clone());
    check(&server, "GET /machines?name=a", NONE, 200, json!({ "value": [expected] }));
    check(&server, "POST /clock/advance", json!({ "seconds": 120 }), 200, json!({}));
    check(&server, "GET /machines/a", NONE, 200, json!({ "handler": { "polling": false } }));
}

#[test]
fn requests_for_a_machine_that_is_off_are_not_those_of_a_handler() {
    for verb in ["stop", "deallocate"] {
        let server = Server::with_machines(&["a"]);
        let power = check(&server, &format!("POST /machines/a/{verb}"), NONE, 200, json!({}));
        server.listen_as("a");
        let machine = check(&server, "GET /machines/a", NONE, 200, json!({ "handlerConnected": false }));
        assert_eq!(machine.get("handler"), None, "{verb} {power}");
        check(&server, "POST /machines/a/start", NONE, 200, json!({}));
        server.listen_as("a");
        check(
            &server,
            "GET /machines/a",
            NONE,
            200,
            json!({ "handlerConnected": true, "handler": { "polling": true } }),
        );
    }
}

#[test]
fn handler_health_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::kept_in(directory.path());
    check(&server, "POST /availability-sets", json!({ "name": "web" }), 201, json!({}));
    for name in ["web_1", "web_2"] {
        check(&server, "POST /machines", json!({ "name": name, "availabilitySet": "web" }), 201, json!({}));
    }
    server.listen_as("web_1");
    let operation = check(&server, "POST /machines/web_1/restart", NONE, 202, json!({}));
    server.approve_as("web_1", operation["events"][0]["id"].as_str().unwrap());
    let health = json!({ "polling": true, "polls": 1, "since": START, "lastPoll": START, "lastApproval": START });
    check(&server, "GET /machines/web_1", NONE, 200, json!({ "handler": health }));
    server.stop();
    let server = Server::kept_in(directory.path());
    check(&server, "GET /machines/web_1", NONE, 200, json!({ "handler": health }));
    let group = json!({ "handlers": { "polling": 1, "polls": 1, "lastApproval": START } });
    check(&server, "GET /availability-sets/web", NONE, 200, group);
    server.listen_as("web_1");
    check(&server, "GET /machines/web_1", NONE, 200, json!({ "handler": { "polls": 2, "since": START } }));
    let other = check(&server, "GET /machines/web_2", NONE, 200, json!({}));
    assert_eq!(other.get("handler"), None);
}

#[test]
fn polls_cause_no_commits() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    let before = server.revision();
    for _ in 0..100 {
        server.listen_as("a");
    }
    assert_eq!(server.revision(), before);
}
