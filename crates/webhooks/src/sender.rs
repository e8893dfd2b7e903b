//! Sends one delivery: a signed POST over its own connection.
//!
//! Redirects are failures, because the owner chose the URL. Only the status of the response is read, so that this server
//! cannot be used to read the contents behind a URL.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use forewarn_wire::cloudevent::{CONTENT_TYPE, signature_headers, signed_content};
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::message::Message;
use super::receiver_url::ReceiverScheme;
use super::{ReceiverUrl, SigningSecret};
use forewarn_access::{AuthoritiesError, SystemTls, tls};

/// Maximum size of the head of a response, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

const USER_AGENT: &str = concat!("forewarn/", env!("CARGO_PKG_VERSION"));

/// The reason why a delivery failed, as a sentence for operators.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("The receiver responded with status {}.", .0.as_u16())]
    Status(StatusCode),
    #[error("The receiver responded with a redirect ({}). Redirects are not followed: use the final URL.", .0.as_u16())]
    Redirect(StatusCode),
    #[error("The receiver cannot be reached: {}.", describe_io(.0))]
    Connect(io::Error),
    #[error("The TLS handshake with the receiver failed: {}.", describe_io(.0))]
    Tls(io::Error),
    #[error("The delivery needs TLS, but {0}.")]
    Authorities(#[from] AuthoritiesError),
    #[error("The receiver closed the connection without a response: {0}.")]
    Broken(String),
    #[error("The receiver did not respond within {} seconds.", .0.as_secs_f64())]
    TooSlow(Duration),
}

/// State that all deliveries share.
pub struct Sender {
    /// Time limit from name resolution to the head of the response.
    timeout: Duration,
    tls: SystemTls,
}

impl Sender {
    pub fn new(timeout: Duration) -> Sender {
        Sender { timeout, tls: SystemTls::default() }
    }

    /// Sends a message. It is delivered if the response is 2xx.
    pub async fn send(
        &self,
        url: &ReceiverUrl,
        secret: &SigningSecret,
        message: &Message,
    ) -> Result<StatusCode, SendError> {
        let sent = tokio::time::timeout(self.timeout, self.post(url, secret, message));
        let status = sent.await.unwrap_or(Err(SendError::TooSlow(self.timeout)))?;
        match status {
            status if status.is_success() => Ok(status),
            status if status.is_redirection() => Err(SendError::Redirect(status)),
            status => Err(SendError::Status(status)),
        }
    }

    async fn post(
        &self,
        url: &ReceiverUrl,
        secret: &SigningSecret,
        message: &Message,
    ) -> Result<StatusCode, SendError> {
        let request = request(url, secret, message);
        let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(SendError::Connect)?;
        match url.scheme {
            ReceiverScheme::Plain => exchange(stream, request).await,
            ReceiverScheme::Tls => {
                let name = ServerName::try_from(url.host.clone());
                let name = name.map_err(|error| SendError::Tls(io::Error::other(error)))?;
                let connector = TlsConnector::from(self.tls.config().await?);
                exchange(connector.connect(name, stream).await.map_err(SendError::Tls)?, request).await
            }
        }
    }
}

/// The timestamp is real time even with a manual clock, because receivers compare it with their own clocks.
fn request(url: &ReceiverUrl, secret: &SigningSecret, message: &Message) -> Request<Full<Bytes>> {
    let sent = tls::now();
    let code = secret.sign(&signed_content(&message.id, sent, message.body.as_bytes()));
    let mut request = Request::post(&url.path)
        .header(header::HOST, &url.authority)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::CONTENT_TYPE, CONTENT_TYPE)
        .header(header::CONNECTION, "close");
    for (name, value) in signature_headers(&message.id, sent, &code) {
        request = request.header(name, value);
    }
    request.body(Full::from(message.body.clone())).expect("a parsed URL fits into a request")
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, SendError> {
    let broken = |error: hyper::Error| match error.source() {
        Some(cause) => SendError::Broken(without_error_number(&cause.to_string())),
        None => SendError::Broken(error.to_string()),
    };
    let builder = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).clone();
    let (mut client, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    Ok(client.send_request(request).await.map_err(broken)?.status())
}

/// An I/O error in plain words, such as "connection refused".
fn describe_io(error: &io::Error) -> String {
    let text = without_error_number(&error.to_string());
    match error.raw_os_error() {
        Some(_) => text.get(..1).map_or_else(|| text.clone(), |first| first.to_lowercase() + &text[1..]),
        None => text,
    }
}

/// The message of an operating system error without its number, as in "Connection refused (os error 111)".
fn without_error_number(text: &str) -> String {
    text.split_once(" (os error ").map_or(text, |(message, _)| message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_contain_no_error_numbers() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, expected) in [
            (io::Error::from_raw_os_error(111), "The receiver cannot be reached: connection refused."),
            (refused, "The receiver cannot be reached: connection refused."),
            (io::Error::other("no such name"), "The receiver cannot be reached: no such name."),
        ] {
            assert_eq!(SendError::Connect(error).to_string(), expected);
        }
        assert_eq!(without_error_number("reset by peer (os error 104)"), "reset by peer");
    }
}
