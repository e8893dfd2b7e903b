//! The parts of the native API for testing handlers, over real sockets: faults, recorded requests, waits.

use std::thread;

use crate::api_support::{NONE, START, Server, check, refused};
use serde_json::{Value, json};

const ID: &str = "C0FFEE00-0000-4000-8000-000000000001";
const OTHER: &str = "C0FFEE00-0000-4000-8000-000000000002";

/// The response to a request of a machine.
fn poll(server: &Server, machine: &str) -> u16 {
    server.metadata(&format!("GET /vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"), "").status
}

fn approve(server: &Server, machine: &str, event: &str) -> u16 {
    let body = json!({"StartRequests": [{ "EventId": event }]}).to_string();
    server.metadata(&format!("POST /vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"), &body).status
}

fn restart(server: &Server, machine: &str, event: &str) {
    check(server, &format!("POST /machines/{machine}/restart"), json!({ "eventId": event }), 202, json!({}));
}

fn advance(server: &Server, seconds: u64) {
    check(server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
}

fn audits(server: &Server, machine: &str) -> Value {
    let rows = check(server, &format!("GET /history?kind=audit&machine={machine}"), NONE, 200, json!({}));
    rows["value"].as_array().unwrap().iter().map(|row| row["outcome"].clone()).collect()
}

// --- without metadata requests ---------------------------------------------------------------------------

#[test]
fn events_are_enabled_and_the_document_is_read_without_metadata_requests() {
    let server = Server::with_machines(&["web"]);
    let fault = json!({"fault": {"kind": "Status", "status": 503}});
    check(&server, "POST /faults", fault, 201, json!({}));
    assert_eq!(poll(&server, "web"), 503);
    check(&server, "GET /machines/web", NONE, 200, json!({"handlerConnected": false}));
    check(&server, "POST /machines/web/enable-events", NONE, 200, json!({"handlerConnected": true}));
    restart(&server, "web", ID);
    let event = json!({"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web"]});
    check(&server, "GET /machines/web/document", NONE, 200, json!({"DocumentIncarnation": 2, "Events": [event]}));
    let requests = check(&server, "GET /machines/web/requests", NONE, 200, json!({}));
    assert_eq!(requests["value"].as_array().unwrap().len(), 1);
    assert_eq!(audits(&server, "web"), json!(["machine.register", "enable-events", "restart"]));
    refused(&server, "GET /machines/wep/document", NONE, 404, "MachineNotFound");
    refused(&server, "POST /machines/wep/enable-events", NONE, 404, "MachineNotFound");
}

// --- faults ----------------------------------------------------------------------------------------------

#[test]
fn a_fault_is_added_applied_listed_and_cleared() {
    let server = Server::with_machines(&["web", "db"]);
    let body = json!({"machine": "WEB", "fault": {"kind": "Status", "status": 429}, "count": 5, "method": "GET"});
    let fault = json!({
        "id": 1, "machine": "web", "fault": {"kind": "Status", "status": 429, "retryAfterSeconds": 1}, "count": 5,
        "method": "GET", "documentsOnly": false, "since": START, "matched": 0, "affected": 0,
    });
    check(&server, "POST /faults", body, 201, fault.clone());
    check(&server, "GET /faults/1", NONE, 200, fault);
    assert_eq!((poll(&server, "web"), poll(&server, "db"), poll(&server, "web")), (429, 200, 429));
    check(&server, "GET /faults/1", NONE, 200, json!({"matched": 2, "affected": 2}));
    let everybody = json!({"fault": {"kind": "Delay", "delaySeconds": 0.001}, "percent": 50, "forSeconds": 60});
    let until = json!({"id": 2, "percent": 50, "forSeconds": 60, "until": "2026-03-01T12:01:00Z"});
    check(&server, "POST /faults", everybody, 201, until);
    check(&server, "GET /faults", NONE, 200, json!({"value": [{"id": 1}, {"id": 2}]}));
    check(&server, "GET /faults?machine=web", NONE, 200, json!({"value": [{"id": 1}]}));
    check(&server, "GET /faults?limit=1", NONE, 200, json!({"value": [{"id": 1}], "next": "1"}));
    check(&server, "GET /faults?after=1", NONE, 200, json!({"value": [{"id": 2}]}));
    check(&server, "DELETE /faults/1", NONE, 200, json!({"id": 1, "affected": 2}));
    assert_eq!(poll(&server, "web"), 200);
    refused(&server, "DELETE /faults/1", NONE, 404, "FaultNotFound");
    refused(&server, "GET /faults/one", NONE, 404, "FaultNotFound");
    advance(&server, 60);
    check(&server, "GET /faults", NONE, 200, json!({"value": []}));
    assert_eq!(audits(&server, "web").as_array().unwrap()[1..], [json!("fault.add"), json!("fault.clear")]);
}

