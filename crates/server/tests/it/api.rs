//! The native API over real sockets, with a memory store and a manual clock: operations, the fleet, the clock, history and
//! the change stream.

use crate::api_support::{NONE, START, Server, check, refused};
use serde_json::{Value, json};

// --- operations and events -----------------------------------------------------------------------

#[test]
fn a_restart_runs_until_its_event_ends() {
    let server = Server::start();
    check(&server, "POST /machines", json!({"name": "web-1"}), 201, json!({"name": "web-1", "power": "Running"}));
    server.listen_as("web-1");
    let id = "C0FFEE00-0000-4000-8000-000000000001";
    let operation = check(
        &server,
        "POST /machines/web-1/restart",
        json!({ "eventId": id.to_lowercase() }),
        202,
        json!({"kind": "Restart", "requestedBy": "owner", "state": "Running", "machines": ["web-1"], "events": [{"id": id}]}),
    );
    let event = format!("GET /events/{id}");
    let not_before = "2026-03-01T12:15:00Z";
    let scheduled = json!({
        "id": id, "type": "Reboot", "status": "Scheduled", "source": "User", "cause": "UserRestart", "visible": true,
        "resources": ["web-1"], "appeared": START, "notBefore": not_before, "durationSeconds": -1,
    });
    check(&server, &event, NONE, 200, scheduled.clone());
    check(&server, "GET /events", NONE, 200, json!({ "value": [scheduled] }));
    check(
        &server,
        &format!("POST /events/{id}/approve"),
        NONE,
        200,
        json!({"status": "Started", "approval": {"approvedBy": "management:owner", "approvedAt": START}, "started": START}),
    );
    check(&server, "POST /clock/advance", json!({"seconds": 600}), 200, json!({"now": "2026-03-01T12:10:00Z"}));
    let ended = json!({
        "status": "Ended", "outcome": "Completed", "started": START, "ended": "2026-03-01T12:10:00Z",
        "type": "Reboot", "cause": "UserRestart", "source": "User", "visible": true, "resources": ["web-1"],
        "appeared": START, "notBefore": not_before, "operations": [operation["id"]],
        "approval": {"approvedBy": "management:owner", "approvedAt": START},
    });
    check(&server, &event, NONE, 200, ended.clone());
    check(&server, "GET /events", NONE, 200, json!({"value": []}));
    check(&server, "GET /events?all=true&machine=web-1", NONE, 200, json!({"value": [{"id": id}]}));
    let shown = format!("GET /operations/{}", operation["id"].as_str().unwrap());
    let done = json!({"state": "Succeeded", "events": [{"id": id, "outcome": "Completed"}]});
    check(&server, &shown, NONE, 200, done.clone());
    check(&server, "GET /operations", NONE, 200, json!({ "value": [done] }));
    refused(&server, &format!("POST /events/{id}/approve"), NONE, 409, "EventOver");
    refused(&server, &format!("POST /events/{id}/cancel"), NONE, 409, "EventOver");

    check(&server, "POST /clock/advance", json!({"seconds": 7200}), 200, json!({}));
    // The region has forgotten the event; history has not.
    check(&server, "GET /events?all=true", NONE, 200, json!({"value": []}));
    check(&server, &event, NONE, 200, ended);
    refused(&server, "GET /events/C0FFEE00-0000-4000-8000-00000000dead", NONE, 404, "EventNotFound");
    refused(&server, &format!("POST /events/{id}/cancel"), NONE, 404, "EventNotFound");
    let from_history = json!({
        "kind": "Restart", "requestedBy": "owner", "state": "Succeeded", "requestedAt": START, "machines": ["web-1"],
        "events": [{"id": id, "outcome": "Completed"}],
    });
    check(&server, &shown, NONE, 200, from_history);
}

#[test]
fn metadata_listeners_are_listed() {
    let listener = json!({"network": "default", "prefix": true});
    let answer = check(&Server::start(), "GET /listeners", NONE, 200, json!({ "value": [listener] }));
    let address = answer["value"][0]["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
}

#[test]
fn an_event_without_a_handler_starts_at_once() {
    let server = Server::start();
    check(&server, "POST /machines", json!({"name": "quiet"}), 201, json!({"handlerConnected": false}));
    let operation = check(&server, "POST /machines/quiet/redeploy", NONE, 202, json!({"kind": "Redeploy"}));
    let event = operation["events"][0]["id"].as_str().unwrap();
    let shown = format!("GET /events/{event}");
    let started = check(&server, &shown, NONE, 200, json!({"status": "Started", "visible": false}))["started"].clone();
    check(&server, "POST /clock/advance", json!({"seconds": 7200}), 200, json!({}));
    let past = json!({
        "id": event, "type": "Redeploy", "status": "Ended", "outcome": "Completed", "visible": false, "resources": ["quiet"],
        "started": started, "cause": "UserRedeploy", "operations": [operation["id"]],
    });
    check(&server, &shown, NONE, 200, past);
    check(
        &server,
        "DELETE /machines/quiet",
        NONE,
        202,
        json!({"kind": "Delete", "state": "Succeeded", "machines": ["quiet"]}),
    );
    refused(&server, "GET /machines/quiet", NONE, 404, "MachineNotFound");
}

#[test]
fn maintenance_is_planned_and_canceled() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    let id = "C0FFEE00-0000-4000-8000-000000000002";
    let plan = json!({
        "target": {"machine": "a"}, "type": "Freeze", "at": "2026-03-02T01:00:00+01:00", "durationSeconds": 7,
        "description": "New firmware", "eventId": id,
    });
    check(
        &server,
        "POST /maintenance",
        plan,
        202,
        json!({"kind": "Maintain", "type": "Freeze", "cause": "HostMaintenance", "at": "2026-03-02T00:00:00Z"}),
    );
    check(
        &server,
        "POST /events/approve",
        json!({"events": [id]}),
        200,
        json!({"value": [{"id": id, "description": "New firmware", "durationSeconds": 7, "source": "Platform"}]}),
    );
    let more = json!({"target": {"machine": "a"}, "type": "Reboot", "noticeSeconds": 1800});
    let later = check(&server, "POST /maintenance", more, 202, json!({}));
    let operation = later["id"].as_str().unwrap();
    let cancelled = json!({"state": "Canceled", "canceledBy": "owner", "events": [{"outcome": "Canceled"}]});
    check(&server, &format!("POST /operations/{operation}/cancel"), NONE, 200, cancelled);
    refused(&server, &format!("POST /operations/{operation}/cancel"), NONE, 409, "OperationOver");
}

