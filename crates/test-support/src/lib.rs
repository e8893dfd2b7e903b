//! Code shared by the integration tests of several crates: a webhook receiver, an HTTP client, polling, guests on libvirt and on
//! QEMU, free ports, and visible skips for tests that need a program or a kernel feature that the machine lacks. Only a
//! dev-dependency; the harness that other projects use is `forewarn-testing`.

mod boot_log;
mod hosts;
pub mod http;
mod libvirtd;
mod needs;
mod poll;
mod ports;
mod qemu;
mod receiver;

pub use boot_log::BootLog;
pub use hosts::{Guest, Hosts, cloud_command};
pub use libvirtd::TestLibvirtd;
pub use needs::{Need, can_run, is_long};
pub use poll::{PATIENCE, poll_until, poll_until_or};
pub use ports::free_port;
pub use qemu::{QemuGuest, QemuHost, connect_qmp, execute_qmp};
pub use receiver::{Delivery, Receiver};
