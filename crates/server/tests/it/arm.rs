//! The ARM API over real sockets, with a memory store and a manual clock: resource groups, machines, availability sets and
//! long-running operations. Scale sets are in `arm_sets`.

use crate::api_support;
use crate::api_support::{NONE, Server, check};
use crate::arm_support;
use crate::arm_support::{
    advance, arm, check_status, event_of, events, long, path, profile, raw, refused, send, server, set_body, status,
    vm_body,
};
use serde_json::json;

// --- resource groups and what stands above them --------------------------------------------------

#[test]
fn a_resource_group_is_created_read_listed_and_deleted() {
    let server = server();
    let shown = json!({
        "id": path("G"), "name": "rg", "type": "Microsoft.Resources/resourceGroups", "location": "westeurope",
        "properties": { "provisioningState": "Succeeded" },
    });
    arm(&server, "GET G", NONE, 200, shown.clone());
    arm(&server, "GET S/resourcegroups", NONE, 200, json!({ "value": [shown] }));
    assert_eq!(send(&server, "HEAD G", &NONE).status, 204);
    arm(
        &server,
        "PUT G",
        json!({ "location": "West Europe", "tags": { "a": "b" } }),
        200,
        json!({ "tags": { "a": "b" } }),
    );
    arm(&server, "PATCH G", json!({ "tags": { "c": "d" } }), 200, json!({ "tags": { "c": "d" } }));
    refused(&server, "PUT G", json!({ "location": "elsewhere" }), 409, "PropertyChangeNotAllowed");
    let operation = long(&server, "DELETE G", NONE);
    check_status(&server, &operation, "Succeeded");
    assert_eq!(send(&server, "HEAD G", &NONE).status, 404);
    refused(&server, "GET G", NONE, 404, "ResourceGroupNotFound");
    refused(&server, "DELETE G", NONE, 404, "ResourceGroupNotFound");
    refused(&server, "PUT VM/one", vm_body(), 404, "ResourceGroupNotFound");
}

#[test]
fn lists_page() {
    let server = Server::start();
    for name in ["a", "b", "c"] {
        let line = format!("PUT S/resourceGroups/{name}");
        arm(&server, &line, json!({ "location": "x" }), 201, json!({}));
    }
    let first =
        arm(&server, "GET S/resourceGroups?$top=2", NONE, 200, json!({ "value": [{ "name": "a" }, { "name": "b" }] }));
    let next = first["nextLink"].as_str().unwrap().replace(&format!("http://{}", server.management), "");
    let second = raw(&server, &format!("GET {next}"), &NONE).json();
    assert_eq!(second["value"].as_array().unwrap().len(), 1);
    assert_eq!((&second["value"][0]["name"], second.get("nextLink")), (&json!("c"), None));
}

