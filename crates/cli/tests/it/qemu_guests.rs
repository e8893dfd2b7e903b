//! Events on real machines without libvirt: a server or a host agent with the QEMU driver, and guests whose handler polls the
//! metadata address and approves.
//!
//! `cargo xtask accept qemu` provides kernel and network.

use std::sync::{Mutex, PoisonError};

use forewarn_test_support::{BootLog, QemuGuest, QemuHost, cloud_command, is_long};
use serde_json::Value;

use crate::agent_bench::AgentBench;
use crate::kill_matrix::{Effect, Matrix, QEMU};
use crate::machine_bench::{Bench, killed_in_the_middle, wait_for_approval, wait_for_empty, wait_until};
use crate::support::FOREWARN;

/// Each test uses the metadata address.
static NETWORK_IN_USE: Mutex<()> = Mutex::new(());

#[test]
fn events_are_carried_out_by_a_host_agent_with_the_qemu_driver() {
    let Some(host) = QemuHost::from_environment() else { return };
    let _turn = NETWORK_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(events_by_agent(&host));
}

async fn events_by_agent(host: &QemuHost) {
    let qemu = host.guest("db", 23, true);
    let (guest, machines) = (&qemu.guest, host.write_machines("agent.toml", &[&qemu]));
    qemu.start();
    let log = BootLog::new();
    let arguments = ["--metadata", "127.0.0.1:8169", "--hosts", "127.0.0.1:8172", "--driver", "agents"];
    let mut bench = AgentBench::new(Bench::start(&arguments));
    let config = format!("driver = \"qemu\"\ndriver_machines = {machines:?}\nmetadata = [\"169.254.169.254:80\"]\n");
    bench.add("host1", &config, None, Box::new(|| cloud_command(FOREWARN)));
    bench.start(0);
    bench.wait_for_contact();
    bench.server.run(&format!("vm create db --vm-id {} --host host1 --address 10.99.0.23", guest.uuid));
    let mut boot_id = guest.wait_for_boot(1).await;
    wait_for_empty(guest, 0).await;
    log.print("First boot", "none", &boot_id);
    let freeze = "maintenance start --vm db --type Freeze --duration 1s";
    for (words, kind, boots) in
        [(freeze, "Freeze", 1), ("vm restart db", "Reboot", 2), ("vm redeploy db", "Redeploy", 3)]
    {
        let from = guest.lines().len();
        bench.server.run(words);
        let from = wait_for_approval(|words| bench.server.show(words), guest, kind, from).await;
        let next = guest.wait_for_boot(boots).await;
        log.print(&format!("{kind} by the agent"), &boot_id, &next);
        assert_eq!(next == boot_id, kind == "Freeze");
        wait_for_empty(guest, from.max(guest.last_boot_line())).await;
        boot_id = next;
    }
    Matrix::new(&mut bench, guest, &QEMU).survive_step("vm restart db", "record-done", Effect::Reboots).await;
    bench.server.run("vm delete db --yes");
    assert_eq!(qemu.status(), "off");
}

#[test]
fn events_are_seen_approved_and_carried_out_by_the_qemu_driver() {
    let Some(host) = QemuHost::from_environment() else { return };
    let _turn = NETWORK_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(all_events(&host));
    if is_long() {
        runtime.block_on(kill_matrix(&host));
    }
}

async fn kill_matrix(host: &QemuHost) {
    let guest = host.guest("killed", 41, false);
    std::fs::write(host.path("killed.img"), "").unwrap();
    let file = host.write_machines("killed.toml", &[&guest]).display().to_string();
    // So that a deletion has all of its steps.
    let machines = std::fs::read_to_string(&file).unwrap() + "cleanup = [\"/bin/true\"]\n";
    std::fs::write(&file, machines).unwrap();
    guest.start();
    guest.guest.wait_for_boot(1).await;
    let mut bench = Bench::with_driver(&["--driver", "qemu", "--driver-machines", &file]);
    let create =
        format!("vm create killed --vm-id {} --host host1 --spot --eviction-policy Deallocate", guest.guest.uuid);
    bench.run(&create);
    let mut matrix = Matrix::new(&mut bench, &guest.guest, &QEMU);
    // Without another host, the machine restarts in place, from power off.
    matrix.survive_common().await;
    let is_gone = async || guest.status() == "off" && !host.path("killed.img").exists();
    let create_again = async |bench: &Bench| {
        std::fs::write(host.path("killed.img"), "").unwrap();
        guest.start();
        bench.run(&create);
    };
    matrix.survive_deletions(is_gone, create_again).await;
    let cells = matrix.cells;
    println!("qemu: {cells} kills of the server, one effect each");
}

