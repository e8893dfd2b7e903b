//! The socket of one connection.
//!
//! hyper answers a head that it cannot read with a bare status; here such a response gets a body like every other error. A
//! socket that is closed while the client still sends would discard the response, so late input is read and dropped for a
//! moment. The socket also counts the heads that arrive, so that no request is held while the client sends more, and notes
//! when hyper has nothing to do. Responses to plain requests are sent here, without hyper.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::head::PlainRequest;
use super::limits::Activity;
use super::response::Response;

/// How long, and how much, a client can go on sending to a connection that is already closed.
const LATE_MAX: Duration = Duration::from_secs(1);
const LATE_BYTES_MAX: usize = 1024 * 1024;

/// A TCP or Unix connection.
pub trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Makes closing the socket reset the connection.
    fn reset_on_close(&self);

    /// Ready when there is input, or the end of it.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// Looks at the input before it says that there is some: tokio takes a new connection for readable until a read has failed.
macro_rules! poll_readable {
    ($socket:ident, $context:ident) => {
        loop {
            if ready!($socket.poll_read_ready($context)).is_err() {
                return Poll::Ready(());
            }
            let peek = || SockRef::from($socket).peek(&mut [MaybeUninit::uninit()]);
            match $socket.try_io(Interest::READABLE, peek) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
    };
}

impl Transport for TcpStream {
    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        poll_readable!(self, context)
    }
}

/// A Unix socket cannot be reset; it is closed without a response.
impl Transport for UnixStream {
    fn reset_on_close(&self) {}

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        poll_readable!(self, context)
    }
}

pub struct GuestSocket<S: Transport> {
    socket: S,
    stop: CancellationToken,
    activity: Arc<Activity>,
    heads: HeadCounter,
    /// Read before what the client sends, and not counted.
    replay: Bytes,
    /// hyper wants to read, and there is no input.
    is_read_blocked: bool,
    /// The client has closed its side.
    at_end: bool,
    /// Sent before anything else: the response in place of the bare status that hyper wrote, or the rest of a response to a
    /// plain request.
    unsent: Bytes,
    late: Option<(Pin<Box<Sleep>>, usize)>,
}

/// Counts the empty lines in the input, which end the heads of requests.
#[derive(Default)]
struct HeadCounter {
    heads: u64,
    /// Bytes of the current line, without carriage returns.
    line_bytes: usize,
    at_head_end: bool,
}

/// The empty lines in a body, as [`HeadCounter`] counts them.
pub fn count_empty_lines(body: &[u8]) -> u64 {
    let mut counter = HeadCounter::default();
    counter.read(body);
    counter.heads
}

impl HeadCounter {
    fn read(&mut self, input: &[u8]) {
        for byte in input {
            self.at_head_end = false;
            match byte {
                b'\n' => {
                    if self.line_bytes == 0 {
                        self.heads += 1;
                        self.at_head_end = true;
                    }
                    self.line_bytes = 0;
                }
                b'\r' => {}
                _ => self.line_bytes += 1,
            }
        }
    }
}

impl<S: Transport> Drop for GuestSocket<S> {
    fn drop(&mut self) {
        if self.activity.reset.load(Ordering::Relaxed) {
            self.socket.reset_on_close();
        }
    }
}

impl<S: Transport> GuestSocket<S> {
    pub fn new(socket: S, stop: CancellationToken, activity: Arc<Activity>) -> GuestSocket<S> {
        GuestSocket {
            socket,
            stop,
            activity,
            heads: HeadCounter::default(),
            replay: Bytes::new(),
            is_read_blocked: false,
            at_end: false,
            unsent: Bytes::new(),
            late: None,
        }
    }

    /// Lets these bytes be read before what the client sends.
    pub fn replay(&mut self, bytes: Bytes) {
        self.replay = bytes;
    }

    /// The bytes that are read before what the client sends.
    pub fn replayed(&self) -> &[u8] {
        &self.replay
    }

    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_readable(context)
    }

    /// Reads input that may be a plain request. It counts as read only after `accept_plain` or `unread`.
    pub fn poll_input(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.socket).poll_read(context, buffer)
    }

    /// Counts a plain request.
    pub fn accept_plain(&mut self, request: &PlainRequest<'_>) {
        self.heads.heads += 1 + count_empty_lines(request.body);
        self.heads.at_head_end = true;
        self.activity.record_plain(self.heads.heads);
    }

    /// Leaves input to hyper.
    pub fn unread(&mut self, input: &[u8]) {
        self.count(input);
        self.replay = Bytes::copy_from_slice(input);
    }

    /// Sends the response to a plain request. What the socket does not take at once is left to `poll_unsent`.
    pub fn send(&mut self, context: &mut Context<'_>, response: &Response) -> io::Result<()> {
        let bytes = response.to_bytes();
        let sent = match pin!(&mut self.socket).poll_write(context, &bytes) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        if sent < bytes.len() {
            self.unsent = Bytes::from(bytes).split_off(sent);
        }
        Ok(())
    }

    fn count(&mut self, input: &[u8]) {
        self.heads.read(input);
        self.activity.record_input(self.heads.heads, self.heads.at_head_end);
    }

    fn set_quiet(&self, is_quiet: bool) {
        self.activity.is_quiet.store(is_quiet, Ordering::Relaxed);
    }

    pub fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(pin!(&mut self.socket).poll_write(context, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and drops what the client still sends, until it has seen the end of the connection.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scrap = [0; 4096];
        loop {
            if self.at_end || self.stop.is_cancelled() {
                return Poll::Ready(Ok(()));
            }
            let (until, count) = self.late.get_or_insert_with(|| (Box::pin(sleep(LATE_MAX)), 0));
            if *count > LATE_BYTES_MAX || until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scrap);
            match ready!(pin!(&mut self.socket).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *count += buffer.filled().len(),
                Ok(()) | Err(_) => self.at_end = true,
            }
        }
    }
}

