//! Scale sets in the ARM API, over real sockets with a manual clock: instances, actions, long-running operations and
//! limits.

use crate::api_support;
use crate::api_support::{NONE, Server, check};
use crate::arm_support;
use crate::arm_support::{
    advance, arm, check_status, event_of, events, instances, long, path, profile, raw, refused, server, set_body,
    status, vm_body,
};
use serde_json::{Value, json};

// --- scale sets ----------------------------------------------------------------------------------

#[test]
fn a_scale_set_is_created_and_its_instances_are_numbered() {
    let server = server();
    let shown = json!({
        "id": path("SET/su"), "sku": { "name": "Standard_D2s_v5", "capacity": 3 },
        "properties": { "orchestrationMode": "Uniform", "upgradePolicy": { "mode": "Automatic" }, "provisioningState": "Succeeded",
            "virtualMachineProfile": { "scheduledEventsProfile": profile("PT10M") } },
    });
    arm(&server, "PUT SET/su", set_body(3, "automatic", Some("PT10M")), 201, shown.clone());
    arm(&server, "GET SET/su", NONE, 200, shown.clone());
    arm(&server, "GET SET", NONE, 200, json!({ "value": [shown.clone()] }));
    arm(&server, "GET S/providers/Microsoft.Compute/virtualMachineScaleSets", NONE, 200, json!({ "value": [shown] }));
    assert_eq!(instances(&server, "su"), ["su_0", "su_1", "su_2"]);
    let one = json!({
        "id": path("SET/su/virtualMachines/1"), "name": "su_1", "instanceId": "1", "sku": { "name": "Standard_D2s_v5" },
        "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
        "properties": { "latestModelApplied": true, "provisioningState": "Succeeded" },
    });
    arm(&server, "GET SET/su/virtualMachines/1", NONE, 200, one);
    arm(&server, "GET SET/su/virtualMachines/1/instanceView", NONE, 200, json!({ "platformUpdateDomain": 1 }));
    let view = arm(&server, "GET SET/su/instanceView", NONE, 200, json!({}));
    assert_eq!(view["virtualMachine"]["statusesSummary"][0], json!({ "code": "PowerState/running", "count": 3 }));
    refused(&server, "GET SET/su/virtualMachines/9", NONE, 404, "ResourceNotFound");
    refused(&server, "GET VM/su_1", NONE, 404, "ResourceNotFound");
    check(&server, "GET /scale-sets/su", NONE, 200, json!({ "capacity": 3, "upgradeMode": "Automatic" }));
}

#[test]
fn a_scale_set_and_an_availability_set_can_share_a_name() {
    let server = server();
    arm(&server, "PUT AS/web", json!({ "location": "x" }), 200, json!({ "id": path("AS/web") }));
    arm(&server, "PUT SET/web", set_body(2, "Manual", None), 201, json!({ "id": path("SET/web") }));
    arm(&server, "PUT AS/web", json!({ "location": "x", "tags": { "a": "b" } }), 200, json!({ "tags": { "a": "b" } }));
    let tags = arm(&server, "GET SET/web", NONE, 200, json!({ "sku": { "capacity": 2 } }))["tags"].clone();
    assert_eq!(tags, json!({}));
    check(&server, "GET /scale-sets/web", NONE, 200, json!({ "capacity": 2 }));
    check(&server, "GET /availability-sets/rg~web", NONE, 200, json!({ "name": "web" }));
    // Where any group can be named, the type tells them apart.
    let rollout = |group: &str| json!({ "type": "Freeze", "groups": [group] });
    let message = api_support::refused(&server, "POST /rollouts", rollout("rg/web"), 409, "AmbiguousName");
    assert!(message.contains("availability-set:rg/web") && message.contains("scale-set:rg/web"), "{message}");
    check(&server, "POST /rollouts", rollout("scale-set:rg/web"), 202, json!({ "type": "Freeze" }));
    let updates = "SET/web/providers/Microsoft.Maintenance/applyUpdates/default";
    arm(&server, &format!("GET {updates}"), NONE, 200, json!({ "properties": { "status": "InProgress" } }));
    arm(&server, "DELETE AS/web", NONE, 200, NONE);
    refused(&server, "GET AS/web", NONE, 404, "ResourceNotFound");
    arm(&server, "GET SET/web", NONE, 200, json!({ "name": "web" }));
}

