//! HTTP between the servers of a cluster. With authentication, both sides show a certificate of the region's authority, and the
//! request carries the token of its caller or of this server.
//!
//! No request is sent twice. Connections stay open between requests, so the other server may close one just when it is used
//! again. The request then goes to another connection if nothing of it was written; otherwise its outcome is unknown.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use forewarn_access::tls::now;
use forewarn_access::{AUDIENCE, Access, Role, Subject, random_guid};
use http::header::{self, HeaderName, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connections::{Connection, IdleConnections, SendFailure};

/// Names the server that forwards a request. Such a request is not forwarded again.
pub const FORWARDED_BY: HeaderName = HeaderName::from_static("forewarn-forwarded-by");

/// The scheme and host with which the caller reached the server that forwards its request.
pub const FORWARDED_BASE: HeaderName = HeaderName::from_static("forewarn-forwarded-base");

/// The revision that a forwarded change has led to.
pub const REVISION: HeaderName = HeaderName::from_static("forewarn-revision");

/// The server has not looked at the request, because it does not lead.
pub const NOT_LEADING: HeaderName = HeaderName::from_static("forewarn-not-leading");

/// A server in the same site answers within milliseconds, or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);

/// Time in which another server must acknowledge what was sent to it. A server whose host or network fails does not close its
/// connections, and a request on one of them would otherwise wait for many minutes.
const ACKNOWLEDGE_MAX_MS: u32 = 3000;

/// After this time without a packet, the other server's host must show that it still has the connection: a copy of the region may take
/// minutes to begin.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(1);

/// The interval of these questions. Without an answer, the connection ends as if a request had not been acknowledged.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The largest response that is kept in memory.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nothing was sent.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, String),
    /// The request may have been carried out.
    #[error("{0} did not answer: {1}")]
    Broken(String, String),
}

/// The validity of the token with which a server identifies itself to another one.
const NODE_TOKEN_SECS: i64 = 60;

#[derive(Clone)]
pub struct PeerClient {
    node: String,
    access: Arc<Access>,
    /// None: no token is required, and servers use plain HTTP.
    tls: Option<TlsConnector>,
    idle: Arc<IdleConnections>,
}

impl PeerClient {
    /// `tls`: trusts the region's authority and shows a certificate of it.
    pub fn new(node: &str, access: Arc<Access>, tls: Option<ClientConfig>) -> PeerClient {
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        PeerClient { node: node.to_owned(), access, tls, idle: Arc::default() }
    }

    /// The credential of this server, for requests of its own.
    fn token(&self) -> Option<String> {
        if self.access.is_open() {
            return None;
        }
        let name = format!("node:{}", self.node);
        let subject =
            Subject { client_id: name.clone(), object_id: random_guid().to_string(), name, role: Role::Owner };
        Some(self.access.sign_in().issue(&subject, AUDIENCE, now(), NODE_TOKEN_SECS).token)
    }

