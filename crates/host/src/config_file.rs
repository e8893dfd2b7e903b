//! The configuration file of the agent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forewarn_drivers::libvirt::Peer;
use serde::Deserialize;

/// The file that is read if none is named.
pub const CONFIG_FILE: &str = "/etc/forewarn/host.toml";

/// The data directory, if none is named.
pub const DATA_DIRECTORY: &str = "/var/lib/forewarn-host";

/// The keys of the file. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// Directory of identity, copy and journal.
    pub data: Option<PathBuf>,
    /// Metadata listeners, in the notation of `forewarn serve --metadata`.
    pub metadata: Vec<String>,
    /// Address of health checks and metrics.
    pub health: Option<SocketAddr>,
    /// `address` or `mark`.
    pub guests_by: Option<String>,
    /// Packet-mark bits used to identify guests.
    pub mark_mask: Option<String>,
    pub plain_names: bool,
    pub preview_version: bool,
    /// Requests per second and machine.
    pub rate_limit: Option<u32>,
    /// `libvirt`, `qemu`, `simulated` or `none`.
    pub driver: Option<String>,
    /// `hard` (reset) or `graceful` (shutdown and start).
    pub reboot: Option<String>,
    /// Socket of this host's libvirtd.
    pub libvirt_socket: Option<PathBuf>,
    /// File that names the machines of the qemu driver.
    pub driver_machines: Option<PathBuf>,
    /// Storage pools from which the disks of deleted machines are deleted.
    pub pools: Vec<String>,
    /// Hosts that libvirt moves machines to, by name.
    pub peers: BTreeMap<String, Peer>,
}

impl ConfigFile {
    /// Reads a file. The default one need not exist.
    pub fn read(path: Option<&Path>) -> anyhow::Result<ConfigFile> {
        let default = Path::new(CONFIG_FILE);
        if path.is_none() && !default.exists() {
            return Ok(ConfigFile::default());
        }
        let path = path.unwrap_or(default);
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("invalid configuration in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<ConfigFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.toml");
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(Some(&path))
    }

    #[test]
    fn all_keys_are_optional_and_unknown_ones_are_refused() {
        assert_eq!(read("").unwrap(), ConfigFile::default());
        let file = read("metadata = [\"169.254.169.254:80\"]\nhealth = \"127.0.0.1:8173\"\ndriver = \"none\"").unwrap();
        assert_eq!(file.metadata, ["169.254.169.254:80"]);
        let peers = read("[peers.node2]\ndata_uri = \"tcp://10.0.0.2\"\n[peers.node3]").unwrap().peers;
        assert_eq!(peers["node2"].data_uri.as_deref(), Some("tcp://10.0.0.2"));
        assert_eq!(peers["node3"], Peer::default());
        for (text, word) in [("metdata = []", "metdata"), ("[peers.node2]\nurl = \"x\"", "url")] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains("host.toml") && error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_packaged_file_is_valid() {
        let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/forewarn-host/host.toml");
        let file = ConfigFile::read(Some(&packaged)).unwrap();
        assert_eq!(file.metadata, ["169.254.169.254:80"]);
    }
}
