//! Deployments of templates like those that clients send, and network resources.

use crate::api_support::{NONE, Server, check};
use crate::arm_support;
use crate::arm_support::{advance, arm, check_status, instances, long, path, profile, refused, send, server};
use serde_json::{Value, json};

fn template(resources: Value, outputs: Value) -> Value {
    json!({ "properties": { "mode": "incremental", "parameters": {}, "template": {
        "$schema": "https://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0", "parameters": {}, "variables": {}, "resources": resources, "outputs": outputs } } })
}

/// Deploys a template and returns the status URL.
#[track_caller]
fn deploy(server: &Server, name: &str, body: Value) -> String {
    let answer = send(server, &format!("PUT DEP/{name}"), &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["properties"]["provisioningState"], "Accepted");
    let url = answer.header("azure-asyncoperation").unwrap();
    url.replace(&format!("http://{}", server.management), "")
}

fn set(name: &str, capacity: u32) -> Value {
    json!({
        "type": "Microsoft.Compute/virtualMachineScaleSets", "apiVersion": "2026-04-01", "name": name, "location": "westeurope",
        "sku": { "name": "Standard_D2s_v5", "capacity": capacity },
        "dependsOn": [format!("Microsoft.Network/virtualNetworks/{name}VNET"), format!("[concat('Microsoft.Network/loadBalancers/', '{name}LB')]")],
        "properties": { "orchestrationMode": "Flexible", "platformFaultDomainCount": 1, "upgradePolicy": { "mode": "manual" },
            "singlePlacementGroup": null, "virtualMachineProfile": {
                "osProfile": { "computerNamePrefix": "ss", "adminUsername": "me", "adminPassword": "[parameters('adminPassword')]" },
                "scheduledEventsProfile": { "terminateNotificationProfile": { "notBeforeTimeout": "PT10M", "enable": "true" } } } },
    })
}

/// A short form of the template that `az vmss create --terminate-notification-time 10` sends.
fn set_template(capacity: u32) -> Value {
    let mut body = template(
        json!([
            { "type": "Microsoft.Network/virtualNetworks", "apiVersion": "2015-06-15", "name": "ssVNET", "location": "westeurope",
              "dependsOn": [], "properties": { "addressSpace": { "addressPrefixes": ["10.0.0.0/16"] } } },
            { "type": "Microsoft.Network/loadBalancers", "apiVersion": "2022-01-01", "name": "ssLB", "location": "westeurope",
              "dependsOn": [], "properties": {} },
            { "type": "Microsoft.Network/loadBalancers/inboundNatRules", "apiVersion": "2022-01-01", "name": "ssLB/NatRule",
              "location": "westeurope", "dependsOn": ["[concat('Microsoft.Network/loadBalancers/', 'ssLB')]"], "properties": {} },
            set("ss", capacity),
        ]),
        json!({ "VMSS": { "type": "object", "value":
            "[reference(resourceId('Microsoft.Compute/virtualMachineScaleSets', 'ss'),providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0])]" } }),
    );
    body["properties"]["template"]["parameters"] = json!({ "adminPassword": { "type": "securestring" } });
    body["properties"]["parameters"] = json!({ "adminPassword": { "value": "hush-hush" } });
    body
}

#[test]
fn a_scale_set_is_deployed_with_its_dependencies() {
    let server = server();
    let status = deploy(&server, "vmss_deploy_1", set_template(2));
    check_status(&server, &status, "Succeeded");
    let shown = arm(
        &server,
        "GET DEP/vmss_deploy_1",
        NONE,
        200,
        json!({ "name": "vmss_deploy_1", "properties": {
        "provisioningState": "Succeeded",
        "outputs": { "VMSS": { "type": "Object", "value": { "orchestrationMode": "Flexible", "provisioningState": "Succeeded" } } } } }),
    );
    assert_eq!(shown["properties"]["outputResources"].as_array().unwrap().len(), 4);
    assert!(!shown.to_string().contains("hush-hush"));
    assert_eq!(instances(&server, "ss").len(), 2);
    arm(
        &server,
        "GET SET/ss",
        NONE,
        200,
        json!({ "properties": { "virtualMachineProfile": { "scheduledEventsProfile": profile("PT10M") } } }),
    );
    arm(&server, "GET NET/loadBalancers/ssLB/inboundNatRules/NatRule", NONE, 200, json!({ "name": "NatRule" }));
    arm(&server, "GET DEP", NONE, 200, json!({ "value": [{ "name": "vmss_deploy_1" }] }));
    // A second deployment merges.
    let answer = send(&server, "PUT DEP/vmss_deploy_1", &set_template(2));
    assert_eq!(answer.status, 200);
    assert_eq!(instances(&server, "ss").len(), 2);
}

