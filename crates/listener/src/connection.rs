//! The use of one management connection: who it comes from, whether it does work for an authenticated caller, and how many
//! requests its client has sent ahead.
//!
//! Only work for an authenticated caller protects a connection from eviction. A client without a token can therefore not keep
//! a connection that another client needs, whatever it sends and however slowly it reads.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use forewarn_metadata::Activity;
use http::Extensions;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Requests that a client can send before it has read the responses. Tools send one at a time; browsers do not pipeline.
pub const PIPELINED_MAX: u32 = 16;

/// An extension of every request that came in through a listener.
#[derive(Clone)]
pub struct ConnectionUse {
    pub peer: IpAddr,
    pub activity: Arc<Activity>,
    /// Whether the client has a certificate of another server in the cluster.
    pub is_node: bool,
    /// Requests since input last arrived.
    pipelined: Arc<AtomicU32>,
}

impl ConnectionUse {
    pub fn new(peer: IpAddr, activity: Arc<Activity>) -> ConnectionUse {
        ConnectionUse { peer, activity, is_node: false, pipelined: Arc::default() }
    }

    /// Protects the connection from eviction until the current response ends. Call this only for authenticated callers.
    pub fn protect(extensions: &Extensions) {
        if let Some(connection) = extensions.get::<ConnectionUse>()
            && !Activity::is_busy(connection.activity.phase())
        {
            connection.activity.advance_phase(1);
        }
    }

    pub fn record_input(&self) {
        self.pipelined.store(0, Ordering::Relaxed);
    }

    /// Counts a request. False: its client has pipelined too many.
    pub fn begin_request(&self) -> bool {
        self.pipelined.fetch_add(1, Ordering::Relaxed) < PIPELINED_MAX
    }

    /// Lets the connection be idle again when this body ends.
    pub fn track(&self, body: Body) -> Body {
        Body::new(TrackedBody { body, _use: EndOfUse(self.activity.clone()) })
    }
}

struct EndOfUse(Arc<Activity>);

impl Drop for EndOfUse {
    fn drop(&mut self) {
        if Activity::is_busy(self.0.phase()) {
            self.0.advance_phase(1);
        }
    }
}

/// A response body that ends the use of its connection.
struct TrackedBody {
    body: Body,
    _use: EndOfUse,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_authenticated_request_protects_its_connection_until_its_response_ends() {
        let connection = ConnectionUse::new([127, 0, 0, 1].into(), Arc::default());
        let is_busy = || Activity::is_busy(connection.activity.phase());
        drop(connection.track(Body::empty()));
        assert!(!is_busy());
        let mut extensions = Extensions::new();
        extensions.insert(connection.clone());
        ConnectionUse::protect(&extensions);
        ConnectionUse::protect(&extensions);
        let body = connection.track(Body::empty());
        assert!(is_busy());
        drop(body);
        assert!(!is_busy());
    }

    #[test]
    fn requests_are_counted_from_the_last_input() {
        let connection = ConnectionUse::new([127, 0, 0, 1].into(), Arc::default());
        assert!((0..PIPELINED_MAX).all(|_| connection.begin_request()));
        assert!(!connection.begin_request());
        connection.record_input();
        assert!(connection.begin_request());
    }
}
