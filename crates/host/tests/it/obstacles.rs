//! Agents on a host with a problem: its disk is full, or its libvirtd is gone.

use forewarn_core::{Contact, Status};
use forewarn_host::{DriverOptions, HostConfig, HostDriver};
use serde_json::{Value, json};

use crate::fleet::{Fleet, blocking, config, eventually, status_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_full_disk_guests_see_the_previous_copy_and_events_wait() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    let (one, two) = (fleet.machine("web1", "node1").await, fleet.machine("web2", "node1").await);
    host.shows("web1", "the machine arrives", |_| true).await;
    host.shows("web2", "the machine arrives", |_| true).await;
    let is_scheduled = |event| status_of(&fleet.region(), event) == Status::Scheduled;
    let is_reboot = |document: &Value| document["Events"][0]["EventType"] == "Reboot";
    let seen = fleet.restart(one).await;
    let shown = host.shows("web1", "the event arrives", is_reboot).await;
    eventually("the host confirms the event", || !fleet.region().event(seen).unwrap().unseen).await;

    // A directory with the name of the temporary file, so that no copy can be written.
    let obstacle = host.dir.path().join("copy.new");
    eventually("no copy is being written", || std::fs::create_dir(&obstacle).is_ok()).await;
    let unseen = fleet.restart(two).await;
    let is_stuck = || host.agent().status.problem().is_some_and(|problem| problem.contains("cannot store the copy"));
    eventually("the agent says why", is_stuck).await;
    // The agent connects again and again, which is no sign that it has a copy.
    let contact = || fleet.region().host("node1").unwrap().contact;
    eventually("the host is lost", || matches!(contact(), Contact::Lost { .. })).await;
    fleet.advance(60).await;
    assert!(is_scheduled(seen) && is_scheduled(unseen), "the host cannot carry them out");
    assert_eq!(host.get("web1").await.body, shown.body, "the copy that is on disk");
    assert_eq!(host.get("web2").await.json()["Events"], json!([]));

    std::fs::remove_dir(&obstacle).unwrap();
    host.shows("web2", "the event arrives", is_reboot).await;
    eventually("the host confirms the event", || !fleet.region().event(unseen).unwrap().unseen).await;
    eventually("the guest has had its notice", || !is_scheduled(seen)).await;
    fleet.advance(14).await;
    assert!(is_scheduled(unseen), "it has its full notice");
    fleet.advance(2).await;
    assert!(!is_scheduled(unseen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_libvirtd_is_gone_serves_guests_and_says_that_orders_wait() {
    let fleet = Fleet::start().await;
    let dir = tempfile::tempdir().unwrap();
    fleet.join("node1", dir.path()).await.unwrap();
    let machine = fleet.machine("web1", "node1").await;
    let options = DriverOptions { socket: dir.path().join("no-socket"), ..DriverOptions::default() };
    let driver = HostDriver::Libvirt.open("node1", dir.path(), options).unwrap();
    let config = HostConfig { health: Some(([127, 0, 0, 1], 0).into()), ..config(dir.path()) };
    let agent = forewarn_host::start(config, driver).await.unwrap();
    eventually("the agent is connected", || agent.status.is_connected()).await;
    eventually("libvirtd is missed", || agent.status.lacks_hypervisor()).await;

    let address = agent.health.unwrap();
    let get = move |path: &str| {
        let url = format!("http://{address}{path}");
        blocking(move || ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap())
    };
    let health: Value = serde_json::from_str(&get("/healthz").await).unwrap();
    let expected = json!(["degraded", "the hypervisor does not answer; orders wait"]);
    assert_eq!(json!([health["status"], health["problem"]]), expected, "{health}");
    let metrics = get("/metrics").await;
    assert!(metrics.contains("forewarn_host_hypervisor_connected 0"), "{metrics}");
    let power = fleet.region().machine(machine).unwrap().power;
    assert_eq!(power, forewarn_core::Power::Running, "nothing is known about the machine");
    agent.stop().await;
}