#[test]
fn an_event_is_canceled_by_its_id() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    let operation = check(&server, "POST /machines/a/restart", NONE, 202, json!({"state": "Running"}));
    let event = operation["events"][0]["id"].as_str().unwrap();
    let cancelled = json!({"status": "Ended", "outcome": "Canceled", "canceledBy": "owner"});
    check(&server, &format!("POST /events/{event}/cancel"), NONE, 200, cancelled);
    refused(&server, "POST /events/C0FFEE00-0000-4000-8000-00000000dead/cancel", NONE, 404, "EventNotFound");
}

#[test]
fn a_host_failure_affects_all_its_machines() {
    let server = Server::start();
    check(&server, "PUT /hosts/rack-1", NONE, 201, json!({"name": "rack-1", "machines": []}));
    check(&server, "PUT /hosts/rack-1", NONE, 200, json!({"name": "rack-1"}));
    for name in ["a", "b"] {
        check(&server, "POST /machines", json!({"name": name, "host": "rack-1"}), 201, json!({"host": "rack-1"}));
        server.listen_as(name);
    }
    check(&server, "GET /hosts/rack-1", NONE, 200, json!({"machines": ["a", "b"]}));
    check(&server, "GET /machines?host=rack-1", NONE, 200, json!({"value": [{"name": "a"}, {"name": "b"}]}));
    let target = json!({"target": {"host": "rack-1"}, "type": "Reboot"});
    let operation = check(&server, "POST /maintenance", target, 202, json!({"host": "rack-1"}));
    let event = operation["events"][0]["id"].as_str().unwrap();
    let message = refused(&server, &format!("POST /events/{event}/cancel"), NONE, 409, "PartOfHostOperation");
    assert!(message.contains("Cancel the operation"), "{message}");
    check(&server, "POST /hosts/rack-1/hardware-failure", json!({"type": "Redeploy"}), 202, json!({"kind": "Fail"}));
    refused(&server, "DELETE /hosts/rack-1", NONE, 409, "HostInUse");
    refused(&server, "DELETE /hosts/rack-2", NONE, 404, "HostNotFound");
    check(&server, "PUT /hosts/rack-2", NONE, 201, json!({}));
    assert_eq!(server.call("DELETE /hosts/rack-2", &NONE).status, 204);
}

// --- the fleet -----------------------------------------------------------------------------------

#[test]
fn a_machine_is_registered_changed_and_read_back() {
    let server = Server::start();
    let new = json!({
        "name": "db", "vmId": "0B57AC1E-0000-4000-8000-000000000001", "resourceGroup": "prod", "zone": "2",
        "addresses": [{"ip": "10.9.0.4"}], "terminateNotification": {"notBeforeTimeout": "PT7M30S"},
        "details": {"location": "westeurope", "size": "Standard_D2s_v5"}, "tags": {"team": "data"},
    });
    let shown = json!({
        "name": "db", "vmId": "0b57ac1e-0000-4000-8000-000000000001", "resourceGroup": "prod", "zone": "2",
        "addresses": [{"network": "default", "ip": "10.9.0.4"}],
        "terminateNotification": {"notBeforeTimeout": "PT7M30S"},
        "details": {"location": "westeurope", "size": "Standard_D2s_v5"}, "tags": {"team": "data"},
        "priority": "Regular", "updateDomain": 0, "protected": false,
    });
    check(&server, "POST /machines", new, 201, shown.clone());
    check(&server, "GET /machines/prod~db", NONE, 200, shown.clone());
    check(&server, "GET /machines/DB?group=PROD", NONE, 200, shown.clone());
    check(&server, "GET /machines/0B57AC1E-0000-4000-8000-000000000001", NONE, 200, shown);
    let change =
        json!({"zone": null, "terminateNotification": null, "details": {"size": "Standard_D4s_v5"}, "tags": {}});
    let changed = check(
        &server,
        "PATCH /machines/db",
        change,
        200,
        json!({"details": {"location": "westeurope", "size": "Standard_D4s_v5"}, "tags": {}}),
    );
    assert!(changed.get("zone").is_none() && changed.get("terminateNotification").is_none(), "{changed:#}");
    check(&server, "POST /machines/db/stop", NONE, 200, json!({"power": "Stopped"}));
    refused(&server, "POST /machines/db/restart", NONE, 409, "MachineNotRunning");
    check(&server, "POST /machines/db/deallocate", json!({}), 200, json!({"power": "Deallocated"}));
    check(&server, "POST /machines/db/start", NONE, 200, json!({"power": "Running"}));
}

#[test]
fn an_ambiguous_name_is_refused_and_both_machines_are_named() {
    let server = Server::start();
    for group in ["east", "west"] {
        check(&server, "POST /machines", json!({"name": "web", "resourceGroup": group}), 201, json!({}));
    }
    let message = refused(&server, "GET /machines/web", NONE, 409, "AmbiguousName");
    assert!(
        message.contains("east/web") && message.contains("west/web") && message.contains("group/name"),
        "{message}"
    );
    for path in ["east~web", "east%2Fweb"] {
        check(&server, &format!("GET /machines/{path}"), NONE, 200, json!({"resourceGroup": "east"}));
    }
    refused(&server, "GET /history?machine=web", NONE, 409, "AmbiguousName");
    check(&server, "GET /machines?name=WEB", NONE, 200, json!({"value": [{}, {}]}));
    check(&server, "GET /machines?name=web&group=west", NONE, 200, json!({"value": [{"resourceGroup": "west"}]}));
}

