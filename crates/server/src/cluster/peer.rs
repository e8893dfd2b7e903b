//! HTTP between the servers of a cluster, one connection per request. With authentication, both sides show a certificate of the
//! region's authority, and the request carries the token of its caller or of this server.

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
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
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

/// The validity of the token with which a server identifies itself to another one.
const NODE_TOKEN_SECS: i64 = 60;

#[derive(Clone)]
pub struct PeerClient {
    node: String,
    access: Arc<Access>,
    /// None: no token is required, and servers use plain HTTP.
    tls: Option<TlsConnector>,
}

impl PeerClient {
    /// `tls`: trusts the region's authority and shows a certificate of it.
    pub fn new(node: &str, access: Arc<Access>, tls: Option<ClientConfig>) -> PeerClient {
        PeerClient { node: node.to_owned(), access, tls: tls.map(|config| TlsConnector::from(Arc::new(config))) }
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

    async fn connect(&self, address: &str) -> anyhow::Result<Box<dyn Stream>> {
        let PeerAddress { authority, is_tls } = parse_address(address)?;
        let stream = TcpStream::connect(&authority).await?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = self.tls.as_ref().context("https requires a cluster key")?;
        Ok(Box::new(tls.connect(ServerName::try_from(host)?, stream).await?))
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
        let authority = parse_address(address).map_err(|error| failed(&error))?.authority;
        let headers = request.headers_mut();
        if let (false, Some(token)) = (headers.contains_key(header::AUTHORIZATION), self.token()) {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| failed(&error))?;
            headers.insert(header::AUTHORIZATION, bearer);
        }
        headers.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|error| failed(&error))?);
        headers.insert(FORWARDED_BY, HeaderValue::from_str(&self.node).map_err(|error| failed(&error))?);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect(address)).await;
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

/// A connection, plain or with TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

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
    use super::*;

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
