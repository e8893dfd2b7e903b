//! Events on real machines: a server with the libvirt driver, two hosts, and guests whose handler polls the metadata
//! address and approves.
//!
//! `cargo xtask accept libvirt` provides the hosts and guests.

use std::fs;

use forewarn_libvirt::{Affect, Connection, CreateFlags, DefineFlags, ErrorCode, State, Target};
use forewarn_test_support::{BootLog, Guest, Hosts, is_long};
use serde_json::Value;

use crate::kill_matrix::{LIBVIRT, Matrix};
use crate::machine_bench::{
    Bench, killed_in_the_middle, wait_for_approval, wait_for_empty, wait_for_held_request, wait_until,
};

fn peer(hosts: &Hosts, number: usize) -> String {
    let (uri, data_uri, socket) = (hosts.peer_uri(number), hosts.data_uri(number), hosts.socket(number));
    let socket = socket.display();
    format!("[host{number}]\nuri = \"{uri}\"\ndata_uri = \"{data_uri}\"\nsocket = \"{socket}\"\n")
}

pub async fn connect(hosts: &Hosts, number: usize) -> Connection {
    Target::qemu(hosts.socket(number)).connect().await.unwrap().0
}

/// The state of a guest on a host; None if it is not there.
pub async fn state(hosts: &Hosts, number: usize, guest: &Guest) -> Option<State> {
    let connection = connect(hosts, number).await;
    let found = async {
        let domain = connection.domain_by_uuid(guest.uuid.parse().unwrap()).await?;
        connection.state(&domain).await
    };
    match found.await {
        Ok(info) => Some(info.state),
        Err(error) => {
            assert!(error.is(ErrorCode::NO_DOMAIN), "{error:?}");
            None
        }
    }
}

pub async fn boot(hosts: &Hosts, guest: &Guest) {
    let connection = connect(hosts, 1).await;
    let domain = connection.define(&guest.xml(), DefineFlags::NONE).await.unwrap();
    connection.start(&domain, CreateFlags::NONE).await.unwrap();
}

#[test]
fn events_are_seen_approved_and_carried_out_on_real_machines() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(all_events(&hosts));
    if is_long() {
        runtime.block_on(kill_matrix(&hosts));
    }
}

/// A server that drives the machines of both hosts.
fn start_server(hosts: &Hosts) -> Bench {
    let peers = hosts.dir().join("peers.toml");
    fs::write(&peers, [1, 2].map(|number| peer(hosts, number)).concat()).unwrap();
    let (socket, peers) = (hosts.socket(1).display().to_string(), peers.display().to_string());
    Bench::with_driver(&["--driver", "libvirt", "--libvirt-socket", &socket, "--driver-peers", &peers])
}

async fn kill_matrix(hosts: &Hosts) {
    let guest = hosts.guest("killed", 41);
    boot(hosts, &guest).await;
    guest.wait_for_boot(1).await;
    let mut bench = start_server(hosts);
    let create = |host: &str| {
        let options = "--spot --eviction-policy Deallocate --memory 128";
        format!("vm create killed --vm-id {} --host {host} {options}", guest.uuid)
    };
    bench.run(&create("host1"));
    let mut matrix = Matrix::new(&mut bench, &guest, &LIBVIRT);
    // A Redeploy moves the machine to the other host, and the next one back.
    matrix.survive_common().await;
    matrix.survive_migrations().await;
    let is_gone = async || (state(hosts, 1, &guest).await, state(hosts, 2, &guest).await) == (None, None);
    let create_again = async |bench: &Bench| {
        boot(hosts, &guest).await;
        bench.run(&create("host1"));
    };
    matrix.survive_deletions(is_gone, create_again).await;
    let cells = matrix.cells;
    bench.run("vm delete killed --yes");
    println!("libvirt: {cells} kills of the server, one effect each");
}

