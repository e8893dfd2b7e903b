//! One delivery: a signed POST over a connection of its own, and the status of the answer.
//!
//! Redirects are failures: the owner said where to. Of the answer only the status is read, so that what is behind the URL
//! cannot be read through this server.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forewarn_wire::cloudevent::{CONTENT_TYPE, signature_headers, signed_content};
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::target::Transport;
use super::telling::Message;
use super::{Secret, Target};
use forewarn_access::tls;

/// Bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 16 * 1024;

const USER_AGENT: &str = concat!("forewarn/", env!("CARGO_PKG_VERSION"));

/// Every one is a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("The receiver answered {}.", .0.as_u16())]
    Status(StatusCode),
    #[error("The receiver answered {}. Redirects are not followed: give the URL that it leads to.", .0.as_u16())]
    Redirect(StatusCode),
    #[error("The receiver cannot be reached: {0}.")]
    Connect(io::Error),
    #[error("The receiver's certificate is not accepted, or it does not speak TLS: {0}.")]
    Tls(io::Error),
    #[error("This computer's certificate authorities cannot be used: {0}.")]
    Authorities(String),
    #[error("The receiver ended the connection without an answer: {0}.")]
    Broken(String),
    #[error("The receiver did not answer within {} seconds.", .0.as_secs_f64())]
    TooSlow(Duration),
}

/// What all deliveries share.
pub struct Sender {
    /// From the name's resolution to the head of the answer.
    timeout: Duration,
    /// Made for the first https receiver.
    tls: OnceCell<Arc<ClientConfig>>,
}

impl Sender {
    pub fn new(timeout: Duration) -> Sender {
        Sender { timeout, tls: OnceCell::new() }
    }

    /// Delivered is what was answered with 2xx.
    pub async fn send(&self, target: &Target, secret: &Secret, message: &Message) -> Result<StatusCode, SendError> {
        let sent = tokio::time::timeout(self.timeout, self.post(target, secret, message));
        let status = sent.await.unwrap_or(Err(SendError::TooSlow(self.timeout)))?;
        match status {
            status if status.is_success() => Ok(status),
            status if status.is_redirection() => Err(SendError::Redirect(status)),
            status => Err(SendError::Status(status)),
        }
    }

    async fn post(&self, target: &Target, secret: &Secret, message: &Message) -> Result<StatusCode, SendError> {
        let request = request(target, secret, message);
        let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(SendError::Connect)?;
        match target.transport {
            Transport::Plain => exchange(stream, request).await,
            Transport::Tls => {
                let name = ServerName::try_from(target.host.clone());
                let name = name.map_err(|error| SendError::Tls(io::Error::other(error)))?;
                let connector = TlsConnector::from(self.tls().await?);
                exchange(connector.connect(name, stream).await.map_err(SendError::Tls)?, request).await
            }
        }
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, SendError> {
        let made = self.tls.get_or_try_init(|| async {
            let made = tokio::task::spawn_blocking(client_config).await;
            made.unwrap_or_else(|_| Err(SendError::Authorities("they could not be read".into())))
        });
        made.await.cloned()
    }
}

/// The authorities are those of this computer (`SSL_CERT_FILE` names others).
fn client_config() -> Result<Arc<ClientConfig>, SendError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(SendError::Authorities(why));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SendError::Authorities(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The time of sending is the real one, whatever the program's clock shows: receivers compare it with theirs.
fn request(target: &Target, secret: &Secret, message: &Message) -> Request<Full<Bytes>> {
    let sent = tls::now();
    let code = secret.sign(&signed_content(&message.id, sent, message.body.as_bytes()));
    let mut request = Request::post(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::CONTENT_TYPE, CONTENT_TYPE)
        .header(header::CONNECTION, "close");
    for (name, value) in signature_headers(&message.id, sent, &code) {
        request = request.header(name, value);
    }
    request.body(Full::from(message.body.clone())).expect("a target's parts fit into a request")
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, SendError> {
    let broken = |error: hyper::Error| {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        SendError::Broken(cause)
    };
    let builder = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).clone();
    let (mut asking, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let _driving = AbortOnDropHandle::new(tokio::spawn(connection));
    Ok(asking.send_request(request).await.map_err(broken)?.status())
}
