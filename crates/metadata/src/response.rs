//! Builds responses: a status, the headers that every response has, and a body in memory. hyper sends most of them; the response
//! to a plain request is written here, with the same bytes.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use forewarn_core::Guid;
use forewarn_wire::error::MetadataError;
use forewarn_wire::guid;
use forewarn_wire::instance::{self, ContentType};
use http::StatusCode;
use http::header::{
    AGE, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, SERVER,
};
use http_body_util::Full;
use httpdate::HttpDate;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::documents::Rendered;

/// The longest body that is copied behind its head, to send both at once. hyper sends longer ones, without a copy.
const PLAIN_BODY_BYTES_MAX: usize = 16 * 1024;

/// Room for the head of a response.
const HEAD_BYTES_EXPECTED: usize = 320;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
/// Some clients refuse responses whose `Server` header does not contain IMDS.
const SERVER_NAME: &str = "IMDS/Forewarn";

#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    request_id: [u8; guid::LEN],
    media: Option<ContentType>,
    /// The incarnation of the document that the response contains or confirms.
    pub etag: Option<u64>,
    retry_after_secs: Option<u32>,
    allow: Option<&'static str>,
    /// How old the data is, if it may not be current.
    pub age_secs: Option<u64>,
    /// Whether it is the last one on its connection.
    closes: bool,
    pub body: Bytes,
    /// The announced length of a body that ends before it.
    pub announced: Option<usize>,
}

impl Response {
    /// The response as hyper sends it.
    pub fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(Body::empty());
        *response.status_mut() = self.status;
        self.for_each_header(|name, value| {
            let value = HeaderValue::from_bytes(value).expect("our own values have no control characters");
            response.headers_mut().append(name, value);
        });
        *response.body_mut() = match self.announced {
            None => Body::Complete(Full::new(self.body)),
            Some(_) => Body::Truncated { rest: Some(self.body), paused: false },
        };
        response
    }

    /// Whether the response to a plain request can be sent without hyper.
    pub fn is_plain(&self) -> bool {
        !self.closes && self.announced.is_none() && self.body.len() <= PLAIN_BODY_BYTES_MAX
    }

    /// Head and body, as hyper sends them in response to a plain request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES_EXPECTED + self.body.len());
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(self.status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.status.canonical_reason().unwrap_or("<none>").as_bytes());
        out.extend_from_slice(b"\r\n");
        let mut add = |name: HeaderName, value: &[u8]| {
            for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        };
        self.for_each_header(&mut add);
        if self.status != StatusCode::NOT_MODIFIED {
            add(CONTENT_LENGTH, Digits::new(self.body.len() as u64).as_bytes());
        }
        out.extend_from_slice(b"date: ");
        append_date(&mut out);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(&self.body);
        out
    }

    /// All headers in order, without those that hyper adds.
    fn for_each_header(&self, mut add: impl FnMut(HeaderName, &[u8])) {
        add(SERVER, SERVER_NAME.as_bytes());
        add(REQUEST_ID, &self.request_id);
        if let Some(media) = self.media {
            add(CONTENT_TYPE, media.content_type().as_bytes());
        }
        if let Some(etag) = self.etag {
            add(ETAG, Digits::new(etag).as_bytes());
        }
        if let Some(secs) = self.retry_after_secs {
            add(RETRY_AFTER, Digits::new(secs.into()).as_bytes());
        }
        if let Some(allow) = self.allow {
            add(ALLOW, allow.as_bytes());
        }
        if let Some(secs) = self.age_secs {
            add(AGE, Digits::new(secs).as_bytes());
        }
        if self.closes {
            add(CONNECTION, b"close");
        }
        if let Some(length) = self.announced {
            add(CONTENT_LENGTH, Digits::new(length as u64).as_bytes());
        }
    }

    /// The same response, as the last one on its connection.
    pub fn with_close(self) -> Response {
        Response { closes: true, ..self }
    }
}