#[test]
fn instances_of_flexible_sets_are_machines_too() {
    let server = server();
    let mut body = set_body(2, "Manual", None);
    body["properties"]["orchestrationMode"] = json!("Flexible");
    arm(&server, "PUT SET/flex", body, 201, json!({ "properties": { "orchestrationMode": "Flexible" } }));
    let names = instances(&server, "flex");
    assert_eq!(names.len(), 2);
    let filter = format!("'virtualMachineScaleSet/id' eq '{}'", path("SET/flex")).replace(' ', "%20");
    arm(&server, "PUT VM/other", vm_body(), 201, json!({}));
    let listed = arm(
        &server,
        &format!("GET VM?$filter={filter}"),
        NONE,
        200,
        json!({ "value": [{ "name": names[0] }, { "name": names[1] }] }),
    );
    assert_eq!(listed["value"][0]["properties"]["virtualMachineScaleSet"]["id"], path("SET/flex"));
    arm(&server, &format!("GET SET/flex/virtualMachines/{}", names[0]), NONE, 200, json!({ "instanceId": names[0] }));
    arm(
        &server,
        &format!("PATCH VM/{}", names[0]),
        json!({ "tags": { "mine": "yes" } }),
        200,
        json!({ "tags": { "mine": "yes" } }),
    );
    check_status(&server, &long(&server, &format!("DELETE VM/{}", names[0]), NONE), "Succeeded");
    assert_eq!(instances(&server, "flex"), [names[1].clone()]);
    arm(&server, "GET SET/flex", NONE, 200, json!({ "sku": { "capacity": 1 } }));
}

#[test]
fn a_machine_created_in_a_flexible_set_is_one_of_its_instances() {
    let server = server();
    let mut body = set_body(1, "Manual", None);
    body["properties"]["orchestrationMode"] = json!("Flexible");
    arm(&server, "PUT SET/flex", body, 201, json!({}));
    let first = instances(&server, "flex").remove(0);
    let member = |set: &str| json!({ "virtualMachineScaleSet": { "id": path(set) } });
    let one = |properties: &Value| json!({ "location": "westeurope", "properties": properties });
    let shown = json!({ "properties": member("SET/flex") });
    arm(&server, "PUT VM/one", one(&member("SET/FLEX")), 201, shown.clone());
    arm(&server, "GET VM/one", NONE, 200, shown.clone());
    // The same body can be written again.
    arm(&server, "PUT VM/one", one(&member("SET/flex")), 200, shown.clone());
    arm(&server, "PATCH VM/one", json!({ "tags": { "a": "b" } }), 200, shown);
    assert_eq!(instances(&server, "flex"), [first.as_str(), "one"]);
    let instance = json!({ "instanceId": "one", "properties": { "latestModelApplied": true } });
    arm(&server, "GET SET/flex/virtualMachines/one", NONE, 200, instance);
    arm(&server, "GET SET/flex", NONE, 200, json!({ "sku": { "capacity": 2 } }));
    let filter = format!("'virtualMachineScaleSet/id' eq '{}'", path("SET/flex")).replace(' ', "%20");
    let listed = json!({ "value": [{ "name": first }, { "name": "one" }] });
    arm(&server, &format!("GET VM?$filter={filter}"), NONE, 200, listed);

    server.listen_as(&first);
    long(&server, "POST VM/one/restart", NONE);
    assert_eq!(events(&server, &first), [("Reboot".into(), "Scheduled".into(), vec!["one".to_owned()])]);
    check_status(&server, &long(&server, "DELETE VM/one", NONE), "Succeeded");
    arm(&server, "GET SET/flex", NONE, 200, json!({ "sku": { "capacity": 1 } }));
}

#[test]
fn a_machine_can_be_in_one_suitable_set_and_cannot_be_moved() {
    let server = server();
    arm(&server, "PUT SET/uniform", set_body(0, "Manual", None), 201, json!({}));
    let mut flexible = set_body(0, "Manual", None);
    flexible["properties"]["orchestrationMode"] = json!("Flexible");
    arm(&server, "PUT SET/flex", flexible, 201, json!({}));
    arm(&server, "PUT AS/as", json!({ "location": "westeurope" }), 200, json!({}));
    arm(&server, "PUT VM/alone", json!({ "location": "westeurope" }), 201, json!({}));
    let before = arm(&server, "GET VM/alone", NONE, 200, json!({}));
    let id = |short: &str| json!({ "id": path(short) });
    let both = json!({ "virtualMachineScaleSet": id("SET/flex"), "availabilitySet": id("AS/as") });
    for (line, properties, status, code) in [
        ("PUT VM/new", json!({ "virtualMachineScaleSet": id("SET/uniform") }), 409, "NotAFlexibleSet"),
        ("PUT VM/new", json!({ "virtualMachineScaleSet": id("SET/none") }), 404, "ResourceNotFound"),
        ("PUT VM/new", json!({ "virtualMachineScaleSet": id("AS/as") }), 404, "ResourceNotFound"),
        ("PUT VM/new", json!({ "availabilitySet": id("SET/flex") }), 404, "ResourceNotFound"),
        ("PUT VM/new", json!({ "virtualMachineScaleSet": { "id": "flex" } }), 400, "InvalidParameter"),
        ("PUT VM/new", both, 409, "OperationNotAllowed"),
        ("PUT VM/alone", json!({ "virtualMachineScaleSet": id("SET/flex") }), 409, "PropertyChangeNotAllowed"),
        ("PUT VM/alone", json!({ "availabilitySet": id("AS/as") }), 409, "PropertyChangeNotAllowed"),
    ] {
        refused(&server, line, json!({ "location": "westeurope", "properties": properties }), status, code);
    }
    refused(&server, "GET VM/new", NONE, 404, "ResourceNotFound");
    assert_eq!(arm(&server, "GET VM/alone", NONE, 200, json!({})), before);
}

