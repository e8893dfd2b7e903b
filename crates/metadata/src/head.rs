//! The head of a request, as the checks read it: one that hyper has parsed, or a plain one.
//!
//! Nearly every request is plain: a short GET without a body, or a short POST that arrived with its body, and nothing after it.
//! Plain requests are parsed here and answered without hyper, which would take a quarter of their CPU time. Every other input is
//! left to hyper, also input that is not a request at all.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method};
use httparse::{EMPTY_HEADER, Header, Status};

/// The longest plain request, with its body. Usual ones have 200 bytes; an approval of one event adds 70.
pub const PLAIN_BYTES_MAX: usize = 2048;

/// The most headers of a plain request. Usual ones have three to six.
pub const PLAIN_HEADERS_MAX: usize = 16;

/// Room for the headers of a plain request.
pub type PlainHeaders<'r> = [Header<'r>; PLAIN_HEADERS_MAX];

pub const NO_HEADERS: PlainHeaders<'_> = [EMPTY_HEADER; PLAIN_HEADERS_MAX];

/// Headers that hyper handles: they change how the body is sent or what protocol the connection uses.
const NOT_PLAIN: [HeaderName; 3] = [TRANSFER_ENCODING, EXPECT, UPGRADE];

/// A plain request, as it stands in the input.
pub struct PlainRequest<'r> {
    pub head: Head<'r>,
    pub body: &'r [u8],
}

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

impl<'r> PlainRequest<'r> {
    /// Parses the input if it is exactly one plain request.
    pub fn parse(input: &'r [u8], room: &'r mut PlainHeaders<'r>) -> Option<PlainRequest<'r>> {
        if input.len() > PLAIN_BYTES_MAX {
            return None;
        }
        // The parser skips empty lines before a request.
        let method = match input {
            [b'G', b'E', b'T', b' ', b'/', ..] => &Method::GET,
            [b'P', b'O', b'S', b'T', b' ', b'/', ..] => &Method::POST,
            _ => return None,
        };
        let mut request = httparse::Request::new(room);
        let Ok(Status::Complete(head_bytes)) = request.parse(input) else { return None };
        let headers: &[Header<'_>] = request.headers;
        let body = &input[head_bytes..];
        let is_plain =
            request.version == Some(1) && headers.iter().all(is_plain) && is_whole_body(method, headers, body);
        let target = request.path.filter(|target| is_plain && target.bytes().all(is_plain_in_target))?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(PlainRequest { head: Head { method, path, query, headers: Headers::List(headers) }, body })
    }
}

impl<'r> Head<'r> {
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

/// Whether the rest of the input is the body that the headers announce. Bodies of GETs, and lengths that are missing or
/// repeated, are left to hyper.
fn is_whole_body(method: &Method, headers: &[Header<'_>], body: &[u8]) -> bool {
    let mut lengths = headers.iter().filter(|header| is_named(header, &CONTENT_LENGTH));
    match (lengths.next(), lengths.next()) {
        (None, None) => method == Method::GET && body.is_empty(),
        (Some(length), None) => method == Method::POST && parse_length(length.value) == Some(body.len()),
        (_, Some(_)) => false,
    }
}

/// Parses a length. A leading `+`, which Rust's `parse` would accept, is not allowed.
fn parse_length(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
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
        let PlainRequest { head, body } = PlainRequest::parse(input.as_bytes(), &mut room)?;
        Some(format!("{} {} {} {}", head.method, head.path, head.query, String::from_utf8_lossy(body)))
    }

    #[test]
    fn one_complete_request_is_plain() {
        for input in [
            "GET /a?b=c HTTP/1.1\r\n\r\n",
            "GET /a?b=c HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n",
            "GET /a?b=c HTTP/1.1\nHost: x\n\n",
            "GET /a?b=c HTTP/1.1\r\nconnection: Keep-Alive\r\n\r\n",
        ] {
            assert_eq!(parse(input).as_deref(), Some("GET /a b=c "), "{input:?}");
        }
        for input in [
            "POST /a?b=c HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            "POST /a?b=c HTTP/1.1\nHost: x\ncontent-length: 02\n\n{}",
        ] {
            assert_eq!(parse(input).as_deref(), Some("POST /a b=c {}"), "{input:?}");
        }
        let body = "\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let input = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(parse(&input), Some(format!("POST /  {body}")));
        assert_eq!(parse("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").as_deref(), Some("POST /  "));
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
            "PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            "POST / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\n\r\n{}",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}G",
            "POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}",
            "POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\n{}",
            "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            "POST / HTTP/1.1\r\nContent-Length: 18446744073709551617\r\n\r\n{",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
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
        let head = PlainRequest::parse(input, &mut room).unwrap().head;
        let tags: Vec<_> = head.values(&http::header::IF_NONE_MATCH).collect();
        assert_eq!(tags, [b"1", b"2"]);
        assert_eq!(head.value(&http::header::HOST), Some(&b"x"[..]));
        assert!(!head.has(&http::header::ORIGIN));
    }
}
