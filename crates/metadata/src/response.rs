//! Builds responses: a status, the headers that every response has, and a body in memory.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use forewarn_core::Guid;
use forewarn_wire::error::MetadataError;
use forewarn_wire::guid;
use forewarn_wire::instance::{self, ContentType};
use http::StatusCode;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::documents::Rendered;

pub type Response = http::Response<Body>;

/// A body in memory.
#[derive(Debug)]
pub enum Body {
    Whole(Full<Bytes>),
    /// Ends before its announced length, which ends the connection. The pause lets the bytes leave first.
    Broken {
        rest: Option<Bytes>,
        paused: bool,
    },
}

impl Body {
    pub fn complete(bytes: Bytes) -> Body {
        Body::Whole(Full::new(bytes))
    }

    /// The head must announce a length.
    pub fn truncated(bytes: Bytes) -> Body {
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
/// Some clients refuse responses whose `Server` header does not contain IMDS.
const SERVER_NAME: HeaderValue = HeaderValue::from_static("IMDS/Forewarn");
const JSON: HeaderValue = HeaderValue::from_static(ContentType::Json.content_type());
const TEXT: HeaderValue = HeaderValue::from_static(ContentType::Text.content_type());

/// Room for our own headers and those that hyper adds.
const HEADERS_EXPECTED: usize = 8;

pub struct Responses {
    seed: Guid,
    count: AtomicU64,
}

impl Responses {
    pub fn new(seed: Guid) -> Responses {
        Responses { seed, count: AtomicU64::new(0) }
    }

    /// A document without an ETag.
    pub fn untagged(&self, body: Bytes) -> Response {
        let mut response = self.build(StatusCode::OK, body);
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response
    }

    pub fn document(&self, document: &Rendered) -> Response {
        let mut response = self.build(StatusCode::OK, document.body.clone());
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response.headers_mut().insert(ETAG, document.etag.clone());
        response
    }

    pub fn not_modified(&self, etag: HeaderValue) -> Response {
        let mut response = self.build(StatusCode::NOT_MODIFIED, Bytes::new());
        response.headers_mut().insert(ETAG, etag);
        response
    }

    /// A 200 without a body: some clients would parse any text as JSON.
    pub fn accepted(&self) -> Response {
        self.build(StatusCode::OK, Bytes::new())
    }

    pub fn instance(&self, answer: instance::InstanceResponse) -> Response {
        self.with_media(answer.media, answer.body)
    }

    pub fn json(&self, body: Vec<u8>) -> Response {
        self.with_media(ContentType::Json, body)
    }

    pub fn refusal(&self, refusal: &MetadataError) -> Response {
        let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.build(status, refusal.body().into());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if let Some(secs) = refusal.retry_after_secs() {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(allow) = refusal.allow() {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }

    /// The body did not arrive in time.
    pub fn body_timeout(&self) -> Response {
        let body = r#"{ "error": "Request timeout. The body did not arrive within 10 seconds. Send it together with the headers." }"#;
        let mut response = self.build(StatusCode::REQUEST_TIMEOUT, Bytes::from_static(body.as_bytes()));
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        self.closing(response)
    }

    /// The same response, as the last one on its connection.
    pub fn closing(&self, mut response: Response) -> Response {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    fn with_media(&self, media: ContentType, body: Vec<u8>) -> Response {
        let mut response = self.build(StatusCode::OK, body.into());
        let media = match media {
            ContentType::Json => JSON,
            ContentType::Text => TEXT,
        };
        response.headers_mut().insert(CONTENT_TYPE, media);
        response
    }

    fn build(&self, status: StatusCode, body: Bytes) -> Response {
        let mut response = Response::new(Body::complete(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.reserve(HEADERS_EXPECTED);
        headers.insert(SERVER, SERVER_NAME);
        headers.insert(REQUEST_ID, self.request_id());
        response
    }

    fn request_id(&self) -> HeaderValue {
        let id = self.seed.derive(self.count.fetch_add(1, Ordering::Relaxed));
        HeaderValue::from_bytes(&guid::format_lower(id.0)).expect("hexadecimal digits are valid in a header")
    }
}
