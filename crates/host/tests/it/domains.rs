//! Domains that agents report: drift of power, machines on two hosts, and the list for `forewarn host import`.

use forewarn_api_types::HostDomain;
use forewarn_api_types::host_link::{DomainReport, paths};
use forewarn_core::{MachineId, Power};
use forewarn_host::Identity;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::enrollment::send;
use crate::fleet::{Fleet, blocking};

struct World {
    fleet: Fleet,
    hosts: [Identity; 2],
    machine: MachineId,
    _dirs: [TempDir; 2],
}

/// Two hosts, and a machine on the first one.
async fn world() -> World {
    let fleet = Fleet::start().await;
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts =
        [fleet.join("node1", dirs[0].path()).await.unwrap(), fleet.join("node2", dirs[1].path()).await.unwrap()];
    let machine = fleet.machine("web1", "node1").await;
    World { fleet, hosts, machine, _dirs: dirs }
}

impl World {
    fn revision(&self) -> u64 {
        self.fleet.region().meta().revision
    }

    fn power(&self) -> Power {
        self.fleet.region().machine(self.machine).unwrap().power
    }

    /// Reports the domain of the machine as a host that has a copy with this revision.
    async fn report(&self, host: usize, active: Option<bool>, revision: u64) -> Value {
        let vm_id = self.fleet.region().machine(self.machine).unwrap().vm_id.to_string();
        let domain = |active| HostDomain {
            name: "renamed".into(),
            vm_id: vm_id.clone(),
            active,
            memory_mib: 128,
            macs: vec!["52:54:00:00:00:01".into()],
            addresses: vec!["10.0.0.4".into()],
            labels: [("tier".to_owned(), "web".to_owned())].into(),
        };
        let report = DomainReport { revision, domains: active.map(domain).into_iter().collect(), strays: vec![] };
        let (status, answer) = send(&self.hosts[host], paths::DOMAINS, &report).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_of_a_machine_follows_its_domain() {
    let world = world().await;
    for (active, power) in [
        (Some(true), Power::Running),
        (Some(false), Power::Stopped),
        (Some(true), Power::Running),
        (None, Power::Stopped),
    ] {
        let answer = world.report(0, active, world.revision()).await;
        assert_eq!((world.power(), &answer["again_at"]), (power, &Value::Null), "{active:?}");
    }
    assert_eq!(world.fleet.region().events().count(), 0, "drift creates no events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_older_than_the_machine_changes_nothing() {
    let world = world().await;
    let old = world.revision() - 1;
    let answer = world.report(0, Some(false), old).await;
    assert_eq!((world.power(), &answer["again_at"]), (Power::Running, &json!(world.revision())));
    world.report(0, Some(false), world.revision()).await;
    assert_eq!(world.power(), Power::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_a_second_host_reports_is_claimed_until_one_gives_way() {
    let world = world().await;
    let machine = || world.fleet.region().machine(world.machine).unwrap().clone();
    world.report(1, Some(true), world.revision()).await;
    assert_eq!(machine().host.as_deref(), Some("node1"), "a claim alone moves nothing");
    assert!(machine().claims().contains(&"node2".into()), "{:?}", machine().claims());
    world.report(0, None, world.revision()).await;
    assert_eq!(machine().host.as_deref(), Some("node2"), "the first host has given it up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reported_domains_can_be_listed() {
    let world = world().await;
    let list = async |host: &str| {
        let url = format!("{}/api/v1/hosts/{host}/domains", world.fleet.url());
        blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
            let mut response = agent.get(url).call().unwrap();
            (response.status().as_u16(), response.body_mut().read_json::<Value>().unwrap())
        })
        .await
    };
    let (status, body) = list("node1").await;
    assert!(status == 404 && body.to_string().contains("forewarn host run"), "{body}");
    world.report(0, Some(true), world.revision()).await;
    let (status, body) = list("node1").await;
    assert_eq!((status, &body["value"][0]["name"]), (200, &json!("renamed")));
    assert_eq!(body["value"][0]["labels"], json!({"tier": "web"}));
}