async fn all_events(hosts: &Hosts) {
    let (mut web, mut spot) = (hosts.guest("web", 21), hosts.guest("spot", 22));
    (web.address, spot.address) = (Some("10.99.0.21".into()), Some("10.99.0.22".into()));
    let mut bench = start_server(hosts);
    let log = BootLog::new();
    bench.run(&format!(
        "vm create web --vm-id {} --host host1 --address 10.99.0.21 --memory 128 --terminate-notification-time 5",
        web.uuid
    ));
    bench.run(&format!(
        "vm create spot --vm-id {} --host host1 --address 10.99.0.22 --spot --eviction-policy Delete",
        spot.uuid
    ));
    boot(hosts, &web).await;
    boot(hosts, &spot).await;
    let first = web.wait_for_boot(1).await;
    spot.wait_for_boot(1).await;
    wait_for_empty(&web, 0).await;
    wait_for_empty(&spot, 0).await;
    log.print("First boot", "none", &first);

    import_by_label(&bench, hosts).await;

    let from = web.lines().len();
    bench.run("maintenance start --vm web --type Freeze --duration 1s");
    let from = wait_for_approval(|words| bench.show(words), &web, "Freeze", from).await;
    wait_for_empty(&web, from).await;
    log.print("Freeze", &first, &web.wait_for_boot(1).await);

    let from = web.lines().len();
    bench.run("vm restart web");
    wait_for_approval(|words| bench.show(words), &web, "Reboot", from).await;
    let second = web.wait_for_boot(2).await;
    log.print("Reboot", &first, &second);
    assert_ne!(first, second);
    wait_for_empty(&web, from).await;

    let (boots, third) = killed_in_the_middle(&mut bench, &web, 2).await;
    log.print("Reboot, server killed", &second, &third);
    assert_ne!(second, third);

    let from = web.lines().len();
    bench.run("vm redeploy web");
    let fourth = web.wait_for_boot(boots + 1).await;
    log.print("Redeploy", &third, &fourth);
    assert_ne!(third, fourth);
    assert_eq!(bench.show("vm show web")["host"], "host2");
    assert_eq!((state(hosts, 1, &web).await, state(hosts, 2, &web).await), (None, Some(State::Running)));
    wait_for_approval(|words| bench.show(words), &web, "Redeploy", from).await;
    wait_for_empty(&web, web.last_boot_line()).await;

    let from = web.lines().len();
    bench.run("host drain host2");
    wait_for_approval(|words| bench.show(words), &web, "Freeze", from).await;
    log.print("Drain", &fourth, &web.wait_for_boot(boots + 1).await);
    assert_eq!(bench.show("vm show web")["host"], "host1");
    assert_eq!((state(hosts, 1, &web).await, state(hosts, 2, &web).await), (Some(State::Running), None));
    wait_for_held_request(&web, from).await;
    bench.run("host undrain host2");

    let from = spot.lines().len();
    bench.run("vm simulate-eviction spot");
    wait_for_approval(|words| bench.show(words), &spot, "Preempt", from).await;
    assert_eq!(state(hosts, 1, &spot).await, None);
    log.print("Preempt", &spot.wait_for_boot(1).await, "none");

    let from = web.lines().len();
    bench.run("vm delete web --yes");
    wait_for_approval(|words| bench.show(words), &web, "Terminate", from).await;
    assert_eq!(state(hosts, 1, &web).await, None);
    log.print("Terminate", &fourth, "none");
    let idle = hosts.guest("idle", 23);
    bench.run("vm start idle");
    let mut boot_id = idle.wait_for_boot(1).await;
    log.print("Start", "none", &boot_id);
    for (boots, words, power) in [(2, "vm stop idle", "Stopped"), (3, "vm deallocate idle", "Deallocated")] {
        wait_until("the power state", || bench.show("vm show idle")["powerChange"].is_null());
        assert_eq!(bench.show("vm show idle")["power"], "Running");
        bench.run(words);
        wait_until("the power state", || bench.show("vm show idle")["power"] == power);
        assert_eq!(state(hosts, 1, &idle).await, Some(State::ShutOff), "{words}");
        log.print(words, &boot_id, "none");
        bench.run("vm start idle");
        let next = idle.wait_for_boot(boots).await;
        log.print("vm start idle", &boot_id, &next);
        assert_ne!(next, boot_id);
        boot_id = next;
    }
    assert_eq!(bench.show("vm list").as_array().map(Vec::len), Some(1), "the imported machine is left");
}

/// A domain that is not running is found, and adopted because of its label. Its power state follows libvirt.
async fn import_by_label(bench: &Bench, hosts: &Hosts) {
    let mut idle = hosts.guest("idle", 23);
    idle.has_interface = true;
    let connection = connect(hosts, 1).await;
    let domain = connection.define(&idle.xml(), DefineFlags::NONE).await.unwrap();
    let (label, uri) = (Some("<labels tier=\"idle\"/>"), "https://forewarn.dev/labels");
    connection.set_metadata(&domain, label, "labels", uri, Affect::CONFIG).await.unwrap();
    let import = format!("host import host1 --libvirt-socket {}", hosts.socket(1).display());
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
    let shown = bench.show("vm show idle");
    assert_eq!(shown["host"], "host1");
    assert_eq!(shown["details"]["mac"], idle.mac().replace(':', "").to_uppercase());
}
