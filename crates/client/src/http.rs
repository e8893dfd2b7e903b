//! The subset of HTTP/1.1 that a metadata endpoint needs, without sockets.
//!
//! It is small enough to do without a library, which would cost a guest agent memory and trust: one request at a time,
//! no TLS, redirects, cookies, compression or proxies (the service refuses proxied requests). The blocking and the
//! async client share this code.
//!
//! ```text
//! Request::to_bytes ─▶ wire ─▶ Decoder::feed, feed, … ─▶ Response
//! ```

use std::fmt::Write;
use std::time::Duration;

use crate::endpoint::Endpoint;

/// Limit for the status line and the headers of a response. The service sends about 300 bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Limit for the body of a response. A document with two thousand events has about 1 MiB.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Limit for a chunk header or a trailer line.
const LINE_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: Method,
    /// Path and query, relative to the endpoint.
    pub path: String,
    pub if_none_match: Option<String>,
    /// Time limit for the response.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post { body: String },
}

impl Request {
    pub fn to_bytes(&self, endpoint: &Endpoint) -> Vec<u8> {
        let (method, body) = match &self.method {
            Method::Get => ("GET", None),
            Method::Post { body } => ("POST", Some(body)),
        };
        let mut out = format!(
            "{method} {}{} HTTP/1.1\r\nHost: {}\r\nMetadata: true\r\nAccept: application/json\r\nUser-Agent: {USER_AGENT}\r\n",
            endpoint.prefix(),
            self.path,
            endpoint.authority(),
        );
        if let Some(etag) = &self.if_none_match {
            let _ = write!(out, "If-None-Match: {etag}\r\n");
        }
        if let Some(body) = body {
            let _ = write!(out, "Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        out.push_str("\r\n");
        out.push_str(body.map(String::as_str).unwrap_or_default());
        out.into_bytes()
    }
}

const USER_AGENT: &str = concat!("forewarn-client/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the connection can be used for another request.
    pub reusable: bool,
}

impl Response {
    /// Value of the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        let values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.flat_map(|(_, value)| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(token))
    }

    #[cfg(test)]
    pub fn of(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Response { status, headers, body: body.into(), reusable: true }
    }
}

/// Error in an HTTP response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("the response is not HTTP: it starts with {0:?}")]
    NotHttp(String),
    #[error("the response headers exceed {HEAD_BYTES_MAX} bytes")]
    HeadTooLarge,
    #[error("the response body exceeds {BODY_BYTES_MAX} bytes")]
    BodyTooLarge,
    #[error("invalid length in the response: {0:?}")]
    BadLength(String),
    /// Also used if the connection was closed before the first byte.
    #[error("the connection was closed before the end of the response")]
    Truncated,
}

