//! The client on tokio, with the same behavior as the blocking one. All decisions are in `session` and `watch`.

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use forewarn_wire::version::Version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::calls::{Approve, Condition, GetDocument, GetInstance, Poll};
use crate::document::Document;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::EventId;
use crate::http::{Decoder, Request, Response};
use crate::instance::Instance;
use crate::options::Options;
use crate::session::{Call, Exchange, Failure, HoldSupport, Session, Step, TransferError};
use crate::tracker::{Change, Tracker};
use crate::watch::{WatchState, WatchStep};

/// [`Client`](crate::Client) on tokio. Dropping a future closes the connection and has no other effect.
///
/// ```no_run
/// use forewarn_client::{AsyncClient, Endpoint};
///
/// # async fn run() -> Result<(), forewarn_client::Error> {
/// let mut client = AsyncClient::new(Endpoint::link_local());
/// for event in client.document().await?.events {
///     println!("{} {}", event.id, event.kind);
/// }
/// # Ok(())
/// # }
/// ```
pub struct AsyncClient {
    session: Session,
    connection: Option<TcpStream>,
    origin: Instant,
}

impl AsyncClient {
    /// Creates a client with the default options.
    pub fn new(endpoint: Endpoint) -> AsyncClient {
        AsyncClient::with_options(Options::new(endpoint))
    }

    /// Creates a client with these options.
    pub fn with_options(options: Options) -> AsyncClient {
        AsyncClient { session: Session::new(options), connection: None, origin: Instant::now() }
    }

    /// Endpoint of the service.
    pub fn endpoint(&self) -> &Endpoint {
        &self.session.options.endpoint
    }

    /// API version in use; `None` until the service has responded.
    pub fn version(&self) -> Option<Version> {
        self.session.versions.confirmed()
    }

    /// Whether the service is known to support long polling.
    pub fn can_hold(&self) -> bool {
        self.session.hold_support == HoldSupport::Yes
    }

    /// Fetches the document, whether it has changed or not.
    pub async fn document(&mut self) -> Result<Document, Error> {
        match self.run(GetDocument { condition: Condition::Always }).await? {
            Poll::Changed(document) => Ok(document),
            Poll::Unchanged => unreachable!("an unconditional request has no ETag that could match"),
        }
    }

    /// Fetches the document if it has changed since the last response. Returns immediately.
    pub async fn poll(&mut self) -> Result<Poll, Error> {
        self.get_document(None).await
    }

    /// Long poll: returns when the document changes, or after `time`. See [`Client::hold`](crate::Client::hold).
    pub async fn hold(&mut self, time: Duration) -> Result<Poll, Error> {
        self.get_document(Some(time)).await
    }

    /// Approves events, so that they can start before `NotBefore`.
    pub async fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        for call in Approve::batches(ids) {
            self.run(call).await?;
        }
        Ok(())
    }

    /// Fetches the instance metadata of this machine.
    pub async fn instance(&mut self) -> Result<Instance, Error> {
        self.run(GetInstance).await
    }

    /// Watches for changes, starting with the current events.
    pub fn watch(mut self) -> AsyncWatch {
        self.session.etag = None;
        AsyncWatch { client: self, state: WatchState::default() }
    }

    async fn get_document(&mut self, hold: Option<Duration>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: hold.map_or(Condition::IfChanged, Condition::Hold) }).await
    }

    async fn run<C: Call>(&mut self, call: C) -> Result<C::Output, Error> {
        let (mut exchange, mut step) = Exchange::begin(call, &self.session, self.origin.elapsed());
        loop {
            step = match step {
                Step::Done(result) => return result,
                Step::Send { after, request } => {
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    let response = self.send(&request).await;
                    exchange.handle_response(&mut self.session, response, self.origin.elapsed())
                }
            };
        }
    }

    async fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let idle = self.connection.take();
        let was_idle = idle.is_some();
        let fail = |error: TransferError, is_stale| error.into_failure(self.endpoint(), request.timeout, is_stale);
        let mut stream = match idle {
            Some(stream) => stream,
            None => self.connect().await.map_err(|error| fail(TransferError::Io(error), false))?,
        };
        let mut decoder = Decoder::new();
        let bytes = request.to_bytes(self.endpoint());
        let sent = timeout(request.timeout, send_and_receive(&mut stream, &mut decoder, &bytes)).await;
        match sent.unwrap_or(Err(TransferError::TimedOut)) {
            Ok(response) => {
                self.connection = response.reusable.then_some(stream);
                Ok(response)
            }
            Err(error) => Err(fail(error, was_idle && decoder.is_untouched())),
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let address = (self.endpoint().host(), self.endpoint().port());
        let stream = match timeout(self.session.options.connect_timeout, TcpStream::connect(address)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Clone for AsyncClient {
    fn clone(&self) -> AsyncClient {
        AsyncClient { session: self.session.clone(), connection: None, origin: self.origin }
    }
}

impl fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncClient").field("session", &self.session).finish_non_exhaustive()
    }
}

/// [`Watch`](crate::Watch) on tokio.
#[derive(Debug)]
pub struct AsyncWatch {
    client: AsyncClient,
    state: WatchState,
}

impl AsyncWatch {
    /// Sets the interval between polls.
    pub fn interval(mut self, interval: Duration) -> AsyncWatch {
        self.state.interval = interval;
        self
    }

    /// Sets how long the service may hold a poll, where it supports long polling; `None` disables long polling.
    pub fn hold(mut self, hold: Option<Duration>) -> AsyncWatch {
        self.state.hold = hold;
        self
    }

    /// Continues from the events that an earlier run has seen.
    pub fn resume(mut self, tracker: Tracker) -> AsyncWatch {
        self.state.tracker = tracker;
        self
    }

    /// Events that have not finished.
    pub fn tracker(&self) -> &Tracker {
        &self.state.tracker
    }

    /// Client that does the polling.
    pub fn client(&mut self) -> &mut AsyncClient {
        &mut self.client
    }

    /// Approves events as [`AsyncClient::approve`] does, and records that they may start before `NotBefore`.
    pub async fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        self.client.approve(ids).await?;
        ids.iter().for_each(|id| self.state.tracker.mark_approved(id));
        Ok(())
    }

    /// Waits for the next change. Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            match self.state.next(self.client.origin.elapsed()) {
                WatchStep::Yield(change) => return Ok(change),
                WatchStep::Poll { after, hold } => {
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    let poll = self.client.get_document(hold).await?;
                    self.state.record(&poll, SystemTime::now());
                }
            }
        }
    }
}

async fn send_and_receive(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
    bytes: &[u8],
) -> Result<Response, TransferError> {
    stream.write_all(bytes).await.map_err(TransferError::Io)?;
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        stream.read_buf(&mut buffer).await.map_err(TransferError::Io)?;
        if let Some(response) = decoder.feed(&buffer).map_err(TransferError::Http)? {
            return Ok(response);
        }
    }
}

/// A response without events has about 300 bytes.
const READ_BYTES: usize = 4096;
