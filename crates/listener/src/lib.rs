//! Serves the management APIs on a bound socket, plain or with TLS, until the server stops. It knows no route but the health
//! check.
//!
//! ```text
//!  accept ─▶ connections free? ─▶ serve everything
//!                │ no: evict an idle connection of the largest source, or
//!                └─▶ health slot free? ─▶ answer one health check ─▶ close
//! ```
//!
//! Timeouts limit how long a slow or silent client occupies its connection. Loopback callers have connections of their own
//! beyond those for all callers, so that an operator on the host can always intervene.

mod connection;
mod socket;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use forewarn_metadata::{Activity, LimitCounters, Limits, OverflowPolicy, SourceKey, Sources};
use forewarn_wire::arm::error::ArmError;
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use connection::ConnectionUse;
use connection::PIPELINED_MAX;
use socket::ManagementSocket;

/// Concurrent connections per listener, with the reserved ones. Operators and tools connect here, not a fleet.
pub const CONNECTIONS_MAX: usize = 1024;

/// Connections that only loopback callers can use.
const LOOPBACK_RESERVE: usize = 64;

/// Connections that are only for health checks. A probe takes milliseconds.
const HEALTH_RESERVE: usize = 16;

/// Connections of one source. One address cannot take more than half of what there is.
const CONNECTIONS_PER_SOURCE: usize = CONNECTIONS_MAX / 2;

/// Time limit for the head of a request, and for an idle connection.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a connection that is only for a health check, from the accept to the end of the response.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Seconds in the `Retry-After` header of a refused connection.
const RETRY_AFTER_SECS: u32 = 1;

/// Maximum size of the head of a request, in bytes.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Time that requests in progress get to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Pause after a failed accept, for example when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener that received a request; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

#[derive(Clone)]
pub enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

impl Transport {
    fn via(&self) -> Scheme {
        match self {
            Transport::Plain => Scheme::Http,
            Transport::Tls(_) => Scheme::Https,
        }
    }
}

/// The requests that a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Anything,
    /// One health check, because no other connection is free.
    HealthCheck,
}