#[test]
fn all_faults_or_those_of_one_machine_are_cleared_at_once() {
    let server = Server::with_machines(&["web", "db"]);
    for machine in [json!("web"), json!("db"), Value::Null, json!("web")] {
        let body = json!({"machine": machine, "fault": {"kind": "Reset"}});
        assert_eq!(server.call("POST /faults", &body).status, 201);
    }
    check(&server, "DELETE /faults?machine=web", NONE, 200, json!({"value": [{"id": 1}, {"id": 4}]}));
    refused(&server, "DELETE /faults?machine=none", NONE, 404, "MachineNotFound");
    check(&server, "GET /faults", NONE, 200, json!({"value": [{"id": 2}, {"id": 3}]}));
    check(&server, "DELETE /faults", NONE, 200, json!({"value": [{"id": 2}, {"id": 3}]}));
    check(&server, "DELETE /faults", NONE, 200, json!({"value": []}));
    assert_eq!(poll(&server, "web"), 200);
}

#[test]
fn invalid_faults_are_refused_and_not_added() {
    let server = Server::with_machines(&["web"]);
    let cases = [
        (json!({}), 400, "InvalidField", "fault"),
        (json!({"fault": {"kind": "Truncate"}}), 400, "InvalidField", "Did you mean 'Truncated'?"),
        (json!({"fault": {"kind": "Status", "status": 199}}), 400, "InvalidField", "from 200 to 599"),
        (json!({"fault": {"kind": "Delay", "delaySeconds": 1000}}), 400, "InvalidField", "300"),
        (json!({"fault": {"kind": "Reset"}, "percent": 0}), 400, "InvalidField", "1 to 100"),
        (json!({"fault": {"kind": "Reset"}, "count": 0}), 400, "InvalidField", "from 1 to"),
        (json!({"fault": {"kind": "Reset"}, "times": 3}), 400, "InvalidField", "times"),
        (json!({"fault": {"kind": "EventsVanish"}, "method": "POST"}), 409, "FaultNeverMet", "EventsVanish"),
        (json!({"fault": {"kind": "Reset"}, "machine": "wep"}), 404, "MachineNotFound", "wep"),
    ];
    for (body, status, code, words) in cases {
        let message = refused(&server, "POST /faults", body, status, code);
        assert!(message.contains(words), "{message}");
    }
    check(&server, "GET /faults", NONE, 200, json!({"value": []}));
}

#[test]
fn the_number_of_faults_is_limited() {
    let server = Server::start();
    let body = json!({"fault": {"kind": "Reset"}});
    for _ in 0..forewarn_metadata::faults::FAULTS_MAX {
        assert_eq!(server.call("POST /faults", &body).status, 201);
    }
    refused(&server, "POST /faults", body, 409, "TooManyFaults");
}

// --- the record of requests ------------------------------------------------------------------------------

#[test]
fn the_requests_of_a_machine_are_listed_with_polling_statistics() {
    let server = Server::with_machines(&["web"]);
    let requests = "GET /machines/web/requests";
    check(&server, requests, NONE, 200, json!({"value": [], "summary": {"polls": 0}}));
    assert_eq!(poll(&server, "web"), 200);
    restart(&server, "web", ID);
    advance(&server, 2);
    assert_eq!(approve(&server, "web", ID), 200);
    check(&server, "POST /faults", json!({"fault": {"kind": "Status", "status": 500}, "count": 1}), 201, json!({}));
    assert_eq!(poll(&server, "web"), 500);
    let path = "/metadata/scheduledevents";
    let expected = json!({
        "value": [
            {"number": 1, "at": START, "method": "GET", "path": path, "version": "2020-07-01", "status": 200,
             "approved": [], "faults": []},
            {"number": 2, "at": "2026-03-01T12:00:02Z", "method": "POST", "status": 200, "approved": [ID]},
            {"number": 3, "method": "GET", "status": 500, "faults": [{"id": 1, "kind": "Status"}]},
        ],
        "summary": {"polls": 2, "firstPoll": START, "lastPoll": "2026-03-01T12:00:02Z", "intervalMedianSeconds": 2.0,
                    "gapLongestSeconds": 2.0},
    });
    check(&server, requests, NONE, 200, expected);
    check(&server, "GET /machines/web/requests?after=2", NONE, 200, json!({"value": [{"number": 3}]}));
    check(&server, "GET /machines/web/requests?after=3", NONE, 200, json!({"value": [], "summary": {"polls": 2}}));
    refused(&server, "GET /machines/none/requests", NONE, 404, "MachineNotFound");
}

// --- waiting ---------------------------------------------------------------------------------------------

fn wait(server: &Server, query: &str, expected: Value) -> Value {
    check(server, &format!("GET /events/wait?{query}"), NONE, 200, expected)
}