    /// Opens a connection.
    async fn connect(&self, address: &str) -> Result<Connection, PeerError> {
        let failed = |problem: String| PeerError::Connect(address.to_owned(), problem);
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open_stream(address)).await;
        opened.map_err(|_| failed("timed out".to_owned()))?.map_err(|error| failed(error.to_string()))
    }

    async fn open_stream(&self, address: &str) -> anyhow::Result<Connection> {
        let PeerAddress { authority, is_tls } = parse_address(address)?;
        let stream = TcpStream::connect(&authority).await?;
        stream.set_nodelay(true)?;
        set_tcp_user_timeout(&stream, ACKNOWLEDGE_MAX_MS)?;
        set_socket_keepalive(&stream, true)?;
        set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        if !is_tls {
            return Ok(Connection::start(stream).await?);
        }
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = self.tls.as_ref().context("https requires a cluster key")?;
        Ok(Connection::start(tls.connect(ServerName::try_from(host)?, stream).await?).await?)
    }

    /// Sends a request to a server and reads the whole response. The URI of the request is a path.
    pub async fn send(&self, address: &str, request: Request<Bytes>) -> Result<Response<Bytes>, PeerError> {
        let mut request = self.prepare(address, request)?;
        let (response, connection) = loop {
            let Some(mut connection) = self.idle.take(address) else {
                break self.send_on_new(address, request).await?;
            };
            match connection.send(request).await {
                Ok(response) => break (response, connection),
                Err(SendFailure::Unsent(unsent, _)) => request = *unsent,
                Err(SendFailure::Broken(error)) => {
                    return Err(PeerError::Broken(address.to_owned(), error.to_string()));
                }
            }
        };
        let (parts, body) = response.into_parts();
        let body = http_body_util::Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| PeerError::Broken(address.to_owned(), error.to_string()))?;
        self.idle.keep(address, connection);
        Ok(Response::from_parts(parts, body.to_bytes()))
    }

    /// Sends a request on a connection of its own and reads the head of the response. The body ends when the connection is
    /// dropped.
    pub async fn open(
        &self,
        address: &str,
        request: Request<Bytes>,
    ) -> Result<(Response<Incoming>, Connection), PeerError> {
        self.send_on_new(address, self.prepare(address, request)?).await
    }

    async fn send_on_new(
        &self,
        address: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), PeerError> {
        let mut connection = self.connect(address).await?;
        match connection.send(request).await {
            Ok(response) => Ok((response, connection)),
            Err(SendFailure::Unsent(_, error)) => Err(PeerError::Connect(address.to_owned(), error.to_string())),
            Err(SendFailure::Broken(error)) => Err(PeerError::Broken(address.to_owned(), error.to_string())),
        }
    }

    /// Adds the headers of a request between servers.
    fn prepare(&self, address: &str, mut request: Request<Bytes>) -> Result<Request<Full<Bytes>>, PeerError> {
        let failed = |error: &dyn std::fmt::Display| PeerError::Connect(address.to_owned(), error.to_string());
        let authority = parse_address(address).map_err(|error| failed(&error))?.authority;
        let headers = request.headers_mut();
        if let (false, Some(token)) = (headers.contains_key(header::AUTHORIZATION), self.token()) {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| failed(&error))?;
            headers.insert(header::AUTHORIZATION, bearer);
        }
        headers.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|error| failed(&error))?);
        headers.insert(FORWARDED_BY, HeaderValue::from_str(&self.node).map_err(|error| failed(&error))?);
        Ok(request.map(Full::new))
    }
}

/// The host and port of a server.
pub struct PeerAddress {
    pub authority: String,
    pub is_tls: bool,
}

impl PeerAddress {
    pub fn is_loopback(&self) -> bool {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
    }
}

