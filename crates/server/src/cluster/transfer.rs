//! Copies of the whole region between servers, for one that is too far behind the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use forewarn_cluster::{EtcdLog, Log as _};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use super::Cluster;
use super::peer::PeerClient;

const PATH: &str = "/cluster/v1/snapshot";

/// Numbers the files of copies that are sent at the same time.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Fetches copies from other servers.
pub struct Transfer {
    log: EtcdLog,
    peers: PeerClient,
    node: String,
    scratch: PathBuf,
    runtime: tokio::runtime::Handle,
}

impl Transfer {
    pub fn new(log: EtcdLog, peers: PeerClient, node: &str, scratch: PathBuf) -> Transfer {
        Transfer { log, peers, node: node.to_owned(), scratch, runtime: tokio::runtime::Handle::current() }
    }

    pub fn into_closure(mut self) -> forewarn_engine::Transfer {
        Box::new(move |next| self.fetch(next))
    }

    /// Copies the region from the most advanced server that answers.
    fn fetch(&mut self, next: u64) -> Result<PathBuf, String> {
        let mut members = self.log.roster().map_err(|error| error.to_string())?.members;
        members.retain(|member| member.name != self.node && member.applied + 1 >= next);
        members.sort_by_key(|member| std::cmp::Reverse(member.applied));
        let mut problem = "no other server has the missing part of the region".to_owned();
        for member in members {
            let file = self.scratch.join("copy-received");
            match self.runtime.block_on(receive(&self.peers, &member.address, &file)) {
                Ok(bytes) => {
                    tracing::info!(from = member.name, bytes, "copied the region from another server");
                    return Ok(file);
                }
                Err(error) => problem = format!("{}: {error}", member.name),
            }
        }
        Err(problem)
    }
}

/// A server that sends nothing for this long has probably been stopped.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

async fn receive(peers: &PeerClient, address: &str, path: &Path) -> anyhow::Result<u64> {
    let (response, _connection) = peers.open(address, Request::post(PATH).body(Bytes::new())?).await?;
    anyhow::ensure!(response.status() == StatusCode::OK, "the server answered {}", response.status());
    let _ = tokio::fs::remove_file(path).await;
    let mut file = tokio::fs::File::create(path).await?;
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = timeout(FRAME_TIMEOUT, body.frame()).await? {
        if let Ok(data) = frame?.into_data() {
            bytes += data.len() as u64;
            file.write_all(&data).await?;
        }
    }
    file.sync_all().await?;
    Ok(bytes)
}

pub fn routes() -> Router<Arc<Cluster>> {
    // A copy contains secrets, so this is not a GET, for which readers suffice.
    Router::new().route(PATH, post(send))
}

async fn send(State(cluster): State<Arc<Cluster>>) -> Response {
    let number = SENT.fetch_add(1, Ordering::Relaxed);
    let path = cluster.scratch.join(format!("copy-sent-{number}"));
    let (copier, target) = (cluster.copier.clone(), path.clone());
    let copied = tokio::task::spawn_blocking(move || copier.copy_to(&target)).await;
    let opened = match copied {
        Ok(Ok(())) => tokio::fs::File::open(&path).await.map_err(anyhow::Error::from),
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    };
    // The open file stays readable.
    let _ = tokio::fs::remove_file(&path).await;
    match opened {
        Ok(file) => Body::from_stream(ReaderStream::new(file)).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot copy the region for another server");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
