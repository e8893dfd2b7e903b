//! The libvirt driver: carries out orders on the domains of one host.
//!
//! Each order is a sequence of steps. Two records say how far it got: the journal (what this host was asked to do) and an
//! element in the domain's metadata (how far the step got, wherever the domain is). Every step can be repeated, so after
//! a crash the order is performed again from the recorded stage:
//!
//! ```text
//!  Freeze            begun → suspend → held → wait → done → resume
//!  Reboot            begun → suspend → held → reset → done → resume
//!  Reboot, graceful  begun → shutdown (destroy at the deadline) → down → start → done
//!  Redeploy          begun → shutdown → down → move the definition; `Start` is an order for the other host
//!  Migrate           begun → migrate
//!  Evict             begun → shutdown (destroy after 30 s) → down, or undefine
//!  Terminate         begun → destroy → undefine → delete disks
//! ```
//!
//! If libvirtd is killed, the driver connects again and continues in the same way. A machine is never left paused: an
//! order that fails while it holds a machine resumes it, and so does a stop of this program.

mod config;
mod describe;
mod disks;
mod driver;
mod holds;
mod host;
mod inventory;
pub(crate) mod journal;
mod mark;
mod peers;
mod step;
mod steps;

pub use config::{LibvirtConfig, PeerState, Peers};
pub use describe::{DomainDescription, LABELS_URI, describe_domains};
pub use driver::{LibvirtDriver, Stray};
pub use forewarn_libvirt::Target;
pub use inventory::{DomainWatch, FoundDomain};
pub use peers::{KnownPeers, Peer};
pub use step::{Step, StepHook};