#[test]
fn role_instances_are_machines_of_their_cloud_service() {
    let server = Server::start();
    check(&server, "POST /cloud-services", json!({"name": "shop"}), 201, json!({"name": "shop", "machines": 0}));
    let instance = json!({"name": "FrontEnd_IN_0", "cloudService": "shop"});
    check(&server, "POST /machines", instance, 201, json!({"cloudService": "shop", "role": "FrontEnd"}));
    check(&server, "GET /machines/shop~FrontEnd_IN_0", NONE, 200, json!({"role": "FrontEnd"}));
    refused(&server, "POST /machines", json!({"name": "x", "cloudService": "shop"}), 409, "ConflictingPlace");
    refused(&server, "GET /scale-sets/shop", NONE, 404, "GroupNotFound");
    let policy = json!({"policy": {"approveUserReboot": true}});
    check(&server, "PATCH /cloud-services/shop", policy.clone(), 200, policy);
    check(
        &server,
        "DELETE /cloud-services/shop?withMachines=true",
        NONE,
        202,
        json!({"kind": "Delete", "state": "Succeeded"}),
    );
    refused(&server, "GET /cloud-services/shop", NONE, 404, "GroupNotFound");
}

#[test]
fn machines_of_an_availability_set_are_spread() {
    let server = Server::start();
    let new = json!({"name": "av", "updateDomains": 2, "faultDomains": 2});
    check(
        &server,
        "POST /availability-sets",
        new,
        201,
        json!({"updateDomains": 2, "eventGroups": [{"handlerConnected": false}]}),
    );
    for (name, domain) in [("a", 0), ("b", 1), ("c", 0)] {
        let body = json!({"name": name, "availabilitySet": "av"});
        check(&server, "POST /machines", body, 201, json!({"availabilitySet": "av", "updateDomain": domain}));
    }
    check(&server, "GET /availability-sets", NONE, 200, json!({"value": [{"name": "av", "machines": 3}]}));
    let scope = server.call("GET /machines/a", &NONE).json()["eventGroup"].clone();
    check(&server, &format!("GET /machines?eventGroup={scope}"), NONE, 200, json!({"value": [{}, {}, {}]}));
    let policy = json!({"name": "d", "availabilitySet": "av", "policy": {}});
    refused(&server, "POST /machines", policy, 409, "PolicyOnMember");
    refused(&server, "POST /availability-sets", json!({"name": "AV"}), 409, "NameTaken");
}

#[test]
fn a_scale_set_is_scaled_upgraded_and_deleted() {
    let server = Server::start();
    let new = json!({
        "name": "set", "capacity": 3, "orchestration": "Uniform", "model": {"terminateNotification": {}},
    });
    let shown = json!({
        "name": "set", "capacity": 3, "machines": 3, "orchestration": "Uniform", "upgradeMode": "Manual",
        "placementGroupMax": 100, "model": {"terminateNotification": {"notBeforeTimeout": "PT5M"}},
    });
    check(&server, "POST /scale-sets", new, 201, shown);
    check(&server, "GET /machines/set_0", NONE, 200, json!({"scaleSet": "set", "instanceId": 0}));
    server.listen_as("set_0");
    let longer = json!({"model": {"terminateNotification": {"notBeforeTimeout": "PT10M"}}});
    check(&server, "PATCH /scale-sets/set", longer.clone(), 200, json!({ "scaleSet": longer }));
    check(&server, "GET /machines/set_1", NONE, 200, json!({"latestModelApplied": false}));
    check(&server, "POST /scale-sets/set/upgrade", json!({"instances": ["set_1"]}), 200, json!({"name": "set"}));
    let instances = json!({"value": [
        {"name": "set_0", "latestModelApplied": false},
        {"name": "set_1", "latestModelApplied": true},
        {"name": "set_2", "latestModelApplied": false},
    ]});
    check(&server, "GET /scale-sets/set/instances", NONE, 200, instances);
    let scaled =
        json!({"scaleSet": {"capacity": 2}, "added": [], "removing": ["set_2"], "operation": {"kind": "Delete"}});
    check(&server, "PATCH /scale-sets/set", json!({"capacity": 2}), 200, scaled);
    let grown = check(&server, "PATCH /scale-sets/set", json!({"capacity": 3}), 200, json!({"removing": []}));
    assert_eq!(grown["added"].as_array().unwrap().len(), 1, "{grown:#}");
    assert!(grown.get("operation").is_none());
    let body = json!({"instances": ["set_1"], "eventId": "C0FFEE00-0000-4000-8000-000000000003"});
    check(&server, "POST /scale-sets/set/delete-instances", body, 202, json!({"kind": "Delete", "state": "Running"}));
    let deletion = "POST /events/C0FFEE00-0000-4000-8000-000000000003/cancel";
    refused(&server, deletion, NONE, 409, "NotCancellable");
    check(&server, "POST /machines", json!({"name": "other"}), 201, json!({}));
    let other = json!({"instances": ["other"]});
    refused(&server, "POST /scale-sets/set/delete-instances", other.clone(), 409, "NotAMember");
    refused(&server, "POST /scale-sets/set/upgrade", other, 409, "NotAMember");
    check(&server, "DELETE /scale-sets/set", NONE, 202, json!({"kind": "Delete", "state": "Running"}));
    check(&server, "GET /scale-sets/set", NONE, 200, json!({"deleting": true}));
    refused(&server, "PATCH /scale-sets/set", json!({"capacity": 9}), 409, "GroupLeaving");
    check(&server, "POST /clock/advance", json!({"seconds": 900}), 200, json!({}));
    refused(&server, "GET /scale-sets/set", NONE, 404, "GroupNotFound");
}

