//! The requests of one connection, and their responses. The request that is being answered outlives hyper's connection, so that
//! `connection` can do without one while a request is held.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::CONNECTION;
use http::{Request, Version};
use hyper::body::{Body, Incoming};
use hyper::service::Service;

use super::attested;
use super::caller::Client;
use super::faulty_response::{self, Reset};
use super::instance;
use super::limits::Activity;
use super::request::{Caller, Endpoint, Outcome, Visit};
use super::respond::{self, CompletedRequest};
use super::response::Response;
use super::token;
use crate::faults::FaultEffects;
use crate::requests::RequestEntry;

/// The hyper service of one connection.
pub struct Conversation {
    endpoint: Arc<Endpoint>,
    client: Client,
    turn: Arc<Turn>,
}

/// The request that waits for its response, if there is one.
#[derive(Default)]
pub struct Turn(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Waiting(Waiting),
    /// The response is not yet given to hyper.
    Answered {
        answer: Result<Response, Reset>,
        was_held: bool,
    },
    /// The response to a held request is given to hyper. Most clients send the same request again.
    HeldBefore,
}

struct Waiting {
    response: PendingResponse,
    record: PendingRecord,
    activity: Arc<Activity>,
    /// The head that hyper must read again before it can send the response. None: the request cannot be held without hyper.
    head: Option<Bytes>,
}

type PendingResponse = Pin<Box<dyn Future<Output = Result<CompletedRequest, Reset>> + Send>>;

impl Turn {
    /// Whether the connection can do without hyper, as far as its requests are concerned.
    pub fn can_park(&self) -> bool {
        match &*self.lock() {
            State::Waiting(waiting) => waiting.head.is_some(),
            State::HeldBefore => true,
            State::Idle | State::Answered { .. } => false,
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(&*self.lock(), State::Waiting(_) | State::Answered { .. })
    }

    /// The head of the request that is held.
    pub fn held_head(&self) -> Option<Bytes> {
        match &*self.lock() {
            State::Waiting(waiting) => waiting.head.clone(),
            State::Idle | State::Answered { .. } | State::HeldBefore => None,
        }
    }

    /// Ready when a request is answered.
    pub fn poll_answer(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match &mut *state {
            State::Waiting(waiting) => {
                let answer = std::task::ready!(waiting.poll(context));
                *state = State::Answered { answer, was_held: waiting.head.is_some() };
                Poll::Ready(())
            }
            State::Answered { .. } => Poll::Ready(()),
            State::Idle | State::HeldBefore => Poll::Pending,
        }
    }

    fn poll_take(&self, context: &mut Context<'_>) -> Poll<Result<Response, Reset>> {
        std::task::ready!(self.poll_answer(context));
        let mut state = self.lock();
        let State::Answered { answer, was_held } = std::mem::take(&mut *state) else { return Poll::Pending };
        if was_held {
            *state = State::HeldBefore;
        }
        Poll::Ready(answer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Response, Reset>> {
        let result = std::task::ready!(self.response.as_mut().poll(context));
        self.activity.advance_phase(1);
        Poll::Ready(match result {
            Ok(completed) => Ok(self.record.complete(completed)),
            Err(Reset) => {
                self.activity.reset.store(true, Ordering::Relaxed);
                Err(Reset)
            }
        })
    }
}

impl Service<Request<Incoming>> for Conversation {
    type Response = Response;
    type Error = Reset;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        if self.turn.is_busy() {
            // hyper has read the head of the held request again.
            return Reply::Later(self.turn.clone());
        }
        let endpoint = &self.endpoint;
        self.client.activity.begin_request();
        let Visit { caller, outcome } = endpoint.visit(&self.client, &request);
        let (entry, hit) = match caller {
            Some(Caller { entry, hit }) => (Some(entry), hit),
            None => (None, None),
        };
        match outcome {
            Outcome::Get(get) => {
                // A response that goes wrong on purpose can end the connection in the middle, which is hyper's part.
                let head = if hit.is_none() { head_to_repeat(&request) } else { None };
                self.hold(hit, respond::get(endpoint.clone(), self.client.activity.clone(), get), entry, head)
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
    pub fn new(endpoint: Arc<Endpoint>, client: Client, turn: Arc<Turn>) -> Conversation {
        Conversation { endpoint, client, turn }
    }

    fn now(&self, response: Response, entry: Option<RequestEntry>) -> Reply {
        self.client.activity.advance_phase(2);
        self.endpoint.record(entry, Some(&response));
        *self.turn.lock() = State::Idle;
        Reply::Now(Some(response))
    }

    fn later(
        &self,
        hit: Option<Box<FaultEffects>>,
        response: impl Future<Output = CompletedRequest> + Send + 'static,
        entry: Option<RequestEntry>,
    ) -> Reply {
        self.hold(hit, response, entry, None)
    }

    fn hold(
        &self,
        hit: Option<Box<FaultEffects>>,
        response: impl Future<Output = CompletedRequest> + Send + 'static,
        entry: Option<RequestEntry>,
        head: Option<Bytes>,
    ) -> Reply {
        let activity = self.client.activity.clone();
        activity.advance_phase(1);
        let response = Box::pin(faulty_response::respond(self.endpoint.clone(), hit, response));
        let record = PendingRecord { entry, endpoint: self.endpoint.clone() };
        *self.turn.lock() = State::Waiting(Waiting { response, record, activity, head });
        Reply::Later(self.turn.clone())
    }
}

/// The part of a head that determines how hyper sends the response: its version, and whether the connection is kept. None if there
/// is a body, which hyper still has to read.
fn head_to_repeat(request: &Request<Incoming>) -> Option<Bytes> {
    if !request.body().is_end_stream() {
        return None;
    }
    let line = if request.version() == Version::HTTP_10 { "GET / HTTP/1.0\r\n" } else { "GET / HTTP/1.1\r\n" };
    let mut head = BytesMut::from(line);
    for value in request.headers().get_all(CONNECTION) {
        head.extend_from_slice(b"Connection: ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Some(head.freeze())
}

pub enum Reply {
    Now(Option<Response>),
    Later(Arc<Turn>),
}

impl Future for Reply {
    type Output = Result<Response, Reset>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Reply::Now(response) => Poll::Ready(Ok(response.take().expect("a finished future is not polled"))),
            Reply::Later(turn) => turn.poll_take(context),
        }
    }
}

/// Records a request when it is answered, or, when dropped before that, as never answered.
struct PendingRecord {
    entry: Option<RequestEntry>,
    endpoint: Arc<Endpoint>,
}

impl PendingRecord {
    fn complete(&mut self, CompletedRequest { response, approved }: CompletedRequest) -> Response {
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