#[test]
fn an_action_on_a_set_is_one_operation() {
    let server = server();
    // At most ten user operations can be waiting; instances are not counted.
    arm(&server, "PUT SET/su", set_body(12, "Manual", None), 201, json!({}));
    server.listen_as("su_0");
    for (deed, seconds) in [("restart", 1500), ("redeploy", 1200), ("performMaintenance", 1200)] {
        let operation = long(&server, &format!("POST SET/su/{deed}"), NONE);
        assert_eq!(events(&server, "su_0").len(), 12, "{deed}");
        let operations = check(&server, "GET /operations", NONE, 200, json!({}));
        let running = operations["value"].as_array().unwrap().iter().filter(|one| one["state"] == "Running");
        assert_eq!(running.count(), 1, "{deed}");
        let first = event_of(&server, "su_0", "su_7");
        server.approve_as("su_7", &first);
        check_status(&server, &operation, "InProgress");
        advance(&server, seconds);
        check_status(&server, &operation, "Succeeded");
    }
}

#[test]
fn scaling_merges_and_a_scale_in_runs_until_the_last_instance_is_deleted() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(2, "Automatic", Some("PT5M")), 201, json!({}));
    let scale =
        |capacity: u32| json!({ "location": "westeurope", "sku": { "name": "Standard_D2s_v5", "capacity": capacity } });
    arm(
        &server,
        "PUT SET/su",
        scale(4),
        200,
        json!({ "sku": { "capacity": 4 }, "properties": { "provisioningState": "Succeeded",
        "virtualMachineProfile": { "osProfile": { "computerNamePrefix": "su" } } } }),
    );
    assert_eq!(instances(&server, "su"), ["su_0", "su_1", "su_2", "su_3"]);
    server.listen_as("su_0");
    arm(
        &server,
        "PUT SET/su/virtualMachines/3",
        json!({ "properties": { "protectionPolicy": { "protectFromScaleIn": true } } }),
        200,
        json!({ "properties": { "protectionPolicy": { "protectFromScaleIn": true } } }),
    );
    let operation = long(&server, "PUT SET/su", scale(2));
    check_status(&server, &operation, "InProgress");
    arm(
        &server,
        "GET SET/su",
        NONE,
        200,
        json!({ "sku": { "capacity": 2 }, "properties": { "provisioningState": "Updating" } }),
    );
    arm(
        &server,
        "GET SET/su/virtualMachines/2",
        NONE,
        200,
        json!({ "properties": { "provisioningState": "Deleting" } }),
    );
    assert_eq!(events(&server, "su_0").iter().map(|event| event.2[0].as_str()).collect::<Vec<_>>(), ["su_2", "su_1"]);
    advance(&server, 300);
    check_status(&server, &operation, "Succeeded");
    assert_eq!(instances(&server, "su"), ["su_0", "su_3"]);
    arm(&server, "PUT SET/su", scale(3), 200, json!({}));
    assert_eq!(instances(&server, "su"), ["su_0", "su_3", "su_4"]);
}

