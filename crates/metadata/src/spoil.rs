//! An answer that goes wrong on purpose: waits, then is another one, none, or half of one.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use forewarn_wire::error::Refusal;
use http::header::{CONTENT_LENGTH, HeaderValue};
use tokio::time::sleep;

use super::answer::{Answer, Body};
use super::service::Shared;
use crate::faults::{Hit, Spoil, Status};

/// Instead of an answer: the connection is reset.
#[derive(Debug, thiserror::Error)]
#[error("the connection is reset")]
pub struct Reset;

/// The answer, or what a fault makes of it. `answer` is not even begun when another one is given in its place.
pub async fn answer(
    shared: Arc<Shared>,
    hit: Option<Box<Hit>>,
    answer: impl Future<Output = Answer>,
) -> Result<Answer, Reset> {
    let Some(hit) = hit else { return Ok(answer.await) };
    if !hit.delay.is_zero() {
        tokio::select! {
            () = sleep(hit.delay) => {}
            () = shared.stop.cancelled() => {}
        }
    }
    match hit.spoil {
        None => Ok(answer.await),
        Some(Spoil::Status { status, retry_after_secs }) => {
            Ok(shared.answers.refusal(&refusal(status, retry_after_secs)))
        }
        Some(Spoil::Reset) => Err(Reset),
        Some(Spoil::Truncated) => Ok(truncated(answer.await)),
        Some(Spoil::Malformed) => Ok(malformed(answer.await)),
    }
}

/// What the original says with this status.
fn refusal(status: Status, retry_after_secs: u32) -> Refusal {
    match status {
        Status::TooManyRequests => Refusal::TooManyRequests { retry_after_secs },
        Status::Gone => Refusal::Gone,
        Status::InternalServerError => Refusal::Internal,
        Status::ServiceUnavailable => Refusal::Overloaded { retry_after_secs },
    }
}

/// Announces the whole and sends half of it.
fn truncated(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    let (half, whole) = half(body);
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(whole));
    Answer::from_parts(head, Body::broken(half))
}

/// Announces half of it, and sends that.
fn malformed(answer: Answer) -> Answer {
    let (head, body) = answer.into_parts();
    let (half, _) = half(body);
    let body = if half.is_empty() { Bytes::from_static(b"{") } else { half };
    Answer::from_parts(head, Body::whole(body))
}

/// The first half, and how long the whole is. An answer without a body seems to have a short one.
fn half(body: Body) -> (Bytes, usize) {
    let mut bytes = body.into_bytes();
    let whole = bytes.len().max(2);
    bytes.truncate(bytes.len() / 2);
    (bytes, whole)
}
