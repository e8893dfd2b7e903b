//! Careless operators: deletions that take machines along must say so, and everything that creates events can be tried first.

use forewarn_api::DRY_RUN_ROUTES;
use serde_json::{Value, json};

use crate::api_support::*;
use crate::portal_console::hosts;

#[test]
fn a_group_with_machines_is_deleted_only_with_its_machines() {
    for (collection, member) in [("availability-sets", "availabilitySet"), ("cloud-services", "cloudService")] {
        let server = Server::start();
        check(&server, &format!("POST /{collection}"), json!({ "name": "shop" }), 201, json!({}));
        check(&server, "POST /machines", json!({ "name": "web_IN_0", member: "shop" }), 201, json!({}));
        let path = format!("DELETE /{collection}/shop");
        let refused = server.call(&path, &NONE);
        assert_eq!((refused.status, refused.code().as_str()), (409, "GroupHasMachines"));
        assert!(
            refused.text().contains("web_IN_0") && refused.text().contains("withMachines=true"),
            "{}",
            refused.text()
        );
        let group = check(&server, &format!("GET /{collection}/shop"), NONE, 200, json!({ "deleting": false }));
        assert_eq!(group["machines"], 1);
        check(&server, &format!("{path}?withMachines=true"), NONE, 202, json!({ "kind": "Delete" }));
        assert_eq!(server.call(&format!("GET /{collection}/shop"), &NONE).status, 404);
        check(&server, &format!("POST /{collection}"), json!({ "name": "empty" }), 201, json!({}));
        check(&server, &format!("DELETE /{collection}/empty"), NONE, 202, json!({}));
    }
}

#[test]
fn a_dry_run_shows_the_events_and_changes_nothing() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    check(&server, "POST /scale-sets", json!({ "name": "set", "capacity": 2 }), 201, json!({}));
    let history = || server.call("GET /history", &NONE).json();
    let before = history();
    let expected = |kind: &str| json!({ "events": [{ "type": kind, "status": "Scheduled", "resources": ["a"] }] });
    check(&server, "POST /machines/a/restart?dryRun=true", NONE, 200, expected("Reboot"));
    check(&server, "POST /machines/a/redeploy?dryRun=true", NONE, 200, expected("Redeploy"));
    let maintenance = json!({ "target": { "machine": "a" }, "type": "Freeze" });
    check(&server, "POST /maintenance?dryRun=true", maintenance, 200, expected("Freeze"));
    let failure = json!({ "events": [{ "type": "Reboot", "status": "Started" }] });
    check(&server, "POST /machines/a/hardware-failure?dryRun=true", NONE, 200, failure);
    let deletion = json!({ "operation": { "kind": "Delete" }, "events": [{ "type": "Terminate", "visible": false }] });
    check(&server, "DELETE /machines/a?dryRun=true", NONE, 200, deletion);
    let scaled = check(&server, "PATCH /scale-sets/set?dryRun=true", json!({ "capacity": 1 }), 200, json!({}));
    assert_eq!(scaled["events"][0]["type"], "Terminate");
    let refused = server.call("POST /machines/a/evict?dryRun=true", &NONE);
    assert_eq!((refused.status, refused.code().as_str()), (409, "NotSpot"), "the rules decide");

    assert_eq!(history(), before);
    check(&server, "GET /machines/a", NONE, 200, json!({ "name": "a", "power": "Running" }));
    check(&server, "GET /scale-sets/set", NONE, 200, json!({ "capacity": 2 }));
    assert_eq!(server.call("GET /events", &NONE).json()["value"], json!([]));
}

#[test]
fn previews_name_the_rollout_that_owns_a_host_and_the_operations_on_its_targets() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-2"], "description": "CHG-1" });
    let rollout = check(&server, "POST /rollouts", plan.clone(), 202, json!({}))["id"].clone();
    let owner = |host: &str, state: &str| json!({ "rollouts": [{ "rollout": rollout, "title": "CHG-1", "host": host, "state": state }] });
    check(&server, "POST /machines/db-1/restart?dryRun=true", NONE, 200, owner("n-1", "InProgress"));
    let failure = json!({ "type": "Redeploy" });
    check(&server, "POST /hosts/n-2/hardware-failure?dryRun=true", failure, 200, owner("n-2", "Pending"));
    check(&server, "POST /hosts/n-2/drain/preview", json!({}), 200, owner("n-2", "Pending"));
    let free = check(&server, "POST /machines/db-3/restart?dryRun=true", NONE, 200, json!({}));
    assert_eq!(free.get("rollouts"), None, "{free}");
    let restart = check(&server, "POST /machines/db-3/restart", NONE, 202, json!({}))["id"].clone();
    let named = json!({ "conflictingOperations": [{ "id": restart, "title": "Restart of db-3" }] });
    let plan = json!({ "type": "Reboot", "hosts": ["n-3"] });
    check(&server, "POST /rollouts/preview", plan, 200, named);
}