#[test]
fn actions_on_a_set_apply_to_the_named_instances_or_to_all() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(3, "Manual", None), 201, json!({}));
    server.listen_as("su_0");
    let operation = long(&server, "POST SET/su/restart", json!({ "instanceIds": ["0", "2"] }));
    let reboots =
        |server: &Server| events(server, "su_1").into_iter().map(|event| event.2[0].clone()).collect::<Vec<_>>();
    assert_eq!(reboots(&server), ["su_0", "su_2"]);
    server.approve_as("su_0", &event_of(&server, "su_0", "su_0"));
    advance(&server, 600);
    assert_eq!(reboots(&server), ["su_2"]);
    check_status(&server, &operation, "InProgress");
    advance(&server, 900);
    check_status(&server, &operation, "Succeeded");
    advance(&server, 7200);
    check_status(&server, &operation, "Succeeded");

    check_status(
        &server,
        &long(&server, "POST SET/su/poweroff?skipShutdown=false", json!({ "instanceIds": ["*"] })),
        "Succeeded",
    );
    check(&server, "GET /machines/su_2", NONE, 200, json!({ "power": "Stopped" }));
    refused(&server, "POST SET/su/virtualMachines/2/restart", NONE, 409, "MachineNotRunning");
    check_status(&server, &long(&server, "POST SET/su/start", NONE), "Succeeded");
    check_status(&server, &long(&server, "POST SET/su/virtualMachines/2/deallocate", NONE), "Succeeded");
    check(&server, "GET /machines/su_2", NONE, 200, json!({ "power": "Deallocated" }));
    // "All" means all that the action applies to.
    let operation = long(&server, "POST SET/su/redeploy", NONE);
    assert_eq!(reboots(&server), ["su_0", "su_1"]);
    check_status(&server, &operation, "InProgress");
    check_status(&server, &long(&server, "POST SET/su/reimage", NONE), "Succeeded");
    check_status(&server, &long(&server, "POST SET/su/reimageall", json!({ "instanceIds": ["1"] })), "Succeeded");
    let operation = long(&server, "POST SET/su/performMaintenance", json!({ "instanceIds": ["1"] }));
    check_status(&server, &operation, "InProgress");
    refused(&server, "POST SET/su/restart", json!({ "instanceIds": ["7"] }), 400, "InvalidParameter");
    refused(&server, "POST SET/su/restart", json!({ "instanceIds": "all" }), 400, "InvalidParameter");
    refused(&server, "POST SET/su/delete", json!({}), 400, "InvalidParameter");
}

#[test]
fn a_set_and_a_resource_group_are_deleted_with_notice() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(2, "Automatic", Some("PT5M")), 201, json!({}));
    arm(&server, "PUT VM/one", vm_body(), 201, json!({}));
    arm(&server, "PUT NET/virtualNetworks/net", json!({ "location": "westeurope" }), 201, json!({}));
    server.listen_as("su_0");
    let operation = long(&server, "DELETE G", NONE);
    assert_eq!(events(&server, "su_0").len(), 2);
    check_status(&server, &operation, "InProgress");
    arm(&server, "GET G", NONE, 200, json!({ "properties": { "provisioningState": "Deleting" } }));
    arm(&server, "GET SET/su", NONE, 200, json!({ "properties": { "provisioningState": "Deleting" } }));
    refused(&server, "GET VM/one", NONE, 404, "ResourceNotFound");
    refused(&server, "GET NET/virtualNetworks/net", NONE, 404, "ResourceNotFound");
    advance(&server, 300);
    check_status(&server, &operation, "Succeeded");
    refused(&server, "GET SET/su", NONE, 404, "ResourceNotFound");
    refused(&server, "GET G", NONE, 404, "ResourceGroupNotFound");
}

// --- many, and again -----------------------------------------------------------------------------

#[test]
fn a_long_operation_survives_a_restart_of_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::kept_in(directory.path());
    arm_support::with_group(&server);
    arm(&server, "PUT SET/su", set_body(2, "Automatic", Some("PT5M")), 201, json!({}));
    server.listen_as("su_0");
    let restarts = long(&server, "POST SET/su/restart", NONE);
    let deletion = long(&server, "POST SET/su/delete", json!({ "instanceIds": ["1"] }));
    let before = arm(&server, "GET SET/su", NONE, 200, json!({}));
    server.stop();

    let server = Server::kept_in(directory.path());
    assert_eq!(arm(&server, "GET SET/su", NONE, 200, json!({})), before);
    check_status(&server, &restarts, "InProgress");
    check_status(&server, &deletion, "InProgress");
    advance(&server, 300);
    check_status(&server, &deletion, "Succeeded");
    assert_eq!(instances(&server, "su"), ["su_0"]);
    advance(&server, 7200);
    // The restart of the one that was deleted found nothing to do.
    let failed = status(&server, &restarts);
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("Failed"), &json!("ResourceGone")));
}

#[test]
fn a_scale_in_of_a_thousand_takes_few_commits() {
    let server = server();
    arm(&server, "PUT SET/su", set_body(1000, "Automatic", Some("PT5M")), 201, json!({}));
    server.listen_as("su_0");
    let commits = || {
        let metrics = raw(&server, "GET /metrics", &NONE).text();
        let line = metrics.lines().find(|line| line.starts_with("forewarn_commits_total ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let before = commits();
    let operation = long(&server, "PATCH SET/su", json!({ "sku": { "capacity": 0 } }));
    check_status(&server, &operation, "InProgress");
    assert_eq!(commits() - before, 1);
    advance(&server, 300);
    check_status(&server, &operation, "Succeeded");
    assert_eq!(instances(&server, "su").len(), 0);
    assert!(commits() - before < 10, "{}", commits() - before);
}