/// Everything that the connections of one listener share.
struct Listening {
    transport: Transport,
    router: Router,
    sources: Arc<Sources>,
    health_slots: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

pub async fn serve(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    counters: LimitCounters,
    stop: CancellationToken,
) {
    let limits = Limits {
        connections_per_source: CONNECTIONS_PER_SOURCE,
        held_per_source: 0,
        total: CONNECTIONS_MAX - LOOPBACK_RESERVE - HEALTH_RESERVE,
        when_full: OverflowPolicy::EvictFromLargest,
    };
    let sources = Arc::new(Sources::new(limits, "management", counters));
    serve_within(listener, transport, router, sources, stop).await;
}

async fn serve_within(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    sources: Arc<Sources>,
    stop: CancellationToken,
) {
    let router = router.layer(Extension(transport.via()));
    let health_slots = Arc::new(Semaphore::new(HEALTH_RESERVE));
    let listening = Arc::new(Listening { transport, router, sources, health_slots, stop, tasks: TaskTracker::new() });
    while let Some(accepted) = listening.stop.run_until_cancelled(accept(&listener)).await {
        match accepted {
            Ok((stream, peer)) => admit(&listening, stream, peer),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a management connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    listening.tasks.close();
    let _ = tokio::time::timeout(STOP_GRACE, listening.tasks.wait()).await;
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, IpAddr)> {
    let (stream, from) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, from.ip().to_canonical()))
}

/// Serves a connection, or closes it immediately rather than queueing it: a refused client can retry.
fn admit(listening: &Arc<Listening>, stream: TcpStream, peer: IpAddr) {
    let activity = Arc::new(Activity::default());
    let key = SourceKey::Address(peer);
    let admitted = listening.sources.admit_with_reserve(Some(key), activity.clone(), reserve_of(peer));
    let connection = ConnectionUse::new(peer, activity);
    if let Ok(admission) = admitted {
        let served = serve_until_evicted(listening.clone(), stream, connection);
        listening.tasks.spawn(async move {
            served.await;
            drop(admission);
        });
    } else if let Ok(slot) = listening.health_slots.clone().try_acquire_owned() {
        let served = serve_stream(listening.clone(), stream, connection, Purpose::HealthCheck);
        listening.tasks.spawn(async move {
            let _ = tokio::time::timeout(HEALTH_TIMEOUT, served).await;
            drop(slot);
        });
    }
}

/// Connections that a peer can use beyond the total.
fn reserve_of(peer: IpAddr) -> usize {
    if peer.is_loopback() { LOOPBACK_RESERVE } else { 0 }
}

async fn serve_until_evicted(listening: Arc<Listening>, stream: TcpStream, connection: ConnectionUse) {
    let activity = connection.activity.clone();
    tokio::select! {
        () = activity.evicted.notified() => {}
        () = serve_stream(listening, stream, connection, Purpose::Anything) => {}
    }
}

async fn serve_stream(listening: Arc<Listening>, stream: TcpStream, connection: ConnectionUse, purpose: Purpose) {
    let acceptor = match &listening.transport {
        Transport::Plain => return serve_http(&listening, stream, connection, purpose).await,
        Transport::Tls(acceptor) => acceptor,
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    match listening.stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => {
            let mut connection = connection;
            connection.is_node = stream.get_ref().1.peer_certificates().is_some();
            serve_http(&listening, stream, connection, purpose).await;
        }
        Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("TLS handshake timed out"),
        None => {}
    }
}

async fn serve_http(
    listening: &Listening,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: ConnectionUse,
    purpose: Purpose,
) {
    let socket = ManagementSocket::new(stream, connection.clone());
    let router = listening.router.clone();
    let service =
        service_fn(move |request| respond(router.clone(), request.map(Body::new), connection.clone(), purpose));
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(purpose == Purpose::Anything)
        .serve_connection(TokioIo::new(socket), service);
    let mut http = std::pin::pin!(http);
    let ended = tokio::select! {
        ended = http.as_mut() => ended,
        () = listening.stop.cancelled() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "management connection ended early");
    }
}

/// Responds to a request, unless its connection is not for it.
async fn respond(
    router: Router,
    mut request: Request<Body>,
    connection: ConnectionUse,
    purpose: Purpose,
) -> Result<Response, std::convert::Infallible> {
    let refusal = match purpose {
        Purpose::HealthCheck if !is_health_check(&request) => Some(overloaded()),
        Purpose::Anything | Purpose::HealthCheck if !connection.begin_request() => Some(too_many_ahead()),
        Purpose::Anything | Purpose::HealthCheck => None,
    };
    if let Some(mut response) = refusal {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Ok(response);
    }
    request.extensions_mut().insert(connection.clone());
    let response = TowerToHyperService::new(router).call(request).await?;
    Ok(response.map(|body| connection.track(body)))
}

fn is_health_check(request: &Request<Body>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == "/healthz"
}

fn overloaded() -> Response {
    let message = "All management connections are in use. Close some, or try again later.";
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, "TooManyConnections", message);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
    response
}

fn too_many_ahead() -> Response {
    let message = format!("At most {PIPELINED_MAX} requests can be pipelined. Read the responses before sending more.");
    refuse(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &message)
}

fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(ArmError::new(code, message).body())).into_response()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    /// A response that has begun and never ends.
    struct Endless;

    impl hyper::body::Body for Endless {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            Poll::Pending
        }
    }

    const OPERATOR: [u8; 4] = [127, 0, 0, 1];
    const STRANGER: [u8; 4] = [127, 0, 0, 9];

    /// A listener with a few connections. `/work` is for authenticated callers and never ends; `/nothing` has no response.
    struct Small {
        address: std::net::SocketAddr,
        counters: LimitCounters,
        _stop: tokio_util::sync::DropGuard,
    }

    async fn small(connections_per_source: usize, total: usize) -> Small {
        let work = |request: Request<Body>| async move {
            ConnectionUse::protect(request.extensions());
            Body::new(Endless).into_response()
        };
        let never = || async { std::future::pending::<()>().await };
        let router = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/work", get(work))
            .route("/nothing", get(never));
        let counters = LimitCounters::default();
        let limits =
            Limits { connections_per_source, held_per_source: 0, total, when_full: OverflowPolicy::EvictFromLargest };
        let sources = Arc::new(Sources::new(limits, "management", counters.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve_within(listener, Transport::Plain, router, sources, stop.clone()));
        Small { address, counters, _stop: stop.drop_guard() }
    }

    impl Small {
        async fn send(&self, from: [u8; 4], request: &str) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            let mut stream = socket.connect(self.address).await.unwrap();
            let _ = stream.write_all(request.as_bytes()).await;
            stream
        }

        /// The first line of the response; empty if the connection was closed.
        async fn ask(&self, from: [u8; 4], path: &str) -> String {
            first_line(&mut self.send(from, &get_request(path)).await).await
        }

        /// Connections that do authenticated work.
        async fn work(&self, from: [u8; 4], count: usize) -> Vec<TcpStream> {
            let mut busy = Vec::new();
            for _ in 0..count {
                let mut stream = self.send(from, &get_request("/work")).await;
                assert_eq!(first_line(&mut stream).await, "HTTP/1.1 200 OK");
                busy.push(stream);
            }
            busy
        }
    }

    fn get_request(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
    }

    async fn first_line(stream: &mut TcpStream) -> String {
        let mut line = String::new();
        while let Ok(byte @ 32..) = stream.read_u8().await {
            line.push(byte.into());
        }
        line
    }

    #[tokio::test]
    async fn connections_without_a_token_make_room_for_others_of_their_source() {
        let listener = small(3, 100).await;
        let mut kept = Vec::new();
        for _ in 0..50 {
            kept.push(listener.send(STRANGER, "").await);
            kept.push(listener.send(STRANGER, &get_request("/nothing")).await);
            assert_eq!(listener.ask(STRANGER, "/healthz").await, "HTTP/1.1 200 OK");
        }
        assert_eq!(listener.counters.connections_refused.get(), 0);
    }

    #[tokio::test]
    async fn a_source_whose_connections_all_work_gets_only_health_checks() {
        let listener = small(3, 100).await;
        let _busy = listener.work(STRANGER, 3).await;
        assert_eq!(listener.ask(STRANGER, "/work").await, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(listener.ask(STRANGER, "/healthz").await, "HTTP/1.1 200 OK");
        assert_eq!(listener.ask(OPERATOR, "/work").await, "HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn a_health_connection_is_closed_after_one_request() {
        let listener = small(1, 100).await;
        let _busy = listener.work(STRANGER, 1).await;
        let mut stream = listener.send(STRANGER, &get_request("/healthz").repeat(2)).await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
    }

    #[tokio::test]
    async fn loopback_callers_have_connections_beyond_the_total() {
        let listener = small(100, 2).await;
        let _busy = listener.work(STRANGER, 2 + LOOPBACK_RESERVE).await;
        assert_eq!(listener.ask(OPERATOR, "/work").await, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(reserve_of(STRANGER.into()), LOOPBACK_RESERVE);
        assert_eq!(reserve_of([192, 0, 2, 1].into()), 0);
    }

    #[tokio::test]
    async fn the_number_of_pipelined_requests_is_limited() {
        let listener = small(100, 100).await;
        let ahead = PIPELINED_MAX as usize + 3;
        let mut stream = listener.send(STRANGER, &get_request("/healthz").repeat(ahead)).await;
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), PIPELINED_MAX as usize, "{text}");
        assert_eq!(text.matches("HTTP/1.1 429 Too Many Requests").count(), 1, "{text}");
        assert!(text.contains("connection: close"), "{text}");
    }
}
