//! One connection: hyper reads and writes, the service answers, and somebody who says nothing for too
//! long, or does not take his answer, is let go.

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep};

use super::answer::Answer;
use super::caller::{Door, Peer};
use super::faulty::{self, Reset};
use super::identity;
use super::later::{self, Approved};
use super::service::{Look, Shared, Visit};
use super::stream::{Socket, Stream};
use crate::faults::Hit;
use crate::requests::Passed;

/// A request line and its headers. Ours have some 200 bytes; proxies and browsers send a few thousand.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A connection on which no request was completed for this long, and at most twice as long, is closed:
/// silent ones, ones that send their headers byte by byte, ones that do not read their answers.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

pub async fn serve(io: impl Socket, shared: Arc<Shared>, door: Arc<Door>, peer: Peer) {
    let pulse = Arc::new(Pulse::default());
    let conversation = Conversation { shared: shared.clone(), door, peer, pulse: pulse.clone() };
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Stream::new(io, shared.stop.clone(), pulse.reset.clone())), conversation);
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

/// What the connection and its service know of each other.
#[derive(Default)]
struct Pulse {
    /// Counts the beginnings and ends of requests: odd while one is being answered.
    beats: AtomicU64,
    /// The socket shall not be closed in an orderly way.
    reset: Arc<AtomicBool>,
}

impl Pulse {
    fn now(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    fn is_busy(now: u64) -> bool {
        now % 2 == 1
    }

    /// Only the connection's own task counts, so this need not be one operation.
    fn beat(&self, by: u64) {
        self.beats.store(self.now() + by, Ordering::Relaxed);
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
    type Error = Reset;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let shared = &self.shared;
        let mut visit = None;
        let look = shared.look(&self.door, &self.peer, &request, &mut visit);
        let (passed, hit) = match visit {
            Some(Visit { passed, hit }) => (Some(passed), hit),
            None => (shared.stray(&self.door, &self.peer, &request), None),
        };
        let answer = match look {
            Ok(Look::Get(get)) => return self.later(hit, later::get(shared.clone(), get), passed),
            Ok(Look::Post(post)) => {
                return self.later(hit, later::post(shared.clone(), post, request.into_body()), passed);
            }
            Ok(Look::Token(request)) => return self.later(hit, identity::token(shared.clone(), request), passed),
            Ok(Look::Answer(answer)) => answer,
            Err(refusal) => shared.answers.refusal(&refusal),
        };
        match hit {
            Some(hit) => self.later(Some(hit), ready(answer), passed),
            None => self.now(answer, passed),
        }
    }
}

type MayCome = Pin<Box<dyn Future<Output = Result<Answer, Reset>> + Send>>;

impl Conversation {
    fn now(&self, answer: Answer, passed: Option<Passed>) -> Reply {
        self.pulse.beat(2);
        let status = answer.status().as_u16();
        self.shared.state.metrics.count_response(status);
        if let Some(passed) = passed {
            self.shared.state.requests.write(passed, Some(status));
        }
        Reply::Now(Some(answer))
    }

    fn later(
        &self,
        hit: Option<Box<Hit>>,
        answer: impl Future<Output = Answer> + Send + 'static,
        passed: Option<Passed>,
    ) -> Reply {
        self.pulse.beat(1);
        let answer = Box::pin(faulty::answer(self.shared.clone(), hit, answer));
        let record = Record { passed, shared: self.shared.clone() };
        Reply::Later { answer, record, pulse: self.pulse.clone() }
    }
}

enum Reply {
    Now(Option<Answer>),
    Later { answer: MayCome, record: Record, pulse: Arc<Pulse> },
}

impl Future for Reply {
    type Output = Result<Answer, Reset>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Reply::Now(answer) => Poll::Ready(Ok(answer.take().expect("a future that is done is not polled"))),
            Reply::Later { answer, record, pulse } => answer.as_mut().poll(context).map(|answer| {
                pulse.beat(1);
                match &answer {
                    Ok(answer) => record.answered(answer),
                    Err(Reset) => pulse.reset.store(true, Ordering::Relaxed),
                }
                answer
            }),
        }
    }
}

/// A request that is to be written down when it is answered, or when it is clear that it never is.
struct Record {
    passed: Option<Passed>,
    shared: Arc<Shared>,
}

impl Record {
    fn answered(&mut self, answer: &Answer) {
        let status = answer.status().as_u16();
        self.shared.state.metrics.count_response(status);
        let Some(mut passed) = self.passed.take() else { return };
        if let Some(Approved(events)) = answer.extensions().get()
            && !events.is_empty()
        {
            passed.approved(events);
        }
        self.shared.state.requests.write(passed, Some(status));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(passed) = self.passed.take() {
            self.shared.state.requests.write(passed, None);
        }
    }
}
