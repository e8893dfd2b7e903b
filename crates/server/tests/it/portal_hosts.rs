//! The form of the portal that changes the host of a machine.

use crate::api_support::{NONE, Server, check};
use crate::portal_support::{Browser, between, token_for, vm_id};
use forewarn_access::Role;
use serde_json::{Value, json};

#[test]
fn the_host_of_a_machine_is_changed_after_a_preview() {
    let server = Server::start();
    check(&server, "POST /machines", json!({ "name": "db", "host": "n-1" }), 201, json!({}));
    check(&server, "PUT /hosts/n-2", NONE, 201, json!({}));
    check(&server, "PUT /hosts/n-3", NONE, 201, json!({}));
    server.listen_as("db");
    let plan = json!({ "target": { "host": "n-1" }, "type": "Reboot" });
    check(&server, "POST /maintenance", plan, 202, json!({}));
    check(&server, "POST /hosts/n-3/fence", NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let id = vm_id(&server, "db");
    let back = format!("/machines/{id}");
    let send = |host: &str, more: &[(&str, &str)]| {
        let fields = [("target", id.as_str()), ("back", back.as_str()), ("host", host)];
        browser.post("/portal/machine-host", &[&fields[..], more].concat())
    };
    let form = between(&browser.page(&back), "id=\"machine-host-content\"", "</form>");
    assert!(form.contains("value=\"n-1\"") && form.contains("<option value=\"n-2\">"), "{form}");
    let preview = send("n-2", &[]).text();
    for part in [
        "Change the host of db?",
        "db counts as on host n-2 instead of host n-1.",
        "Nothing is moved",
        "The Reboot of db is canceled.",
    ] {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    assert!(send("n-3", &[]).text().contains("Host n-3 is off"));
    check(&server, "GET /machines/db", NONE, 200, json!({ "host": "n-1" }));
    for (host, message) in
        [("n-1", "is already on host &#39;n-1&#39;"), ("n-9", "Host &#39;n-9&#39; does not exist. Register it first.")]
    {
        for more in [&[][..], &[("confirmed", "on")]] {
            let answer = send(host, more);
            assert_eq!(answer.status, 422, "{}", answer.text());
            assert!(answer.text().contains(message), "{message}: {}", answer.text());
        }
    }
    assert_eq!(send("n-2", &[("confirmed", "on")]).header("location"), Some(back.as_str()));
    check(&server, "GET /machines/db", NONE, 200, json!({ "host": "n-2" }));
    assert_eq!(check(&server, "GET /events", NONE, 200, json!({}))["value"], json!([]));
    assert!(send("", &[]).text().contains("db counts as on no host instead of host n-2."));
    assert_eq!(send("", &[("confirmed", "on")]).status, 303);
    assert_eq!(check(&server, "GET /machines/db", NONE, 200, json!({}))["host"], Value::Null);
    let gone = [("target", "missing"), ("back", "/"), ("host", "n-2")];
    assert_eq!(browser.post("/portal/machine-host", &gone).status, 404);
}

#[test]
fn only_owners_change_the_host_of_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    check(&server, "POST /machines", json!({ "name": "db", "host": "n-1" }), 201, json!({}));
    check(&server, "PUT /hosts/n-2", NONE, 201, json!({}));
    let operator = Browser::with_token(&server, &token_for(dir.path(), Role::Operator));
    let id = vm_id(&server, "db");
    let back = format!("/machines/{id}");
    let form = between(&operator.page(&back), "id=\"machine-host-content\"", "</form>");
    assert!(!form.contains("<button>"), "{form}");
    let fields = [("target", id.as_str()), ("back", back.as_str()), ("host", "n-2"), ("confirmed", "on")];
    assert_eq!(operator.post("/portal/machine-host", &fields).status, 403);
    check(&server, "GET /machines/db", NONE, 200, json!({ "host": "n-1" }));
}