/// Incremental decoder for one response.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    /// Incomplete line.
    pending: Vec<u8>,
    response: Response,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Sized { left: usize },
    ChunkLine,
    Chunk { left: usize },
    ChunkEnd,
    Trailer,
    UntilClosed,
    Done,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder { state: State::Head, pending: Vec::new(), response: Response::default() }
    }

    /// Whether no byte has arrived yet.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Head && self.pending.is_empty()
    }

    /// Decodes more bytes. Returns the response once it is complete. An empty slice means that the connection was
    /// closed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Response>, HttpError> {
        if bytes.is_empty() {
            return self.finish_at_close().map(Some);
        }
        let mut rest = bytes;
        while !rest.is_empty() && self.state != State::Done {
            rest = self.step(rest)?;
        }
        if self.state != State::Done {
            return Ok(None);
        }
        // Surplus bytes are not the response to the next request.
        self.response.reusable &= rest.is_empty();
        Ok(Some(std::mem::take(&mut self.response)))
    }

    fn finish_at_close(&mut self) -> Result<Response, HttpError> {
        if self.state != State::UntilClosed {
            return Err(HttpError::Truncated);
        }
        self.state = State::Done;
        Ok(std::mem::take(&mut self.response))
    }

    /// Consumes at least one byte.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HttpError> {
        match self.state {
            State::Head => self.read_head(bytes),
            State::Sized { left } => self.read_body(bytes, left, State::Done, |left| State::Sized { left }),
            State::Chunk { left } => self.read_body(bytes, left, State::ChunkEnd, |left| State::Chunk { left }),
            State::UntilClosed => self.read_body(bytes, usize::MAX, State::Done, |_| State::UntilClosed),
            State::ChunkLine | State::ChunkEnd | State::Trailer => self.read_line(bytes),
            State::Done => Ok(bytes),
        }
    }

    fn read_body<'a>(
        &mut self,
        bytes: &'a [u8],
        left: usize,
        after: State,
        during: fn(usize) -> State,
    ) -> Result<&'a [u8], HttpError> {
        let (taken, rest) = bytes.split_at(left.min(bytes.len()));
        if self.response.body.len() + taken.len() > BODY_BYTES_MAX {
            return Err(HttpError::BodyTooLarge);
        }
        self.response.body.extend_from_slice(taken);
        let left = left - taken.len();
        self.state = if left == 0 { after } else { during(left) };
        Ok(rest)
    }

    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HttpError> {
        let (line, rest) = self.take_line(bytes, HEAD_BYTES_MAX, HttpError::HeadTooLarge)?;
        match line {
            None => {}
            Some(line) if line.is_empty() => self.finish_head()?,
            Some(line) if self.response.status == 0 => self.parse_status_line(&line)?,
            Some(line) => self.parse_header_line(&line)?,
        }
        Ok(rest)
    }

    fn parse_status_line(&mut self, line: &str) -> Result<(), HttpError> {
        let not_http = || HttpError::NotHttp(line.chars().take(40).collect());
        let (protocol, rest) = line.split_once(' ').ok_or_else(not_http)?;
        let status = rest.get(..3).and_then(|digits| digits.parse().ok()).filter(|status| (100..=599).contains(status));
        let known = protocol == "HTTP/1.1" || protocol == "HTTP/1.0";
        self.response.status = status.filter(|_| known).ok_or_else(not_http)?;
        self.response.reusable = protocol == "HTTP/1.1";
        Ok(())
    }

    fn parse_header_line(&mut self, line: &str) -> Result<(), HttpError> {
        let (name, value) = line.split_once(':').ok_or_else(|| HttpError::NotHttp(line.chars().take(40).collect()))?;
        let bytes: usize = self.response.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        if bytes + line.len() > HEAD_BYTES_MAX {
            return Err(HttpError::HeadTooLarge);
        }
        self.response.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        Ok(())
    }

    fn finish_head(&mut self) -> Result<(), HttpError> {
        let response = &mut self.response;
        response.reusable &= !response.has_token("connection", "close");
        self.state = match response.status {
            0 => return Err(HttpError::NotHttp(String::new())),
            // Interim response; the final one follows.
            100..=199 => {
                *response = Response::default();
                State::Head
            }
            204 | 304 => State::Done,
            _ if response.has_token("transfer-encoding", "chunked") => State::ChunkLine,
            _ => match parse_content_length(response)? {
                Some(0) => State::Done,
                Some(left) => State::Sized { left },
                None => {
                    response.reusable = false;
                    State::UntilClosed
                }
            },
        };
        Ok(())
    }

    fn read_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HttpError> {
        let (line, rest) =
            self.take_line(bytes, LINE_BYTES_MAX, HttpError::BadLength("a line that is too long".into()))?;
        let Some(line) = line else { return Ok(rest) };
        self.state = match self.state {
            State::ChunkEnd if line.is_empty() => State::ChunkLine,
            State::ChunkLine => match parse_chunk_size(&line)? {
                0 => State::Trailer,
                left => State::Chunk { left },
            },
            State::Trailer if line.is_empty() => State::Done,
            State::Trailer => State::Trailer,
            _ => return Err(HttpError::BadLength(line)),
        };
        Ok(rest)
    }

    /// Takes one line, if it is complete, without its line break. Also returns the remaining bytes.
    fn take_line<'a>(
        &mut self,
        bytes: &'a [u8],
        max: usize,
        too_long: HttpError,
    ) -> Result<(Option<String>, &'a [u8]), HttpError> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let (taken, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        if self.pending.len() + taken.len() > max {
            return Err(too_long);
        }
        self.pending.extend_from_slice(taken);
        if end.is_none() {
            return Ok((None, rest));
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
        Ok((Some(line.trim_end_matches(['\r', '\n']).to_owned()), rest))
    }
}

fn parse_content_length(response: &Response) -> Result<Option<usize>, HttpError> {
    let named = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut lengths = named.map(|(_, value)| value);
    let Some(first) = lengths.next() else { return Ok(None) };
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || lengths.any(|other| other != first) {
        return Err(HttpError::BadLength(first.clone()));
    }
    match first.parse() {
        Ok(length) if length <= BODY_BYTES_MAX => Ok(Some(length)),
        _ => Err(HttpError::BodyTooLarge),
    }
}

fn parse_chunk_size(line: &str) -> Result<usize, HttpError> {
    let digits = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
    match size {
        Some(size) if size <= BODY_BYTES_MAX => Ok(size),
        Some(_) => Err(HttpError::BodyTooLarge),
        None => Err(HttpError::BadLength(line.to_owned())),
    }
}

#[cfg(test)]
mod tests;
