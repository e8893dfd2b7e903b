//! The HTTP client for the provider: one request per connection, no redirects, limited in time and size.

use std::io;
use std::time::Duration;

use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::system_tls::{AuthoritiesError, SystemTls};

/// Time for one request. A browser waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Size of an answer. Key sets of large providers have about 20 kB.
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("'{0}' is not an http or https URL")]
    Url(String),
    #[error("{host} cannot be reached: {source}")]
    Connect { host: String, source: io::Error },
    #[error("{host} closed the connection without an answer")]
    Broken { host: String },
    #[error("the response from {host} is larger than {BODY_BYTES_MAX} bytes, or incomplete")]
    Body { host: String },
    #[error("{host} did not answer within {} seconds", TIMEOUT.as_secs())]
    TooSlow { host: String },
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
}

#[derive(Default)]
pub struct HttpClient {
    tls: SystemTls,
}

impl HttpClient {
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let sent = tokio::time::timeout(TIMEOUT, self.exchange(request, host.clone())).await;
        sent.unwrap_or(Err(HttpError::TooSlow { host }))
    }

    async fn exchange(&self, request: Request<Vec<u8>>, host: String) -> Result<Response<Vec<u8>>, HttpError> {
        let uri = request.uri().clone();
        let url_error = || HttpError::Url(uri.to_string());
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(url_error()),
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let connect_error = |source| HttpError::Connect { host: host.clone(), source };
        let request = prepare(request, &uri).ok_or_else(url_error)?;
        let stream = TcpStream::connect((bare.as_str(), port)).await.map_err(connect_error)?;
        if !is_tls {
            return exchange_over(stream, request, &host).await;
        }
        let name = ServerName::try_from(bare).map_err(|error| connect_error(io::Error::other(error)))?;
        let connector = TlsConnector::from(self.tls.config().await?);
        exchange_over(connector.connect(name, stream).await.map_err(connect_error)?, request, &host).await
    }
}

/// The request as it is sent: the path only, and the host in a header.
fn prepare(request: Request<Vec<u8>>, uri: &Uri) -> Option<Request<Full<Bytes>>> {
    let (mut parts, body) = request.into_parts();
    parts.uri = uri.path_and_query()?.as_str().parse().ok()?;
    parts.headers.insert(header::HOST, HeaderValue::from_str(uri.authority()?.as_str()).ok()?);
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(Request::from_parts(parts, Full::from(body)))
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    host: &str,
) -> Result<Response<Vec<u8>>, HttpError> {
    let broken = |_| HttpError::Broken { host: host.to_owned() };
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let (parts, body) = client.send_request(request).await.map_err(broken)?.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|_| HttpError::Body { host: host.to_owned() })?;
    Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
}
