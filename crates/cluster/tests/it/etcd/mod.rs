//! The log on real etcd: conformance, failures of members and of servers, TLS and passwords. `cargo xtask accept cluster`
//! provides etcd; without it, these tests are skipped.

mod access;
mod conformance;
mod members;
mod rounds;

use forewarn_test_support::{Need, can_run, poll_until};

/// Whether etcd is installed. If not, the running test is reported as skipped.
fn has_etcd() -> bool {
    can_run(&[Need::Program("etcd"), Need::Program("etcdctl"), Need::Program("setpriv")])
}