#[test]
fn a_deployment_runs_until_its_operations_finish() {
    let server = server();
    deploy(&server, "one", set_template(2));
    server.listen_as(&instances(&server, "ss")[0]);
    let status = deploy(&server, "two", set_template(1));
    check_status(&server, &status, "InProgress");
    arm(&server, "GET DEP/two", NONE, 200, json!({ "properties": { "provisioningState": "Running" } }));
    advance(&server, 600);
    check_status(&server, &status, "Succeeded");
    assert_eq!(instances(&server, "ss").len(), 1);
}

#[test]
fn a_copy_loop_creates_machines_and_their_interfaces_show_addresses() {
    let server = server();
    let copy = json!({ "name": "vmcopy", "mode": "parallel", "count": 3 });
    let card = json!({
        "type": "Microsoft.Network/networkInterfaces", "apiVersion": "2015-06-15", "name": "[concat('vmVMNic', copyIndex())]",
        "location": "westeurope", "copy": { "name": "niccopy", "mode": "parallel", "count": 3 }, "dependsOn": [],
        "properties": { "ipConfigurations": [{ "name": "ipconfig", "properties": { "privateIPAllocationMethod": "Dynamic" } }] },
    });
    let machine = json!({
        "type": "Microsoft.Compute/virtualMachines", "apiVersion": "2024-11-01", "name": "[concat('vm', copyIndex())]",
        "location": "westeurope", "copy": copy, "dependsOn": ["niccopy"], "tags": {},
        "properties": { "hardwareProfile": { "vmSize": "Standard_D2s_v5" }, "networkProfile": { "networkInterfaces": [
            { "id": "[resourceId('Microsoft.Network/networkInterfaces', concat('vmVMNic', copyIndex()))]" }] } },
    });
    let status = deploy(&server, "vm_deploy", template(json!([card, machine]), json!({})));
    check_status(&server, &status, "Succeeded");
    let list = arm(
        &server,
        "GET VM",
        NONE,
        200,
        json!({ "value": [{ "name": "vm0" }, { "name": "vm1" }, { "name": "vm2" }] }),
    );
    assert_eq!(
        list["value"][1]["properties"]["networkProfile"]["networkInterfaces"][0]["id"],
        path("NET/networkInterfaces/vmVMNic1")
    );
    let native = check(&server, "GET /machines/vm1", NONE, 200, json!({}));
    let card = arm(
        &server,
        "GET NET/networkInterfaces/vmVMNic1",
        NONE,
        200,
        json!({ "properties": { "virtualMachine": { "id": path("VM/vm1") } } }),
    );
    assert_eq!(
        card["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"],
        native["addresses"][0]["ip"]
    );
    assert_eq!(card["properties"]["macAddress"].as_str().unwrap().len(), 17);
    long(&server, "DELETE VM/vm1", NONE);
    let card = arm(&server, "GET NET/networkInterfaces/vmVMNic1", NONE, 200, json!({}));
    assert_eq!(card["properties"].get("virtualMachine"), None);
}

#[test]
fn an_invalid_template_creates_nothing_and_reports_it_later() {
    let server = server();
    let network = json!({ "type": "Microsoft.Network/virtualNetworks", "apiVersion": "2022-01-01", "name": "net", "location": "x" });
    let of_type = |kind: &str| json!({ "type": kind, "apiVersion": "2022-01-01", "name": "other", "location": "x" });
    let mut function = network.clone();
    function["name"] = json!("[conjure('x')]");
    let mut complete = template(json!([network]), json!({}));
    complete["properties"]["mode"] = json!("Complete");
    for (n, (body, word)) in [
        (
            template(json!([network, of_type("Microsoft.Storage/storageAccounts")]), json!({})),
            "Microsoft.Storage/storageAccounts",
        ),
        (template(json!([network, function]), json!({})), "conjure"),
        (complete, "Complete"),
        (json!({ "properties": {} }), "template"),
        (json!({}), "properties"),
    ]
    .into_iter()
    .enumerate()
    {
        let status = deploy(&server, &format!("bad{n}"), body);
        let failed = arm_support::status(&server, &status);
        assert_eq!(failed["status"], "Failed");
        assert_eq!(failed["error"]["code"], "InvalidTemplate");
        assert!(failed["error"]["message"].as_str().unwrap().contains(word), "{failed}");
        arm(
            &server,
            &format!("GET DEP/bad{n}"),
            NONE,
            200,
            json!({ "properties": { "provisioningState": "Failed", "error": { "code": "InvalidTemplate" } } }),
        );
    }
    arm(&server, "GET NET/virtualNetworks", NONE, 200, json!({ "value": [] }));
}

