//! Code shared by the integration tests of several crates: a webhook receiver, guests on real hosts, free ports, and visible skips for
//! tests that need a program or a kernel feature the machine lacks. Only a dev-dependency; not the harness that other projects use,
//! which is `forewarn-testing`.

mod hosts;
mod libvirtd;
mod needs;
mod ports;
mod receiver;

pub use hosts::{Guest, Hosts};
pub use libvirtd::TestLibvirtd;
pub use needs::{Need, can_run};
pub use ports::free_port;
pub use receiver::{Delivery, Receiver};
