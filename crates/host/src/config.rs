//! Settings of the agent. The command line reads the file and the flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forewarn_drivers::RebootMode;
pub use forewarn_drivers::libvirt::KnownPeers;
use forewarn_metadata::MetadataListener;
pub use forewarn_taps::Settings as TapSettings;

#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The directory of identity, copy and journal.
    pub data: PathBuf,
    pub metadata: Vec<MetadataListener>,
    /// Identify guests by their network interfaces. None: by address.
    pub taps: Option<TapSettings>,
    /// The listener for health checks and metrics.
    pub health: Option<SocketAddr>,
    /// Show machine names without the `_` that version 2017-03-01 puts before them. Must be the same as at the server.
    pub plain_names: bool,
    /// Serve api-version 2024-07-09, which Azure has not released.
    pub preview_version: bool,
    /// Requests per second and machine; None: no limit.
    pub rate_limit: Option<u32>,
    /// How machines are restarted.
    pub reboot: RebootMode,
    /// How libvirt on this host reaches other hosts. A host that is not listed is reached at its default address.
    pub peers: KnownPeers,
    pub timing: Timing,
}

/// Intervals of the link. Tests shorten them.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between heartbeats. The server gives a host up after ten seconds.
    pub heartbeat: Duration,
    /// Between reports of machines that asked for their documents.
    pub seen: Duration,
    /// The longest pause between attempts to connect.
    pub pause_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_millis(2500),
            seen: Duration::from_secs(30),
            pause_max: Duration::from_secs(5),
        }
    }
}
