//! Events on real machines: a server with the libvirt driver, two hosts, and guests whose handler polls the metadata
//! address and approves.
//!
//! `cargo xtask accept libvirt` provides the hosts and guests.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use forewarn_libvirt::{Affect, Connection, CreateFlags, DefineFlags, ErrorCode, State, Target};
use forewarn_test_support::{Guest, Hosts};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::FOREWARN;

const MANAGEMENT: &str = "127.0.0.1:8170";

/// Time limit for libvirt and the server to reach a state.
const STATE_MAX: Duration = Duration::from_secs(60);

struct Bench {
    hosts: Hosts,
    data: TempDir,
    server: Option<Child>,
}

impl Bench {
    fn new(hosts: Hosts) -> Bench {
        let data = TempDir::new().unwrap();
        let peers: String = [1, 2].map(|number| peer(&hosts, number)).concat();
        fs::write(data.path().join("peers.toml"), peers).unwrap();
        let mut bench = Bench { hosts, data, server: None };
        bench.start_server();
        bench
    }

    fn start_server(&mut self) {
        let mut command = self.hosts.cloud_command(FOREWARN);
        let log = fs::File::options().create(true).append(true).open(self.data.path().join("log")).unwrap();
        command.arg("serve").arg("--data").arg(self.data.path().join("data"));
        command.args(["--metadata", "169.254.169.254:80", "--management", MANAGEMENT, "--management-tls", "off"]);
        command.args(["--no-auth", "--driver", "libvirt", "--driver-host", "host1"]);
        command.arg("--libvirt-socket").arg(self.hosts.socket(1));
        command.arg("--driver-peers").arg(self.data.path().join("peers.toml"));
        let server = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.server = Some(server);
        wait_until("the server", || self.command("health").output().unwrap().status.success());
    }

    fn kill_server(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.hosts.cloud_command("timeout");
        command.env("FOREWARN_SERVER", format!("http://{MANAGEMENT}")).env("HOME", "/nonexistent");
        command.arg(STATE_MAX.as_secs().to_string()).arg(FOREWARN).args(words.split_whitespace());
        command
    }

    /// Runs a command that must succeed. Commands that start an operation wait for its end.
    #[track_caller]
    fn run(&self, words: &str) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "forewarn {words}: {errors}\n{}", self.log());
        String::from_utf8(stdout).unwrap()
    }

    fn show(&self, words: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{words} -o json"))).unwrap()
    }

    /// The journal of a machine's order on host 1.
    fn journal(&self, guest: &Guest) -> PathBuf {
        self.data.path().join("data/journal/host1").join(format!("{}.json", guest.uuid))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill_server();
        }
        if std::thread::panicking() {
            eprintln!("── server:\n{}", self.log());
        }
    }
}

fn peer(hosts: &Hosts, number: usize) -> String {
    let (uri, data_uri, socket) = (hosts.peer_uri(number), hosts.data_uri(number), hosts.socket(number));
    let socket = socket.display();
    format!("[host{number}]\nuri = \"{uri}\"\ndata_uri = \"{data_uri}\"\nsocket = \"{socket}\"\n")
}

async fn connect(hosts: &Hosts, number: usize) -> Connection {
    Target::qemu(hosts.socket(number)).connect().await.unwrap().0
}

/// The state of a guest on a host; None if it is not there.
async fn state(hosts: &Hosts, number: usize, guest: &Guest) -> Option<State> {
    let connection = connect(hosts, number).await;
    match connection.domain_by_uuid(guest.uuid.parse().unwrap()).await {
        Ok(domain) => Some(connection.state(&domain).await.unwrap().state),
        Err(error) => {
            assert!(error.is(ErrorCode::NO_DOMAIN), "{error:?}");
            None
        }
    }
}

async fn boot(hosts: &Hosts, guest: &Guest) {
    let connection = connect(hosts, 1).await;
    let domain = connection.define(&guest.xml(), DefineFlags::NONE).await.unwrap();
    connection.start(&domain, CreateFlags::NONE).await.unwrap();
}

/// Waits until the guest has seen an event of this type and approved it; returns how many lines it had printed by then.
async fn wait_for_approval(guest: &Guest, kind: &str, from: usize) -> usize {
    let shown = format!("\"EventType\":\"{kind}\"");
    let what = format!("an approved {kind}");
    guest
        .wait(&what, || {
            let lines = guest.lines();
            let seen =
                lines.iter().skip(from).position(|line| line.starts_with("document ") && line.contains(&shown))?;
            let approved = lines.iter().skip(from + seen).position(|line| line.starts_with("approved "))?;
            Some(from + seen + approved)
        })
        .await
}

/// Waits until the guest has seen an empty document.
async fn wait_for_empty(guest: &Guest, from: usize) {
    let is_empty = |line: &String| line.starts_with("document ") && line.contains("\"Events\":[]");
    guest.wait("an empty document", || guest.lines().iter().skip(from).any(is_empty).then_some(())).await;
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < STATE_MAX, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn events_are_seen_approved_and_carried_out_on_real_machines() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(all_events(hosts));
}

