//! The requests of one connection, and their responses. They arrive through hyper or, if they are plain, without it. The request
//! that is being answered outlives hyper's connection, so that `connection` can do without one while a request is held.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::CONNECTION;
use http::request::Parts;
use http::{Method, Request, Version};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;

use super::attested;
use super::caller::Client;
use super::faulty_response::{self, Reset};
use super::head::{Head, PlainRequest};
use super::instance;
use super::limits::Activity;
use super::request::{Caller, Endpoint, Outcome, Visit};
use super::respond::{self, CompletedRequest, RequestBody};
use super::response::{Body, Response};
use super::token;
use crate::faults::FaultEffects;
use crate::requests::RequestEntry;

/// The head that hyper reads in place of a plain one, before it sends the response.
pub const PLAIN_HEAD: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

/// Answers the requests of one connection. Also its hyper service.
pub struct RequestHandler {
    endpoint: Arc<Endpoint>,
    client: Client,
    turn: Arc<RequestSlot>,
}

/// The request that waits for its response, if there is one.
#[derive(Default)]
pub struct RequestSlot(Mutex<State>);

#[derive(Default)]
enum State {
    /// No request, or its response is sent or given to hyper.
    #[default]
    Idle,
    Waiting(Waiting),
    /// The response is neither sent nor given to hyper.
    Answered {
        answer: Result<Response, Reset>,
        needs_hyper: bool,
    },
    /// The response is given to hyper, and the connection stays with it until the next request.
    LeftToHyper,
}

struct Waiting {
    response: PendingResponse,
    record: PendingRecord,
    activity: Arc<Activity>,
    /// The head that hyper must read again before it can send the response. None: the request cannot be held without hyper.
    head: Option<Bytes>,
    /// Whether hyper is needed beyond the response: to read a body, or to end the response in the middle.
    needs_hyper: bool,
}

type PendingResponse = Pin<Box<dyn Future<Output = Result<CompletedRequest, Reset>> + Send>>;

