//! The log on real etcd: conformance, failures of members and of servers, TLS and passwords. `cargo xtask accept cluster`
//! provides etcd; without it, these tests are skipped.

mod access;
mod conformance;
mod members;
mod rounds;

use std::time::{Duration, Instant};

use forewarn_test_support::{Need, can_run};

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether etcd is installed. If not, the running test is reported as skipped.
fn has_etcd() -> bool {
    can_run(&[Need::Program("etcd"), Need::Program("etcdctl"), Need::Program("setpriv")])
}

/// Polls until there is a result.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