#[test]
fn all_instances_of_a_set_are_restarted_by_one_operation() {
    let server = Server::start();
    let new = json!({"name": "set", "capacity": 12, "orchestration": "Uniform"});
    check(&server, "POST /scale-sets", new, 201, json!({}));
    server.listen_as("set_0");
    check(&server, "POST /machines/set_3/stop", NONE, 200, json!({}));
    let all = check(&server, "POST /scale-sets/set/restart", NONE, 202, json!({"kind": "Restart", "state": "Running"}));
    assert_eq!(all["machines"].as_array().unwrap().len(), 11, "{all:#}");
    assert_eq!(all["events"].as_array().unwrap().len(), 11, "{all:#}");
    let some = json!({"instances": ["set_1", "set_2"], "eventId": "C0FFEE00-0000-4000-8000-000000000004"});
    check(&server, "POST /scale-sets/set/redeploy", some, 202, json!({"machines": ["set_1", "set_2"]}));
    check(&server, "GET /events/C0FFEE00-0000-4000-8000-000000000004", NONE, 200, json!({"resources": ["set_1"]}));
    let stopped = json!({"instances": ["set_3"]});
    refused(&server, "POST /scale-sets/set/perform-maintenance", stopped, 409, "MachineNotRunning");
    check(&server, "POST /machines", json!({"name": "other"}), 201, json!({}));
    refused(&server, "POST /scale-sets/set/restart", json!({"instances": ["other"]}), 409, "NotAMember");
    check(&server, "POST /clock/advance", json!({"seconds": 2000}), 200, json!({}));
    let path = format!("GET /operations/{}", all["id"].as_str().unwrap());
    check(&server, &path, NONE, 200, json!({"state": "Succeeded"}));
}

#[test]
fn a_machine_joins_a_flexible_set_and_shares_its_document() {
    let server = Server::start();
    check(&server, "POST /scale-sets", json!({"name": "flex", "capacity": 1}), 201, json!({}));
    check(
        &server,
        "POST /scale-sets",
        json!({"name": "uni", "capacity": 1, "orchestration": "Uniform"}),
        201,
        json!({}),
    );
    check(&server, "POST /machines", json!({"name": "own", "scaleSet": "flex"}), 201, json!({"scaleSet": "flex"}));
    check(&server, "GET /scale-sets/flex", NONE, 200, json!({"capacity": 2, "machines": 2}));
    refused(&server, "POST /machines", json!({"name": "x", "scaleSet": "uni"}), 409, "NotAFlexibleSet");
    let both = json!({"name": "x", "scaleSet": "flex", "availabilitySet": "av"});
    refused(&server, "POST /machines", both, 409, "ConflictingPlace");
}

#[test]
fn chosen_machines_are_maintained_one_update_domain_at_a_time() {
    let server = Server::start();
    check(
        &server,
        "POST /scale-sets",
        json!({"name": "set", "capacity": 3, "orchestration": "Uniform"}),
        201,
        json!({}),
    );
    server.listen_as("set_0");
    let body = json!({"target": {"machines": ["set_2", "set_1"]}, "type": "Freeze"});
    let first = json!({"machines": ["set_2", "set_1"], "events": [{}], "nextUpdateDomain": 2});
    check(&server, "POST /maintenance", body, 202, first);
    let none = json!({"target": {"machines": []}, "type": "Freeze"});
    refused(&server, "POST /maintenance", none, 400, "InvalidField");
    let two = json!({"target": {"machines": ["set_0"], "host": "h"}, "type": "Freeze"});
    refused(&server, "POST /maintenance", two, 400, "InvalidField");
}

#[test]
fn pages_of_lists_have_no_gaps() {
    let server = Server::with_machines(&["a", "b", "c", "d", "e"]);
    for (path, size) in [("/machines", 6), ("/hosts", 3), ("/operations", 4), ("/history?kind=machine-added", 6)] {
        for n in 0..3 {
            server.call(&format!("PUT /hosts/h{n}"), &NONE);
        }
        for n in ["a", "b", "c", "d"] {
            if server.call("GET /operations", &NONE).json()["value"].as_array().unwrap().len() < 4 {
                server.call(&format!("POST /machines/{n}/restart"), &NONE);
            }
        }
        let mut seen = Vec::new();
        let mut after = String::new();
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let page = server.call(&format!("GET {path}{joint}limit=2{after}"), &NONE).json();
            seen.extend(page["value"].as_array().unwrap().iter().map(Value::to_string));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen.len(), size, "{path}");
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), size, "{path}");
    }
    refused(&server, "GET /machines?limit=0", NONE, 400, "InvalidQuery");
    refused(&server, "GET /machines?after=x", NONE, 400, "InvalidQuery");
    refused(&server, "GET /operations?after=1.x", NONE, 400, "InvalidQuery");
}

// --- time, history, changes ----------------------------------------------------------------------

