//! HTTP between the servers of a cluster, one connection per request.

use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// Names the server that forwards a request. Such a request is not forwarded again.
pub const FORWARDED_BY: HeaderName = HeaderName::from_static("forewarn-forwarded-by");

/// The revision that a forwarded change has led to.
pub const REVISION: HeaderName = HeaderName::from_static("forewarn-revision");

/// The server has not looked at the request, because it does not lead.
pub const NOT_LEADING: HeaderName = HeaderName::from_static("forewarn-not-leading");

/// A server in the same site answers within milliseconds, or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);

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

#[derive(Clone)]
pub struct PeerClient {
    node: String,
}

impl PeerClient {
    pub fn new(node: &str) -> PeerClient {
        PeerClient { node: node.to_owned() }
    }

    /// Sends a request to a server and reads the whole response. The URI of the request is a path.
    pub async fn send(&self, address: &str, request: Request<Bytes>) -> Result<Response<Bytes>, PeerError> {
        let (response, _connection) = self.open(address, request).await?;
        let (parts, body) = response.into_parts();
        let body = http_body_util::Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| PeerError::Broken(address.to_owned(), error.to_string()))?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }

    /// Sends a request and reads the head of the response. The body ends when the connection is dropped.
    pub async fn open(
        &self,
        address: &str,
        mut request: Request<Bytes>,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), PeerError> {
        let failed = |error: &dyn std::fmt::Display| PeerError::Connect(address.to_owned(), error.to_string());
        let authority = parse_address(address).map_err(|error| failed(&error))?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|error| failed(&error))?);
        headers.insert(FORWARDED_BY, HeaderValue::from_str(&self.node).map_err(|error| failed(&error))?);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&authority)).await;
        let stream = connected.map_err(|_| failed(&"timed out"))?.map_err(|error| failed(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let response = sender.send_request(request.map(Full::new)).await;
        let response = response.map_err(|error| PeerError::Broken(address.to_owned(), error.to_string()))?;
        Ok((response, task))
    }
}

/// The host and port of a server's address.
pub fn parse_address(address: &str) -> anyhow::Result<String> {
    let advice = || format!("invalid address '{address}' of a server: use http://HOST:PORT");
    let uri: Uri = address.trim_end_matches('/').parse().with_context(advice)?;
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else { bail!(advice()) };
    if authority.port_u16().is_none() {
        bail!(advice());
    }
    Ok(authority.to_string())
}