async fn all_events(host: &QemuHost) {
    let (web, spot) = (host.guest("web", 21, true), host.guest("spot", 22, true));
    let file = host.write_machines("machines.toml", &[&web, &spot]).display().to_string();
    web.start();
    let log = BootLog::new();
    let mut bench = Bench::with_driver(&["--driver", "qemu", "--driver-machines", &file]);
    bench.run(&format!(
        "vm create spot --vm-id {} --host host1 --address 10.99.0.22 --spot --eviction-policy Deallocate",
        spot.guest.uuid
    ));
    import(&bench, &file);
    spot.start();
    bench.run("vm update web --terminate-notification-time 5");
    let first = web.guest.wait_for_boot(1).await;
    spot.guest.wait_for_boot(1).await;
    wait_for_empty(&web.guest, 0).await;
    wait_for_empty(&spot.guest, 0).await;
    log.print("First boot", "none", &first);
    wait_until("the power state", || bench.show("vm show spot")["power"] == "Running");

    let from = web.guest.lines().len();
    bench.run("maintenance start --vm web --type Freeze --duration 1s");
    let from = wait_for_approval(|words| bench.show(words), &web.guest, "Freeze", from).await;
    wait_for_empty(&web.guest, from).await;
    log.print("Freeze", &first, &web.guest.wait_for_boot(1).await);

    let from = web.guest.lines().len();
    bench.run("vm restart web");
    wait_for_approval(|words| bench.show(words), &web.guest, "Reboot", from).await;
    let second = web.guest.wait_for_boot(2).await;
    log.print("Reboot", &first, &second);
    assert_ne!(first, second);
    wait_for_empty(&web.guest, from).await;

    let (_, third) = killed_in_the_middle(&mut bench, &web.guest, 2).await;
    log.print("Reboot, server killed", &second, &third);
    assert_ne!(second, third);

    let fourth = stop_and_start(&bench, &log, &web, third).await;
    evict(&bench, &log, &spot).await;

    let from = web.guest.lines().len();
    bench.run("vm delete web --yes");
    wait_for_approval(|words| bench.show(words), &web.guest, "Terminate", from).await;
    wait_until("the end of the machine", || web.status() == "off");
    log.print("Terminate", &fourth, "none");
    assert_eq!(bench.show("vm list").as_array().map(Vec::len), Some(1), "the evicted machine is left");
}

/// The machines of the file are found and adopted, and their power state follows QEMU.
fn import(bench: &Bench, file: &str) {
    let states = |options: &str| -> Vec<(String, String)> {
        let rows = bench.show(&format!("host import host1 --driver-machines {file} {options}"));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        rows.as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
    };
    let rows = |web: &str| [("spot", "managed"), ("web", web)].map(|(name, state)| (name.to_owned(), state.to_owned()));
    assert_eq!(states(""), rows("found"));
    assert_eq!(states("--adopt"), rows("adopted"));
    assert_eq!(states("--adopt"), rows("managed"));
    wait_until("the power state", || bench.show("vm show spot")["power"] == "Stopped");
    // A QEMU that has not listened yet counts as off until the next look.
    wait_until("the power state", || bench.show("vm show web")["power"] == "Running");
    assert_eq!(bench.show("vm show web")["host"], "host1");
}

/// A machine that is stopped is off, and boots when it is started.
async fn stop_and_start(bench: &Bench, log: &BootLog, web: &QemuGuest, mut boot_id: String) -> String {
    for (words, power) in [("vm stop web", "Stopped"), ("vm deallocate web", "Deallocated")] {
        let boots = web.guest.boot_ids().len();
        bench.run(words);
        wait_until("the power state", || bench.show("vm show web")["power"] == power);
        assert_eq!(web.status(), "off", "{words}");
        log.print(words, &boot_id, "none");
        bench.run("vm start web");
        let next = web.guest.wait_for_boot(boots + 1).await;
        log.print("vm start web", &boot_id, &next);
        assert_ne!(next, boot_id);
        wait_until("the start", || bench.show("vm show web")["powerChange"].is_null());
        wait_for_empty(&web.guest, web.guest.last_boot_line()).await;
        boot_id = next;
    }
    boot_id
}

/// The guest shuts down when it is evicted, and stays defined, so that it can be started again.
async fn evict(bench: &Bench, log: &BootLog, spot: &QemuGuest) {
    let from = spot.guest.lines().len();
    bench.run("vm simulate-eviction spot");
    wait_for_approval(|words| bench.show(words), &spot.guest, "Preempt", from).await;
    assert_eq!(spot.status(), "off");
    wait_until("the power state", || bench.show("vm show spot")["power"] != "Running");
    let first = spot.guest.wait_for_boot(1).await;
    log.print("Preempt", &first, "none");
    wait_until("the release of the host", || bench.show("vm show spot")["power"] == "Deallocated");
    bench.run("vm start spot");
    let second = spot.guest.wait_for_boot(2).await;
    log.print("Start", &first, &second);
    wait_until("the host", || bench.show("vm show spot")["host"] == "host1");
    assert_eq!(bench.show("vm show spot")["power"], "Running");
}