#[test]
fn the_clock_is_advanced_and_set() {
    let server = Server::start();
    check(&server, "GET /clock", NONE, 200, json!({"kind": "Manual", "now": START, "noticeScale": 1}));
    check(&server, "POST /clock/advance", json!({"seconds": 90}), 200, json!({"now": "2026-03-01T12:01:30Z"}));
    check(&server, "POST /clock/advance", json!({"seconds": 30.0}), 200, json!({"now": "2026-03-01T12:02:00Z"}));
    check(&server, "PUT /clock", json!({"now": "2026-03-02T00:00:00Z"}), 200, json!({"now": "2026-03-02T00:00:00Z"}));
    let audit = check(
        &server,
        "GET /history?kind=audit",
        NONE,
        200,
        json!({"value": [
            {"actor": "owner", "outcome": "clock.advance", "detail": {"seconds": 90}, "at": START},
        {"actor": "owner", "outcome": "clock.advance"},
            {"actor": "owner", "outcome": "clock.set"},
        ]}),
    );
    assert!(audit.get("next").is_none());
    let real = Server::on_the_real_clock();
    check(&real, "GET /clock", NONE, 200, json!({"kind": "Real"}));
    refused(&real, "POST /clock/advance", json!({"seconds": 1}), 409, "ClockIsReal");
    refused(&real, "PUT /clock", json!({"now": "2100-01-01T00:00:00Z"}), 409, "ClockIsReal");
    assert_eq!(real.call("GET /history?kind=audit", &NONE).json()["value"], json!([]));
}