/// A number in decimal digits, without an allocation.
struct Digits {
    digits: [u8; 20],
    from: usize,
}

impl Digits {
    fn new(number: u64) -> Digits {
        let (mut digits, mut from, mut rest) = ([0; 20], 20, number);
        loop {
            from -= 1;
            digits[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Digits { digits, from };
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.from..]
    }
}

/// Appends the time as the `Date` header has it. It is formatted once a second.
fn append_date(out: &mut Vec<u8>) {
    thread_local! {
        static FORMATTED: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now();
    let secs = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    FORMATTED.with_borrow_mut(|(at, text)| {
        if *at != secs || text.is_empty() {
            (*at, *text) = (secs, HttpDate::from(now).to_string());
        }
        out.extend_from_slice(text.as_bytes());
    });
}

/// A body in memory, for hyper.
#[derive(Debug)]
pub enum Body {
    Complete(Full<Bytes>),
    /// Ends before its announced length, which ends the connection. The pause lets the bytes leave first.
    Truncated {
        rest: Option<Bytes>,
        paused: bool,
    },
}

impl Body {
    fn empty() -> Body {
        Body::Complete(Full::default())
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Complete(complete) => pin!(complete).poll_frame(context),
            Body::Truncated { rest, paused } => match rest.take() {
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
            Body::Complete(complete) => complete.is_end_stream(),
            Body::Truncated { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Complete(complete) => complete.size_hint(),
            Body::Truncated { .. } => SizeHint::default(),
        }
    }
}

pub struct Responses {
    seed: Guid,
    count: AtomicU64,
}

impl Responses {
    pub fn new(seed: Guid) -> Responses {
        Responses { seed, count: AtomicU64::new(0) }
    }

    /// A document without an ETag.
    pub fn without_etag(&self, body: Bytes) -> Response {
        self.with_media(ContentType::Json, body)
    }

    pub fn document(&self, document: Rendered) -> Response {
        Response { etag: Some(document.incarnation), ..self.without_etag(document.body) }
    }

    pub fn not_modified(&self, etag: u64) -> Response {
        Response { etag: Some(etag), ..self.build(StatusCode::NOT_MODIFIED, Bytes::new()) }
    }

    /// A 200 without a body: some clients would parse any text as JSON.
    pub fn accepted(&self) -> Response {
        self.build(StatusCode::OK, Bytes::new())
    }

    pub fn instance(&self, answer: instance::InstanceResponse) -> Response {
        self.with_media(answer.media, answer.body.into())
    }

    pub fn json(&self, body: Vec<u8>) -> Response {
        self.with_media(ContentType::Json, body.into())
    }

    pub fn refusal(&self, refusal: &MetadataError) -> Response {
        let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Response {
            media: Some(ContentType::Json),
            retry_after_secs: refusal.retry_after_secs(),
            allow: refusal.allow(),
            ..self.build(status, refusal.body().into())
        }
    }

    /// The body did not arrive in time.
    pub fn body_timeout(&self) -> Response {
        let body = r#"{ "error": "Request timeout. The body did not arrive within 10 seconds. Send it together with the headers." }"#;
        let response = self.build(StatusCode::REQUEST_TIMEOUT, Bytes::from_static(body.as_bytes()));
        Response { media: Some(ContentType::Json), ..response }.with_close()
    }

    fn with_media(&self, media: ContentType, body: Bytes) -> Response {
        Response { media: Some(media), ..self.build(StatusCode::OK, body) }
    }

    fn build(&self, status: StatusCode, body: Bytes) -> Response {
        Response {
            status,
            request_id: guid::format_lower(self.seed.derive(self.count.fetch_add(1, Ordering::Relaxed)).0),
            media: None,
            etag: None,
            retry_after_secs: None,
            allow: None,
            age_secs: None,
            closes: false,
            body,
            announced: None,
        }
    }
}
