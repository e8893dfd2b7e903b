//! Responses that go wrong on purpose: delayed, replaced, cut off or missing.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use forewarn_wire::error::MetadataError;
use tokio::time::sleep;

use super::request::Endpoint;
use super::respond::CompletedRequest;
use super::response::Response;
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
fn truncate(mut response: Response) -> Response {
    // An empty body seems to have a short one.
    response.announced = Some(response.body.len().max(2));
    response.body = halve(&response.body);
    response
}

/// Announces half of the body and sends that.
fn malform(mut response: Response) -> Response {
    let half = halve(&response.body);
    response.body = if half.is_empty() { Bytes::from_static(b"{") } else { half };
    response
}

fn halve(body: &Bytes) -> Bytes {
    body.slice(..body.len() / 2)
}