#[test]
fn a_rejection_stops_a_deployment() {
    let server = server();
    let mut body = set_template(1);
    body["properties"]["template"]["resources"][3]["properties"]["virtualMachineProfile"]["scheduledEventsProfile"]["terminateNotificationProfile"]
        ["notBeforeTimeout"] = json!("PT30M");
    let status = deploy(&server, "late", body);
    let failed = arm_support::status(&server, &status);
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("Failed"), &json!("DeploymentFailed")));
    assert_eq!(failed["error"]["details"][0]["code"], "InvalidTerminateNotification");
    assert!(failed["error"]["message"].as_str().unwrap().contains("PT5M to PT15M"));
    arm(&server, "GET NET/virtualNetworks", NONE, 200, json!({ "value": [{ "name": "ssVNET" }] }));
    refused(&server, "GET SET/ss", NONE, 404, "ResourceNotFound");
}

#[test]
fn the_oldest_deployments_are_dropped() {
    let server = server();
    for n in 0..102 {
        advance(&server, 1);
        deploy(&server, &format!("d{n}"), template(json!([]), json!({})));
    }
    let list = arm(&server, "GET DEP", NONE, 200, json!({}));
    assert_eq!(list["value"].as_array().unwrap().len(), 100);
    refused(&server, "GET DEP/d1", NONE, 404, "DeploymentNotFound");
    arm(&server, "GET DEP/d2", NONE, 200, json!({}));
    check_status(&server, &long(&server, "DELETE DEP/d2", NONE), "Succeeded");
    refused(&server, "GET DEP/d2", NONE, 404, "DeploymentNotFound");
}

#[test]
fn network_resources_are_stored_and_returned() {
    let server = server();
    let body = json!({ "location": "westeurope", "tags": { "a": "b" }, "properties": { "addressSpace": { "addressPrefixes": ["10.0.0.0/16"] } } });
    let shown = json!({ "id": path("NET/virtualNetworks/Net"), "name": "Net", "type": "Microsoft.Network/virtualNetworks",
        "properties": { "provisioningState": "Succeeded", "addressSpace": { "addressPrefixes": ["10.0.0.0/16"] } } });
    arm(&server, "PUT NET/virtualnetworks/Net", body, 201, shown.clone());
    arm(&server, "GET NET/virtualNetworks/net", NONE, 200, json!({ "tags": { "a": "b" } }));
    arm(
        &server,
        "PUT NET/virtualNetworks/net/subnets/inner",
        json!({ "properties": { "addressPrefix": "10.0.0.0/24" } }),
        201,
        json!({ "name": "inner" }),
    );
    arm(&server, "GET NET/virtualNetworks/net/subnets", NONE, 200, json!({ "value": [{ "name": "inner" }] }));
    let list = arm(&server, "GET NET/virtualNetworks", NONE, 200, json!({}));
    assert_eq!(list["value"].as_array().unwrap().len(), 1, "{list}");
    let all = arm(&server, "GET S/providers/Microsoft.Network/virtualNetworks", NONE, 200, json!({}));
    assert_eq!(all["value"].as_array().unwrap().len(), 1, "{all}");
    arm(
        &server,
        "PATCH NET/virtualNetworks/net",
        json!({ "tags": { "c": "d" } }),
        200,
        json!({ "tags": { "c": "d" } }),
    );
    refused(&server, "PUT NET/virtualNetworks/none/subnets/inner", json!({}), 404, "ResourceNotFound");
    refused(&server, "PUT NET/virtualNetworks/new", json!({}), 400, "InvalidParameter");
    refused(&server, "PUT NET/applicationGateways/new", json!({ "location": "x" }), 404, "InvalidResourceType");
    assert_eq!(send(&server, "DELETE NET/virtualNetworks/NET", &NONE).status, 200);
    assert_eq!(send(&server, "DELETE NET/virtualNetworks/net", &NONE).status, 204);
    refused(&server, "GET NET/virtualNetworks/net/subnets/inner", NONE, 404, "ResourceNotFound");
}

