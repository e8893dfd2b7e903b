//! The libvirt driver: carries out orders on the domains of one host.
//!
//! Two records say how far an order got: the journal (what this host was asked to do) and an element in the domain's
//! metadata (how far the step got, wherever the domain is). The sequences of steps are those of [`crate::journaled`],
//! and these:
//!
//! ```text
//!  Redeploy   begun → shutdown → down → move the definition; `Start` is an order for the other host
//!  Migrate    begun → migrate
//!  Evict      begun → shutdown (destroy after 30 s) → down, or undefine
//!  Terminate  begun → destroy → undefine → delete disks
//! ```
//!
//! If libvirtd is killed, the driver connects again and continues in the same way.

mod config;
mod describe;
mod disks;
mod driver;
mod host;
mod inventory;
mod mark;
mod migrate;
mod peers;
mod redeploy;
mod remove;

pub use config::{LibvirtConfig, PeerState, Peers};
pub use describe::{LABELS_URI, describe_domains};
pub use driver::{LibvirtDriver, UnknownRecord};
pub use forewarn_libvirt::Target;
pub use inventory::DomainWatch;
pub use peers::{KnownPeers, Peer};
