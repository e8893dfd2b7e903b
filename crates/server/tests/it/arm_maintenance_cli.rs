//! The requests of the Azure CLI extension `maintenance`, command by command, as its source builds them: `resourcegroups` in
//! lower case, its api-version, its bodies. The extension itself is in no package registry, so the acceptance run with `az`
//! cannot install it. Its releases accept different status codes; the expected ones are accepted by all.

use crate::api_support::{NONE, Server, check};
use crate::arm_support::{SUBSCRIPTION, advance, arm, raw, server, set_body};
use serde_json::{Value, json};

/// Resources with the parameters `--provider-name Microsoft.Compute --resource-type … --resource-name …`.
const RESOURCES: [&str; 2] = ["virtualMachines/one", "virtualMachineScaleSets/su"];

/// A resource of the commands `…-parent`, with `--resource-parent-type virtualMachineScaleSets --resource-parent-name su`.
const INSTANCE: &str = "virtualMachineScaleSets/su/virtualMachines/1";

const CONFIGURATIONS: &str = "RG/providers/Microsoft.Maintenance/maintenanceConfigurations";

/// Sends a request as the extension does and returns the body of the response.
#[track_caller]
fn send(server: &Server, line: &str, body: Value, status: u16) -> Value {
    let line = line
        .replace(" RG/", &format!(" /subscriptions/{SUBSCRIPTION}/resourcegroups/rg/"))
        .replace(" SUB/", &format!(" /subscriptions/{SUBSCRIPTION}/"));
    let answer = raw(server, &format!("{line}?api-version=2023-04-01"), &body);
    assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
    if answer.text().is_empty() { NONE } else { answer.json() }
}

fn fleet() -> Server {
    let server = server();
    arm(&server, "PUT SET/su", set_body(2, "Manual", None), 201, json!({}));
    arm(&server, "PUT VM/one", json!({ "location": "westeurope" }), 201, json!({}));
    server.listen_as("su_0");
    server.listen_as("one");
    server
}

/// `az maintenance configuration create`, with every option that concerns hosts.
fn create_configuration(server: &Server) -> Value {
    let body = json!({
        "location": "westeurope",
        "properties": {
            "extensionProperties": { "owner": "ops" },
            "maintenanceScope": "Host",
            "maintenanceWindow": {
                "duration": "05:00",
                "expirationDateTime": "9999-12-31 00:00",
                "recurEvery": "Day",
                "startDateTime": "2026-03-01 22:00",
                "timeZone": "W. Europe Standard Time",
            },
            "namespace": "Microsoft.Maintenance",
            "visibility": "Custom",
        },
        "tags": { "team": "web" },
    });
    send(server, &format!("PUT {CONFIGURATIONS}/nights"), body, 200)
}

#[test]
fn configurations_are_created_updated_listed_and_deleted() {
    let server = fleet();
    let created = create_configuration(&server);
    assert_eq!((&created["name"], &created["properties"]["maintenanceScope"]), (&json!("nights"), &json!("Host")));
    assert_eq!((&created["tags"]["team"], &created["location"]), (&json!("web"), &json!("westeurope")));
    // `update` reads the configuration, changes it and writes all of it, without the properties that are read-only.
    let mut changed = send(&server, &format!("GET {CONFIGURATIONS}/nights"), NONE, 200);
    assert_eq!(changed["properties"]["extensionProperties"]["owner"], "ops");
    for read_only in ["id", "name", "type"] {
        changed.as_object_mut().unwrap().remove(read_only);
    }
    changed["properties"]["maintenanceWindow"]["recurEvery"] = "Week Saturday,Sunday".into();
    let updated = send(&server, &format!("PUT {CONFIGURATIONS}/nights"), changed, 200);
    assert_eq!(updated["properties"]["maintenanceWindow"]["recurEvery"], "Week Saturday,Sunday");
    assert_eq!(updated["properties"]["maintenanceWindow"]["duration"], "05:00");
    let list = send(&server, "GET SUB/providers/Microsoft.Maintenance/maintenanceConfigurations", NONE, 200);
    let listed = list["value"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &updated["id"]));
    assert_eq!(listed[0]["properties"]["maintenanceWindow"], updated["properties"]["maintenanceWindow"]);
    send(&server, &format!("DELETE {CONFIGURATIONS}/nights"), NONE, 200);
    send(&server, &format!("DELETE {CONFIGURATIONS}/nights"), NONE, 204);
    let missing = send(&server, &format!("GET {CONFIGURATIONS}/nights"), NONE, 404);
    assert_eq!(missing["error"]["code"], "ResourceNotFound");
}

#[test]
fn configurations_are_assigned_to_machines_scale_sets_and_instances() {
    let server = fleet();
    let id = create_configuration(&server)["id"].clone();
    for resource in RESOURCES.into_iter().chain([INSTANCE]) {
        let assignments = format!(
            "RG/providers/Microsoft.Compute/{resource}/providers/Microsoft.Maintenance/configurationAssignments"
        );
        let body = json!({ "location": "westeurope", "properties": { "maintenanceConfigurationId": id } });
        let created = send(&server, &format!("PUT {assignments}/a"), body.clone(), 201);
        assert_eq!((&created["name"], &created["properties"]["maintenanceConfigurationId"]), (&json!("a"), &id));
        let resource_id = created["properties"]["resourceId"].as_str().unwrap();
        assert!(resource_id.ends_with(resource), "{resource_id}");
        // `update` writes the assignment again.
        send(&server, &format!("PUT {assignments}/a"), body, 200);
        assert_eq!(send(&server, &format!("GET {assignments}/a"), NONE, 200), created);
        let list = send(&server, &format!("GET {assignments}"), NONE, 200);
        assert_eq!(list["value"], json!([created]));
        send(&server, &format!("DELETE {assignments}/a"), NONE, 200);
        send(&server, &format!("DELETE {assignments}/a"), NONE, 204);
        send(&server, &format!("GET {assignments}/a"), NONE, 404);
    }
}

