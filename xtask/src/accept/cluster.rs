//! The replicated log on three members of real etcd: conformance, TLS and passwords, and rounds in which servers and members
//! are killed, stopped and cut off. `XTASK_ROUNDS=200` runs more rounds of everything.
//!
//! These are the tests `etcd::` of the cluster crate, and the tests `cluster::` of the command line, which run three servers.
//! `cargo test` skips them; here all of them must run. Those that cut connections need root.

use anyhow::Result;

use crate::needs::Needs;
use crate::setup::Download;
use crate::test_programs;

/// Debian 12 has etcd 3.4, which is too old. These packages also run there.
pub const ETCD: Download = Download::UnpackedFrom("trixie", &["etcd-server", "etcd-client"]);

pub const NEEDS: Needs =
    Needs { root: false, packages: &[("util-linux", "setpriv"), ("iproute2", "ip")], downloads: &[ETCD] };

pub fn run() -> Result<()> {
    let path = format!("{}:{}", ETCD.path()?.join("usr/bin").display(), std::env::var("PATH")?);
    test_programs::run_only(test_programs::CLUSTER, &[("PATH", path.as_ref())])?;
    test_programs::run_only(test_programs::CLUSTER_SERVERS, &[("PATH", path.as_ref())])
}
