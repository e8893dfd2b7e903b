//! Machines get tokens of their managed identities through the agents of their hosts.

use serde_json::Value;

use crate::fleet::{Answer, Fleet, TestHost, blocking, request_token};

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
