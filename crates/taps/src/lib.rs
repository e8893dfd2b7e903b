//! Identifies guests by their bridge ports (`--guests-by mark`), so that a guest that uses another one's address is still
//! identified as itself.
//!
//! ```text
//!  guest ─▶ tap (bridge port) ─▶ nftables: port index → mark ─▶ accepted socket: SO_MARK ─▶ GuestPorts ─▶ machine
//!                                     ▲                                                        ▲
//!                                ports of bridges (netlink, sysfs)             live XML of domains (libvirt)
//! ```
//!
//! Every port of a bridge gets a mark, also those that belong to no machine. Which machine owns a port is known only to this
//! program, so a domain that starts or stops changes no rule unless its tap appears or disappears.
//!
//! The same rules keep guests at the endpoint of their own host, where the bridges of several hosts form one network: a guest
//! that was migrated while it runs would otherwise go on asking the host that it has left.
//!
//! Only [`bridges`], [`kernel`] and `links` touch the system. The rules are in a table of their own, which is loaded in one
//! transaction and removed at stop. A table from an earlier run is replaced.

pub mod bridges;
mod keeper;
pub mod kernel;
mod links;
mod script;

pub use keeper::{Settings, start};