/// A fleet on which every request of [`DRY_RUN_ROUTES`] creates events.
fn fleet() -> Server {
    let server = Server::with_preview_version();
    let new = |line: &str, body| check(&server, line, body, 201, json!({}));
    new("POST /machines", json!({ "name": "a" }));
    new("POST /machines", json!({ "name": "spot", "priority": "Spot", "host": "h1" }));
    new("POST /availability-sets", json!({ "name": "pair" }));
    new("POST /cloud-services", json!({ "name": "shop" }));
    new("POST /machines", json!({ "name": "b", "availabilitySet": "pair" }));
    new("POST /machines", json!({ "name": "web_IN_0", "cloudService": "shop" }));
    let set = new("POST /scale-sets", json!({ "name": "set", "capacity": 2 }));
    assert_eq!(set["capacity"], 2);
    server
}

/// The path, query and body of a request to one of [`DRY_RUN_ROUTES`] for the fleet.
fn request_to(server: &Server, method: &str, path: &str) -> (String, &'static str, Value) {
    let is_for_spot = path.ends_with("/evict") || path.ends_with("/recommend-rebalance");
    let machine = if is_for_spot { "spot" } else { "a" };
    let set = if path.contains("availability-sets") { "pair" } else { "set" };
    let names = [("{machine}", machine), ("{host}", "h1"), ("{set}", set), ("{service}", "shop")];
    let path = names.iter().fold(path.replace("/api/v1", ""), |path, (field, name)| path.replace(field, name));
    let body = match path.as_str() {
        "/maintenance" => json!({ "target": { "machine": "a" }, "type": "Freeze" }),
        "/scale-sets/set" if method == "PATCH" => json!({ "capacity": 1 }),
        "/scale-sets/set/delete-instances" => {
            let instances = server.call("GET /scale-sets/set/instances", &NONE).json();
            json!({ "instances": [instances["value"][0]["vmId"]] })
        }
        _ => NONE,
    };
    let query = if path.ends_with("/pair") || path.ends_with("/shop") { "withMachines=true" } else { "" };
    (path, query, body)
}

#[test]
fn recommendations_need_the_preview_version() {
    let server = Server::start();
    check(&server, "POST /machines", json!({ "name": "spot", "priority": "Spot" }), 201, json!({}));
    let refused = server.call("POST /machines/spot/recommend-rebalance", &NONE);
    assert_eq!((refused.status, refused.code().as_str()), (409, "NoPreviewVersion"));
    assert!(refused.text().contains("--preview-version"), "{}", refused.text());
}

