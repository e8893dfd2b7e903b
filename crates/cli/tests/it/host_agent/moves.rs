//! A guest that moves between two host agents while it runs.

use forewarn_libvirt::State;
use forewarn_test_support::{BootLog, Guest, Hosts, is_long};

use super::{HOSTS_IN_USE, start_agent, start_server};
use crate::agent_bench::AgentBench;
use crate::kill_matrix::{LIBVIRT, Matrix, has_entries};
use crate::machine_bench::{wait_for_approval, wait_for_empty, wait_for_held_request, wait_until};
use crate::machines::{boot, state};

#[test]
fn a_guest_moves_live_between_two_agents_that_are_killed() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let _turn = HOSTS_IN_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(moves(&hosts));
}

async fn moves(hosts: &Hosts) {
    let mut guest = hosts.guest("mover", 33);
    guest.address = Some("10.99.0.33".into());
    let mut bench = start_server();
    for number in [1, 2] {
        start_agent(&mut bench, hosts, number);
    }
    bench.server.run(&format!("vm create mover --vm-id {} --host host1 --address 10.99.0.33", guest.uuid));
    boot(hosts, &guest).await;
    guest.wait_for_boot(1).await;
    wait_for_empty(&guest, 0).await;
    drain(&bench, hosts, &guest).await;
    let steps = if is_long() { LIBVIRT.migration } else { &["migrate", "record-outcome"] };
    for step in steps {
        bench.victim = host_of(&bench, &guest) - 1;
        let from = guest.lines().len();
        Matrix::new(&mut bench, &guest, &LIBVIRT).survive_migration(step).await;
        wait_for_arrival(&bench, hosts, &guest, from).await;
    }
    kill_target(&mut bench, hosts, &guest).await;

    bench.server.run("vm delete mover --yes");
    assert_eq!([state(hosts, 1, &guest).await, state(hosts, 2, &guest).await], [None, None]);
}

/// The number of the guest's host.
fn host_of(bench: &AgentBench, guest: &Guest) -> usize {
    let shown = bench.server.show(&format!("vm show {}", guest.name));
    shown["host"].as_str().and_then(|host| host.strip_prefix("host")?.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
}

/// Drains the host of the guest, which approves, moves and keeps running.
async fn drain(bench: &AgentBench, hosts: &Hosts, guest: &Guest) {
    let log = BootLog::new();
    let (source, from) = (host_of(bench, guest), guest.lines().len());
    let before = guest.wait_for_boot(1).await;
    bench.server.run(&format!("host drain host{source}"));
    assert_eq!(bench.server.show(&format!("host show host{source}"))["state"], "Drained");
    let from = wait_for_approval(|words| bench.server.show(words), guest, "Freeze", from).await;
    let target = wait_for_arrival(bench, hosts, guest, from).await;
    assert_ne!(target, source);
    log.print(&format!("Drain from host{source} to host{target}"), &before, &guest.wait_for_boot(1).await);
    bench.server.run(&format!("host undrain host{source}"));
    assert_eq!(bench.server.show(&format!("host show host{source}"))["state"], "Active");
}

/// The guest runs on its new host only, and sees that its event has ended. No document was older than the one before it.
async fn wait_for_arrival(bench: &AgentBench, hosts: &Hosts, guest: &Guest, from: usize) -> usize {
    let here = host_of(bench, guest);
    assert_eq!(state(hosts, here, guest).await, Some(State::Running));
    assert_eq!(state(hosts, 3 - here, guest).await, None);
    guest.wait_for_beat().await;
    wait_for_empty(guest, from).await;
    wait_for_held_request(guest, from).await;
    here
}

/// The agent of the target is killed while the machine moves there, and starts again when the machine has arrived.
async fn kill_target(bench: &mut AgentBench, hosts: &Hosts, guest: &Guest) {
    let log = BootLog::new();
    let (source, from) = (host_of(bench, guest), guest.lines().len());
    let (target, before) = (3 - source, guest.wait_for_boot(1).await);
    bench.server.try_run(&format!("host drain host{source}"));
    wait_until("the order", || has_entries(&bench.agents[source - 1].journal()));
    bench.agents[target - 1].kill();
    while state(hosts, source, guest).await.is_some() {
        tokio::task::yield_now().await;
    }
    assert_ne!(bench.server.show(&format!("host show host{source}"))["state"], "Drained");
    bench.start(target - 1);
    wait_until("the drain", || bench.server.show(&format!("host show host{source}"))["state"] == "Drained");
    assert_eq!(wait_for_arrival(bench, hosts, guest, from).await, target);
    log.print(&format!("host drain, agent of host{target} killed"), &before, &guest.wait_for_boot(1).await);
}
