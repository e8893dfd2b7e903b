//! Serves the API on a bound socket until the server stops. What a slow or silent client holds is its
//! own connection, and not for long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at once: people and tools, not a fleet.
pub const CONNECTIONS_MAX: usize = 1024;

/// A connection that is idle between requests, or has not sent a request's head by then, is closed.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a request's head.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long requests that are under way may take when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait when the system gives no connection, for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tasks = TaskTracker::new();
    while let Some(stream) = stop.run_until_cancelled(accept(&listener)).await {
        match (stream, slots.clone().try_acquire_owned()) {
            (Ok(stream), Ok(slot)) => {
                let (router, stop) = (router.clone(), stop.clone());
                tasks.spawn(async move {
                    connection(stream, router, stop).await;
                    drop(slot);
                });
            }
            // Closed at once: a client that waits for its turn would only wait longer.
            (Ok(stream), Err(_)) => drop(stream),
            (Err(error), _) => {
                tracing::warn!(%error, "no connection at the management listener");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    let _ = tokio::time::timeout(STOP_PATIENCE, tasks.wait()).await;
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a management connection ended early");
    }
}
