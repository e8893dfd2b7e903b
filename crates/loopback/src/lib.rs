//! The metadata address on the loopback interface: for `serve --link-local`, and inside the namespace of `forewarn run`.

mod link_local;
#[cfg(target_os = "linux")]
pub mod netlink;

use std::net::Ipv4Addr;

pub use link_local::LinkLocal;

/// The address of the metadata service. Probed outside a private network only to detect that it is in use.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