#[test]
fn history_of_a_machine_excludes_another_machine_with_the_same_name() {
    let server = Server::start();
    let vm_id = |group: &str| {
        let made = check(&server, "POST /machines", json!({"name": "web", "resourceGroup": group}), 201, json!({}));
        made["vmId"].as_str().unwrap().to_owned()
    };
    let kinds = |machine: &str| -> Vec<String> {
        let page = check(&server, &format!("GET /history?machine={machine}"), NONE, 200, json!({}));
        page["value"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
    };
    let east = vm_id("east");
    check(&server, "POST /machines/web/stop", NONE, 200, json!({}));
    let alone = ["machine-added", "audit", "audit"].map(String::from);
    let sorted = |mut kinds: Vec<String>| {
        kinds.sort_by(|one, other| other.cmp(one));
        kinds
    };
    for name in ["web", "EAST%2FWEB", "east~web", &east] {
        assert_eq!(sorted(kinds(name)), alone, "{name}");
    }
    let west = vm_id("west");
    for name in ["east~web", &east, "west%2Fweb", &west] {
        assert_eq!(kinds(name), ["machine-added"], "{name}");
    }
    check(&server, "DELETE /machines/east~web", NONE, 202, json!({}));
    assert_eq!(kinds("west~web").iter().filter(|kind| *kind == "machine-removed").count(), 0);
    check(&server, "DELETE /machines/west~web", NONE, 202, json!({}));
    assert_eq!(kinds("web").iter().filter(|kind| *kind == "machine-removed").count(), 2, "both are gone, and known");
    refused(&server, "GET /history?machine=nosuch", NONE, 404, "MachineNotFound");
}

#[test]
fn history_records_actors_actions_and_results() {
    let server = Server::with_machines(&["a"]);
    server.listen_as("a");
    let operation = check(&server, "POST /machines/a/restart", NONE, 202, json!({}));
    let event = operation["events"][0]["id"].as_str().unwrap();
    server.call(&format!("POST /events/{event}/approve"), &NONE);
    server.call("POST /clock/advance", &json!({"seconds": 600}));
    let story = json!({"value": [
        {"kind": "appeared", "event": event, "operation": operation["id"], "machines": ["a"]},
        {"kind": "approved", "actor": "management:owner"},
        {"kind": "started", "at": START},
        {"kind": "ended", "outcome": "completed", "at": "2026-03-01T12:10:00Z"},
    ]});
    check(&server, &format!("GET /history?event={event}"), NONE, 200, story);
    let audits = json!({"value": [
        {"outcome": "machine.register"}, {"outcome": "restart", "actor": "owner", "target": "a"},
    ]});
    check(&server, "GET /history?machine=A&kind=audit", NONE, 200, audits);
    check(&server, "GET /history?newest=true&limit=1", NONE, 200, json!({"value": [{"kind": "operation-ended"}]}));
    check(&server, "GET /history?kind=group-on", NONE, 200, json!({"value": [{"kind": "group-on"}]}));
    let since = "GET /history?since=2026-03-01T12:09:00Z&kind=started,ended";
    check(&server, since, NONE, 200, json!({"value": [{"kind": "ended"}]}));
}

#[test]
fn the_change_stream_continues_where_it_stopped() {
    let server = Server::with_machines(&["a"]);
    let mut live = server.changes(None);
    server.listen_as("a");
    let on = live.next();
    assert_eq!(on.kind, "group-on");
    server.call("POST /machines/a/restart", &NONE);
    let audit = live.next();
    assert_eq!((audit.kind.as_str(), &audit.data["outcome"]), ("audit", &json!("restart")));
    assert_eq!(live.next().kind, "appeared");
    drop(live);
    server.call("POST /machines", &json!({"name": "b"}));

    let mut again = server.changes(Some(on.id));
    let missed: Vec<_> = (0..4).map(|_| again.next()).collect();
    let kinds: Vec<_> = missed.iter().map(|message| message.kind.as_str()).collect();
    assert_eq!(kinds, ["audit", "appeared", "audit", "machine-added"]);
    assert!(missed.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(missed[3].data["machines"], json!(["b"]));
    server.stop();
    assert!(again.ended(), "the stream ends with the server");
}

#[test]
fn a_stream_position_must_be_a_number() {
    let server = Server::start();
    let answer = server.client().header("Last-Event-ID", "x").send(server.management, "GET /api/v1/changes", b"");
    assert_eq!(answer.status, 400, "{}", answer.text());
    refused(&server, "GET /changes?after=x", NONE, 400, "InvalidQuery");
}

#[test]
fn a_repeated_request_with_an_idempotency_key_returns_the_existing_operation() {
    let server = Server::with_machines(&["web", "db"]);
    server.listen_as("web");
    let send = |machine: &str, key: &str| {
        let client = server.client().header("Content-Type", "application/json").header("Idempotency-Key", key);
        client.send(server.management, &format!("POST /api/v1/machines/{machine}/restart"), b"{}")
    };
    let first = send("web", "night-1");
    assert_eq!(first.status, 202, "{}", first.text());
    let again = send("web", "night-1");
    assert_eq!((again.status, &again.json()["id"]), (202, &first.json()["id"]));
    assert_eq!(server.document("web")["Events"].as_array().unwrap().len(), 1);
    let other = send("db", "night-1");
    assert_eq!((other.status, &other.json()["error"]["code"]), (409, &json!("IdTaken")));
    assert_ne!(send("web", "night-2").json()["id"], first.json()["id"]);
}

#[test]
fn the_preview_of_a_drain_assumes_that_events_in_its_way_end() {
    let server = Server::start();
    check(&server, "POST /availability-sets", json!({"name": "pair"}), 201, json!({}));
    for name in ["a", "b"] {
        let new = json!({"name": name, "availabilitySet": "pair", "host": "h1"});
        check(&server, "POST /machines", new, 201, json!({}));
    }
    check(&server, "PUT /hosts/h2", NONE, 201, json!({}));
    server.listen_as("a");
    check(&server, "POST /machines/a/hardware-failure", NONE, 202, json!({}));
    check(&server, "POST /machines/b/restart", NONE, 202, json!({}));
    let preview = check(&server, "POST /hosts/h1/drain/preview", NONE, 200, json!({}));
    let machines = preview["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 2);
    assert!(machines.iter().all(|machine| machine["to"] == "h2"), "{preview:#}");
}

#[test]
fn failed_steps_of_a_rollout_are_repeated_on_request() {
    let server = Server::start();
    for host in ["h1", "h2"] {
        let name = format!("on-{host}");
        check(&server, "POST /machines", json!({"name": name, "host": host, "addresses": []}), 201, json!({}));
        server.listen_as(&name);
    }
    let plan = json!({"type": "Reboot", "hosts": ["h1", "h2"], "pauseSeconds": 3600, "maxFailures": 5});
    let rollout = check(&server, "POST /rollouts", plan, 202, json!({}));
    let path = format!("/rollouts/{}", rollout["id"].as_str().unwrap());
    let retry = |body: Value, status: u16, expected: Value| {
        check(&server, &format!("POST {path}/retry"), body, status, expected)
    };
    let refusal = |code: &str| json!({ "error": { "code": code } });
    retry(NONE, 409, refusal("StepNotFailed"));
    retry(json!({"hosts": ["h1"]}), 409, refusal("StepNotFailed"));
    check(&server, "POST /hosts/h1/fence", NONE, 200, json!({}));
    check(&server, "POST /hosts/h1/activate", NONE, 200, json!({}));
    retry(json!({"hosts": ["h2"]}), 409, refusal("StepNotFailed"));
    retry(json!({"hosts": ["h9"]}), 404, refusal("HostNotFound"));
    retry(json!({"machines": ["on-h1"]}), 404, refusal("StepNotFound"));
    retry(json!({"steps": [9]}), 404, refusal("StepNotFound"));
    retry(json!({"updateDomains": [1]}), 404, refusal("StepNotFound"));
    retry(json!({"group": "web"}), 400, refusal("InvalidField"));
    retry(json!({"hosts": ["h1"], "steps": [0]}), 409, refusal("TargetTwice"));
    retry(json!({"host": "h1"}), 400, refusal("InvalidField"));
    // A request that is repeated with its key changes nothing.
    for _ in 0..2 {
        let client = server.client().header("Idempotency-Key", "again").header("Content-Type", "application/json");
        let line = format!("POST /api/v1{path}/retry");
        let answer = client.send(server.management, &line, br#"{"hosts": ["h1"]}"#);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let steps = answer.json()["steps"].clone();
        assert_eq!(steps.as_array().unwrap().len(), 3, "{steps}");
        assert_eq!((&steps[2]["host"], &steps[2]["retryOf"]), (&json!("h1"), &json!(0)));
        assert_eq!((&steps[2]["state"], &steps[2]["operation"]), (&json!("Pending"), &Value::Null));
    }
    retry(json!({"hosts": ["h1"]}), 409, refusal("StepNotFailed"));
    check(&server, "POST /machines/on-h1/start", NONE, 200, json!({}));
    check(&server, "POST /clock/advance", json!({"seconds": 4 * 3600}), 200, json!({}));
    let states = json!([{"state": "Failed"}, {"state": "Succeeded"}, {"state": "Succeeded"}]);
    let ended = json!({"state": "Finished", "failures": 1, "steps": states});
    check(&server, &format!("GET {path}"), NONE, 200, ended);
    retry(NONE, 409, refusal("RolloutOver"));
    let rows = check(&server, "GET /history?kind=rollout&limit=1000", NONE, 200, json!({}));
    let words: Vec<&str> = rows["value"].as_array().unwrap().iter().filter_map(|row| row["outcome"].as_str()).collect();
    assert_eq!(words.iter().filter(|word| **word == "step-retried").count(), 1, "{words:?}");
}

#[test]
fn the_preview_of_a_rollout_that_can_never_finish_is_short() {
    let server = Server::start();
    for (machine, host) in [("a", "h1"), ("b", "h2")] {
        let new = json!({"name": machine, "host": host, "memoryMib": 2048});
        check(&server, "POST /machines", new, 201, json!({}));
        check(&server, &format!("PATCH /hosts/{host}"), json!({"memoryMib": 2048}), 200, json!({}));
    }
    let plan = json!({"type": "Drain", "hosts": ["h1"],
        "windows": [{"start": "22:00", "end": "05:00", "timeZone": "Europe/Berlin"}]});
    let preview = check(&server, "POST /rollouts/preview", plan, 200, json!({"isComplete": false}));
    let waits = preview["waits"].as_array().unwrap();
    assert!(waits.iter().any(|wait| wait["waitsFor"]["reason"] == "Capacity"), "{preview:#}");
    assert!(waits.len() < 100, "{} waits", waits.len());
}

#[test]
fn a_night_of_twenty_hosts_is_planned_paused_resumed_and_stopped() {
    let server = Server::start();
    let hosts: Vec<String> = (0..20).map(|n| format!("node{n:02}")).collect();
    for host in &hosts {
        for part in ["a", "b"] {
            let name = format!("{host}{part}");
            check(&server, "POST /machines", json!({"name": name, "host": host, "addresses": []}), 201, json!({}));
            server.listen_as(&name);
        }
    }
    let plan = json!({"type": "Reboot", "hosts": hosts, "parallel": 4, "pauseSeconds": 300, "maxFailures": 2, "description": "CHG-7",
        "windows": [{"start": "22:00", "end": "04:00", "timeZone": "Europe/Berlin"}]});
    let preview = check(&server, "POST /rollouts/preview", plan.clone(), 200, json!({"isComplete": true}));
    assert_eq!(preview["steps"][0]["started"], "2026-03-01T21:00:00Z");
    let rollout =
        check(&server, "POST /rollouts", plan, 202, json!({"state": "Planned", "waitsFor": {"reason": "Window"}}));
    let path = format!("/rollouts/{}", rollout["id"].as_str().unwrap());
    let advance = |seconds: u64| check(&server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
    let count = |state: &str| {
        let found = check(&server, &format!("GET {path}"), NONE, 200, json!({}));
        found["steps"].as_array().unwrap().iter().filter(|step| step["state"] == state).count()
    };
    advance(9 * 3600);
    assert_eq!(count("InProgress"), 4, "the window opens at 22:00 in Berlin");
    check(&server, &format!("POST {path}/pause"), NONE, 200, json!({"state": "Paused"}));
    advance(3600);
    assert_eq!((count("Succeeded"), count("InProgress"), count("Pending")), (4, 0, 16));
    check(&server, &format!("POST {path}/resume"), NONE, 200, json!({"state": "Waiting"}));
    check(&server, "POST /hosts/node05/fence", NONE, 200, json!({"state": "Failed"}));
    let fenced = check(&server, "GET /hosts/node05", NONE, 200, json!({"fenced": {"by": "owner"}}));
    assert!(fenced["fenced"]["at"].is_string(), "{fenced}");
    let active = check(&server, "GET /hosts/node06", NONE, 200, json!({"state": "Active"}));
    assert!(active["fenced"].is_null(), "{active}");
    advance(3600);
    assert!(count("Succeeded") > 4, "it goes on after the pause");
    check(&server, &format!("POST {path}/stop"), NONE, 200, json!({"state": "Stopped"}));
    advance(3600);
    assert_eq!(count("InProgress"), 0, "started events finish");
    let kinds = check(&server, "GET /history?kind=rollout&limit=1000", NONE, 200, json!({}));
    let words: Vec<&str> =
        kinds["value"].as_array().unwrap().iter().filter_map(|row| row["outcome"].as_str()).collect();
    for word in ["started", "waiting", "step-started", "step-ended", "paused", "resumed", "stopped"] {
        assert!(words.contains(&word), "{word} is not in {words:?}");
    }
}

#[test]
fn the_first_step_of_a_rollout_starts_at_the_chosen_time() {
    let server = Server::start();
    check(&server, "POST /machines", json!({"name": "a", "host": "h1", "addresses": []}), 201, json!({}));
    server.listen_as("a");
    let plan = |at: &str| json!({"type": "Reboot", "hosts": ["h1"], "at": at});
    let past = plan("2026-03-01T11:59:59Z");
    check(&server, "POST /rollouts", past, 409, json!({"error": {"code": "PlanInThePast"}}));
    let plan = plan("2026-03-01T14:00:00Z");
    let preview = check(&server, "POST /rollouts/preview", plan.clone(), 200, json!({"isComplete": true}));
    assert_eq!(preview["steps"][0]["started"], "2026-03-01T13:45:00Z", "{preview}");
    let available = [("12:00", 1), ("14:00", 0), ("14:02", 1)]
        .map(|(time, machines)| json!({ "at": format!("2026-03-01T{time}:00Z"), "machines": machines }));
    assert_eq!(preview["groups"][0]["available"], json!(available), "{preview}");
    let wait = json!({"reason": "Start", "until": "2026-03-01T13:45:00Z"});
    let expected = json!({"state": "Planned", "at": "2026-03-01T14:00:00Z", "waitsFor": wait});
    let rollout = check(&server, "POST /rollouts", plan, 202, expected);
    check(&server, "POST /clock/advance", json!({"seconds": 105 * 60}), 200, json!({}));
    let path = format!("GET /rollouts/{}", rollout["id"].as_str().unwrap());
    let announced = check(&server, &path, NONE, 200, json!({"state": "Waiting"}));
    let operation = announced["steps"][0]["operation"].as_str().unwrap();
    let operation = check(&server, &format!("GET /operations/{operation}"), NONE, 200, json!({}));
    assert_eq!(operation["groups"][0]["events"][0]["notBefore"], "2026-03-01T14:00:00Z", "{operation}");
}

#[test]
fn a_rollout_goes_over_single_machines() {
    let server = Server::start();
    for name in ["a", "b"] {
        check(&server, "POST /machines", json!({"name": name, "addresses": []}), 201, json!({}));
        server.listen_as(name);
    }
    let plan = |machines: &[&str]| json!({"type": "Reboot", "machines": machines});
    let both = json!({"type": "Reboot", "machines": ["a"], "hosts": ["h1"]});
    check(&server, "POST /rollouts", both, 409, json!({"error": {"code": "ConflictingTargets"}}));
    let rollout = check(&server, "POST /rollouts", plan(&["b", "a"]), 202, json!({"state": "Waiting"}));
    let step = |number: usize, key: &str| rollout["steps"][number][key].clone();
    assert_eq!((step(0, "machine"), step(0, "state")), (json!("b"), json!("InProgress")), "{rollout}");
    assert_eq!((step(1, "machine"), step(1, "state")), (json!("a"), json!("Pending")), "{rollout}");
    check(&server, "POST /rollouts", plan(&["a"]), 409, json!({"error": {"code": "GroupOwned"}}));
}

#[test]
fn the_operation_of_a_step_is_read_from_history_after_an_hour() {
    let server = Server::start();
    check(&server, "POST /machines", json!({"name": "a", "addresses": []}), 201, json!({}));
    let rollout = check(&server, "POST /rollouts", json!({"type": "Reboot", "machines": ["a"]}), 202, json!({}));
    let operation = rollout["steps"][0]["operation"].as_str().unwrap();
    check(&server, "POST /clock/advance", json!({"seconds": 3 * 3600}), 200, json!({}));
    check(&server, &format!("GET /operations/{operation}"), NONE, 200, json!({"state": "Succeeded"}));
}

#[test]
fn maintenance_of_a_group_is_a_rollout_with_the_id_of_its_operation() {
    let server = Server::start();
    let set = json!({"name": "set", "capacity": 2, "orchestration": "Uniform"});
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("set_0");
    let plan = json!({"target": {"group": "set"}, "type": "Freeze"});
    let operation = check(&server, "POST /maintenance", plan.clone(), 202, json!({"nextUpdateDomain": 1}));
    let id = operation["rollout"].as_str().unwrap();
    assert_eq!(operation["id"], id);
    let of_rollout = json!({"state": "Waiting", "operation": id, "pauseSeconds": 1800});
    let rollout = check(&server, &format!("GET /rollouts/{id}"), NONE, 200, of_rollout);
    assert_eq!((&rollout["maxFailures"], &rollout["maxUnavailable"]), (&Value::Null, &Value::Null), "{rollout}");
    let step = |number: usize| {
        let step = &rollout["steps"][number];
        (step["group"].clone(), step["updateDomain"].clone(), step["state"].clone())
    };
    assert_eq!(step(0), (json!("set"), json!(0), json!("InProgress")), "{rollout}");
    assert_eq!(step(1), (json!("set"), json!(1), json!("Pending")), "{rollout}");
    let refused = check(&server, "POST /maintenance", plan.clone(), 409, json!({"error": {"code": "GroupOwned"}}));
    assert!(refused["error"]["message"].as_str().unwrap().contains(id), "{refused}");
    let now = json!({"now": true});
    check(&server, &format!("POST /rollouts/{id}/pause"), now, 200, json!({"state": "Paused"}));
    let paused = check(&server, &format!("GET /operations/{id}"), NONE, 200, json!({"state": "Running"}));
    assert_eq!(paused["waitsFor"][0]["reason"], "Paused", "{paused}");
    check(&server, &format!("POST /rollouts/{id}/stop"), NONE, 200, json!({"state": "Stopped"}));
    check(&server, &format!("GET /operations/{id}"), NONE, 200, json!({"state": "Canceled"}));
    check(&server, "POST /maintenance", plan, 202, json!({}));
}

#[test]
fn later_steps_of_a_running_rollout_begin_when_they_are_expected_to() {
    let server = Server::start();
    let hosts = ["n1", "n2", "n3"];
    for host in hosts {
        let name = format!("{host}-vm");
        check(&server, "POST /machines", json!({"name": name, "host": host, "addresses": []}), 201, json!({}));
        server.listen_as(&name);
    }
    let plan = json!({"type": "Reboot", "hosts": hosts, "pauseSeconds": 300, "durationSeconds": 600});
    let rollout = check(&server, "POST /rollouts", plan, 202, json!({}));
    let path = format!("GET /rollouts/{}", rollout["id"].as_str().unwrap());
    let show = || check(&server, &path, NONE, 200, json!({}));
    let advance = |seconds: u64| check(&server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
    let before = show();
    assert_eq!(before["steps"][0]["expectedStart"], json!(null), "it has begun: {before}");
    assert_eq!(before["steps"][0]["expectedEnd"], "2026-03-01T12:25:00Z", "notice and impact: {before}");
    assert_eq!(before["steps"][1]["expectedStart"], "2026-03-01T12:30:00Z", "after the pause: {before}");
    assert_eq!(before["expectedEnd"], "2026-03-01T13:25:00Z", "{before}");
    // The impact has begun, and its expected end stays.
    advance(16 * 60);
    assert_eq!(show()["steps"][0]["expectedEnd"], before["steps"][0]["expectedEnd"]);
    // An approval brings everything after it forward.
    advance(14 * 60);
    let second = show();
    assert_eq!(second["steps"][1]["started"], before["steps"][1]["expectedStart"], "{second}");
    let operation = second["steps"][1]["operation"].as_str().unwrap();
    check(&server, &format!("POST /operations/{operation}/approve"), NONE, 200, json!({}));
    let approved = show();
    assert_eq!(approved["steps"][1]["expectedEnd"], "2026-03-01T12:40:00Z", "{approved}");
    assert_eq!(approved["expectedEnd"], "2026-03-01T13:10:00Z", "{approved}");
    let pause = path.replace("GET", "POST") + "/pause";
    check(&server, &pause, NONE, 200, json!({ "state": "Paused" }));
    let paused = show();
    assert_eq!(
        (&paused["expectedEnd"], &paused["steps"][2]["expectedStart"]),
        (&json!(null), &json!(null)),
        "{paused}"
    );
    let all = check(&server, "GET /rollouts", NONE, 200, json!({}));
    assert_eq!(all["value"][0]["steps"][1]["expectedEnd"], json!(null), "a list is not simulated");
}