pub fn parse_address(address: &str) -> anyhow::Result<PeerAddress> {
    let advice = || format!("invalid address '{address}' of a server: use https://HOST:PORT");
    let uri: Uri = address.trim_end_matches('/').parse().with_context(advice)?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!(advice())
    };
    if authority.port_u16().is_none() {
        bail!(advice());
    }
    Ok(PeerAddress { authority: authority.to_string(), is_tls: scheme == "https" })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use forewarn_access::Auth;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;
    use tokio::task::JoinSet;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    /// Another server. It closes its connections when it is dropped.
    struct TestPeer {
        address: String,
        seen: Arc<Seen>,
        _task: AbortOnDropHandle<()>,
    }

    /// The requests that a peer has read, each with the number of its connection.
    #[derive(Default)]
    struct Seen {
        requests: Mutex<Vec<(usize, String)>>,
        changed: Notify,
    }

    impl TestPeer {
        async fn start() -> TestPeer {
            TestPeer::start_on(Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap()))
        }

        fn start_on(listener: Arc<TcpListener>) -> TestPeer {
            let address = format!("http://{}", listener.local_addr().unwrap());
            let seen: Arc<Seen> = Arc::default();
            let task = tokio::spawn(accept_all(listener, seen.clone()));
            TestPeer { address, seen, _task: AbortOnDropHandle::new(task) }
        }

        fn requests(&self) -> Vec<(usize, String)> {
            self.seen.requests.lock().unwrap().clone()
        }
    }

    async fn accept_all(listener: Arc<TcpListener>, seen: Arc<Seen>) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(answer_all(connections.len(), stream, seen.clone()));
        }
    }

    /// Answers requests without a body. `/close` closes the connection instead, and `/hang` never answers.
    async fn answer_all(connection: usize, mut stream: TcpStream, seen: Arc<Seen>) {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().to_owned();
            head.clear();
            seen.requests.lock().unwrap().push((connection, path.clone()));
            seen.changed.notify_one();
            match path.as_str() {
                "/close" => return,
                "/hang" => std::future::pending().await,
                _ => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap(),
            }
        }
    }

    fn test_client() -> PeerClient {
        PeerClient::new("n1", Arc::new(Access::open(Auth::Off, None, &[]).unwrap()), None)
    }

    async fn post(client: &PeerClient, peer: &TestPeer, path: &str) -> Result<Bytes, PeerError> {
        let request = Request::post(path).body(Bytes::new()).unwrap();
        Ok(client.send(&peer.address, request).await?.into_body())
    }

    fn on(connections: &[(usize, &str)]) -> Vec<(usize, String)> {
        connections.iter().map(|(connection, path)| (*connection, (*path).to_owned())).collect()
    }

    #[tokio::test]
    async fn requests_one_after_another_share_a_connection() {
        let (client, peer) = (test_client(), TestPeer::start().await);
        for _ in 0..3 {
            assert_eq!(post(&client, &peer, "/").await.unwrap(), "ok");
        }
        assert_eq!(peer.requests(), on(&[(0, "/"), (0, "/"), (0, "/")]));
    }

    #[tokio::test]
    async fn concurrent_requests_have_connections_of_their_own() {
        let (client, peer) = (test_client(), TestPeer::start().await);
        let _ = tokio::join!(post(&client, &peer, "/"), post(&client, &peer, "/"));
        let _ = tokio::join!(post(&client, &peer, "/"), post(&client, &peer, "/"));
        let mut connections: Vec<_> = peer.requests().into_iter().map(|(connection, _)| connection).collect();
        connections.sort_unstable();
        assert_eq!(connections, [0, 0, 1, 1]);
    }

    #[tokio::test]
    async fn a_request_without_an_answer_is_not_sent_again() {
        let (client, peer) = (test_client(), TestPeer::start().await);
        let lost = post(&client, &peer, "/close").await;
        assert!(matches!(lost, Err(PeerError::Broken(..))), "{lost:?}");
        post(&client, &peer, "/").await.unwrap();
        let lost = post(&client, &peer, "/close").await;
        assert!(matches!(lost, Err(PeerError::Broken(..))), "{lost:?}");
        assert_eq!(peer.requests(), on(&[(0, "/close"), (1, "/"), (1, "/close")]));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_takes_its_connection_along() {
        let (client, peer) = (test_client(), TestPeer::start().await);
        post(&client, &peer, "/").await.unwrap();
        peer.seen.changed.notified().await;
        tokio::select! {
            answer = post(&client, &peer, "/hang") => panic!("{answer:?}"),
            () = peer.seen.changed.notified() => {}
        }
        post(&client, &peer, "/").await.unwrap();
        assert_eq!(peer.requests(), on(&[(0, "/"), (0, "/hang"), (1, "/")]));
    }

    #[tokio::test]
    async fn a_server_that_restarts_is_reached_again() {
        let client = test_client();
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let before = TestPeer::start_on(listener.clone());
        post(&client, &before, "/").await.unwrap();
        let address = before.address.clone();
        drop(before);
        while let Some(connection) = client.idle.take(&address) {
            client.idle.keep(&address, connection);
            tokio::task::yield_now().await;
        }
        let after = TestPeer::start_on(listener);
        assert_eq!(post(&client, &after, "/").await.unwrap(), "ok");
        assert_eq!(after.requests(), on(&[(0, "/")]));
    }

    #[test]
    fn addresses_have_a_scheme_and_a_port() {
        for (address, is_tls, is_loopback) in [
            ("http://127.0.0.1:8170", false, true),
            ("http://[::1]:8170/", false, true),
            ("http://localhost:1", false, true),
            ("https://a.example:8171", true, false),
            ("http://10.0.0.1:8170", false, false),
        ] {
            let parsed = parse_address(address).unwrap();
            assert_eq!((parsed.is_tls, parsed.is_loopback()), (is_tls, is_loopback), "{address}");
        }
        for invalid in ["a:1", "ftp://a:1", "http://a", ""] {
            assert!(parse_address(invalid).is_err(), "{invalid}");
        }
    }
}
