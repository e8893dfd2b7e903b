//! One connection: plain requests are answered at once, hyper reads and writes all others. A client that is silent for too long, or
//! does not read its responses, is disconnected.
//!
//! ```text
//!   ┌─▶ parked ───────────────────────────────────▶ served by hyper ─▶ closed
//!   │     │   ▲    input that is not plain, or a           │
//!   └─────┘   │    response that needs hyper               │
//!    plain    └────────────────────────────────────────────┘
//!   request     a request is held, or everything is answered
//! ```
//!
//! hyper has 18 KB of buffers and state for a connection. A parked connection does without them.

use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::http1::{self, Parts};
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;
use tokio::time::{Instant, sleep};

use super::caller::Client;
use super::conversation::{PLAIN_HEAD, RequestHandler, RequestSlot};
use super::head::{NO_HEADERS, PLAIN_BYTES_MAX, PlainRequest};
use super::limits::Activity;
use super::request::Endpoint;
use super::socket::{GuestSocket, Transport};

/// A request line and its headers. Usual ones have 200 bytes; proxies and browsers send a few thousand.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A connection that completed no request for this long, and at most twice as long, is closed: a client that is silent, sends
/// its headers byte by byte, or does not read its responses.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

pub async fn serve(io: impl Transport, endpoint: Arc<Endpoint>, client: Client) {
    let activity = client.activity.clone();
    let mut connection = Connection::new(io, endpoint.clone(), client);
    let mut silence = pin!(sleep(SILENCE_MAX));
    let mut stop = pin!(endpoint.stop.cancelled());
    let mut evicted = pin!(activity.evicted.notified());
    let mut before = activity.phase();
    std::future::poll_fn(|context| {
        if !connection.stopping && stop.as_mut().poll(context).is_ready() {
            connection.stop();
        }
        if connection.poll(context).is_ready() || evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        while silence.as_mut().poll(context).is_ready() {
            let now = activity.phase();
            if now == before && !Activity::is_busy(now) {
                return Poll::Ready(());
            }
            before = now;
            silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        Poll::Pending
    })
    .await;
}

struct Connection<S: Transport> {
    /// None only while the phase changes.
    phase: Option<Phase<S>>,
    turn: Arc<RequestSlot>,
    activity: Arc<Activity>,
    /// The next response is the last one.
    stopping: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a parked connection, of which there are many, needs no other allocation"
)]
enum Phase<S: Transport> {
    Parked(GuestSocket<S>, RequestHandler),
    Served(Box<http1::Connection<TokioIo<GuestSocket<S>>, RequestHandler>>),
}

impl<S: Transport> Connection<S> {
    fn new(io: S, endpoint: Arc<Endpoint>, client: Client) -> Connection<S> {
        let activity = client.activity.clone();
        let turn = Arc::<RequestSlot>::default();
        let socket = GuestSocket::new(io, endpoint.stop.clone(), activity.clone());
        let phase = Some(Phase::Parked(socket, RequestHandler::new(endpoint, client, turn.clone())));
        Connection { phase, turn, activity, stopping: false }
    }

    fn stop(&mut self) {
        self.stopping = true;
        if let Some(Phase::Served(connection)) = &mut self.phase {
            Pin::new(&mut **connection).graceful_shutdown();
        }
    }

    /// Whether hyper has nothing to do: a request is held, or all are answered and the client has sent nothing more.
    fn can_park(&self) -> bool {
        let is_quiet = self.activity.is_quiet.load(Ordering::Relaxed);
        is_quiet && self.turn.can_park() && (self.turn.is_busy() || !self.activity.has_more_input())
    }

    /// Ready when the connection has ended. An error concerns only its client.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.phase.as_mut() {
                Some(Phase::Parked(socket, conversation)) => {
                    match ready!(poll_parked(socket, conversation, &self.turn, self.stopping, context)) {
                        Next::Open => {}
                        Next::End => return Poll::Ready(()),
                    }
                }
                Some(Phase::Served(connection)) => {
                    if Pin::new(&mut **connection).poll(context).is_ready() {
                        return Poll::Ready(());
                    }
                    if !self.can_park() {
                        return Poll::Pending;
                    }
                }
                None => return Poll::Ready(()),
            }
            self.phase = self.phase.take().map(|phase| match phase {
                Phase::Parked(socket, conversation) => open(socket, conversation, self.stopping),
                Phase::Served(connection) => park(connection.into_parts(), &self.turn),
            });
        }
    }
}

/// The end of parking.
enum Next {
    /// hyper serves the connection.
    Open,
    End,
}

/// Answers plain requests, and sends responses for which the connection was parked.
fn poll_parked<S: Transport>(
    socket: &mut GuestSocket<S>,
    conversation: &RequestHandler,
    turn: &RequestSlot,
    stopping: bool,
    context: &mut Context<'_>,
) -> Poll<Next> {
    loop {
        if ready!(socket.poll_unsent(context)).is_err() {
            return Poll::Ready(Next::End);
        }
        let response = if turn.is_busy() {
            if turn.poll_answer(context).is_pending() {
                ready!(socket.poll_readable(context));
                return Poll::Ready(Next::Open);
            }
            let can_send = !stopping && socket.replayed() == PLAIN_HEAD;
            let Some(response) = can_send.then(|| turn.take_plain()).flatten() else {
                return Poll::Ready(Next::Open);
            };
            socket.replay(Bytes::new());
            Some(response)
        } else if stopping || !socket.replayed().is_empty() {
            return match socket.poll_readable(context) {
                Poll::Ready(()) => Poll::Ready(Next::Open),
                Poll::Pending if stopping => Poll::Ready(Next::End),
                Poll::Pending => Poll::Pending,
            };
        } else {
            let mut space = [MaybeUninit::uninit(); PLAIN_BYTES_MAX + 1];
            let mut input = ReadBuf::uninit(&mut space);
            let read = ready!(socket.poll_input(context, &mut input));
            if read.is_err() || input.filled().is_empty() {
                return Poll::Ready(Next::End);
            }
            let mut headers = NO_HEADERS;
            let Some(request) = PlainRequest::parse(input.filled(), &mut headers) else {
                socket.unread(input.filled());
                return Poll::Ready(Next::Open);
            };
            socket.accept_plain(&request);
            let response = conversation.answer_plain(&request);
            if response.is_none() {
                socket.replay(Bytes::from_static(PLAIN_HEAD));
            }
            response
        };
        if let Some(response) = response
            && socket.send(context, &response).is_err()
        {
            return Poll::Ready(Next::End);
        }
    }
}

fn open<S: Transport>(socket: GuestSocket<S>, conversation: RequestHandler, stopping: bool) -> Phase<S> {
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .keep_alive(!stopping)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), conversation);
    Phase::Served(Box::new(connection))
}

/// Takes a connection from hyper, which will read the head of a held request again.
fn park<S: Transport>(parts: Parts<TokioIo<GuestSocket<S>>, RequestHandler>, turn: &RequestSlot) -> Phase<S> {
    let mut socket = parts.io.into_inner();
    let head = turn.held_head().unwrap_or_default();
    socket.replay(if parts.read_buf.is_empty() { head } else { concat(&head, &parts.read_buf) });
    Phase::Parked(socket, parts.service)
}

fn concat(first: &[u8], second: &[u8]) -> Bytes {
    let mut whole = BytesMut::with_capacity(first.len() + second.len());
    whole.extend_from_slice(first);
    whole.extend_from_slice(second);
    whole.freeze()
}
