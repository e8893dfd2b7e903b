//! Serves the management APIs on a bound socket, plain or with TLS, until the server stops. Timeouts limit how long a slow
//! or silent client occupies its connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Concurrent connections. Operators and tools connect here, not a fleet.
pub const CONNECTIONS_MAX: usize = 1024;

/// Time limit for the head of a request, and for an idle connection.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the head of a request, in bytes.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Time that requests in progress get to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Pause after a failed accept, for example when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener that received a request; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Http,
    Https,
}

#[derive(Clone)]
pub enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

impl Transport {
    fn via(&self) -> Via {
        match self {
            Transport::Plain => Via::Http,
            Transport::Tls(_) => Via::Https,
        }
    }
}

pub async fn serve(listener: TcpListener, transport: Transport, router: Router, stop: CancellationToken) {
    let router = router.layer(Extension(transport.via()));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tasks = TaskTracker::new();
    while let Some(stream) = stop.run_until_cancelled(accept(&listener)).await {
        match (stream, slots.clone().try_acquire_owned()) {
            (Ok(stream), Ok(slot)) => {
                let (transport, router, stop) = (transport.clone(), router.clone(), stop.clone());
                tasks.spawn(async move {
                    serve_stream(stream, transport, router, stop).await;
                    drop(slot);
                });
            }
            // Closed at once rather than queued: a refused client can retry.
            (Ok(stream), Err(_)) => drop(stream),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a management connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    let _ = tokio::time::timeout(STOP_GRACE, tasks.wait()).await;
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn serve_stream(stream: TcpStream, transport: Transport, router: Router, stop: CancellationToken) {
    let acceptor = match transport {
        Transport::Plain => return serve_http(stream, router, stop).await,
        Transport::Tls(acceptor) => acceptor,
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve_http(stream, router, stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("TLS handshake timed out"),
        None => {}
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    stop: CancellationToken,
) {
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
        tracing::debug!(%error, "management connection ended early");
    }
}
