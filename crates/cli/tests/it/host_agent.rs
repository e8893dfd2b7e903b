//! A host agent on a real hypervisor: it drives guests on libvirt and identifies them by their taps.
//!
//! ```text
//!  cloud: server, 10.99.0.254 ─┬─ host 1: bridge `guests`, 169.254.169.254, agent, libvirtd ── guests
//!                              └─ host 2: the same
//! ```
//!
//! `cargo xtask accept libvirt` provides the hosts and guests.

mod moves;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Mutex;

use forewarn_libvirt::{Connection, DestroyFlags, XmlFlags};
use forewarn_test_support::{BootLog, Guest, Hosts, is_long};

use crate::agent_bench::AgentBench;
use crate::kill_matrix::{Effect, LIBVIRT_ALONE, Matrix};
use crate::machine_bench::{Bench, wait_for_approval, wait_for_empty, wait_until};
use crate::machines::{boot, connect, state};
use crate::support::FOREWARN;
use crate::support::namespace::Namespace;

const HOST_LISTENER: &str = "10.99.0.254:8172";

/// Each test uses the network of the hosts.
static HOSTS_IN_USE: Mutex<()> = Mutex::new(());

/// A server that lets agents carry out events.
fn start_server() -> AgentBench {
    let listeners = ["--metadata", "127.0.0.1:8169", "--hosts", HOST_LISTENER];
    AgentBench::new(Bench::start(&[&listeners, &["--driver", "agents"][..]].concat()))
}

/// Puts the metadata address on the bridge of a host, and starts its agent, which keeps the guests of the host from the endpoints
/// of the other host and of the cloud: they have the same address.
fn start_agent(bench: &mut AgentBench, hosts: &Hosts, number: usize) {
    on_host(hosts, number, &["ip", "address", "replace", "169.254.169.254/32", "dev", "guests"]);
    let (socket, other) = (hosts.socket(number), 3 - number);
    let config = format!(
        "libvirt_socket = {socket:?}\nmetadata = [\"169.254.169.254:80\"]\nguests_by = \"mark\"\n[peers.host{other}]\n\
         uri = \"{}\"\ndata_uri = \"{}\"\n",
        hosts.peer_uri(other),
        hosts.data_uri(other)
    );
    let launch = hosts.clone();
    let launch = Box::new(move || launch.host_command(number, FOREWARN));
    bench.add(["host1", "host2"][number - 1], &config, Some(HOST_LISTENER), launch);
    bench.start(bench.agents.len() - 1);
    bench.wait_for_contact();
}

