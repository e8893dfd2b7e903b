//! Snapshots of the region, published by the writer for readers.

use crate::Region;

/// The region at one revision. It is immutable and can be kept for as long as needed.
#[derive(Debug)]
pub struct Snapshot {
    pub revision: u64,
    pub region: Region,
}
