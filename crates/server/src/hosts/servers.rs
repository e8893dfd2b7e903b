//! The addresses at which agents reach the servers of a cluster. Each server stores its own in the region, and agents learn all of
//! them from the answers to their heartbeats.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use forewarn_access::{put_host_listener, read_host_listeners};
use forewarn_engine::{Bundle, Engine, SubmitError};
use forewarn_store::{Reader, StoreError};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::links::Links;
use super::relay::PEER_PREFIX;
use crate::cluster::{LeaderRequest, LeaderResponse};

/// Where a follower announces its own address to the leader.
pub const LISTENER: &str = "/listener";

/// The pause before a server announces its address again.
const ANNOUNCE_RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct ServerList {
    /// None: a single server.
    own: Option<Listener>,
    known: Mutex<BTreeMap<String, String>>,
}

/// The listener for hosts of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    pub node: String,
    /// With a port.
    pub address: String,
}

impl Listener {
    /// The listener of a node that the other servers reach at `advertise`, with this port.
    pub fn new(node: &str, advertise: &str, port: u16) -> anyhow::Result<Listener> {
        let uri: http::Uri = advertise.parse().with_context(|| format!("invalid address '{advertise}'"))?;
        let host = uri.host().with_context(|| format!("the address '{advertise}' has no host"))?;
        Ok(Listener { node: node.to_owned(), address: format!("{host}:{port}") })
    }
}

impl ServerList {
    pub fn new(own: Option<Listener>) -> ServerList {
        ServerList { own, known: Mutex::default() }
    }

    /// The addresses of all servers; empty for a single one.
    pub fn addresses(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    /// Reads the addresses from the store. Blocking.
    pub fn load(&self, reader: &dyn Reader) -> Result<(), StoreError> {
        let stored = read_host_listeners(reader)?;
        *self.lock() = stored;
        Ok(())
    }

    /// The own listener, if the region does not have its address.
    fn find_unannounced(&self) -> Option<Listener> {
        let own = self.own.clone()?;
        (self.lock().get(&own.node) != Some(&own.address)).then_some(own)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps this server's view of hosts and servers in sync with the region, until it stops.
pub async fn follow_region(links: Arc<Links>, stop: CancellationToken) {
    let mut changes = links.engine.region_attachments();
    let following = async {
        loop {
            changes.mark_unchanged();
            if let Err(error) = load(&links).await {
                tracing::error!(%error, "cannot read the certificates of hosts");
            }
            if let Some(own) = links.servers.find_unannounced() {
                announce(&links, &own).await;
                tokio::select! {
                    _ = changes.changed() => {}
                    () = sleep(ANNOUNCE_RETRY) => {}
                }
                continue;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    let _: Option<()> = stop.run_until_cancelled(following).await;
}

async fn load(links: &Links) -> Result<(), StoreError> {
    let (access, servers) = (links.access.clone(), links.servers.clone());
    links.engine.read(move |reader| access.load(reader).and_then(|()| servers.load(reader))).await
}

/// Stores the address of this server in the region.
async fn announce(links: &Links, own: &Listener) {
    if links.engine.accepts_commands() {
        if let Err(error) = store(&links.engine, own).await {
            tracing::debug!(%error, "cannot store the address of the host listener; retrying");
        }
        return;
    }
    let Some(cluster) = &links.cluster else { return };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let body = Bytes::from(serde_json::to_vec(own).unwrap_or_default());
    let request = LeaderRequest { path: format!("{PEER_PREFIX}{LISTENER}"), headers, body, is_repeatable: true };
    if !matches!(cluster.send_to_leader(&request).await, LeaderResponse::By(answer) if answer.status().is_success()) {
        tracing::debug!("cannot announce the address of the host listener; retrying");
    }
}

/// Stores the address of another server, at the leader.
pub async fn receive(State(links): State<Arc<Links>>, Json(listener): Json<Listener>) -> StatusCode {
    match store(&links.engine, &listener).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(SubmitError::NoLeader) => StatusCode::MISDIRECTED_REQUEST,
        Err(
            SubmitError::Busy
            | SubmitError::Stopping
            | SubmitError::Unavailable
            | SubmitError::Rejected(_)
            | SubmitError::ServersOutdated,
        ) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn store(engine: &Engine, Listener { node, address }: &Listener) -> Result<(), SubmitError> {
    let attachment = put_host_listener(node, address);
    let bundle = Bundle { commands: Vec::new(), audit: None, attach: Box::new(move |_| vec![attachment]) };
    engine.submit_all(bundle).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_reach_a_server_at_the_host_that_it_advertises() {
        for (advertise, expected) in [
            ("https://n1.example.net:8171", "n1.example.net:8172"),
            ("http://127.0.0.1:8170", "127.0.0.1:8172"),
            ("https://[::1]:8171", "[::1]:8172"),
        ] {
            assert_eq!(Listener::new("n1", advertise, 8172).unwrap().address, expected);
        }
        assert!(Listener::new("n1", "/", 8172).is_err());
    }

    #[test]
    fn a_server_announces_an_address_that_the_region_does_not_have() {
        use forewarn_access::remove_host_listener;
        use forewarn_store::{Batch, MemoryStore, Store as _};

        let own = Listener { node: "n1".into(), address: "a:1".into() };
        let servers = ServerList::new(Some(own.clone()));
        assert_eq!(servers.find_unannounced(), Some(own.clone()));
        let mut store = MemoryStore::new();
        let revision = store.load().unwrap().revision;
        let attachments = vec![put_host_listener("n1", "a:1"), put_host_listener("n2", "b:1")];
        let revision = store.commit(revision, &Batch { attachments, ..Batch::default() }).unwrap();
        servers.load(&*store.reader()).unwrap();
        assert_eq!((servers.find_unannounced(), servers.addresses()), (None, vec!["a:1".to_owned(), "b:1".to_owned()]));
        let attachments = vec![remove_host_listener("n2"), put_host_listener("n1", "c:1")];
        store.commit(revision, &Batch { attachments, ..Batch::default() }).unwrap();
        servers.load(&*store.reader()).unwrap();
        assert_eq!((servers.find_unannounced(), servers.addresses()), (Some(own), vec!["c:1".to_owned()]));
        assert_eq!(ServerList::default().find_unannounced(), None, "a single server");
    }
}
