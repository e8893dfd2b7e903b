//! Copies of the whole region between servers, for one that is too far behind the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use forewarn_cluster::{EtcdLog, Log as _};
use forewarn_store::SnapshotWriter;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use super::Cluster;
use super::peer::PeerClient;

const PATH: &str = "/cluster/v1/snapshot";

/// The file of a copy that is received.
const RECEIVED: &str = "copy-received";

/// Prefix of the files of copies that are being sent. A number follows.
const SENT_PREFIX: &str = "copy-sent-";

/// Numbers these files.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Removes the files that a crash has left in a data directory: each is as large as the region, and contains its secrets.
pub fn remove_left_over(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_copy = name.to_str().is_some_and(|name| name == RECEIVED || name.starts_with(SENT_PREFIX));
        if is_copy && let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!(%error, file = %entry.path().display(), "cannot remove an old copy of the region");
        }
    }
}

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
            let file = self.scratch.join(RECEIVED);
            match self.runtime.block_on(receive(&self.peers, &member.address, &file, HEAD_TIMEOUT)) {
                Ok(bytes) => {
                    tracing::info!(from = member.name, bytes, "copied the region from another server");
                    return Ok(file);
                }
                Err(error) => problem = format!("{}: {error:#}", member.name),
            }
        }
        Err(problem)
    }
}

/// The other server writes its whole copy to a file before it answers, which takes minutes if the region is large and the disk slow.
/// One that takes longer has probably been stopped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// A server that sends nothing for this long has probably been stopped.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

async fn receive(peers: &PeerClient, address: &str, path: &Path, head_timeout: Duration) -> anyhow::Result<u64> {
    let opened = timeout(head_timeout, peers.open(address, Request::post(PATH).body(Bytes::new())?)).await;
    let (response, _connection) = opened.with_context(|| format!("no answer within {head_timeout:?}"))??;
    anyhow::ensure!(response.status() == StatusCode::OK, "the server answered {}", response.status());
    let _ = tokio::fs::remove_file(path).await;
    // The copy contains secrets.
    let mut file = tokio::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await?;
    let mut body = response.into_body();
    let mut bytes = 0;
    let stalled = || format!("nothing received for {FRAME_TIMEOUT:?}");
    while let Some(frame) = timeout(FRAME_TIMEOUT, body.frame()).await.with_context(stalled)? {
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
    let path = cluster.scratch.join(format!("{SENT_PREFIX}{number}"));
    match copy(cluster.copier.clone(), &cluster.copying, path).await {
        Ok(Some(file)) => Body::from_stream(ReaderStream::new(file)).into_response(),
        Ok(None) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot copy the region for another server");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Copies the region to a file that disappears when it is closed. None: another copy is being written. Each takes time and space.
async fn copy(
    copier: Arc<dyn SnapshotWriter>,
    copying: &Arc<Semaphore>,
    path: PathBuf,
) -> anyhow::Result<Option<tokio::fs::File>> {
    let Ok(permit) = copying.clone().try_acquire_owned() else { return Ok(None) };
    // This task continues if the other server gives up, and must then leave no file.
    let copied = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        copy_unlinked(&*copier, &path)
    });
    Ok(Some(tokio::fs::File::from_std(copied.await??)))
}

/// The open file stays readable without a name.
fn copy_unlinked(copier: &dyn SnapshotWriter, path: &Path) -> anyhow::Result<std::fs::File> {
    let copied = copier.copy_to(path);
    let opened = std::fs::File::open(path);
    let _ = std::fs::remove_file(path);
    copied?;
    Ok(opened?)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use forewarn_access::{Access, Auth};
    use forewarn_store::StoreError;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Writes a copy when it is told to.
    struct SlowCopier(Mutex<mpsc::Receiver<()>>);

    impl SnapshotWriter for SlowCopier {
        fn copy_to(&self, file: &Path) -> Result<(), StoreError> {
            self.0.lock().unwrap().recv().unwrap();
            std::fs::write(file, "region").map_err(|error| StoreError::Message(error.to_string()))
        }
    }

    #[tokio::test]
    async fn a_receiver_that_gives_up_leaves_no_copy_and_no_second_one_is_begun() {
        let (begin, begins) = mpsc::channel();
        let copier: Arc<dyn SnapshotWriter> = Arc::new(SlowCopier(Mutex::new(begins)));
        let directory = tempfile::tempdir().unwrap();
        let copying = Arc::new(Semaphore::new(1));
        let copy_to = |name: &str| copy(copier.clone(), &copying, directory.path().join(name));
        assert!(timeout(Duration::ZERO, copy_to("copy-sent-0")).await.is_err(), "given up");
        assert!(copy_to("copy-sent-1").await.unwrap().is_none(), "the first copy is still being written");
        begin.send(()).unwrap();
        drop(copying.acquire().await.unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

        begin.send(()).unwrap();
        let mut file = copy_to("copy-sent-2").await.unwrap().expect("a copy");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut text = String::new();
        file.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "region");
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        // The system accepts connections for a process that is stopped.
        let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", hanging.local_addr().unwrap());
        let peers = PeerClient::new("n1", Arc::new(Access::open(Auth::Off, None, &[]).unwrap()), None);
        let directory = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(50);
        let error = receive(&peers, &address, &directory.path().join(RECEIVED), limit).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "no answer within 50ms: deadline has elapsed");
    }

    #[test]
    fn copies_of_an_earlier_process_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["copy-received", "copy-sent-7", "copy-of-mine", "forewarn.db"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        remove_left_over(directory.path());
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["copy-of-mine", "forewarn.db"]);
    }
}