#[test]
fn updates_are_applied_to_machines_and_scale_sets_within_their_window() {
    let server = fleet();
    let id = create_configuration(&server)["id"].clone();
    // From noon, until shortly after the window has opened at 21:00 UTC. The set is done one domain after the other.
    for (resource, secs) in [(RESOURCES[1], 3 * 24 * 3600), (RESOURCES[0], 9 * 3600 + 1500)] {
        let maintenance = format!("RG/providers/Microsoft.Compute/{resource}/providers/Microsoft.Maintenance");
        let body = json!({ "location": "westeurope", "properties": { "maintenanceConfigurationId": id } });
        send(&server, &format!("PUT {maintenance}/configurationAssignments/a"), body, 201);
        let updates = || send(&server, &format!("GET {maintenance}/updates"), NONE, 200)["value"].clone();
        let show = || send(&server, &format!("GET {maintenance}/applyUpdates/default"), NONE, 200);
        assert_eq!(updates(), json!([]));
        assert_eq!(show()["properties"]["status"], "NoUpdatesPending");
        // `applyupdate create` has no body. A second one joins the first.
        for _ in 0..2 {
            let applied = send(&server, &format!("PUT {maintenance}/applyUpdates/default"), NONE, 200);
            assert_eq!(applied["properties"]["status"], "Pending", "{applied}");
        }
        let pending = updates();
        assert_eq!((&pending[0]["maintenanceScope"], &pending[0]["status"]), (&json!("Host"), &json!("Pending")));
        assert!(pending[0]["impactDurationInSec"].is_u64(), "{pending}");
        advance(&server, secs);
        assert_eq!(show()["properties"]["status"], "Completed");
        assert!(show()["properties"]["lastUpdateTime"].is_string());
    }
    // One rollout over the set, and one over the machine, each within the window.
    let rollouts = check(&server, "GET /rollouts", NONE, 200, json!({}));
    assert_eq!(rollouts["value"].as_array().unwrap().len(), 2, "{rollouts}");
    let events = check(&server, "GET /history?kind=started", NONE, 200, json!({}));
    for row in events["value"].as_array().unwrap() {
        let hour = &row["at"].as_str().unwrap()[11..13];
        assert!(["21", "22", "23", "00", "01"].contains(&hour), "outside of 22:00 to 03:00 in Berlin: {row}");
    }
}

#[test]
fn updates_are_applied_to_an_instance_and_listed() {
    const UPDATES: &str = "providers/Microsoft.Maintenance/applyUpdates";
    let server = fleet();
    let id = create_configuration(&server)["id"].clone();
    let maintenance = format!("RG/providers/Microsoft.Compute/{INSTANCE}/providers/Microsoft.Maintenance");
    let body = json!({ "location": "westeurope", "properties": { "maintenanceConfigurationId": id } });
    send(&server, &format!("PUT {maintenance}/configurationAssignments/a"), body, 201);
    // `applyupdate list`, of the subscription and of a resource group.
    let list = |place: &str| send(&server, &format!("GET {place}/{UPDATES}"), NONE, 200)["value"].clone();
    assert_eq!((list("SUB"), list("RG")), (json!([]), json!([])));

    let applied = send(&server, &format!("PUT {maintenance}/applyUpdates/default"), NONE, 200);
    assert_eq!(applied["properties"]["status"], "Pending", "{applied}");
    assert_eq!(send(&server, &format!("GET {maintenance}/applyUpdates/default"), NONE, 200), applied);
    let pending = send(&server, &format!("GET {maintenance}/updates"), NONE, 200)["value"].clone();
    assert_eq!((&pending[0]["impactType"], pending.as_array().unwrap().len()), (&json!("Freeze"), 1), "{pending}");
    assert_eq!((list("SUB"), list("RG")), (json!([applied]), json!([applied])));

    let machine = format!("RG/providers/Microsoft.Compute/{}/{UPDATES}", RESOURCES[0]);
    // The window opens at 22:00 in Berlin.
    advance(&server, 9 * 3600);
    let events = server.document("su_0")["Events"].clone();
    assert_eq!(events[0]["Resources"], json!(["su_1"]), "{events}");
    assert_eq!(events[0]["NotBefore"], "Sun, 01 Mar 2026 21:15:00 GMT");
    send(&server, &format!("PUT {machine}/default"), NONE, 200);
    advance(&server, 1800);
    let names = |place: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let resource = |id: &Value| text(id).rsplit_once("/Microsoft.Compute/").unwrap().1.to_owned();
        let properties =
            list(place).as_array().unwrap().iter().map(|one| one["properties"].clone()).collect::<Vec<_>>();
        properties.iter().map(|it| (resource(&it["resourceId"]), text(&it["status"]))).collect()
    };
    let both = [INSTANCE, RESOURCES[0]].map(|resource| (resource.to_owned(), "Completed".to_owned()));
    assert_eq!(names("SUB"), both);
    assert!(names(&format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/other")).is_empty());
    send(
        &server,
        &format!("PUT {maintenance}/applyUpdates/default").replace("virtualMachines/1", "virtualMachines/7"),
        NONE,
        404,
    );
}