async fn all_events(hosts: Hosts) {
    let (mut web, mut spot) = (hosts.guest("web", 21), hosts.guest("spot", 22));
    (web.address, spot.address) = (Some("10.99.0.21".into()), Some("10.99.0.22".into()));
    let mut bench = Bench::new(hosts.clone());
    bench.run(&format!(
        "vm create web --vm-id {} --host host1 --address 10.99.0.21 --memory 128 --terminate-notification-time 5",
        web.uuid
    ));
    bench.run(&format!(
        "vm create spot --vm-id {} --host host1 --address 10.99.0.22 --spot --eviction-policy Delete",
        spot.uuid
    ));
    boot(&hosts, &web).await;
    boot(&hosts, &spot).await;
    let first = web.wait_for_boot(1).await;
    spot.wait_for_boot(1).await;
    wait_for_empty(&web, 0).await;
    wait_for_empty(&spot, 0).await;

    import_by_label(&bench).await;

    let from = web.lines().len();
    bench.run("maintenance start --vm web --type Freeze --duration 1s");
    let from = wait_for_approval(&web, "Freeze", from).await;
    wait_for_empty(&web, from).await;
    println!("Freeze: boot id {first} -> {}", web.wait_for_boot(1).await);

    let from = web.lines().len();
    bench.run("vm restart web");
    wait_for_approval(&web, "Reboot", from).await;
    let second = web.wait_for_boot(2).await;
    println!("Reboot: boot id {first} -> {second}");
    assert_ne!(first, second);
    wait_for_empty(&web, from).await;

    let third = killed_in_the_middle(&mut bench, &web).await;
    println!("Reboot, server killed: boot id {second} -> {third}");
    assert_ne!(second, third);

    let from = web.lines().len();
    bench.run("vm redeploy web");
    let fourth = web.wait_for_boot(4).await;
    println!("Redeploy: boot id {third} -> {fourth}");
    assert_ne!(third, fourth);
    assert_eq!(bench.show("vm show web")["host"], "host2");
    assert_eq!((state(&hosts, 1, &web).await, state(&hosts, 2, &web).await), (None, Some(State::Running)));
    wait_for_approval(&web, "Redeploy", from).await;
    wait_for_empty(&web, web.lines().len()).await;

    let from = web.lines().len();
    bench.run("host drain host2");
    wait_for_approval(&web, "Freeze", from).await;
    println!("Drain: boot id {fourth} -> {}", web.wait_for_boot(4).await);
    assert_eq!(bench.show("vm show web")["host"], "host1");
    assert_eq!((state(&hosts, 1, &web).await, state(&hosts, 2, &web).await), (Some(State::Running), None));
    bench.run("host undrain host2");

    let from = spot.lines().len();
    bench.run("vm simulate-eviction spot");
    wait_for_approval(&spot, "Preempt", from).await;
    assert_eq!(state(&hosts, 1, &spot).await, None);
    println!("Preempt: boot id {} -> none", spot.wait_for_boot(1).await);

    let from = web.lines().len();
    bench.run("vm delete web --yes");
    wait_for_approval(&web, "Terminate", from).await;
    assert_eq!(state(&hosts, 1, &web).await, None);
    println!("Terminate: boot id {fourth} -> none");
    assert_eq!(bench.show("vm list").as_array().map(Vec::len), Some(1), "the imported machine is left");
}

/// A domain that is not running is found, and adopted because of its label. Its power state follows libvirt.
async fn import_by_label(bench: &Bench) {
    let idle = bench.hosts.guest("idle", 23);
    let connection = connect(&bench.hosts, 1).await;
    let domain = connection.define(&idle.xml(), DefineFlags::NONE).await.unwrap();
    let (label, uri) = (Some("<labels tier=\"idle\"/>"), "https://forewarn.dev/labels");
    connection.set_metadata(&domain, label, "labels", uri, Affect::CONFIG).await.unwrap();
    let import = format!("host import host1 --libvirt-socket {}", bench.hosts.socket(1).display());
    let states = |options: &str| -> Vec<(String, String)> {
        let rows = bench.show(&format!("{import} {options}"));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        rows.as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
    };
    let row = |name: &str, state: &str| (name.to_owned(), state.to_owned());
    assert_eq!(states(""), [row("idle", "found"), row("spot", "managed"), row("web", "managed")]);
    assert_eq!(states("--adopt --selector tier=idle"), [row("idle", "adopted")]);
    assert_eq!(states("--adopt --selector tier=idle"), [row("idle", "managed")]);
    wait_until("the power state", || bench.show("vm show idle")["power"] == "Stopped");
    assert_eq!(bench.show("vm show idle")["host"], "host1");
}

/// Kills the server as soon as an order is in its journal. The machine reboots exactly once.
async fn killed_in_the_middle(bench: &mut Bench, guest: &Guest) -> String {
    let journal = bench.journal(guest);
    bench.run("vm restart web --no-wait");
    wait_until("the order", || journal.exists());
    bench.kill_server();
    assert!(journal.exists(), "the order is not finished");
    bench.start_server();
    let boot_id = guest.wait_for_boot(3).await;
    wait_until("the end of the order", || !journal.exists());
    let events = bench.show("events list");
    assert_eq!(events.as_array().map(Vec::len), Some(0), "{events}");
    guest.wait_for_beat().await;
    assert_eq!(guest.boot_ids().len(), 3, "one boot");
    boot_id
}