#[test]
fn a_network_lists_its_subnets_however_they_were_created() {
    let server = server();
    let net = json!({ "location": "x", "properties": { "subnets": [{ "name": "a", "properties": { "addressPrefix": "10.0.1.0/24" } }] } });
    let created = arm(&server, "PUT NET/virtualNetworks/net", net.clone(), 201, json!({}));
    assert_eq!(created["properties"]["subnets"][0]["name"], "a", "{created}");
    arm(
        &server,
        "GET NET/virtualNetworks/net/subnets/a",
        NONE,
        200,
        json!({ "properties": { "addressPrefix": "10.0.1.0/24" } }),
    );
    arm(&server, "PUT NET/virtualNetworks/net/subnets/b", json!({ "properties": {} }), 201, json!({ "name": "b" }));
    let names = |net: &Value| -> Vec<String> {
        let subnets = net["properties"]["subnets"].as_array().unwrap();
        subnets.iter().map(|subnet| subnet["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = arm(&server, "GET NET/virtualNetworks/net", NONE, 200, json!({}));
    assert_eq!(names(&found), ["a", "b"]);
    assert_eq!(found["properties"]["subnets"][1]["properties"]["provisioningState"], "Succeeded", "{found}");
    let list = arm(&server, "GET NET/virtualNetworks", NONE, 200, json!({}));
    assert_eq!(names(&list["value"][0]), ["a", "b"]);
    arm(&server, "PATCH NET/virtualNetworks/net", json!({ "tags": {} }), 200, json!({}));
    assert_eq!(names(&arm(&server, "GET NET/virtualNetworks/net", NONE, 200, json!({}))), ["a", "b"]);
    arm(&server, "PUT NET/virtualNetworks/net", net, 200, json!({}));
    assert_eq!(
        names(&arm(&server, "GET NET/virtualNetworks/net", NONE, 200, json!({}))),
        ["a"],
        "a list replaces them"
    );
    refused(&server, "GET NET/virtualNetworks/net/subnets/b", NONE, 404, "ResourceNotFound");
}

#[test]
fn responses_contain_what_the_service_fills_in() {
    let server = server();
    let address = arm(&server, "PUT NET/publicIPAddresses/ip", json!({ "location": "x" }), 201, json!({}));
    assert_eq!(address["properties"].get("ipConfiguration"), None);
    let configuration = json!({ "name": "c", "properties": { "publicIPAddress": { "id": address["id"] } } });
    let nic = json!({ "location": "x", "properties": { "ipConfigurations": [configuration] } });
    let nic = arm(&server, "PUT NET/networkInterfaces/nic", nic, 201, json!({}));
    assert_eq!(nic["properties"]["dnsSettings"]["appliedDnsServers"], json!([]), "{nic}");
    let address = arm(&server, "GET NET/publicIPAddresses/ip", NONE, 200, json!({}));
    let expected = format!("{}/ipConfigurations/c", nic["id"].as_str().unwrap());
    assert_eq!(address["properties"]["ipConfiguration"]["id"], expected.as_str(), "{address}");
    assert_eq!(send(&server, "DELETE NET/networkInterfaces/nic", &NONE).status, 200);
    let address = arm(&server, "GET NET/publicIPAddresses/ip", NONE, 200, json!({}));
    assert_eq!(address["properties"].get("ipConfiguration"), None);
    let vm = arm(&server, "PUT VM/one", json!({ "location": "x" }), 201, json!({}));
    let storage = &vm["properties"]["storageProfile"];
    assert_eq!(
        (&storage["dataDisks"], &storage["osDisk"]["managedDisk"]["storageAccountType"]),
        (&json!([]), &json!("Premium_LRS"))
    );
    let sizes = arm(&server, "GET S/providers/Microsoft.Compute/locations/westeurope/vmSizes", NONE, 200, json!({}));
    assert!(
        sizes["value"]
            .as_array()
            .unwrap()
            .iter()
            .any(|size| size["name"] == "Standard_D2s_v5" && size["numberOfCores"] == 2)
    );
}