impl RequestSlot {
    /// Whether the connection can do without hyper, as far as its requests are concerned.
    pub fn can_park(&self) -> bool {
        match &*self.lock() {
            State::Idle => true,
            State::Waiting(waiting) => waiting.head.is_some(),
            State::Answered { .. } | State::LeftToHyper => false,
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(&*self.lock(), State::Waiting(_) | State::Answered { .. })
    }

    /// The head of the request that is held.
    pub fn held_head(&self) -> Option<Bytes> {
        match &*self.lock() {
            State::Waiting(waiting) => waiting.head.clone(),
            State::Idle | State::Answered { .. } | State::LeftToHyper => None,
        }
    }

    /// Ready when a request is answered.
    pub fn poll_answer(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match &mut *state {
            State::Waiting(waiting) => {
                let answer = std::task::ready!(waiting.poll(context));
                *state = State::Answered { answer, needs_hyper: waiting.needs_hyper };
                Poll::Ready(())
            }
            State::Answered { .. } => Poll::Ready(()),
            State::Idle | State::LeftToHyper => Poll::Pending,
        }
    }

    fn poll_take(&self, context: &mut Context<'_>) -> Poll<Result<Response, Reset>> {
        std::task::ready!(self.poll_answer(context));
        let mut state = self.lock();
        let State::Answered { answer, needs_hyper } = std::mem::take(&mut *state) else { return Poll::Pending };
        if needs_hyper {
            *state = State::LeftToHyper;
        }
        Poll::Ready(answer)
    }

    /// Takes the response to a plain request, if it can be sent without hyper.
    pub fn take_plain(&self) -> Option<Response> {
        let mut state = self.lock();
        match std::mem::take(&mut *state) {
            State::Answered { answer: Ok(response), needs_hyper: false } if response.is_plain() => Some(response),
            other => {
                *state = other;
                None
            }
        }
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

impl Service<Request<Incoming>> for RequestHandler {
    type Response = http::Response<Body>;
    type Error = Reset;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        if self.turn.is_busy() {
            // hyper has read the head of the held request again.
            return Reply::Later(self.turn.clone());
        }
        let (parts, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        // The next request of a client whose requests are not plain will not be plain either.
        let needs_hyper = has_body || parts.method != Method::GET || parts.version != Version::HTTP_11;
        match self.begin(&Head::from(&parts), body) {
            Begun::Now(response) => {
                *self.turn.lock() = if needs_hyper { State::LeftToHyper } else { State::Idle };
                Reply::Now(Some(response))
            }
            Begun::Later(mut waiting) => {
                waiting.head = waiting.head.filter(|_| !has_body).map(|_| head_to_repeat(&parts));
                waiting.needs_hyper |= needs_hyper;
                *self.turn.lock() = State::Waiting(waiting);
                Reply::Later(self.turn.clone())
            }
        }
    }
}

/// A request that was checked.
enum Begun {
    Now(Response),
    Later(Waiting),
}

impl RequestHandler {
    pub fn new(endpoint: Arc<Endpoint>, client: Client, turn: Arc<RequestSlot>) -> RequestHandler {
        RequestHandler { endpoint, client, turn }
    }

    /// Answers a plain request. None: the response comes through [`RequestSlot`], now or later.
    pub fn answer_plain(&self, request: &PlainRequest<'_>) -> Option<Response> {
        let body = Full::new(Bytes::copy_from_slice(request.body));
        let state = match self.begin(&request.head, body) {
            Begun::Now(response) if response.is_plain() => return Some(response),
            Begun::Now(response) => State::Answered { answer: Ok(response), needs_hyper: false },
            Begun::Later(waiting) => State::Waiting(Waiting { head: Some(Bytes::from_static(PLAIN_HEAD)), ..waiting }),
        };
        *self.turn.lock() = state;
        None
    }

    fn begin(&self, head: &Head<'_>, body: impl RequestBody) -> Begun {
        let endpoint = &self.endpoint;
        let activity = &self.client.activity;
        activity.begin_request();
        let Visit { caller, outcome } = endpoint.visit(&self.client, head);
        let (entry, hit) = match caller {
            Some(Caller { entry, hit }) => (Some(entry), hit),
            None => (None, None),
        };
        match outcome {
            Outcome::Get(get) => {
                // A response that goes wrong on purpose can end the connection in the middle, which is hyper's part.
                let head = hit.is_none().then(|| Bytes::from_static(PLAIN_HEAD));
                let response = respond::get(endpoint.clone(), activity.clone(), get);
                Begun::Later(Waiting { head, ..self.wait(hit, response, entry) })
            }
            Outcome::Approve(approve) => {
                Begun::Later(self.wait(hit, respond::approve(endpoint.clone(), approve, body), entry))
            }
            Outcome::Attested(request) => {
                Begun::Later(self.wait(hit, attested::respond(endpoint.clone(), request), entry))
            }
            Outcome::Instance(request) => {
                Begun::Later(self.wait(hit, instance::respond(endpoint.clone(), request), entry))
            }
            Outcome::Token(request) => Begun::Later(self.wait(hit, token::issue(endpoint.clone(), request), entry)),
            Outcome::Respond(response) if hit.is_some() => Begun::Later(self.wait(hit, ready(response.into()), entry)),
            Outcome::Respond(response) => {
                activity.advance_phase(2);
                endpoint.record(entry, Some(&response));
                Begun::Now(response)
            }
        }
    }

    fn wait(
        &self,
        hit: Option<Box<FaultEffects>>,
        response: impl Future<Output = CompletedRequest> + Send + 'static,
        entry: Option<RequestEntry>,
    ) -> Waiting {
        let activity = self.client.activity.clone();
        activity.advance_phase(1);
        let needs_hyper = hit.is_some();
        let response = Box::pin(faulty_response::respond(self.endpoint.clone(), hit, response));
        let record = PendingRecord { entry, endpoint: self.endpoint.clone() };
        Waiting { response, record, activity, head: None, needs_hyper }
    }
}

/// The part of a head that determines how hyper sends the response: its version, and whether the connection is kept.
fn head_to_repeat(parts: &Parts) -> Bytes {
    if parts.version == Version::HTTP_11 && !parts.headers.contains_key(CONNECTION) {
        return Bytes::from_static(PLAIN_HEAD);
    }
    let line = if parts.version == Version::HTTP_10 { "GET / HTTP/1.0\r\n" } else { "GET / HTTP/1.1\r\n" };
    let mut head = BytesMut::from(line);
    for value in parts.headers.get_all(CONNECTION) {
        head.extend_from_slice(b"Connection: ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.freeze()
}

pub enum Reply {
    Now(Option<Response>),
    Later(Arc<RequestSlot>),
}

impl Future for Reply {
    type Output = Result<http::Response<Body>, Reset>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match self.get_mut() {
            Reply::Now(response) => Ok(response.take().expect("a finished future is not polled")),
            Reply::Later(turn) => std::task::ready!(turn.poll_take(context)),
        };
        Poll::Ready(answer.map(Response::into_http))
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
