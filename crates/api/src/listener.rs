//! Serves the API on a bound socket, plain or with TLS, until the server stops. What a slow or silent
//! client holds is its own connection, and not for long.

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

/// Connections at once: people and tools, not a fleet.
pub const CONNECTIONS_MAX: usize = 1024;

/// A connection that is idle between requests, or has not sent a request's head by then, is closed.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a request's head.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long requests that are under way may take when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait when the system gives no connection, for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// By which door a request came in; an extension of every request.
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
                    converse(stream, transport, router, stop).await;
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

async fn converse(stream: TcpStream, transport: Transport, router: Router, stop: CancellationToken) {
    let acceptor = match transport {
        Transport::Plain => return connection(stream, router, stop).await,
        Transport::Tls(acceptor) => acceptor,
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => connection(stream, router, stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "no agreement with a client of the https listener"),
        Some(Err(_)) => tracing::debug!("a client of the https listener took too long to agree"),
        None => {}
    }
}

async fn connection(
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
        tracing::debug!(%error, "a management connection ended early");
    }
}
