//! Creates a region from the data directory of a single server.

use std::path::Path;

use anyhow::{Context, bail};
use forewarn_access::random_bytes;
use forewarn_cluster::encoding::{decode_position, encode_position};
use forewarn_cluster::{Created, EtcdLog, Hash, Key, Log as _, Position};
use forewarn_store::{Replicated as _, SqliteStore, Store as _};

use super::etcd;
use crate::config::EtcdAccess;

/// Creates the key of a region's secrets. Fails if the file exists.
pub fn create_cluster_key(file: &Path) -> anyhow::Result<()> {
    Ok(Key::create(file).map(drop)?)
}

/// Creates the region of this address, and makes the data directory the copy of its first node. Returns the revision.
///
/// A directory that belonged to a region before keeps its place in the log, so that terms do not fall when etcd was rebuilt.
pub fn init_region(directory: &Path, address: &str, access: &EtcdAccess) -> anyhow::Result<u64> {
    if !directory.join("forewarn.db").exists() {
        bail!("no data found in {}: give the data directory of a server with --from", directory.display());
    }
    let mut log = EtcdLog::new(etcd::options(address, access)?).context("cannot start the connection to etcd")?;
    let mut store = SqliteStore::open(directory)?;
    let revision = store.load()?.revision;
    let position = match store.position()? {
        Some(text) => decode_position(text.as_bytes())?,
        // Random, so that copies of two regions that begin alike are not mistaken for each other.
        None => Position { revision, term: 0, hash: Hash(random_bytes()) },
    };
    if position.revision != revision {
        bail!("the data is at revision {revision}, but its position in the log is revision {}", position.revision);
    }
    match log.create(&position)? {
        Created::New => {}
        Created::Exists(head) if head == position => {}
        Created::Exists(head) => {
            bail!("the region already exists, at revision {}: choose another name, or start nodes on it", head.revision)
        }
    }
    store.set_position(&encode_position(&position))?;
    Ok(revision)
}
