//! A rolling upgrade with two builds: servers of an older version share a region with servers of this one. `cargo xtask upgrade
//! REVISION` builds the older version and runs this.

use std::path::{Path, PathBuf};

use forewarn_test_support::{Need, can_run};

use crate::cluster::checker::{Ledger, Shared, run_with_clients, wait_for_progress};
use crate::cluster::nodes::{Cluster, Setup, poll_until};

/// Names the program of the older version.
const OLD_PROGRAM: &str = "XTASK_OLD_FOREWARN";

/// Changes that must succeed between two steps.
const CHANGES: u64 = 30;

#[test]
fn servers_of_two_versions_share_a_region_until_all_are_upgraded() {
    if !can_run(&[Need::Variable(OLD_PROGRAM), Need::Program("etcd"), Need::Program("setpriv")]) {
        return;
    }
    let old = PathBuf::from(std::env::var_os(OLD_PROGRAM).expect("the variable is set"));
    let new = Path::new(env!("CARGO_BIN_EXE_forewarn"));
    assert_ne!(std::fs::read(&old).unwrap(), std::fs::read(new).unwrap(), "both programs are the same");
    let cluster = Cluster::start_as(&Setup { program: Some(&old), ..Setup::default() }, |_, _| {});
    let leader = cluster.servers.leader();
    let followers: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    run_with_clients(cluster, |_, shared, ledger| {
        check_programs(shared, &old);
        wait_for_progress(ledger, CHANGES);
        // An older leader with one and with two newer followers.
        for index in &followers {
            upgrade(shared, ledger, *index, new);
        }
        // A newer leader with an older follower.
        shared.write().unwrap().kill(leader);
        wait_for_progress(ledger, CHANGES);
        shared.write().unwrap().restart(leader);
        wait_until_ready(shared, leader);
        assert_ne!(shared.read().unwrap().leader(), leader);
        wait_for_progress(ledger, CHANGES);
        upgrade(shared, ledger, leader, new);
        check_programs(shared, new);
    });
}

/// Starts a server again with another program, and waits until it follows.
fn upgrade(shared: &Shared<'_>, ledger: &Ledger, index: usize, program: &Path) {
    shared.write().unwrap().restart_as(index, program);
    wait_until_ready(shared, index);
    wait_for_progress(ledger, CHANGES);
    eprintln!("upgraded n{index}");
}

fn wait_until_ready(shared: &Shared<'_>, index: usize) {
    poll_until("a server to be ready", || {
        shared.read().unwrap().readiness(index).filter(|report| report["status"] == "ok").map(drop)
    });
}

/// Checks which program the servers run.
fn check_programs(shared: &Shared<'_>, expected: &Path) {
    let servers = shared.read().unwrap();
    for index in 0..3 {
        let running = std::fs::read_link(format!("/proc/{}/exe", servers.process(index))).unwrap();
        assert_eq!(running, expected.canonicalize().unwrap(), "n{index}");
    }
}
