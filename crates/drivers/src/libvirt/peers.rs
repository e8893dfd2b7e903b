//! Other hosts: how this host reaches them, and how a machine on them is looked up.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forewarn_core::Guid;
use forewarn_libvirt::{ErrorCode, State, Target, Uuid};
use serde::Deserialize;

use super::config::{PeerState, Peers};
use crate::book::default_address;
use crate::order::{HostAddress, Pending};

/// A host that machines move to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Peer {
    /// The libvirtd, as other hosts reach it. None: libvirt over TLS, at the name of the host.
    pub uri: Option<String>,
    /// Address for memory and disks. None lets the host choose.
    pub data_uri: Option<String>,
    /// The socket of its libvirtd, if this program can open it.
    pub socket: Option<PathBuf>,
}

/// The hosts that are known by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPeers(pub BTreeMap<String, Peer>);

impl KnownPeers {
    pub fn address(&self, host: &str) -> Option<HostAddress> {
        let peer = self.0.get(host)?;
        let default = default_address(host);
        let uri = peer.uri.clone().unwrap_or(default.uri);
        Some(HostAddress { name: default.name, uri, data_uri: peer.data_uri.clone() })
    }
}

impl Peers for KnownPeers {
    /// Unknown for hosts whose socket this program cannot open. libvirt itself then refuses what is not possible.
    fn state_of(&self, host: &str, machine: Guid) -> Pending<'_, PeerState> {
        let socket = self.0.get(host).and_then(|peer| peer.socket.clone());
        Box::pin(async move {
            match socket {
                Some(socket) => look_up(&Target::qemu(socket), machine).await.unwrap_or(PeerState::Unknown),
                None => PeerState::Unknown,
            }
        })
    }
}

async fn look_up(target: &Target, machine: Guid) -> forewarn_libvirt::Result<PeerState> {
    let (connection, _events) = target.connect().await?;
    let domain = match connection.domain_by_uuid(Uuid(machine.0.to_be_bytes())).await {
        Ok(domain) => domain,
        Err(error) if error.is(ErrorCode::NO_DOMAIN) => return Ok(PeerState::Absent),
        Err(error) => return Err(error),
    };
    Ok(match connection.state(&domain).await?.state {
        State::Running | State::Blocked => PeerState::Running,
        State::Paused
        | State::ShuttingDown
        | State::ShutOff
        | State::Crashed
        | State::PmSuspended
        | State::Other(_) => PeerState::Paused,
    })
}
