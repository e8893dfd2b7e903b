//! The QEMU driver on real guests: QEMU under TCG on one host, in a namespace without a way out, with guests that boot a
//! real kernel and whose handler polls the metadata address.
//!
//! The tests themselves are the modules `qemu_guests::` of the integration tests; `cargo test` skips them. This run
//! provides kernel, initramfs and network: a directory named by the variable [`QEMU`].

use anyhow::Result;

use super::libvirt::guest;
use super::netns::{METADATA, Network};
use crate::needs::Needs;
use crate::test_programs;

/// Names the directory with the kernel. Read by the tests.
const QEMU: &str = "XTASK_QEMU";

/// Names the network namespace in which server and guests run.
const CLOUD: &str = "XTASK_CLOUD";

/// Guests with a network interface, by the number in their address.
const GUESTS: [u32; 3] = [21, 22, 23];

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("qemu-system-x86", "qemu-system-x86_64"),
        ("util-linux", "unshare"),
        ("xz-utils", "xz"),
    ],
    downloads: &[guest::KERNEL, guest::BUSYBOX],
};

pub fn run() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("forewarn-qemu-").tempdir()?;
    guest::build(dir.path())?;
    let network = Network::of(Vec::new())?;
    network.cloud.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "br0"])?;
    for number in GUESTS {
        let tap = format!("tap{number}");
        network.cloud.ip(&["tuntap", "add", "dev", &tap, "mode", "tap"])?;
        network.cloud.ip(&["link", "set", &tap, "master", "br0", "up"])?;
    }
    network.check_no_way_out()?;
    let cloud = network.cloud.network_path();
    let variables = [(QEMU, dir.path().as_os_str()), (CLOUD, cloud.as_ref())];
    test_programs::run_only(test_programs::QEMU_DRIVER, &variables)?;
    test_programs::run_only(test_programs::QEMU_SERVER, &variables)
}
