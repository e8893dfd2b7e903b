//! Connections to other servers that stay open between requests. It does not open them, and knows no certificate.
//!
//! ```text
//!   open ─▶ in use ─▶ idle ─▶ in use ─▶ …
//!              │        └─ closed by the other server, idle for too long, or one too many: dropped
//!              └─ the request failed or was given up: dropped
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Idle connections that are kept per server. With 64 clients at three servers, a follower has about 21 requests at the leader.
pub const IDLE_CONNECTIONS_MAX: usize = 32;

/// Time after which an idle connection is not used again. The other server closes it after 30 s, and a request that crosses
/// the close would have an unknown outcome.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// An HTTP connection. Dropping it closes it.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    _task: AbortOnDropHandle<()>,
}

/// A request without a response.
pub enum SendFailure {
    /// Nothing was written to the connection.
    Unsent(Box<Request<Full<Bytes>>>, hyper::Error),
    /// The other server may have carried out the request.
    Broken(hyper::Error),
}

impl Connection {
    pub async fn start(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> hyper::Result<Connection> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { sender, _task: AbortOnDropHandle::new(task) })
    }

    /// Sends a request and reads the head of the response.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendFailure> {
        self.sender.try_send_request(request).await.map_err(|mut failure: TrySendError<_>| {
            match failure.take_message() {
                Some(request) => SendFailure::Unsent(Box::new(request), failure.into_error()),
                None => SendFailure::Broken(failure.into_error()),
            }
        })
    }
}

/// The idle connections to each server, by its address.
#[derive(Default)]
pub struct IdleConnections(Mutex<BTreeMap<String, Vec<Idle>>>);

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Idle {
    fn is_worth_keeping(&self) -> bool {
        !self.connection.sender.is_closed() && self.since.elapsed() < IDLE_MAX
    }
}

impl IdleConnections {
    /// The connection that was used last, so that surplus ones expire.
    pub fn take(&self, address: &str) -> Option<Connection> {
        let mut all = self.lock();
        let idle = all.get_mut(address)?;
        idle.retain(Idle::is_worth_keeping);
        let last = idle.iter().rposition(|idle| idle.connection.sender.is_ready())?;
        Some(idle.remove(last).connection)
    }

    /// Keeps a connection whose last response was read to its end.
    pub fn keep(&self, address: &str, connection: Connection) {
        let mut all = self.lock();
        // Servers that have left the cluster have connections too.
        all.retain(|_, idle| {
            idle.retain(Idle::is_worth_keeping);
            !idle.is_empty()
        });
        let idle = all.entry(address.to_owned()).or_default();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
