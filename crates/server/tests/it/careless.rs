//! Careless operators: deletions that take machines along must say so, and everything that creates events can be tried first.

use serde_json::json;

use crate::api_support::*;

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
        let group = check(&server, &format!("GET /{collection}/shop"), NONE, 200, json!({ "leaving": false }));
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
fn routes_without_a_dry_run_refuse_the_parameter() {
    let server = Server::with_machines(&["a"]);
    for line in ["POST /machines/a/stop?dryRun=true", "POST /machines?dryRun=true", "DELETE /faults?dryRun=true"] {
        assert_eq!(server.call(line, &json!({})).status, 400, "{line}");
    }
    assert_eq!(server.call("POST /machines/a/restart?dryRun=maybe", &NONE).status, 400);
    check(&server, "GET /machines/a", NONE, 200, json!({ "power": "Running" }));
}
