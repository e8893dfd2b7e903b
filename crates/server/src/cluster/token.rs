//! The owner's token of a region. `forewarn token rotate` replaces the file of one server; this module passes the new token on to
//! the region and to the other servers.
//!
//! ```text
//!  token file ◀──▶ etcd (sealed) ◀──▶ token files of the other servers
//!      └─ token.shared: digest of the token that both had last
//! ```
//!
//! The digest tells which side has changed since. If both have, the region's token wins.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use forewarn_access::digest::digest_of;
use forewarn_access::{TOKEN_FILE, secret_file};
use forewarn_cluster::{EtcdLog, Key};

use super::Cluster;

/// How often the token is compared with the region's. Rotating a token takes effect everywhere within about this time.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Its name in the data directory.
const SHARED_FILE: &str = "token.shared";

/// A token has at most a few hundred bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Gives the server and the region the same token. Does nothing while the region has none.
pub fn exchange(log: &mut EtcdLog, key: &Key, directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(TOKEN_FILE);
    let Some((own, _)) = secret_file::read(&path, FILE_BYTES_MAX)? else { return Ok(()) };
    let Some(sealed) = log.read_secret(TOKEN_FILE)? else { return Ok(()) };
    let region = String::from_utf8(key.open(TOKEN_FILE, &sealed)?).context("the token of the region is not text")?;
    let shared = secret_file::read(&directory.join(SHARED_FILE), FILE_BYTES_MAX)?.map(|(text, _)| text);
    let current = match compare(&own, &region, shared.as_deref()) {
        NewerToken::Neither => own,
        NewerToken::Own => {
            if !log.replace_secret(TOKEN_FILE, &sealed, &key.seal(TOKEN_FILE, own.as_bytes())?)? {
                // Another server was faster. The next comparison sees its token.
                return Ok(());
            }
            tracing::info!("replaced the owner's token of the region");
            own
        }
        NewerToken::Region => {
            secret_file::replace(&path, &region)?;
            tracing::info!("the owner's token was replaced at another server");
            region
        }
    };
    let digest = digest(&current);
    if shared.as_deref() != Some(&digest) {
        secret_file::replace(&directory.join(SHARED_FILE), &digest)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewerToken {
    Neither,
    Own,
    Region,
}

/// `shared`: the digest of the token that both sides had last.
fn compare(own: &str, region: &str, shared: Option<&str>) -> NewerToken {
    if own == region {
        return NewerToken::Neither;
    }
    let is_region_unchanged = shared == Some(&digest(region));
    if is_region_unchanged { NewerToken::Own } else { NewerToken::Region }
}

fn digest(token: &str) -> String {
    digest_of("shared-token", token.trim())
}

impl Cluster {
    /// Compares the token regularly, until the server stops.
    pub(super) async fn keep_token(self: &Arc<Self>) {
        let Some(key) = self.key.clone() else { return };
        let mut announced = None;
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let (cluster, key) = (self.clone(), key.clone());
            let exchanged =
                tokio::task::spawn_blocking(move || exchange(&mut cluster.lock_log(), &key, &cluster.scratch)).await;
            let problem = exchanged.ok().and_then(Result::err).map(|error| format!("{error:#}"));
            if problem.is_some() && problem != announced {
                tracing::warn!(error = problem, "cannot compare the owner's token with the region's");
            }
            announced = problem;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_changed_since_the_last_exchange_is_newer() {
        let shared = digest("old");
        assert_eq!(compare("old", "old", None), NewerToken::Neither);
        assert_eq!(compare("new", "old\n", Some(&shared)), NewerToken::Own);
        assert_eq!(compare("old", "new", Some(&shared)), NewerToken::Region);
        assert_eq!(compare("new", "newer", Some(&shared)), NewerToken::Region);
        // A server that joins.
        assert_eq!(compare("own", "old", None), NewerToken::Region);
    }
}