#[test]
fn a_wait_that_is_already_met_returns_at_once() {
    let server = Server::with_machines(&["web", "db"]);
    server.listen_as("web");
    restart(&server, "web", ID);
    let scheduled = json!({"reached": true, "id": ID, "at": START, "event": {"id": ID, "status": "Scheduled"}});
    for query in
        ["status=scheduled", "status=scheduled&machine=web&type=Reboot", &format!("status=scheduled&event={ID}")]
    {
        wait(&server, query, scheduled.clone());
    }
    for query in [
        "status=approved",
        "status=scheduled&machine=db",
        "status=scheduled&type=Freeze",
        &format!("status=scheduled&event={OTHER}"),
        "status=gone&machine=web",
    ] {
        wait(&server, &format!("{query}&timeout=0"), json!({ "reached": false }));
    }
}

#[test]
fn a_wait_returns_when_it_is_met() {
    let server = Server::with_machines(&["web", "db"]);
    server.listen_as("web");
    server.listen_as("db");
    for (status, act) in [
        ("scheduled", (|server| restart(server, "web", ID)) as fn(&Server)),
        ("approved", |server| assert_eq!(approve(server, "web", ID), 200)),
        ("gone", |server| advance(server, 600)),
    ] {
        let query = format!("status={status}&machine=web&type=Reboot");
        let before = wait(&server, &format!("{query}&timeout=0"), json!({ "reached": false }));
        let query = format!("{query}&timeout=300&after={}", before["after"]);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&server, &query, json!({"reached": true, "id": ID})));
            server.until_a_request_waits();
            // Something else happens first, which makes no difference.
            restart(&server, "db", &OTHER.replace("0002", &format!("00{:02}", status.len())));
            act(&server);
            waiting.join().unwrap();
        });
    }
}

#[test]
fn a_wait_can_include_finished_events() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    restart(&server, "web", ID);
    // Announced, started, over and forgotten in one go.
    advance(&server, 10_000);
    for status in ["scheduled", "started", "gone"] {
        wait(&server, &format!("status={status}&timeout=0"), json!({ "reached": false }));
        let event = wait(&server, &format!("status={status}&event={ID}&timeout=0"), json!({"reached": true, "id": ID}));
        assert_eq!(event["event"], Value::Null, "it is over for more than an hour");
        wait(
            &server,
            &format!("status={status}&machine=web&since={START}&timeout=0"),
            json!({"reached": true, "id": ID}),
        );
    }
    let late = "2026-03-01T12:15:01Z";
    wait(&server, &format!("status=started&since={late}&timeout=0"), json!({ "reached": false }));
    wait(
        &server,
        &format!("status=gone&since={late}&timeout=0"),
        json!({"reached": true, "at": "2026-03-01T12:25:00Z"}),
    );
    wait(&server, &format!("status=approved&event={ID}&timeout=0"), json!({ "reached": false }));
}

#[test]
fn consecutive_waits_miss_nothing_even_if_the_machine_is_deleted() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    let first = wait(&server, "status=gone&machine=web&type=Reboot&timeout=0", json!({ "reached": false }));
    restart(&server, "web", ID);
    advance(&server, 1500);
    check(&server, "DELETE /machines/web", NONE, 202, json!({}));
    refused(&server, "GET /events/wait?status=gone&machine=web", NONE, 404, "MachineNotFound");
    let query = format!("status=gone&machine=web&type=Reboot&timeout=0&after={}", first["after"]);
    wait(&server, &query, json!({"reached": true, "id": ID}));
}

#[test]
fn machines_with_the_same_name_are_distinguished() {
    let server = Server::with_machines(&["web"]);
    check(&server, "POST /machines", json!({"name": "web", "resourceGroup": "other"}), 201, json!({}));
    server.listen_as("default/web");
    server.listen_as("other/web");
    restart(&server, "other~web", ID);
    wait(&server, &format!("status=scheduled&machine=other~web&since={START}&timeout=0"), json!({"reached": true}));
    wait(&server, &format!("status=scheduled&machine=default~web&since={START}&timeout=0"), json!({"reached": false}));
    refused(&server, "GET /events/wait?status=gone&machine=web", NONE, 409, "AmbiguousName");
}

#[test]
fn invalid_waits_are_refused() {
    let server = Server::with_machines(&["web"]);
    for (query, word) in [
        ("", "status"),
        ("status=over", "over"),
        ("status=gone&type=Rebot", "Rebot"),
        ("status=gone&timeout=301", "300"),
        ("status=gone&event=x", "GUID"),
        ("status=gone&until=5", "until"),
    ] {
        let message = refused(&server, &format!("GET /events/wait?{query}"), NONE, 400, "InvalidQuery");
        assert!(message.contains(word), "{message}");
    }
    refused(&server, "GET /events/wait?status=gone&machine=wep", NONE, 404, "MachineNotFound");
}

#[test]
fn stopping_the_server_ends_waits() {
    let server = Server::with_machines(&["web"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.call("GET /events/wait?status=gone&timeout=300", &NONE));
        server.until_a_request_waits();
        server.stop();
        assert_eq!(waiting.join().unwrap().status, 503);
    });
}
