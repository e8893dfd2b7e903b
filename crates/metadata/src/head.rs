//! The head of a request, as the checks read it: one that hyper has parsed, or a plain one.
//!
//! Nearly every request is plain: a complete GET with a short head, without a body, and with nothing after it. Plain requests are
//! parsed here and answered without hyper, which would take a quarter of their CPU time. Every other input is left to hyper, also
//! input that is not a request at all.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method};
use httparse::{EMPTY_HEADER, Header, Status};

/// The longest head of a plain request. Usual ones have 200 bytes.
pub const PLAIN_BYTES_MAX: usize = 2048;

/// The most headers of a plain request. Usual ones have three to six.
pub const PLAIN_HEADERS_MAX: usize = 16;

/// Room for the headers of a plain request.
pub type PlainHeaders<'r> = [Header<'r>; PLAIN_HEADERS_MAX];

pub const NO_HEADERS: PlainHeaders<'_> = [EMPTY_HEADER; PLAIN_HEADERS_MAX];

/// hyper's part: they say that a body follows, or what becomes of the connection.
const NOT_PLAIN: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, UPGRADE];

pub struct Head<'r> {
    pub method: &'r Method,
    pub path: &'r str,
    /// Empty: there is none.
    pub query: &'r str,
    headers: Headers<'r>,
}

enum Headers<'r> {
    Map(&'r HeaderMap),
    List(&'r [Header<'r>]),
}

impl<'r> Head<'r> {
    /// Parses the input if it is exactly one plain request.
    pub fn parse_plain(input: &'r [u8], room: &'r mut PlainHeaders<'r>) -> Option<Head<'r>> {
        // The parser skips empty lines before a request.
        let is_short = input.len() <= PLAIN_BYTES_MAX && input.starts_with(b"GET /");
        let mut request = httparse::Request::new(room);
        let Ok(Status::Complete(length)) = is_short.then(|| request.parse(input))? else { return None };
        let headers: &[Header<'_>] = request.headers;
        let is_plain = length == input.len() && request.version == Some(1) && headers.iter().all(is_plain);
        let target = request.path.filter(|target| is_plain && target.bytes().all(is_plain_in_target))?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Head { method: &Method::GET, path, query, headers: Headers::List(headers) })
    }

    /// The first value of a header.
    pub fn value(&self, name: &HeaderName) -> Option<&'r [u8]> {
        self.values(name).next()
    }

    pub fn has(&self, name: &HeaderName) -> bool {
        self.value(name).is_some()
    }

    /// All values of a header.
    pub fn values(&self, name: &HeaderName) -> impl Iterator<Item = &'r [u8]> {
        let (map, list) = match self.headers {
            Headers::Map(map) => (Some(map), &[][..]),
            Headers::List(list) => (None, list),
        };
        let in_map = map.into_iter().flat_map(move |map| map.get_all(name)).map(HeaderValue::as_bytes);
        in_map.chain(list.iter().filter(move |header| is_named(header, name)).map(|header| header.value))
    }
}

impl<'r> From<&'r Parts> for Head<'r> {
    fn from(parts: &'r Parts) -> Head<'r> {
        Head {
            method: &parts.method,
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: Headers::Map(&parts.headers),
        }
    }
}

fn is_named(header: &Header<'_>, name: &HeaderName) -> bool {
    header.name.eq_ignore_ascii_case(name.as_str())
}

fn is_plain(header: &Header<'_>) -> bool {
    let keeps = !is_named(header, &CONNECTION) || header.value.eq_ignore_ascii_case(b"keep-alive");
    keeps && !NOT_PLAIN.iter().any(|name| is_named(header, name))
}

/// Whether a byte of a request target means the same to hyper, which normalizes or refuses others.
fn is_plain_in_target(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/?=&%-_.~:+,".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(input: &str) -> Option<String> {
        let mut room = NO_HEADERS;
        let head = Head::parse_plain(input.as_bytes(), &mut room)?;
        Some(format!("{} {} {}", head.method, head.path, head.query))
    }

    #[test]
    fn one_complete_get_without_a_body_is_plain() {
        for input in [
            "GET /a?b=c HTTP/1.1\r\n\r\n",
            "GET /a?b=c HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n",
            "GET /a?b=c HTTP/1.1\nHost: x\n\n",
            "GET /a?b=c HTTP/1.1\r\nconnection: Keep-Alive\r\n\r\n",
        ] {
            assert_eq!(parse(input).as_deref(), Some("GET /a b=c"), "{input:?}");
        }
    }

    #[test]
    fn everything_else_is_left_to_hyper() {
        let many = "X: y\r\n".repeat(PLAIN_HEADERS_MAX + 1);
        let long = "x".repeat(PLAIN_BYTES_MAX);
        for input in [
            "",
            "GET /",
            "GET / HTTP/1.1\r\nHost: x\r\n",
            "GET / HTTP/1.1\r\n\r\nG",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "HEAD / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "GET /a#b HTTP/1.1\r\n\r\n",
            "GET /ü HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
            "GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: keep-alive, x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            &format!("GET / HTTP/1.1\r\n{many}\r\n"),
            &format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"),
        ] {
            assert_eq!(parse(input), None, "{input:?}");
        }
    }

    #[test]
    fn headers_are_found_in_any_case_and_all_of_them() {
        let mut room = NO_HEADERS;
        let input = b"GET / HTTP/1.1\r\nIF-NONE-MATCH: 1\r\nHost: x\r\nif-none-match: 2\r\n\r\n";
        let head = Head::parse_plain(input, &mut room).unwrap();
        let tags: Vec<_> = head.values(&http::header::IF_NONE_MATCH).collect();
        assert_eq!(tags, [b"1", b"2"]);
        assert_eq!(head.value(&http::header::HOST), Some(&b"x"[..]));
        assert!(!head.has(&http::header::ORIGIN));
    }
}
