//! The address that every machine of the original asks at, and how this computer comes to have it.

mod link_local;
#[cfg(target_os = "linux")]
pub mod netlink;

use std::net::Ipv4Addr;

pub use link_local::LinkLocal;

/// Never asked by us outside a network of our own, except to find out that nobody is there.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