impl<S: Transport> AsyncRead for GuestSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.replay.is_empty() {
            let count = self.replay.len().min(buffer.remaining());
            buffer.put_slice(&self.replay.split_to(count));
            self.is_read_blocked = false;
            return Poll::Ready(Ok(()));
        }
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = pin!(&mut self.socket).poll_read(context, buffer);
        self.is_read_blocked = read.is_pending();
        let read = ready!(read);
        let input = &buffer.filled()[before..];
        if !input.is_empty() {
            self.count(input);
        } else if room > 0 {
            self.at_end = true;
        }
        Poll::Ready(read)
    }
}

impl<S: Transport> AsyncWrite for GuestSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.set_quiet(false);
        ready!(self.poll_unsent(context))?;
        if let Some(answer) = with_body(bytes) {
            self.unsent = answer;
            return Poll::Ready(Ok(bytes.len()));
        }
        pin!(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.set_quiet(false);
        ready!(self.poll_unsent(context))?;
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && let Some(answer) = with_body(first)
        {
            self.unsent = answer;
            return Poll::Ready(Ok(first.len()));
        }
        pin!(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(context))?;
        // hyper flushes at the end of each turn, and only if it has nothing left to write.
        self.set_quiet(self.is_read_blocked);
        pin!(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.set_quiet(false);
        ready!(self.poll_unsent(context))?;
        if self.late.is_none() {
            ready!(pin!(&mut self.socket).poll_shutdown(context))?;
        }
        self.poll_late(context)
    }
}

/// The response to a head that hyper cannot read; ours always have a body.
fn with_body(head: &[u8]) -> Option<Bytes> {
    let status = head.strip_prefix(b"HTTP/1.1 4")?;
    let text = std::str::from_utf8(head).ok()?;
    text.contains("\r\ncontent-length: 0\r\n").then_some(())?;
    let (line, sentence) = match status.get(..2)? {
        b"31" => ("431 Request Header Fields Too Large", TOO_LARGE),
        b"14" => ("414 URI Too Long", TOO_LARGE),
        _ => ("400 Bad Request", NOT_HTTP),
    };
    let body = format!("{{ \"error\": \"{sentence}\" }}");
    Some(Bytes::from(format!(
        "HTTP/1.1 {line}\r\nserver: IMDS/Forewarn\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )))
}

const TOO_LARGE: &str =
    "Request header fields too large. Path and headers can have 16 KiB together, and at most 100 headers.";
const NOT_HTTP: &str = "Bad request. This is not a valid HTTP/1.1 request. Example: \
     GET /metadata/scheduledevents?api-version=2020-07-01, with the headers Host and Metadata: true.";

#[cfg(test)]
mod tests {
    use forewarn_core::Guid;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::response::Responses;

    #[test]
    fn heads_are_counted_across_reads_and_with_bare_line_feeds() {
        let check = |reads: &[&str], heads: u64, at_head_end: bool| {
            let mut counter = HeadCounter::default();
            reads.iter().for_each(|input| counter.read(input.as_bytes()));
            assert_eq!((counter.heads, counter.at_head_end), (heads, at_head_end), "{reads:?}");
        };
        check(&["GET / HTTP/1.1\r\nHost: x\r\n\r\n"], 1, true);
        check(&["GET / HTTP/1.1\r\nHost: x\r\n\r", "\n"], 1, true);
        check(&["GET / HTTP/1.1\nHost: x\n\n"], 1, true);
        check(&["GET / HTTP/1.1\r\nHost: x\r\n"], 0, false);
        check(&["GET / HTTP/1.1\r\n\r\n", "G"], 1, false);
        check(&["GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"], 2, true);
    }

    #[tokio::test]
    async fn a_response_that_the_client_does_not_read_yet_is_sent_later() {
        let (server, mut client) = UnixStream::pair().unwrap();
        let mut socket = GuestSocket::new(server, CancellationToken::new(), Arc::default());
        let response = Responses::new(Guid(7)).json(vec![b'x'; 15_000]);
        let mut expected = Vec::new();
        std::future::poll_fn(|context| {
            while socket.unsent.is_empty() {
                socket.send(context, &response).unwrap();
                expected.extend(response.to_bytes());
            }
            Poll::Ready(())
        })
        .await;
        let mut received = vec![0; expected.len()];
        let sent = std::future::poll_fn(|context| socket.poll_unsent(context));
        let (sent, read) = tokio::join!(sent, client.read_exact(&mut received));
        assert!(sent.is_ok() && read.is_ok());
        assert!(without_date(&received) == without_date(&expected));
    }

    /// The date may change between two responses.
    fn without_date(bytes: &[u8]) -> String {
        let lines = std::str::from_utf8(bytes).unwrap().lines();
        lines.filter(|line| !line.starts_with("date: ")).collect()
    }
}
