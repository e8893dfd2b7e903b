//! A server as one of several that share a region: its place in the cluster, its local copy, and the state that others read.
//!
//! ```text
//!   writer ──batch──▶ Node ──payload──▶ log ──entry──▶ LocalCopy: store, snapshot, publisher
//! ```
//!
//! The rules run only at the leader. Followers apply its results.

mod copy;
mod node;
mod status;

use std::path::PathBuf;
use std::sync::Arc;

use forewarn_cluster::machine::{Identity, Settings};
use forewarn_cluster::{Key, Log, random_session};
use forewarn_store::{PAYLOAD_FORMAT, SEALED_FORMAT};

pub use copy::CopyContents;
pub use node::{CommitOutcome, FollowOutcome, Node};
pub use status::{ClusterMonitor, ClusterRole, ClusterStatus, LeaderAddress};

/// Copies a snapshot of the region from another server to a local file. It contains at least the revision before the given
/// one.
pub type Transfer = Box<dyn FnMut(u64) -> Result<PathBuf, String> + Send>;

pub struct ClusterOptions {
    /// The name of this server, unique in the region.
    pub node: String,
    /// The address at which the other servers reach this one.
    pub address: String,
    pub settings: Settings,
    pub log: Box<dyn Log>,
    pub transfer: Transfer,
    /// Seals what this server writes to the log once all servers read sealed records. None: the region has no key.
    pub key: Option<Arc<Key>>,
}

impl ClusterOptions {
    fn identity(&self) -> Identity {
        // Without the key, sealed records cannot be read.
        let format = if self.key.is_some() { PAYLOAD_FORMAT } else { SEALED_FORMAT - 1 };
        Identity {
            name: self.node.clone(),
            address: self.address.clone(),
            format: u32::from(format),
            content_format: u32::from(PAYLOAD_FORMAT),
            session: random_session(),
        }
    }
}
