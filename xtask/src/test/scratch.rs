//! Where parts of the test command keep the data of servers, etcd members and browsers: in memory, if there is room.
//!
//! On a busy disk, a flush can take seconds. Then etcd is slow, leaders lose their leadership, and clients run into their time
//! limits, which says nothing about the code. These parts kill processes, never the machine, so data in memory survives what
//! data on a disk would survive.

use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

/// A file system in memory on every Linux system.
const MEMORY: &str = "/dev/shm";

/// Room that the parts may need there. In containers, it often has 64 MB.
const BYTES_MIN: u64 = 6 << 30;

/// The parts. Others use hypervisors and containers, whose profiles may not allow them other directories.
pub const PARTS: [&str; 8] = [
    "tests",
    "kill",
    "accept azure",
    "accept portal",
    "accept schemathesis",
    "accept cluster",
    "accept fleet",
    "accept oidc",
];

/// The directory for these parts, if there is room. It is deleted with the value, and with it what killed parts have left there.
pub fn create() -> Result<Option<TempDir>> {
    if free_bytes(Path::new(MEMORY)) < BYTES_MIN {
        return Ok(None);
    }
    Ok(Some(tempfile::Builder::new().prefix("forewarn-test-").tempdir_in(MEMORY)?))
}

pub fn is_for(part: &str) -> bool {
    PARTS.contains(&part)
}

/// 0 if it cannot be determined.
fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
}