#[test]
fn subscriptions_tenants_locations_and_providers_are_listed() {
    let server = server();
    let list = arm(&server, "GET T/subscriptions", NONE, 200, json!({}));
    let ids: Vec<_> =
        list["value"].as_array().unwrap().iter().map(|it| it["subscriptionId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["00000000-0000-0000-0000-000000000000", arm_support::SUBSCRIPTION]);
    arm(&server, "GET S", NONE, 200, json!({ "subscriptionId": arm_support::SUBSCRIPTION, "state": "Enabled" }));
    let tenants = arm(&server, "GET T/tenants", NONE, 200, json!({}));
    assert_eq!(tenants["value"].as_array().unwrap().len(), 1);
    arm(&server, "GET S/locations", NONE, 200, json!({}));
    arm(&server, "GET S/providers/Microsoft.Compute", NONE, 200, json!({ "namespace": "Microsoft.Compute" }));
    let image = "S/providers/Microsoft.Compute/locations/westeurope/publishers/Canonical/artifacttypes/vmimage/offers/UbuntuServer/skus/18.04-LTS/versions";
    let versions = arm(
        &server,
        &format!("GET {image}?$top=1&$orderby=name desc").replace(' ', "%20").replacen("%20", " ", 1),
        NONE,
        200,
        json!([{}]),
    );
    let version = versions[0]["name"].as_str().unwrap();
    arm(&server, &format!("GET {image}/{version}"), NONE, 200, json!({ "name": version }));
    let skus = arm(&server, "GET S/providers/Microsoft.Compute/skus", NONE, 200, json!({}));
    for sku in skus["value"].as_array().unwrap() {
        assert!(sku["locations"].as_array().unwrap().contains(&json!("westeurope")), "{sku}");
    }
}

// --- virtual machines ----------------------------------------------------------------------------

#[test]
fn a_machine_is_created_changed_found_by_the_native_api_and_deleted() {
    let server = server();
    let shown = json!({
        "id": path("VM/One"), "name": "One", "type": "Microsoft.Compute/virtualMachines", "location": "westeurope",
        "tags": { "team": "blue" },
        "properties": { "provisioningState": "Succeeded", "hardwareProfile": { "vmSize": "Standard_D4s_v5" },
            "osProfile": { "computerName": "one" }, "timeCreated": api_support::START },
    });
    let made = arm(&server, "PUT VM/One", vm_body(), 201, shown.clone());
    assert_eq!(made.pointer("/properties/osProfile/adminPassword"), None, "passwords are not kept");
    let again = arm(&server, "PUT VM/ONE", json!({ "location": "westeurope" }), 200, shown.clone());
    assert_eq!(again["properties"]["vmId"], made["properties"]["vmId"]);
    arm(&server, "GET VM/one", NONE, 200, shown.clone());
    arm(&server, "GET VM", NONE, 200, json!({ "value": [shown.clone()] }));
    arm(&server, "GET S/providers/Microsoft.Compute/virtualMachines", NONE, 200, json!({ "value": [shown] }));
    let native = check(
        &server,
        "GET /machines/One",
        NONE,
        200,
        json!({
            "resourceGroup": "rg", "subscription": arm_support::SUBSCRIPTION, "power": "Running",
            "details": { "size": "Standard_D4s_v5", "location": "westeurope", "computerName": "one", "osType": "Linux" },
            "tags": { "team": "blue" },
        }),
    );
    assert_eq!(native["addresses"].as_array().unwrap().len(), 1, "it has an address from the pool");

    arm(&server, "PATCH VM/one", json!({ "tags": { "team": "red" } }), 200, json!({ "tags": { "team": "red" } }));
    check(&server, "PATCH /machines/One", json!({ "details": { "size": "Big" } }), 200, json!({}));
    arm(
        &server,
        "GET VM/one",
        NONE,
        200,
        json!({ "properties": { "hardwareProfile": { "vmSize": "Big" } }, "tags": { "team": "red" } }),
    );
    refused(&server, "PATCH VM/one", json!({ "location": "elsewhere" }), 409, "PropertyChangeNotAllowed");
    refused(&server, "PATCH VM/one", json!({ "properties": { "priority": "Spot" } }), 409, "PropertyChangeNotAllowed");
    refused(&server, "PATCH VM/two", json!({}), 404, "ResourceNotFound");

    let operation = long(&server, "DELETE VM/one", NONE);
    check_status(&server, &operation, "Succeeded");
    refused(&server, "GET VM/one", NONE, 404, "ResourceNotFound");
    assert_eq!(send(&server, "DELETE VM/one", &NONE).status, 204);
}

#[test]
fn a_machine_of_the_native_api_is_visible_and_can_be_changed() {
    let server = Server::start();
    check(&server, "POST /machines", json!({ "name": "web-1", "resourceGroup": "Here" }), 201, json!({}));
    let group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourcegroups/HERE";
    let url = format!("{group}/providers/Microsoft.Compute/virtualMachines/web-1?api-version=2024-11-01");
    let shown = raw(&server, &format!("GET {url}"), &NONE).json();
    assert_eq!((&shown["name"], &shown["location"]), (&json!("web-1"), &json!("local")), "{shown}");
    let found = raw(&server, &format!("GET {group}?api-version=2024-11-01"), &NONE).json();
    assert_eq!((&found["name"], &found["properties"]["provisioningState"]), (&json!("Here"), &json!("Succeeded")));
    let answer =
        raw(&server, &format!("PATCH {url}"), &json!({ "properties": { "scheduledEventsProfile": profile("PT7M") } }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    check(
        &server,
        "GET /machines/web-1",
        NONE,
        200,
        json!({ "terminateNotification": { "notBeforeTimeout": "PT7M" } }),
    );
}

#[test]
fn a_restart_runs_until_its_event_ends() {
    let server = server();
    arm(&server, "PUT VM/one", vm_body(), 201, json!({}));
    server.listen_as("one");
    let operation = long(&server, "POST VM/one/restart", NONE);
    check_status(&server, &operation, "InProgress");
    assert_eq!(events(&server, "one"), [("Reboot".into(), "Scheduled".into(), vec!["one".into()])]);
    arm(&server, "GET VM/one", NONE, 200, json!({ "properties": { "provisioningState": "Updating" } }));
    // A change of a tag does not wait for the restart.
    arm(
        &server,
        "PATCH VM/one",
        json!({ "tags": {} }),
        200,
        json!({ "properties": { "provisioningState": "Succeeded" } }),
    );
    server.approve_as("one", &event_of(&server, "one", "one"));
    check_status(&server, &operation, "InProgress");
    advance(&server, 600);
    let done = status(&server, &operation);
    assert_eq!((&done["status"], &done["startTime"]), (&json!("Succeeded"), &json!(api_support::START)));
    assert_eq!(done["endTime"], "2026-03-01T12:10:00Z");
    assert!(operation.contains(done["name"].as_str().unwrap()));
    advance(&server, 7200);
    check_status(&server, &operation, "Succeeded");
}

#[test]
fn a_redeploy_without_approval_starts_at_its_not_before_time() {
    let server = server();
    arm(&server, "PUT VM/one", vm_body(), 201, json!({}));
    server.listen_as("one");
    let operation = long(&server, "POST VM/one/redeploy", NONE);
    advance(&server, 599);
    assert_eq!(events(&server, "one")[0].1, "Scheduled");
    advance(&server, 1);
    assert_eq!(events(&server, "one"), [("Redeploy".into(), "Started".into(), vec!["one".into()])]);
    check_status(&server, &operation, "InProgress");
    advance(&server, 600);
    check_status(&server, &operation, "Succeeded");
}

#[test]
fn a_canceled_operation_fails_with_a_reason() {
    let server = server();
    arm(&server, "PUT VM/one", vm_body(), 201, json!({}));
    server.listen_as("one");
    let operation = long(&server, "POST VM/one/performMaintenance", NONE);
    assert_eq!(events(&server, "one")[0].0, "Redeploy");
    let id = status(&server, &operation)["name"].as_str().unwrap().to_owned();
    check(&server, &format!("POST /operations/{id}/cancel"), NONE, 200, json!({ "state": "Canceled" }));
    for seconds in [0, 7200] {
        advance(&server, seconds);
        let failed = status(&server, &operation);
        assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("Failed"), &json!("OperationCanceled")));
        assert_eq!(failed["error"]["message"], "The operation was canceled by 'owner'.");
    }
}

#[test]
fn power_changes_at_once_and_is_in_the_instance_view() {
    let server = server();
    arm(&server, "PUT VM/one", vm_body(), 201, json!({}));
    for (action, code) in [
        ("powerOff?skipShutdown=false", "PowerState/stopped"),
        ("deallocate", "PowerState/deallocated"),
        ("start", "PowerState/running"),
        ("reimage", "PowerState/running"),
    ] {
        let operation = long(&server, &format!("POST VM/one/{action}"), NONE);
        check_status(&server, &operation, "Succeeded");
        let view = arm(&server, "GET VM/one/instanceView", NONE, 200, json!({}));
        assert_eq!(view["statuses"][1]["code"], code);
        let expanded = arm(&server, "GET VM/one?$expand=instanceView", NONE, 200, json!({}));
        assert_eq!(expanded["properties"]["instanceView"], view);
    }
    assert_eq!(arm(&server, "GET VM/one", NONE, 200, json!({}))["properties"].get("instanceView"), None);
    long(&server, "POST VM/one/deallocate", NONE);
    refused(&server, "POST VM/one/restart", NONE, 409, "MachineNotRunning");
}

#[test]
fn a_spot_machine_is_evicted() {
    let server = server();
    let mut body = vm_body();
    body["properties"]["priority"] = json!("Spot");
    body["properties"]["evictionPolicy"] = json!("Delete");
    arm(
        &server,
        "PUT VM/spot",
        body.clone(),
        201,
        json!({ "properties": { "priority": "Spot", "evictionPolicy": "Delete" } }),
    );
    server.listen_as("spot");
    assert_eq!(send(&server, "POST VM/spot/simulateEviction", &NONE).status, 204);
    assert_eq!(events(&server, "spot")[0].0, "Preempt");
    advance(&server, 30);
    refused(&server, "GET VM/spot", NONE, 404, "ResourceNotFound");
    body["properties"]["scheduledEventsProfile"] = profile("PT5M");
    refused(&server, "PUT VM/spot", body, 409, "TerminateNotificationOnSpot");
    arm(&server, "PUT VM/plain", vm_body(), 201, json!({}));
    refused(&server, "POST VM/plain/simulateEviction", NONE, 409, "NotSpot");
}

#[test]
fn an_assigned_identity_is_shown() {
    let server = server();
    let mut body = vm_body();
    body["identity"] = json!({ "type": "SystemAssigned" });
    let made = arm(&server, "PUT VM/one", body, 201, json!({ "identity": { "type": "SystemAssigned" } }));
    let principal = made["identity"]["principalId"].as_str().unwrap();
    arm(&server, "PATCH VM/one", json!({ "tags": {} }), 200, json!({ "identity": { "principalId": principal } }));
    let without = arm(&server, "PATCH VM/one", json!({ "identity": { "type": "None" } }), 200, json!({}));
    assert_eq!(without["identity"].get("principalId"), None);
}

// --- availability sets ---------------------------------------------------------------------------

#[test]
fn an_availability_set_spreads_its_machines_and_can_be_deleted_when_empty() {
    let server = server();
    let body = json!({ "location": "westeurope", "sku": { "name": "Aligned" }, "properties": {
        "platformUpdateDomainCount": 2, "platformFaultDomainCount": 2,
        "scheduledEventsPolicy": { "userInitiatedReboot": { "automaticallyApprove": true } } } });
    let shown = json!({ "name": "set", "type": "Microsoft.Compute/availabilitySets", "sku": { "name": "Aligned" },
        "properties": { "platformUpdateDomainCount": 2, "scheduledEventsPolicy": { "userInitiatedReboot": { "automaticallyApprove": true } } } });
    arm(&server, "PUT AS/set", body, 200, shown.clone());
    arm(&server, "GET AS", NONE, 200, json!({ "value": [shown] }));
    refused(
        &server,
        "PUT AS/set",
        json!({ "properties": { "platformUpdateDomainCount": 3 } }),
        409,
        "PropertyChangeNotAllowed",
    );
    for (name, domain) in [("a", 0), ("b", 1), ("c", 0)] {
        let mut body = vm_body();
        body["properties"]["availabilitySet"] = json!({ "id": path("AS/SET") });
        arm(
            &server,
            &format!("PUT VM/{name}"),
            body,
            201,
            json!({ "properties": { "availabilitySet": { "id": path("AS/set") } } }),
        );
        arm(&server, &format!("GET VM/{name}/instanceView"), NONE, 200, json!({ "platformUpdateDomain": domain }));
    }
    let members = arm(&server, "GET AS/set", NONE, 200, json!({}));
    assert_eq!(members["properties"]["virtualMachines"].as_array().unwrap().len(), 3);
    // The set's policy approves: the first sight of the restart is Started.
    server.listen_as("a");
    long(&server, "POST VM/a/restart", NONE);
    assert_eq!(events(&server, "b"), [("Reboot".into(), "Started".into(), vec!["a".into()])]);
    refused(&server, "DELETE AS/set", NONE, 409, "OperationNotAllowed");
    for name in ["a", "b", "c"] {
        long(&server, &format!("DELETE VM/{name}"), NONE);
    }
    assert_eq!(send(&server, "DELETE AS/set", &NONE).status, 200);
    assert_eq!(send(&server, "DELETE AS/set", &NONE).status, 204);
    let mut body = vm_body();
    body["properties"]["availabilitySet"] = json!({ "id": path("AS/set") });
    refused(&server, "PUT VM/late", body, 404, "ResourceNotFound");
}

#[test]
fn concurrent_changes_of_a_network_interface_lose_nothing() {
    let server = server();
    for n in 0..40 {
        let (card, machine) = (format!("NET/networkInterfaces/card{n}"), format!("VM/vm{n}"));
        arm(&server, &format!("PUT {card}"), json!({ "location": "westeurope" }), 201, json!({}));
        let cards = json!([{ "id": path(&card) }]);
        let body =
            json!({ "location": "westeurope", "properties": { "networkProfile": { "networkInterfaces": cards } } });
        std::thread::scope(|scope| {
            scope.spawn(|| arm(&server, &format!("PUT {machine}"), body.clone(), 201, json!({})));
            scope.spawn(|| arm(&server, &format!("PATCH {card}"), json!({ "tags": { "a": "b" } }), 200, json!({})));
        });
        let both = json!({ "tags": { "a": "b" }, "properties": { "virtualMachine": { "id": path(&machine) } } });
        arm(&server, &format!("GET {card}"), NONE, 200, both);
    }
}

#[test]
fn a_machine_that_is_off_has_no_handler() {
    let server = server();
    for (machine, action, power) in [("one", "deallocate", "Deallocated"), ("two", "powerOff", "Stopped")] {
        arm(&server, &format!("PUT VM/{machine}"), json!({ "location": "x" }), 201, json!({}));
        long(&server, &format!("POST VM/{machine}/{action}"), NONE);
        server.document(machine);
        let shown = format!("GET /machines/{machine}");
        check(&server, &shown, NONE, 200, json!({ "power": power, "handlerConnected": false }));
        long(&server, &format!("POST VM/{machine}/start"), NONE);
        server.document(machine);
        check(&server, &shown, NONE, 200, json!({ "power": "Running", "handlerConnected": true }));
    }
}

#[test]
fn instance_metadata_shows_what_the_machine_was_given() {
    let server = server();
    let body = json!({ "location": "x", "tags": { "a": "b" }, "properties": {
        "userData": "c2g=",
        "storageProfile": { "dataDisks": [{ "lun": 3, "name": "data", "diskSizeGB": 64, "createOption": "Empty" }] },
        "osProfile": { "computerName": "one", "adminUsername": "me", "adminPassword": "secret", "linuxConfiguration": {
            "disablePasswordAuthentication": true,
            "ssh": { "publicKeys": [{ "path": "/home/me/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA" }] } } } } });
    arm(&server, "PUT VM/one", body, 201, json!({}));
    let compute = server.instance("one", "/compute");
    assert_eq!(compute["osProfile"]["adminUsername"], "me", "{compute}");
    assert_eq!(compute["osProfile"]["disablePasswordAuthentication"], "true", "{compute}");
    let keys = json!([{ "keyData": "ssh-rsa AAAA", "path": "/home/me/.ssh/authorized_keys" }]);
    assert_eq!(compute["publicKeys"], keys, "{compute}");
    let disk = &compute["storageProfile"]["dataDisks"][0];
    assert_eq!(
        (&disk["lun"], &disk["name"], &disk["diskSizeGB"]),
        (&json!("3"), &json!("data"), &json!("64")),
        "{disk}"
    );
    assert_eq!((&compute["userData"], &compute["tags"]), (&json!("c2g="), &json!("a:b")));
    let mut set = set_body(1, "Manual", None);
    set["properties"]["virtualMachineProfile"]["osProfile"] = json!({ "adminUsername": "we" });
    arm(&server, "PUT SET/su", set, 201, json!({}));
    assert_eq!(server.instance("su_0", "/compute")["osProfile"]["adminUsername"], "we");
}
