//! Responses that go wrong on purpose: delayed, replaced, cut off or missing.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use forewarn_wire::error::MetadataError;
use http::header::{CONTENT_LENGTH, HeaderValue};
use tokio::time::sleep;

use super::request::Endpoint;
use super::respond::CompletedRequest;
use super::response::{Body, Response};
use crate::faults::{FaultEffects, ResponseFault, Status};

/// The connection is reset instead of a response.
#[derive(Debug, thiserror::Error)]
#[error("the connection is reset")]
pub struct Reset;

/// The response, changed by the faults that the request met. `response` is not polled if another one replaces it.
pub async fn respond(
    endpoint: Arc<Endpoint>,
    hit: Option<Box<FaultEffects>>,
    response: impl Future<Output = CompletedRequest>,
) -> Result<CompletedRequest, Reset> {
    let Some(hit) = hit else { return Ok(response.await) };
    if !hit.delay.is_zero() {
        tokio::select! {
            () = sleep(hit.delay) => {}
            () = endpoint.stop.cancelled() => {}
        }
    }
    match hit.spoil {
        None => Ok(response.await),
        Some(ResponseFault::Status { status, retry_after_secs }) => {
            Ok(endpoint.responses.refusal(&refusal(status, retry_after_secs)).into())
        }
        Some(ResponseFault::Reset) => Err(Reset),
        Some(ResponseFault::Truncated) => Ok(response.await.map(truncate)),
        Some(ResponseFault::Malformed) => Ok(response.await.map(malform)),
    }
}

/// The error that Azure sends with this status.
fn refusal(status: Status, retry_after_secs: u32) -> MetadataError {
    match status {
        Status::TooManyRequests => MetadataError::TooManyRequests { retry_after_secs },
        Status::Gone => MetadataError::Gone,
        Status::InternalServerError => MetadataError::Internal,
        Status::ServiceUnavailable => MetadataError::Overloaded { retry_after_secs },
        Status::Other(status) => MetadataError::Injected { status },
    }
}

/// Announces the whole body and sends half of it.
fn truncate(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let (half, whole) = halve(body);
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(whole));
    Response::from_parts(head, Body::truncated(half))
}

/// Announces half of the body and sends that.
fn malform(response: Response) -> Response {
    let (head, body) = response.into_parts();
    let (half, _) = halve(body);
    let body = if half.is_empty() { Bytes::from_static(b"{") } else { half };
    Response::from_parts(head, Body::complete(body))
}

/// The first half of a body, and the length of the whole. An empty body seems to have a short one.
fn halve(body: Body) -> (Bytes, usize) {
    let mut bytes = body.into_bytes();
    let whole = bytes.len().max(2);
    bytes.truncate(bytes.len() / 2);
    (bytes, whole)
}
