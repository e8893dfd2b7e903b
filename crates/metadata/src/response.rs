//! Answers as they leave: a status, the headers that every answer has, a body that exists already.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use forewarn_core::Guid;
use forewarn_wire::error::Refusal;
use forewarn_wire::guid;
use forewarn_wire::instance::{self, Media};
use http::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::documents::Rendered;

pub type Answer = Response<Body>;

/// A body that exists already.
#[derive(Debug)]
pub enum Body {
    Whole(Full<Bytes>),
    /// Ends before its announced length, which ends the connection. What there is of it is sent first:
    /// after it there is a pause.
    Broken {
        rest: Option<Bytes>,
        paused: bool,
    },
}

impl Body {
    pub fn whole(bytes: Bytes) -> Body {
        Body::Whole(Full::new(bytes))
    }

    /// The head must say how long it seems to be.
    pub fn broken(bytes: Bytes) -> Body {
        Body::Broken { rest: Some(bytes), paused: false }
    }

    pub fn into_bytes(self) -> Bytes {
        match self {
            Body::Whole(whole) => whole.into_inner(),
            Body::Broken { rest, .. } => rest,
        }
        .unwrap_or_default()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(whole) => pin!(whole).poll_frame(context),
            Body::Broken { rest, paused } => match rest.take() {
                Some(bytes) if !bytes.is_empty() => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(_) | None if !*paused => {
                    *paused = true;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Some(_) | None => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(whole) => whole.is_end_stream(),
            Body::Broken { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(whole) => whole.size_hint(),
            Body::Broken { .. } => SizeHint::default(),
        }
    }
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
/// Some clients refuse answers whose `Server` does not contain IMDS.
const SERVER_NAME: HeaderValue = HeaderValue::from_static("IMDS/Forewarn");
const JSON: HeaderValue = HeaderValue::from_static(Media::Json.content_type());
const TEXT: HeaderValue = HeaderValue::from_static(Media::Text.content_type());

/// Room for our own headers and those that hyper adds.
const HEADERS: usize = 8;

pub struct Answers {
    seed: Guid,
    given: AtomicU64,
}

impl Answers {
    pub fn new(seed: Guid) -> Answers {
        Answers { seed, given: AtomicU64::new(0) }
    }

    /// A document that has nothing to compare with.
    pub fn untagged(&self, body: Bytes) -> Answer {
        let mut answer = self.answer(StatusCode::OK, body);
        answer.headers_mut().insert(CONTENT_TYPE, JSON);
        answer
    }

    pub fn document(&self, document: &Rendered) -> Answer {
        let mut answer = self.answer(StatusCode::OK, document.body.clone());
        answer.headers_mut().insert(CONTENT_TYPE, JSON);
        answer.headers_mut().insert(ETAG, document.etag.clone());
        answer
    }

    pub fn unchanged(&self, etag: HeaderValue) -> Answer {
        let mut answer = self.answer(StatusCode::NOT_MODIFIED, Bytes::new());
        answer.headers_mut().insert(ETAG, etag);
        answer
    }

    /// A 200 without a body: some clients read whatever text there is as JSON.
    pub fn taken(&self) -> Answer {
        self.answer(StatusCode::OK, Bytes::new())
    }

    pub fn of(&self, answer: instance::Answer) -> Answer {
        self.body(answer.media, answer.body)
    }

    pub fn json(&self, body: Vec<u8>) -> Answer {
        self.body(Media::Json, body)
    }

    pub fn refusal(&self, refusal: &Refusal) -> Answer {
        let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = self.answer(status, refusal.body().into());
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if let Some(secs) = refusal.retry_after_secs() {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(allow) = refusal.allow() {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        answer
    }

    /// The body did not come in time.
    pub fn too_slow(&self) -> Answer {
        let body =
            r#"{ "error": "Request timeout. The body did not arrive in time. Send it together with the headers." }"#;
        let mut answer = self.answer(StatusCode::REQUEST_TIMEOUT, Bytes::from_static(body.as_bytes()));
        answer.headers_mut().insert(CONTENT_TYPE, JSON);
        answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        answer
    }

    fn body(&self, media: Media, body: Vec<u8>) -> Answer {
        let mut answer = self.answer(StatusCode::OK, body.into());
        let media = match media {
            Media::Json => JSON,
            Media::Text => TEXT,
        };
        answer.headers_mut().insert(CONTENT_TYPE, media);
        answer
    }

    fn answer(&self, status: StatusCode, body: Bytes) -> Answer {
        let mut answer = Response::new(Body::whole(body));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.reserve(HEADERS);
        headers.insert(SERVER, SERVER_NAME);
        headers.insert(REQUEST_ID, self.request_id());
        answer
    }

    fn request_id(&self) -> HeaderValue {
        let id = self.seed.derive(self.given.fetch_add(1, Ordering::Relaxed));
        HeaderValue::from_bytes(&guid::lower(id.0)).expect("hexadecimal digits are good for a header")
    }
}
