//! The secrets of a region: owner token, clients, signing key, and the certificate authorities of servers and hosts. They are kept
//! in etcd, sealed with the cluster key, and copied into every server's data directory at startup.

use std::path::Path;

use anyhow::{Context, bail};
use forewarn_access::tls::{TLS_FILE, now, shared_authority_file};
use forewarn_access::{
    Access, Auth, CLIENTS_FILE, HOSTS_TLS_FILE, SIGNING_KEY_FILE, TOKEN_FILE, new_hosts_authority, secret_file,
};
use forewarn_cluster::{EtcdLog, Key, LogError};
use serde_json::Value;

use super::{etcd, token};
use crate::config::ClusterConfig;

/// The largest secret file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The files that the servers share.
const FILES: [&str; 5] = [TOKEN_FILE, CLIENTS_FILE, SIGNING_KEY_FILE, TLS_FILE, HOSTS_TLS_FILE];

/// Attempts to reach etcd before a server that has the secrets already starts without.
const ATTEMPTS: u32 = 5;

/// Makes the files in the data directory those of the region. The first server of a region provides them.
pub fn share_secrets(config: &ClusterConfig, directory: &Path) -> anyhow::Result<()> {
    let Some(path) = &config.key else { return Ok(()) };
    if !path.exists() {
        bail!(
            "the cluster key {} does not exist: create it with `forewarn cluster key {0}` on one server, and copy it to the \
             others",
            path.display()
        );
    }
    let key = Key::read(path)?;
    let had_all = FILES.iter().all(|name| directory.join(name).exists());
    // Creates what is missing.
    drop(Access::open(Auth::Token, Some(directory), &[])?);
    let mut log =
        EtcdLog::new(etcd::options(&config.address, &config.etcd)?).context("cannot start the connection to etcd")?;
    for attempt in 1.. {
        match share_files(&mut log, &key, directory) {
            Ok(()) => break,
            Err(error) if error.downcast_ref::<LogError>().is_none() => return Err(error),
            Err(error) if attempt < ATTEMPTS => tracing::warn!(%error, "cannot read the secrets of the region yet"),
            Err(error) if had_all => {
                tracing::warn!(%error, "cannot read the secrets of the region; using those of the last start");
                break;
            }
            Err(error) => return Err(error.context("cannot read the secrets of the region")),
        }
    }
    Ok(())
}

fn share_files(log: &mut EtcdLog, key: &Key, directory: &Path) -> anyhow::Result<()> {
    // A token that was rotated while the server was stopped replaces the region's.
    token::exchange(log, key, directory)?;
    for name in FILES {
        let path = directory.join(name);
        let own = secret_file::read(&path, FILE_BYTES_MAX)?.map(|(text, _)| text);
        let stored = match log.read_secret(name)? {
            Some(sealed) => sealed,
            None => {
                let text = match (name, own.as_deref().filter(|text| name != TLS_FILE || is_for_any_name(text))) {
                    (_, Some(text)) => text.to_owned(),
                    (TLS_FILE, None) => shared_authority_file(now())?,
                    (HOSTS_TLS_FILE, None) => new_hosts_authority()?,
                    (_, None) => bail!("{} is missing", path.display()),
                };
                log.share_secret(name, &key.seal(name, text.as_bytes())?)?
            }
        };
        let shared = String::from_utf8(key.open(name, &stored)?).context("a secret of the region is not text")?;
        if own.is_none_or(|own| !is_same(name, &own, &shared)) {
            secret_file::replace(&path, &shared)?;
        }
    }
    token::exchange(log, key, directory)
}

/// Servers share the authority, but each has a certificate of its own.
fn is_same(name: &str, own: &str, shared: &str) -> bool {
    let authority = |text: &str| -> Value {
        serde_json::from_str::<Value>(text).map_or(Value::Null, |value| value["authority"]["certificate"].clone())
    };
    if name == TLS_FILE { authority(own) == authority(shared) } else { own == shared }
}

/// Whether the authority in this file can sign certificates for every server.
fn is_for_any_name(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.get("permitted").is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_an_authority_but_not_a_certificate() {
        let shared = shared_authority_file(now()).unwrap();
        let mut own: Value = serde_json::from_str(&shared).unwrap();
        own["leaf"]["certificate"] = "another".into();
        assert!(is_same(TLS_FILE, &own.to_string(), &shared));
        assert!(is_for_any_name(&shared));
        assert!(!is_same(TLS_FILE, &shared_authority_file(now()).unwrap(), &shared));
        assert!(!is_same(TOKEN_FILE, "a", "b"));
        own["permitted"] = serde_json::json!(["localhost"]);
        assert!(!is_for_any_name(&own.to_string()));
    }
}
