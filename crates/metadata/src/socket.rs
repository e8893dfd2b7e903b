//! The socket of one connection, with better manners than a bare one.
//!
//! A head that hyper cannot read it answers by itself, with a status and nothing else: here such an
//! answer gets the sentence that every refusal has. And a socket that is closed while the client still
//! sends would take the answer back: what comes late is read and thrown away for a moment.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// How long, and how much, a client may go on sending to a connection that is closed already.
const LATE_MAX: Duration = Duration::from_secs(1);
const LATE_BYTES_MAX: usize = 1024 * 1024;

/// A connection's socket.
pub trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Closing it resets the connection from now on.
    fn reset_on_close(&self);
}

impl Socket for TcpStream {
    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }
}

/// Nothing is reset on a Unix socket; it is closed without an answer.
impl Socket for UnixStream {
    fn reset_on_close(&self) {}
}

pub struct Stream<S: Socket> {
    socket: S,
    stop: CancellationToken,
    reset: Arc<AtomicBool>,
    /// The client has said that it will send nothing more.
    at_end: bool,
    /// What is sent in place of what hyper wanted to.
    instead: Bytes,
    late: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S: Socket> Drop for Stream<S> {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            self.socket.reset_on_close();
        }
    }
}

impl<S: Socket> Stream<S> {
    /// Whoever sets `reset` before the end makes it a reset instead of an orderly one.
    pub fn new(socket: S, stop: CancellationToken, reset: Arc<AtomicBool>) -> Stream<S> {
        Stream { socket, stop, reset, at_end: false, instead: Bytes::new(), late: None }
    }

    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = ready!(pin!(&mut self.socket).poll_write(context, &self.instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the client still sends until it has seen that nobody listens.
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

impl<S: Socket> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = ready!(pin!(&mut self.socket).poll_read(context, buffer));
        if room > 0 && buffer.filled().len() == before {
            self.at_end = true;
        }
        Poll::Ready(read)
    }
}

impl<S: Socket> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if let Some(answer) = with_a_sentence(bytes) {
            self.instead = answer;
            return Poll::Ready(Ok(bytes.len()));
        }
        pin!(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && let Some(answer) = with_a_sentence(first)
        {
            self.instead = answer;
            return Poll::Ready(Ok(first.len()));
        }
        pin!(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        pin!(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        if self.late.is_none() {
            ready!(pin!(&mut self.socket).poll_shutdown(context))?;
        }
        self.poll_late(context)
    }
}

/// Hyper's own refusals are the only ones without a body.
fn with_a_sentence(head: &[u8]) -> Option<Bytes> {
    let status = head.strip_prefix(b"HTTP/1.1 4")?;
    let text = std::str::from_utf8(head).ok()?;
    text.contains("\r\ncontent-length: 0\r\n").then_some(())?;
    let (line, sentence) = match status.get(..2)? {
        b"31" => ("431 Request Header Fields Too Large", SHORTER),
        b"14" => ("414 URI Too Long", SHORTER),
        _ => ("400 Bad Request", NOT_HTTP),
    };
    let body = format!("{{ \"error\": \"{sentence}\" }}");
    Some(Bytes::from(format!(
        "HTTP/1.1 {line}\r\nserver: IMDS/Forewarn\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )))
}

const SHORTER: &str =
    "Request header fields too large. Send a path and headers of 16 KiB together at the most, and 100 headers.";
const NOT_HTTP: &str = "Bad request. This is not an HTTP/1.1 request that can be read. Send for example: \
     GET /metadata/scheduledevents?api-version=2020-07-01, with the headers Host and Metadata: true.";
