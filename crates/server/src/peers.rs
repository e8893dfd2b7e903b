//! Reads the file that names other libvirt hosts.
//!
//! ```toml
//! [host2]
//! uri = "qemu+tls://host2/system"  # its libvirtd, as other hosts reach it; this is the default
//! data_uri = "tcp://10.0.0.2"      # address for memory and disks; by default the host chooses
//! socket = "/run/host2/sock"       # only if this server can open it: then it also drives this host
//! ```

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use forewarn_drivers::libvirt::{KnownPeers, Peer};

/// Reads the file.
///
/// # Errors
///
/// If the file cannot be read, or a key or value in it is invalid.
pub fn read_peers(path: &Path) -> anyhow::Result<KnownPeers> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_peers(&text).with_context(|| format!("invalid hosts in {}", path.display()))
}

fn parse_peers(text: &str) -> anyhow::Result<KnownPeers> {
    let table: toml::Table = text.parse()?;
    let peers = table.iter().map(|(host, value)| {
        let keys = value.as_table().ok_or_else(|| anyhow!("'{host}' is not a table: write [{host}]"))?;
        Ok((host.clone(), parse_peer(keys).with_context(|| format!("host '{host}'"))?))
    });
    Ok(KnownPeers(peers.collect::<anyhow::Result<_>>()?))
}

fn parse_peer(keys: &toml::Table) -> anyhow::Result<Peer> {
    let mut peer = Peer::default();
    for (key, value) in keys {
        let text = value.as_str().ok_or_else(|| anyhow!("{key} is not a string"))?;
        match key.as_str() {
            "uri" => peer.uri = Some(text.into()),
            "data_uri" => peer.data_uri = Some(text.into()),
            "socket" => peer.socket = Some(text.into()),
            _ => bail!("unknown key '{key}': use uri, data_uri or socket"),
        }
    }
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_defaults() {
        let peers = parse_peers("[b]\n[c]\nuri = \"qemu:///c\"\ndata_uri = \"tcp://c\"\nsocket = \"/c\"\n").unwrap();
        assert_eq!(peers.address("a"), None);
        assert_eq!(peers.address("b").unwrap().uri, "qemu+tls://b/system");
        let c = peers.address("c").unwrap();
        assert_eq!((&*c.uri, c.data_uri.as_deref()), ("qemu:///c", Some("tcp://c")));
        assert_eq!(peers.0["c"].socket.as_deref(), Some(Path::new("/c")));
    }

    #[test]
    fn invalid_hosts_are_refused() {
        for (text, expected) in [
            ("b = 1", "'b' is not a table"),
            ("[b]\nurl = \"x\"", "unknown key 'url'"),
            ("[b]\nuri = 1", "uri is not a string"),
            ("[b", ""),
        ] {
            let error = format!("{:#}", parse_peers(text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
