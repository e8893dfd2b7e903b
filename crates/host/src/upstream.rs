//! Requests to the server over the current connection. There is none while the link is down.

use std::time::Duration;

use bytes::Bytes;
use forewarn_api_types::host_link::LinkRefusal;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;

use forewarn_access::LINK_NAME;

/// Limit of an answer. Commits take milliseconds; guests give up after some seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers are small, except those to streams. The largest has the user data of a machine: 64 KiB, which Base64 makes a third
/// longer.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

pub type Connection = SendRequest<Full<Bytes>>;

/// The reason why a request failed.
#[derive(Debug)]
pub enum UpstreamError {
    /// There is no link, or it broke before the answer.
    Unreachable,
    /// The response did not come from the link's protocol: that of a proxy, or of a server that is overloaded or does not know its caller yet.
    Unexpected(StatusCode),
    Refused(LinkRefusal),
}

impl std::fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamError::Unreachable => f.write_str("the server did not answer"),
            UpstreamError::Unexpected(status) => write!(f, "the server answered with status {status}"),
            UpstreamError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

pub struct Upstream {
    connection: watch::Sender<Option<Connection>>,
}

impl Default for Upstream {
    fn default() -> Self {
        Upstream { connection: watch::Sender::new(None) }
    }
}

impl Upstream {
    pub fn set(&self, connection: Option<Connection>) {
        self.connection.send_replace(connection);
    }

    /// Returns once there is a connection.
    pub async fn connected(&self) {
        let mut connection = self.connection.subscribe();
        let _ = connection.wait_for(Option::is_some).await;
    }

    /// Sends a request over the current connection.
    pub async fn post<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<A, UpstreamError> {
        let connection = self.connection.borrow().clone().ok_or(UpstreamError::Unreachable)?;
        post(connection, path, body).await
    }
}

/// Sends a request and reads its answer.
pub async fn post<A: DeserializeOwned>(
    mut connection: Connection,
    path: &str,
    body: &impl Serialize,
) -> Result<A, UpstreamError> {
    let body = serde_json::to_vec(body).map_err(|_| UpstreamError::Refused(LinkRefusal::Internal))?;
    let request = Request::post(url(path)).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Full::from(body)).map_err(|_| UpstreamError::Refused(LinkRefusal::Internal))?;
    let exchange = async {
        let response = connection.send_request(request).await.map_err(|_| UpstreamError::Unreachable)?;
        let (head, body) = response.into_parts();
        let bytes = read(body).await?;
        if head.status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|_| UpstreamError::Refused(LinkRefusal::Internal));
        }
        Err(refusal(head.status, &bytes))
    };
    timeout(ANSWER_TIMEOUT, exchange).await.unwrap_or(Err(UpstreamError::Unreachable))
}

/// The error in an answer.
pub fn refusal(status: StatusCode, body: &[u8]) -> UpstreamError {
    serde_json::from_slice(body).map_or(UpstreamError::Unexpected(status), UpstreamError::Refused)
}

pub async fn read(body: Incoming) -> Result<Bytes, UpstreamError> {
    let collected = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|_| UpstreamError::Unreachable)
}

/// The URL of a path. HTTP/2 wants an authority; the server does not read it.
pub fn url(path: &str) -> String {
    format!("https://{LINK_NAME}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report that was answered like this is sent again: it may not have arrived.
    #[test]
    fn an_answer_of_something_else_is_no_refusal() {
        for body in ["", "upstream connect error", r#"{"error":{"code":"TooManyConnections"}}"#] {
            let error = refusal(StatusCode::SERVICE_UNAVAILABLE, body.as_bytes());
            assert!(matches!(error, UpstreamError::Unexpected(StatusCode::SERVICE_UNAVAILABLE)), "{body}: {error}");
        }
        let body = serde_json::to_vec(&LinkRefusal::UnknownMachine).unwrap();
        let error = refusal(StatusCode::NOT_FOUND, &body);
        assert!(matches!(error, UpstreamError::Refused(LinkRefusal::UnknownMachine)), "{error}");
    }
}
