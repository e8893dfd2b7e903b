//! The libvirt client and driver against real libvirtd and QEMU: two hosts in namespaces, with guests that boot a real
//! kernel.
//!
//! The tests themselves are the modules `hosts::` of the integration tests; `cargo test` skips them. This run provides
//! the hosts: a directory with their sockets, a kernel and an initramfs, named by the variable [`HOSTS`].

mod cpio;
pub mod guest;
mod hosts;

use anyhow::Result;

use crate::needs::Needs;
use crate::test_programs;

/// Names the directory with the hosts. Read by the tests.
const HOSTS: &str = "XTASK_HOSTS";

/// Name the network namespaces of the hosts, in which host agents run.
const HOST_NETWORKS: [&str; 2] = ["XTASK_HOST1", "XTASK_HOST2"];

/// Names the network namespace in which a server is reached at the metadata address.
const CLOUD: &str = "XTASK_CLOUD";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("curl", "curl"),
        ("hostname", "hostname"),
        ("iproute2", "ip"),
        ("libvirt-daemon", "libvirtd"),
        ("libvirt-daemon-driver-qemu", "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"),
        (
            "libvirt-daemon-driver-storage",
            "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_storage.so",
        ),
        ("nftables", "nft"),
        ("qemu-system-x86", "qemu-system-x86_64"),
        ("util-linux", "unshare"),
        ("xz-utils", "xz"),
    ],
    downloads: &[guest::KERNEL, guest::BUSYBOX],
};

pub fn run() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("forewarn-hosts-").tempdir()?;
    guest::build(dir.path())?;
    let hosts = hosts::start(dir.path())?;
    let cloud = hosts.cloud.network_path();
    let networks: Vec<String> = hosts.nodes.iter().map(|host| host.namespace.network_path()).collect();
    let mut variables = vec![(HOSTS, dir.path().as_os_str()), (CLOUD, cloud.as_ref())];
    variables.extend(HOST_NETWORKS.into_iter().zip(networks.iter().map(|network| network.as_ref())));
    let groups = [
        test_programs::LIBVIRT_CLIENT,
        test_programs::LIBVIRT_DRIVER,
        test_programs::LIBVIRT_SERVER,
        test_programs::LIBVIRT_AGENT,
    ];
    for group in groups {
        test_programs::run_only(group, &variables).inspect_err(|_| hosts::print_logs(dir.path()))?;
    }
    Ok(())
}