#[test]
fn every_route_with_a_dry_run_changes_nothing() {
    let server = fleet();
    let state = || {
        let lists = ["machines", "hosts", "availability-sets", "cloud-services", "scale-sets", "events", "operations"];
        let read = |list: &str| server.call(&format!("GET /{list}"), &NONE).json();
        lists.map(read).into_iter().chain([read("history")]).collect::<Vec<_>>()
    };
    let before = state();
    for (method, path) in DRY_RUN_ROUTES {
        let (path, query, body) = request_to(&server, method.as_str(), path);
        let answer = server.call(&format!("{method} {path}?dryRun=true&{query}"), &body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        assert_ne!(answer.json()["events"], json!([]), "{method} {path}");
        assert_eq!(state(), before, "{method} {path}");
    }
}

#[test]
fn every_request_that_creates_events_can_be_repeated_with_its_idempotency_key() {
    for (method, path) in DRY_RUN_ROUTES {
        let server = fleet();
        let (path, query, body) = request_to(&server, method.as_str(), path);
        let body = if body == NONE { String::new() } else { body.to_string() };
        let send = || {
            let client =
                server.client().header("Content-Type", "application/json").header("Idempotency-Key", "night-1");
            client.send(server.management, &format!("{method} /api/v1{path}?{query}"), body.as_bytes())
        };
        let (first, again) = (send(), send());
        assert!([200, 202].contains(&first.status), "{method} {path}: {}", first.text());
        assert_eq!(again.status, first.status, "{method} {path}: {}", again.text());
        let operations = server.call("GET /operations", &NONE).json();
        assert_eq!(operations["value"].as_array().unwrap().len(), 1, "{method} {path}: {operations}");
    }
}

#[test]
fn a_key_of_a_deletion_is_good_for_that_deletion_only() {
    let server = Server::with_machines(&["a", "b"]);
    check(&server, "POST /scale-sets", json!({ "name": "set", "capacity": 2 }), 201, json!({}));
    let send = |line: &str, body: &str| {
        let client = server.client().header("Content-Type", "application/json").header("Idempotency-Key", "night-1");
        client.send(server.management, line, body.as_bytes())
    };
    let first = send("DELETE /api/v1/machines/a", "");
    assert_eq!(first.status, 202, "{}", first.text());
    let others = [
        ("DELETE /api/v1/machines/b", ""),
        ("DELETE /api/v1/machines/never-there", ""),
        ("DELETE /api/v1/scale-sets/set", ""),
        ("POST /api/v1/scale-sets/set/delete-instances", r#"{"instances":["0"]}"#),
    ];
    for (line, body) in others {
        let other = send(line, body);
        assert_eq!((other.status, other.code().as_str()), (409, "IdTaken"), "{line}: {}", other.text());
    }
    check(&server, "GET /machines/b", NONE, 200, json!({ "power": "Running" }));

    // A new machine of the same name is not the target of the repeated request.
    check(&server, "POST /machines", json!({ "name": "a" }), 201, json!({}));
    let again = send("DELETE /api/v1/machines/a", "");
    assert_eq!((again.status, &again.json()["id"]), (202, &first.json()["id"]), "{}", again.text());
    check(&server, "GET /machines/a", NONE, 200, json!({ "power": "Running" }));
}

#[test]
fn instances_deleted_with_a_key_are_compared_when_they_are_gone() {
    let server = Server::start();
    check(&server, "POST /scale-sets", json!({ "name": "set", "capacity": 3 }), 201, json!({}));
    let send = |instance: &str| {
        let client = server.client().header("Content-Type", "application/json").header("Idempotency-Key", "night-1");
        let body = json!({ "instances": [instance] }).to_string();
        client.send(server.management, "POST /api/v1/scale-sets/set/delete-instances", body.as_bytes())
    };
    let instances = server.call("GET /scale-sets/set/instances", &NONE).json();
    let [one, two] = [0, 1].map(|index| instances["value"][index]["vmId"].as_str().unwrap().to_owned());
    let (first, again, other) = (send(&one), send(&one), send(&two));
    assert_eq!((first.status, again.status), (202, 202), "{}", again.text());
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!((other.status, other.code().as_str()), (409, "IdTaken"), "{}", other.text());
    let left = server.call("GET /scale-sets/set/instances", &NONE).json();
    assert_eq!(left["value"].as_array().map(Vec::len), Some(2), "{left}");
}

#[test]
fn routes_without_a_dry_run_refuse_the_parameter() {
    let server = Server::with_machines(&["a"]);
    for line in ["POST /machines/a/stop?dryRun=true", "POST /machines?dryRun=true", "DELETE /faults?dryRun=true"] {
        assert_eq!(server.call(line, &json!({})).status, 400, "{line}");
    }
    assert_eq!(server.call("POST /machines/a/restart?dryRun=maybe", &NONE).status, 400);
    check(&server, "GET /machines/a", NONE, 200, json!({ "power": "Running" }));
}

#[test]
fn a_dry_run_that_is_off_takes_effect_and_a_repeated_parameter_is_refused() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    let both = server.call("POST /machines/a/restart?dryRun=true&dryRun=false", &NONE);
    assert_eq!(both.status, 400, "{}", both.text());
    assert_eq!(server.call("GET /events", &NONE).json()["value"], json!([]));
    check(&server, "POST /machines/a/restart?dryRun=false", NONE, 202, json!({ "kind": "Restart" }));
}
