//! Errors of the native API over real sockets: rejections by the rules, invalid requests, and missing authentication.

use crate::api_support::{Client, NONE, Server, check, refused, token_in};
use serde_json::{Value, json};

#[test]
fn every_rejection_has_its_status_and_code() {
    let server = Server::with_machines(&["a", "b"]);
    server.listen_as("a");
    server.call("POST /scale-sets", &json!({"name": "set", "capacity": 1}));
    let taken = "C0FFEE00-0000-4000-8000-000000000004";
    server.call("POST /machines/a/restart", &json!({ "eventId": taken }));
    server.call("POST /machines", &json!({"name": "v", "vmId": taken, "addresses": [{"ip": "10.9.0.9"}]}));
    let maintain = |rest: Value| {
        let mut body = json!({"target": {"machine": "a"}, "type": "Freeze"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body
    };
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        ("POST /machines", json!({"name": "A"}), 409, "NameTaken"),
        ("POST /machines", json!({"name": "w", "vmId": taken}), 409, "VmIdTaken"),
        ("POST /machines", json!({"name": "w", "addresses": [{"ip": "10.9.0.9"}]}), 409, "AddressTaken"),
        ("POST /machines", json!({"name": "w", "updateDomain": 100}), 409, "InvalidDomain"),
        (
            "POST /machines",
            json!({"name": "w", "terminateNotification": {"notBeforeTimeout": "PT4M"}}),
            400,
            "InvalidTerminateNotification",
        ),
        (
            "POST /machines",
            json!({"name": "w", "terminateNotification": {"notBeforeTimeout": "5m"}}),
            400,
            "InvalidField",
        ),
        (
            "POST /machines",
            json!({"name": "w", "priority": "Spot", "terminateNotification": {}}),
            409,
            "TerminateNotificationOnSpot",
        ),
        ("POST /machines", json!({"name": "w", "availabilitySet": "none"}), 404, "GroupNotFound"),
        ("POST /availability-sets", json!({"name": "x", "updateDomains": 0}), 400, "InvalidDomainCount"),
        ("PATCH /machines/a", json!({"updateDomain": 1}), 409, "MachineBusy"),
        ("POST /machines/a/evict", NONE, 409, "NotSpot"),
        ("POST /machines/none/restart", NONE, 404, "MachineNotFound"),
        ("POST /machines/b/restart", json!({ "eventId": taken }), 409, "IdTaken"),
        ("POST /maintenance", maintain(json!({"noticeSeconds": 5})), 409, "NoticeTooShort"),
        ("POST /maintenance", maintain(json!({"at": "2020-01-01T00:00:00Z"})), 409, "PlanInThePast"),
        ("POST /maintenance", maintain(json!({"at": "2030-01-01T00:00:00Z"})), 409, "PlanTooFar"),
        ("POST /maintenance", maintain(json!({"durationSeconds": -2})), 400, "InvalidDuration"),
        ("POST /maintenance", maintain(json!({"description": "x".repeat(257)})), 400, "InvalidField"),
        ("POST /maintenance", json!({"target": {"host": "none"}, "type": "Freeze"}), 404, "HostNotFound"),
        ("POST /maintenance", json!({"target": {"group": "none"}, "type": "Freeze"}), 404, "GroupNotFound"),
        ("POST /operations/c0ffee00-0000-4000-8000-00000000dead/cancel", NONE, 404, "OperationNotFound"),
        (
            "POST /events/approve",
            json!({"events": [taken, "C0FFEE00-0000-4000-8000-00000000DEAD"]}),
            404,
            "EventNotFound",
        ),
        ("PATCH /scale-sets/set", json!({"capacity": 10_001}), 409, "TooManyMachines"),
        ("PUT /clock", json!({"now": "2020-01-01T00:00:00Z"}), 409, "ClockBackwards"),
        ("PUT /clock", json!({"now": "2030-01-01T00:00:00Z"}), 409, "ClockTooFar"),
    ];
    for (line, body, status, code) in cases {
        refused(&server, line, body, status, code);
    }
    check(&server, "GET /events", NONE, 200, json!({"value": [{"id": taken, "status": "Scheduled"}]}));
}

#[test]
fn control_characters_are_refused_in_every_text() {
    let server = Server::with_machines(&["a"]);
    check(&server, "PUT /hosts/h1", NONE, 201, json!({}));
    for text in ["a\u{0}b", "a\nFORGED=1", "\u{1b}[2J", "\u{85}"] {
        let maintenance = json!({"target": {"machine": "a"}, "type": "Freeze", "description": text});
        refused(&server, "POST /maintenance", maintenance, 400, "InvalidField");
        refused(&server, "POST /machines", json!({"name": text}), 400, "InvalidField");
        refused(&server, "POST /machines", json!({"name": "x", "size": text}), 400, "InvalidField");
        refused(&server, "POST /machines", json!({"name": "x", "tags": {"a": text}}), 400, "InvalidField");
        refused(&server, "POST /machines", json!({"name": "x", "tags": {text: "a"}}), 400, "InvalidField");
        for field in ["zone", "host", "computerName", "resourceGroup", "mac", "availabilitySet"] {
            let answer = server.call("POST /machines", &json!({"name": "x", field: text}));
            assert!([400, 404].contains(&answer.status), "{field}: {}", answer.text());
        }
        for collection in ["availability-sets", "cloud-services", "scale-sets"] {
            let answer = server.call(&format!("POST /{collection}"), &json!({"name": text, "capacity": 1}));
            assert_eq!(answer.status, 400, "{collection}: {}", answer.text());
        }
        refused(&server, "PATCH /hosts/h1", json!({"pool": text}), 400, "InvalidField");
        refused(&server, "PATCH /hosts/h1", json!({"labels": {"rack": text}}), 409, "InvalidLabel");
        refused(&server, "POST /hosts/h1/drain", json!({"description": text}), 400, "InvalidField");
        let rollout = json!({"type": "Freeze", "hosts": ["h1"], "description": text});
        refused(&server, "POST /rollouts", rollout, 400, "InvalidField");
        let webhook = json!({"name": text, "url": "http://127.0.0.1:9/"});
        refused(&server, "POST /webhooks", webhook, 400, "InvalidField");
    }
    assert_eq!(server.call("GET /machines", &NONE).json()["value"].as_array().unwrap().len(), 2, "nothing was created");
}

#[test]
fn the_number_of_user_operations_is_limited() {
    let names: Vec<String> = (0..11).map(|n| format!("m{n}")).collect();
    let server = Server::with_machines(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        server.listen_as(name);
    }
    for name in &names[..10] {
        check(&server, &format!("POST /machines/{name}/restart"), NONE, 202, json!({}));
    }
    refused(&server, "POST /machines/m10/restart", NONE, 409, "TooManyUserOperations");
}

#[test]
fn invalid_bodies_paths_and_queries_are_refused_with_a_reason() {
    let server = Server::with_machines(&["a"]);
    let cases = [
        ("POST /machines", "{", 400, "InvalidJson", "JSON"),
        ("POST /machines", "", 400, "InvalidJson", "JSON"),
        ("POST /machines", "[]", 400, "InvalidField", "The body"),
        ("POST /machines", "{}", 400, "InvalidField", "name"),
        ("POST /machines", r#"{"name": 7}"#, 400, "InvalidField", "name"),
        ("POST /machines", r#"{"name": "x y"}"#, 400, "InvalidField", "name"),
        ("POST /machines", r#"{"name": "x", "nmae": 1}"#, 400, "InvalidField", "nmae"),
        ("POST /machines", r#"{"name": "x", "vmId": "y"}"#, 400, "InvalidField", "vmId"),
        ("POST /machines", r#"{"name": "x", "addresses": [{"ip": "y"}]}"#, 400, "InvalidField", "addresses[0].ip"),
        ("POST /machines", r#"{"name": "x", "tags": {"": "y"}}"#, 400, "InvalidField", "tags"),
        ("POST /machines", r#"{"name": "x", "policy": [true, true, true]}"#, 400, "InvalidField", "policy"),
        (
            "POST /machines",
            r#"{"name": "x", "addresses": [["default", "10.0.0.9"]]}"#,
            400,
            "InvalidField",
            "addresses[0]",
        ),
        ("PATCH /machines/a", r#"{"terminateNotification": ["PT5M"]}"#, 400, "InvalidField", "terminateNotification"),
        ("POST /machines/a/hardware-failure", "[null, null]", 400, "InvalidField", "an object"),
        ("POST /maintenance", r#"{"target": ["a"], "type": "Freeze"}"#, 400, "InvalidField", "target"),
        ("POST /machines/a/restart", r#"{"force": true}"#, 400, "InvalidField", "force"),
        ("POST /machines/a/restart?now=1", "", 400, "InvalidQuery", "now"),
        ("GET /machines?limit=many", "", 400, "InvalidQuery", "limit"),
        ("GET /machines?limit=1&limit=2", "", 400, "InvalidQuery", "limit"),
        ("GET /events/7", "", 400, "InvalidPath", "GUID"),
        ("GET /history?kind=ended,begun", "", 400, "InvalidQuery", "begun"),
        ("GET /history?since=yesterday", "", 400, "InvalidQuery", "RFC 3339"),
        ("POST /maintenance", r#"{"target": {}, "type": "Freeze"}"#, 400, "InvalidField", "target"),
        (
            "POST /maintenance",
            r#"{"target": {"machine": "a", "host": "b"}, "type": "Freeze"}"#,
            400,
            "InvalidField",
            "target",
        ),
        ("POST /maintenance", r#"{"target": {"machine": "a"}, "type": "Preempt"}"#, 400, "InvalidField", "type"),
        ("POST /events/approve", r#"{"events": []}"#, 400, "InvalidField", "events"),
        ("GET /machines/%FF", "", 400, "InvalidPath", "UTF-8"),
        ("GET /nothing", "", 404, "NotFound", "/openapi.json"),
        ("GET /machines/a/b/c", "", 404, "NotFound", "/openapi.json"),
    ];
    for (line, body, status, code, named) in cases {
        let answer = server.send(line, body);
        assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
        let error = answer.json()["error"].clone();
        assert_eq!(error["code"], code, "{line} {body}: {error}");
        let said = format!("{} {}", error["message"], error["target"]);
        assert!(said.contains(named), "{line} {body}: {said}");
    }
}

#[test]
fn other_methods_media_types_and_sizes_are_refused() {
    let server = Server::start();
    let answer = server.send("PUT /machines", "");
    assert_eq!((answer.status, answer.code()), (405, "MethodNotAllowed".into()));
    let allowed = answer.header("allow").unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    let form = server.client().header("Content-Type", "application/x-www-form-urlencoded");
    let answer = form.send(server.management, "POST /api/v1/machines", b"name=x");
    assert_eq!((answer.status, answer.code()), (415, "UnsupportedMediaType".into()));
    let large = format!(r#"{{"name": "{}"}}"#, "x".repeat(1 << 20));
    let answer = server.send("POST /machines", &large);
    assert_eq!((answer.status, answer.code()), (413, "BodyTooLarge".into()));
}

// --- authentication -------------------------------------------------------------------------------

#[test]
fn everything_but_health_requires_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::guarded(directory.path());
    let token = token_in(directory.path());
    let token = token.as_str();
    let get = |client: Client, path: &str| client.send(server.management, &format!("GET {path}"), b"");
    let plain = || Client::to(server.management);
    for client in [
        plain(),
        plain().header("Authorization", "Bearer wrong"),
        plain().header("Authorization", token),
        plain().header("Authorization", &format!("Basic {token}")),
        plain().header("Authorization", &format!("Bearer {token}x")),
    ] {
        for path in ["/api/v1/machines", "/metrics", "/openapi.json", "/nothing"] {
            let answer = get(client.clone(), path);
            assert_eq!((answer.status, answer.code()), (401, "Unauthorized".into()), "{path}");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
            assert!(!answer.text().contains(token));
        }
    }
    let bearer = || plain().header("Authorization", &format!("bearer {token}"));
    assert_eq!(get(bearer(), "/api/v1/machines").status, 200);
    assert_eq!(get(bearer(), "/openapi.json").json()["info"]["title"], "Forewarn management API");
    let metrics = get(bearer(), "/metrics");
    assert!(
        metrics.text().contains("forewarn_machines 1") && metrics.text().ends_with("# EOF\n"),
        "{}",
        metrics.text()
    );
    assert_eq!(get(plain(), "/healthz").json(), json!({"status": "ok"}));
    forewarn_access::rotate_token(directory.path()).unwrap();
    assert_eq!(get(bearer(), "/api/v1/machines").status, 401, "the old token is worth nothing");
    let newer = plain().header("Authorization", &format!("Bearer {}", token_in(directory.path())));
    assert_eq!(get(newer, "/api/v1/machines").status, 200);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let server = Server::start();
    let ours = server.management.to_string();
    let cases = [
        ("evil.example", None, 403, "ForeignHost"),
        ("127.0.0.1.evil.example", None, 403, "ForeignHost"),
        ("localhost", None, 200, ""),
        (ours.as_str(), None, 200, ""),
        (ours.as_str(), Some(format!("http://{ours}")), 200, ""),
        (ours.as_str(), Some("http://evil.example".to_owned()), 403, "ForeignOrigin"),
        (ours.as_str(), Some("http://localhost:1".to_owned()), 403, "ForeignOrigin"),
        (ours.as_str(), Some("null".to_owned()), 403, "ForeignOrigin"),
    ];
    for (host, origin, status, code) in cases {
        let mut client = Client::with_host(host);
        if let Some(origin) = &origin {
            client = client.header("Origin", origin);
        }
        let answer = client.send(server.management, "GET /api/v1/clock", b"");
        assert_eq!(answer.status, status, "{host} {origin:?}");
        if status != 200 {
            assert_eq!(answer.code(), code);
        }
        assert_eq!(client.send(server.management, "GET /healthz", b"").status, status, "{host}: health too");
    }
}
