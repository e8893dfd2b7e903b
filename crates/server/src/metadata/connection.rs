//! One connection: hyper reads and writes, the service answers, and somebody who says nothing for too
//! long, or does not take his answer, is let go.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use super::answer::Answer;
use super::caller::{Door, Peer};
use super::service::{Look, Shared};
use super::stream::Stream;
use super::{identity, later};

/// A request line and its headers. Ours have some 200 bytes; proxies and browsers send a few thousand.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A connection on which no request was completed for this long, and at most twice as long, is closed:
/// silent ones, ones that send their headers byte by byte, ones that do not read their answers.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn serve(io: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>, door: Arc<Door>, peer: Peer) {
    let pulse = Arc::new(Pulse::default());
    let conversation = Conversation { shared: shared.clone(), door, peer, pulse: pulse.clone() };
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Stream::new(io, shared.stop.clone())), conversation);
    let mut connection = pin!(connection);
    let mut silence = pin!(sleep(SILENCE_MAX));
    let mut stop = pin!(shared.stop.cancelled());
    let mut stopping = false;
    let mut before = pulse.now();
    std::future::poll_fn(|context| {
        // What went wrong between a client and its connection is the client's business.
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !stopping && stop.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.as_mut().graceful_shutdown();
            context.waker().wake_by_ref();
        }
        while silence.as_mut().poll(context).is_ready() {
            let now = pulse.now();
            if now == before && !Pulse::is_busy(now) {
                return Poll::Ready(());
            }
            before = now;
            silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        Poll::Pending
    })
    .await;
}

/// Counts the beginnings and ends of requests: odd while one is being answered.
#[derive(Default)]
struct Pulse(AtomicU64);

impl Pulse {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn is_busy(now: u64) -> bool {
        now % 2 == 1
    }

    /// Only the connection's own task counts, so this need not be one operation.
    fn beat(&self, by: u64) {
        self.0.store(self.now() + by, Ordering::Relaxed);
    }
}

/// The service of one connection.
struct Conversation {
    shared: Arc<Shared>,
    door: Arc<Door>,
    peer: Peer,
    pulse: Arc<Pulse>,
}

impl Service<Request<Incoming>> for Conversation {
    type Response = Answer;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let shared = &self.shared;
        match shared.look(&self.door, &self.peer, &request) {
            Ok(Look::Answer(answer)) => self.now(answer),
            Ok(Look::Get(get)) => self.later(Box::pin(later::get(shared.clone(), get))),
            Ok(Look::Post(post)) => self.later(Box::pin(later::post(shared.clone(), post, request.into_body()))),
            Ok(Look::Token(request)) => self.later(Box::pin(identity::token(shared.clone(), request))),
            Err(refusal) => self.now(shared.answers.refusal(&refusal)),
        }
    }
}

impl Conversation {
    fn now(&self, answer: Answer) -> Reply {
        self.pulse.beat(2);
        self.shared.engine.telemetry().answered(answer.status().as_u16());
        Reply::Now(Some(answer))
    }

    fn later(&self, answer: Pin<Box<dyn Future<Output = Answer> + Send>>) -> Reply {
        self.pulse.beat(1);
        Reply::Later { answer, pulse: self.pulse.clone(), shared: self.shared.clone() }
    }
}

enum Reply {
    Now(Option<Answer>),
    Later { answer: Pin<Box<dyn Future<Output = Answer> + Send>>, pulse: Arc<Pulse>, shared: Arc<Shared> },
}

impl Future for Reply {
    type Output = Result<Answer, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Reply::Now(answer) => Poll::Ready(Ok(answer.take().expect("a future that is done is not polled"))),
            Reply::Later { answer, pulse, shared } => answer.as_mut().poll(context).map(|answer| {
                pulse.beat(1);
                shared.engine.telemetry().answered(answer.status().as_u16());
                Ok(answer)
            }),
        }
    }
}
