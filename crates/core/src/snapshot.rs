//! The region at one revision, as the writer publishes it and readers use it.

use crate::Region;

/// The region at one revision. Immutable, so it can be kept for as long as needed.
#[derive(Debug)]
pub struct Snapshot {
    pub revision: u64,
    pub region: Region,
    /// Changes whenever a machine is added or removed.
    pub roster: u64,
}
