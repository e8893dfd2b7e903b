//! A server with a manual clock, hosts that have joined it, and guests that ask their agents.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forewarn_access::random_guid;
use forewarn_connect::Trust;
use forewarn_core::{Command, EventId, MachineId, NewMachine, Region, Request, ResourceGroupRef};
use forewarn_drivers::{MachineDriver, RebootMode, SimulatedMachines};
use forewarn_host::{HostConfig, Identity, KnownPeers, OpenDriver, RunningAgent, Timing};
use forewarn_server::{BoundAddress, ClockSetting, Config, DriverChoice, Running, StoreChoice};
use forewarn_testing::harness;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::proxy::Proxy;

/// How long a condition may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Fleet {
    pub server: Running,
}

/// A host with its agent, and the network between them and the server.
pub struct TestHost {
    pub dir: TempDir,
    pub proxy: Proxy,
    driver: Option<Arc<SimulatedMachines>>,
    pub agent: Option<RunningAgent>,
}

/// A response of a metadata endpoint.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub age: Option<u64>,
    pub retry_after: Option<String>,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Fleet {
    pub async fn start() -> Fleet {
        Fleet::start_with(Config::default().driver).await
    }

    pub async fn start_with(driver: DriverChoice) -> Fleet {
        Fleet::start_in(StoreChoice::Memory, driver).await
    }

    pub async fn start_in(store: StoreChoice, driver: DriverChoice) -> Fleet {
        let config = Config {
            store,
            driver,
            hosts: Some(([127, 0, 0, 1], 0).into()),
            host_silence_max: Duration::from_secs(2),
            ..harness::config(ClockSetting::Manual { start: None })
        };
        Fleet { server: harness::start(config).await }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server.management)
    }

    pub fn region(&self) -> Region {
        self.server.engine.snapshot().region.clone()
    }

    pub async fn submit(&self, command: Command) {
        self.server.engine.submit(command, None).await.unwrap();
    }

    pub async fn token(&self, host: &str) -> String {
        let url = format!("{}/api/v1/hosts/{host}/token", self.url());
        let (status, body) = blocking(move || post(&url, &json!({}))).await;
        assert_eq!(status, 201, "{body}");
        body["token"].as_str().unwrap().to_owned()
    }

    /// Waits until the API shows the host as wanted.
    pub async fn shows_host(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let url = format!("{}/api/v1/hosts/{name}", self.url());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let url = url.clone();
            let shown = blocking(move || answer(agent().get(url).call())).await.json();
            if condition(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{what}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Joins as a host and starts its agent, with its link through a proxy.
    pub async fn host(&self, name: &str) -> TestHost {
        self.driven_host(name, None).await
    }

    /// The same, with a driver of its machines.
    pub async fn driven_host(&self, name: &str, driver: Option<Arc<SimulatedMachines>>) -> TestHost {
        let dir = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(self.server.hosts.unwrap()).await;
        self.join(name, dir.path()).await.unwrap();
        redirect(dir.path(), proxy.address);
        let mut host = TestHost { dir, proxy, driver, agent: None };
        host.run().await;
        host
    }

    pub async fn join(&self, name: &str, dir: &Path) -> anyhow::Result<Identity> {
        let (token, url, dir) = (self.token(name).await, self.url(), dir.to_owned());
        Ok(blocking(move || forewarn_host::join(&dir, &url, &Trust::System(None), &token)).await?)
    }

    pub async fn machine(&self, name: &str, host: &str) -> MachineId {
        let home = ResourceGroupRef { subscription: "s".into(), resource_group: "rg".into() };
        let machine = NewMachine { host: Some(host.into()), ..NewMachine::plain(random_guid(), name, home) };
        self.submit(Command::RegisterMachine(Box::new(machine))).await;
        self.region().machines().find(|machine| &*machine.name == name).unwrap().id
    }

    /// Requests a restart. Its event has the returned ID.
    pub async fn restart(&self, machine: MachineId) -> EventId {
        let (operation, event) = (random_guid(), random_guid());
        let request = Request::Restart { machines: vec![machine] };
        self.submit(Command::Request { operation, by: "test".into(), request, event: Some(event) }).await;
        event
    }

    pub async fn advance(&self, minutes: u64) {
        let by = forewarn_engine::Advance::By(Duration::from_secs(minutes * 60));
        self.server.engine.advance(by).await.unwrap();
    }

    /// The document at the server itself.
    pub async fn document(&self, machine: &str, version: &str) -> String {
        get(harness::metadata_address(&self.server, 0), machine, version).await.body
    }
}

impl TestHost {
    pub async fn run(&mut self) {
        let driver = self.driver.clone().map(|driver| driver as Arc<dyn MachineDriver>);
        self.agent = Some(forewarn_host::start(config(self.dir.path()), OpenDriver::of(driver)).await.unwrap());
    }

    pub async fn stop(&mut self) {
        self.agent.take().unwrap().stop().await;
    }

    pub fn agent(&self) -> &RunningAgent {
        self.agent.as_ref().unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        match &self.agent().metadata[0] {
            BoundAddress::Tcp(address) => *address,
            BoundAddress::Unix(path) => panic!("{} is not an address", path.display()),
        }
    }

    pub async fn get(&self, machine: &str) -> Answer {
        get(self.address(), machine, "2020-07-01").await
    }

    pub async fn approve(&self, machine: &str, event: EventId) -> Answer {
        let url = format!("http://{}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01", self.address());
        let body = json!({ "StartRequests": [{ "EventId": event.to_string() }] }).to_string();
        blocking(move || answer(agent().post(url).header("Metadata", "true").send(body))).await
    }

    /// A GET that waits for a change of the document that the guest has.
    pub async fn wait_for_change(&self, machine: &str, etag: u64) -> Answer {
        let url =
            format!("http://{}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01&wait=120", self.address());
        let request = move || {
            let request = agent().get(url).header("Metadata", "true").header("If-None-Match", etag.to_string());
            answer(request.call())
        };
        blocking(request).await
    }

    pub async fn connected(&self) {
        eventually("the agent is connected", || self.agent().status.is_connected()).await;
    }

    pub async fn disconnected(&self) {
        eventually("the agent notices the cut", || !self.agent().status.is_connected()).await;
    }

    /// Waits until the document of a machine satisfies the condition.
    pub async fn shows(&self, machine: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(machine).await;
            if answer.status == 200 && condition(&answer.json()) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{what}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub fn config(dir: &Path) -> HostConfig {
    HostConfig {
        taps: None,
        reboot: RebootMode::Hard,
        peers: KnownPeers::default(),
        data: dir.to_owned(),
        metadata: vec![harness::listener()],
        health: None,
        plain_names: false,
        preview_version: false,
        rate_limit: None,
        timing: Timing {
            heartbeat: Duration::from_millis(100),
            seen: Duration::from_millis(100),
            pause_max: Duration::from_millis(200),
        },
    }
}

/// Sends the link of a host through another address.
pub fn redirect(dir: &Path, to: SocketAddr) {
    let identity = Identity::read(dir).unwrap();
    Identity { server: to.to_string(), ..identity }.write(dir).unwrap();
}

pub async fn request_token(address: SocketAddr, machine: &str, resource: &str) -> Answer {
    let url = format!(
        "http://{address}/vm/{machine}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}"
    );
    blocking(move || answer(agent().get(url).header("Metadata", "true").call())).await
}

pub async fn get(address: SocketAddr, machine: &str, version: &str) -> Answer {
    let url = format!("http://{address}/vm/{machine}/metadata/scheduledevents?api-version={version}");
    blocking(move || answer(agent().get(url).header("Metadata", "true").call())).await
}

pub fn post(url: &str, body: &Value) -> (u16, Value) {
    let mut response = agent().post(url).send_json(body).unwrap();
    (response.status().as_u16(), response.body_mut().read_json().unwrap_or_default())
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().new_agent()
}

fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = response.unwrap();
    let header = |name: &str| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
    Answer {
        status: response.status().as_u16(),
        age: header("age").map(|age| age.parse().unwrap()),
        retry_after: header("retry-after"),
        body: response.body_mut().read_to_string().unwrap(),
    }
}

pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Waits for a condition that other tasks bring about.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn status_of(region: &Region, event: EventId) -> forewarn_core::Status {
    let found: &Arc<forewarn_core::Event> = region.event(event).expect("the event is known");
    found.status.clone()
}
