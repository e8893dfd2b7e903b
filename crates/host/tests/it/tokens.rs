//! Data that a host agent requests from the server: tokens of managed identities, and values that machines were given
//! through ARM.

use forewarn_wire::arm::compute::LOCATION_DEFAULT;
use serde_json::{Value, json};

use crate::fleet::{Answer, Fleet, TestHost, blocking, request_token};

/// The subscription of machines that were created without one.
const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

const MANAGEMENT: &str = "https://management.azure.com/";

async fn token(host: &TestHost, machine: &str, resource: &str) -> Answer {
    request_token(host.address(), machine, resource).await
}

async fn assign_identity(fleet: &Fleet, machine: &str) {
    let url = format!("{}/api/v1/machines/{machine}/identity", fleet.url());
    blocking(move || ureq::put(url).send_json(serde_json::json!({})).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_gets_tokens_through_its_agent_and_503_without_contact() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    for machine in ["web1", "web2"] {
        fleet.machine(machine, "node1").await;
        host.shows(machine, "the machine arrives", |_| true).await;
    }
    assign_identity(&fleet, "web1").await;

    let issued = token(&host, "web1", MANAGEMENT).await;
    assert_eq!(issued.status, 200, "{issued:?}");
    let body: Value = issued.json();
    let names = |token: &str| token.split('.').count() == 3;
    assert!(body["access_token"].as_str().is_some_and(names), "{body}");
    assert_eq!(body["resource"], MANAGEMENT);

    let without = token(&host, "web2", MANAGEMENT).await;
    assert!(without.status == 400 && without.body.contains("Identity not found"), "{without:?}");
    let elsewhere = token(&host, "web1", "https://vault.azure.net").await;
    assert!(elsewhere.status == 400 && elsewhere.body.contains("vault.azure.net"), "{elsewhere:?}");

    host.proxy.cut();
    host.disconnected().await;
    let cut = token(&host, "web1", MANAGEMENT).await;
    assert_eq!((cut.status, cut.retry_after.as_deref()), (503, Some("2")), "{cut:?}");
}

/// The part of a machine's instance metadata.
async fn compute(host: &TestHost, machine: &str) -> Value {
    let url = format!("http://{}/vm/{machine}/metadata/instance/compute?api-version=2021-02-01", host.address());
    let read = move || ureq::get(url).header("Metadata", "true").call().unwrap().body_mut().read_json().unwrap();
    blocking(read).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_metadata_of_an_agent_has_the_values_that_were_given_through_arm() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    let machine = json!({ "name": "web1", "host": "node1", "resourceGroup": "rg", "addresses": [] });
    let url = format!("{}/api/v1/machines", fleet.url());
    blocking(move || ureq::post(url).send_json(machine).unwrap()).await;
    host.shows("web1", "the machine arrives", |_| true).await;
    let user_data = "QUJD".repeat(22_000);
    let set = async |name: &str| {
        let body = json!({ "location": LOCATION_DEFAULT, "properties": {
            "userData": user_data,
            "osProfile": { "adminUsername": name, "linuxConfiguration": {
                "ssh": { "publicKeys": [{ "path": "/home/me/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA" }] } } },
            "storageProfile": { "dataDisks": [{ "lun": 3, "name": "data", "createOption": "Empty" }] } } });
        let path = "resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/web1";
        let url = format!("{}/subscriptions/{SUBSCRIPTION}/{path}?api-version=2024-07-01", fleet.url());
        blocking(move || ureq::put(url).send_json(body).unwrap()).await;
    };
    set("me").await;

    let shown = compute(&host, "web1").await;
    assert_eq!(shown["osProfile"]["adminUsername"], "me", "{shown}");
    assert_eq!(shown["publicKeys"][0]["keyData"], "ssh-rsa AAAA", "{shown}");
    assert_eq!(shown["storageProfile"]["dataDisks"][0]["name"], "data", "{shown}");
    assert_eq!(shown["userData"], user_data);
    set("you").await;
    assert_eq!(compute(&host, "web1").await["osProfile"]["adminUsername"], "you");

    host.proxy.cut();
    host.disconnected().await;
    assert_eq!(compute(&host, "web1").await["osProfile"]["adminUsername"], "you", "the last known value");
}