/// Runs a command on a host, and returns its output.
#[track_caller]
fn on_host(hosts: &Hosts, number: usize, words: &[&str]) -> String {
    let output = hosts.host_command(number, words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn has_rules(hosts: &Hosts) -> bool {
    on_host(hosts, 1, &["nft", "list", "tables"]).contains("forewarn_guests")
}

/// A guest without a hypervisor: a namespace whose interface is a port of the bridge.
struct PortGuest(Namespace);

impl PortGuest {
    fn plug(hosts: &Hosts, port: &str, address: &str) -> PortGuest {
        let guest = Namespace::new();
        on_host(hosts, 1, &["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", &guest.pid()]);
        guest.run("ip link set eth0 up");
        guest.run(&format!("ip address add {address}/24 dev eth0"));
        guest.run("ip route add 169.254.169.254 dev eth0");
        on_host(hosts, 1, &["ip", "link", "set", port, "master", "guests", "up"]);
        PortGuest(guest)
    }

    /// Opens a connection that says nothing, for as long as the returned process lives.
    fn connect(&self) -> Child {
        let mut shell = self.0.command("bash");
        shell.args(["-c", "exec 3<>/dev/tcp/169.254.169.254/80; echo open; exec sleep 60"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "open\n");
        shell
    }
}

/// The tap of a running guest.
async fn tap_of(connection: &Connection, guest: &Guest) -> String {
    let domain = connection.domain_by_uuid(guest.uuid.parse().unwrap()).await.unwrap();
    let xml = connection.xml(&domain, XmlFlags::NONE).await.unwrap();
    let (_, interface) = xml.split_once("<interface ").unwrap();
    let (_, target) = interface.split_once("<target dev='").unwrap();
    target.split_once('\'').unwrap().0.to_owned()
}

#[test]
fn guests_are_identified_by_their_taps_and_driven_by_a_host_agent() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let _turn = HOSTS_IN_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(identified_and_driven(hosts));
}

async fn identified_and_driven(hosts: Hosts) {
    let (mut one, mut two) = (hosts.guest("one", 31), hosts.guest("two", 32));
    // Each guest uses the address with which the other one is registered.
    (one.address, two.address) = (Some("10.99.0.32".into()), Some("10.99.0.31".into()));
    let mut bench = start_server();
    let log = BootLog::new();
    start_agent(&mut bench, &hosts, 1);
    assert!(has_rules(&hosts));
    for (guest, address) in [(&one, "10.99.0.31"), (&two, "10.99.0.32")] {
        bench.server.run(&format!("vm create {} --vm-id {} --host host1 --address {address}", guest.name, guest.uuid));
        boot(&hosts, guest).await;
    }
    let first = one.wait_for_boot(1).await;
    two.wait_for_boot(1).await;
    wait_for_empty(&one, 0).await;
    wait_for_empty(&two, 0).await;
    log.print("First boot", "none", &first);

    let from = one.lines().len();
    bench.server.run("vm restart one");
    wait_for_approval(|words| bench.server.show(words), &one, "Reboot", from).await;
    let second = one.wait_for_boot(2).await;
    log.print("Reboot by the agent", &first, &second);
    assert_ne!(first, second);
    wait_for_empty(&one, from).await;
    let seen_by_two = two.lines();
    assert!(!seen_by_two.iter().any(|line| line.contains("Reboot")), "guest two is not guest one: {seen_by_two:?}");

    let mut matrix = Matrix::new(&mut bench, &one, &LIBVIRT_ALONE);
    matrix.survive_step("maintenance start --vm one --type Freeze --duration 1s", "resume", Effect::Continues).await;
    matrix.survive_step("vm restart one", "record-done", Effect::Reboots).await;
    if is_long() {
        kill_matrix(&mut bench, &hosts).await;
    }

    let imported = bench.server.show("host import host1");
    let is_managed = |name: &str| {
        let mut rows = imported.as_array().unwrap().iter();
        rows.any(|row| row["name"] == name && row["state"] == "managed")
    };
    assert!(is_managed("one") && is_managed("two"), "{imported}");

    let connection = connect(&hosts, 1).await;
    let tap = tap_of(&connection, &two).await;
    let domain = connection.domain_by_uuid(two.uuid.parse().unwrap()).await.unwrap();
    connection.destroy(&domain, DestroyFlags::NONE).await.unwrap();
    wait_until("the power state", || bench.server.show("vm show two")["power"] == "Stopped");

    check_reused_tap_name(&hosts, &tap);
    bench.agents[0].stop();
    assert!(!has_rules(&hosts), "the rules vanish when the agent stops");
    let domain = connection.domain_by_uuid(one.uuid.parse().unwrap()).await.unwrap();
    connection.destroy(&domain, DestroyFlags::NONE).await.unwrap();
}

/// Every action, with the agent killed before each step.
async fn kill_matrix(bench: &mut AgentBench, hosts: &Hosts) {
    let guest = hosts.guest("orphan", 42);
    boot(hosts, &guest).await;
    guest.wait_for_boot(1).await;
    let options = "--host host1 --spot --eviction-policy Deallocate --memory 128";
    let create = format!("vm create orphan --vm-id {} {options}", guest.uuid);
    bench.server.run(&create);
    let mut matrix = Matrix::new(bench, &guest, &LIBVIRT_ALONE);
    // The other host has no agent, so the machine restarts in place, from power off.
    matrix.survive_common().await;
    let is_gone = async || state(hosts, 1, &guest).await.is_none();
    let create_again = async |server: &Bench| {
        boot(hosts, &guest).await;
        server.run(&create);
    };
    matrix.survive_deletions(is_gone, create_again).await;
    let cells = matrix.cells;
    bench.server.run("vm delete orphan --yes");
    println!("libvirt: {cells} kills of the agent, one effect each");
}

/// Another interface takes the name of guest two's tap, and the address of guest one.
fn check_reused_tap_name(hosts: &Hosts, tap: &str) {
    let stray = PortGuest::plug(hosts, tap, "10.99.0.31");
    let mut statuses = Vec::new();
    wait_until("the port to be unknown", || {
        statuses.push(stray.0.get_status());
        statuses.last().is_some_and(|status| status == "404")
    });
    statuses.retain(|status| status != "000");
    statuses.dedup();
    assert_eq!(statuses, ["503", "404"]);

    let mut held = stray.connect();
    let connections = || on_host(hosts, 1, &["ss", "-Htn", "state", "established", "dst", "10.99.0.31"]);
    assert!(!connections().is_empty());
    on_host(hosts, 1, &["ip", "link", "delete", tap]);
    wait_until("the connection to be closed", || connections().is_empty());
    held.kill().unwrap();
    held.wait().unwrap();
}
