//! One connection: hyper reads and writes, the endpoint responds. A client that is silent for too long, or does not read its
//! responses, is disconnected.

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep};

use super::attested;
use super::caller::Client;
use super::faulty_response::{self, Reset};
use super::instance;
use super::limits::Activity;
use super::request::{Caller, Endpoint, Outcome, Visit};
use super::respond::{self, Completed};
use super::response::Response;
use super::socket::{GuestSocket, Transport};
use super::token;
use crate::faults::FaultEffects;
use crate::requests::RequestEntry;

/// A request line and its headers. Usual ones have 200 bytes; proxies and browsers send a few thousand.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A connection that completed no request for this long, and at most twice as long, is closed: a client that is silent, sends
/// its headers byte by byte, or does not read its responses.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

pub async fn serve(io: impl Transport, endpoint: Arc<Endpoint>, client: Client) {
    let activity = client.activity.clone();
    let socket = GuestSocket::new(io, endpoint.stop.clone(), activity.clone());
    let conversation = Conversation { endpoint: endpoint.clone(), client };
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), conversation);
    let mut connection = pin!(connection);
    let mut silence = pin!(sleep(SILENCE_MAX));
    let mut stop = pin!(endpoint.stop.cancelled());
    let mut evicted = pin!(activity.evicted.notified());
    let mut stopping = false;
    let mut before = activity.beats();
    std::future::poll_fn(|context| {
        // An error on the connection concerns only its client.
        if connection.as_mut().poll(context).is_ready() || evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !stopping && stop.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.as_mut().graceful_shutdown();
            context.waker().wake_by_ref();
        }
        while silence.as_mut().poll(context).is_ready() {
            let now = activity.beats();
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

/// The hyper service of one connection.
struct Conversation {
    endpoint: Arc<Endpoint>,
    client: Client,
}

impl Service<Request<Incoming>> for Conversation {
    type Response = Response;
    type Error = Reset;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let endpoint = &self.endpoint;
        self.client.activity.begin_request();
        let Visit { caller, outcome } = endpoint.visit(&self.client, &request);
        let (entry, hit) = match caller {
            Some(Caller { entry, hit }) => (Some(entry), hit),
            None => (None, None),
        };
        match outcome {
            Outcome::Get(get) => {
                self.later(hit, respond::get(endpoint.clone(), self.client.activity.clone(), get), entry)
            }
            Outcome::Approve(approve) => {
                self.later(hit, respond::approve(endpoint.clone(), approve, request.into_body()), entry)
            }
            Outcome::Attested(request) => self.later(hit, attested::respond(endpoint.clone(), request), entry),
            Outcome::Instance(request) => self.later(hit, instance::respond(endpoint.clone(), request), entry),
            Outcome::Token(request) => self.later(hit, token::issue(endpoint.clone(), request), entry),
            Outcome::Respond(response) if hit.is_some() => self.later(hit, ready(response.into()), entry),
            Outcome::Respond(response) => self.now(response, entry),
        }
    }
}

impl Conversation {
    fn now(&self, response: Response, entry: Option<RequestEntry>) -> Reply {
        self.client.activity.beat(2);
        self.endpoint.record(entry, Some(&response));
        Reply::Now(Some(response))
    }

    fn later(
        &self,
        hit: Option<Box<FaultEffects>>,
        response: impl Future<Output = Completed> + Send + 'static,
        entry: Option<RequestEntry>,
    ) -> Reply {
        self.client.activity.beat(1);
        let response = Box::pin(faulty_response::respond(self.endpoint.clone(), hit, response));
        let record = PendingRecord { entry, endpoint: self.endpoint.clone() };
        Reply::Later { response, record, activity: self.client.activity.clone() }
    }
}

type PendingResponse = Pin<Box<dyn Future<Output = Result<Completed, Reset>> + Send>>;

enum Reply {
    Now(Option<Response>),
    Later { response: PendingResponse, record: PendingRecord, activity: Arc<Activity> },
}

impl Future for Reply {
    type Output = Result<Response, Reset>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Reply::Now(response) => Poll::Ready(Ok(response.take().expect("a finished future is not polled"))),
            Reply::Later { response, record, activity } => response.as_mut().poll(context).map(|result| {
                activity.beat(1);
                match result {
                    Ok(completed) => Ok(record.complete(completed)),
                    Err(Reset) => {
                        activity.reset.store(true, Ordering::Relaxed);
                        Err(Reset)
                    }
                }
            }),
        }
    }
}

/// Records a request when it is answered, or, when dropped before that, as never answered.
struct PendingRecord {
    entry: Option<RequestEntry>,
    endpoint: Arc<Endpoint>,
}

impl PendingRecord {
    fn complete(&mut self, Completed { response, approved }: Completed) -> Response {
        let mut entry = self.entry.take();
        if let Some(entry) = &mut entry
            && !approved.is_empty()
        {
            entry.set_approved(&approved);
        }
        self.endpoint.record(entry, Some(&response));
        response
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        if self.entry.is_some() {
            self.endpoint.record(self.entry.take(), None);
        }
    }
}
