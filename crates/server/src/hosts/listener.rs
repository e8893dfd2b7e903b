//! The listener for host agents: mutual TLS with the hosts' authority, HTTP/2. Nothing of the management side is reachable here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::{Extension, Router};
use forewarn_access::{HostAccess, fingerprint_of};
use forewarn_metadata::listen_error;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::links::Links;
use super::routes::{Peer, routes};

/// One per host, and some that end.
const CONNECTIONS_MAX: usize = 4096;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection whose other end has vanished is noticed by then.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Requests at the same time: approvals of all machines of a host.
const REQUESTS_MAX: u32 = 1024;

/// The pause after a failed accept, mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections can take to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The listener, bound and with its certificate.
pub struct HostListener {
    pub listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl HostListener {
    pub async fn bind(address: SocketAddr, access: &HostAccess) -> anyhow::Result<HostListener> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| listen_error("hosts", "--hosts", address, &error))?;
        let config = access.server_config().context("cannot prepare the listener for hosts")?;
        Ok(HostListener { listener, acceptor: Arc::new(config).into() })
    }
}

pub async fn serve(bound: HostListener, links: Arc<Links>, stop: CancellationToken) {
    let HostListener { listener, acceptor } = bound;
    let (router, tasks) = (routes(links), TaskTracker::new());
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a host");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // A refused agent tries again.
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = serve_connection(stream, address, acceptor, router, stop).await {
                tracing::debug!(%address, %error, "a connection of a host ended early");
            }
            drop(slot);
        });
    }
    tasks.close();
    let _ = timeout(STOP_GRACE, tasks.wait()).await;
}

async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let fingerprint = fingerprint_of(certificate.context("there is no certificate")?);
    let service = TowerToHyperService::new(router.layer(Extension(Peer { address, fingerprint })));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(REQUESTS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => Ok(ended?),
        () = stop.cancelled() => Ok(()),
    }
}
