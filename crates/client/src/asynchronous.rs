//! The client on tokio. It does what the blocking one does, and like it decides nothing.

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
use crate::http::{Decoder, HttpError, Request, Response};
use crate::instance::Instance;
use crate::options::Options;
use crate::session::{Call, Exchange, Failure, Holding, Session, Step};
use crate::tracker::{Change, Tracker};
use crate::watch::{Next, Pump};

/// [`Client`](crate::Client) on tokio. Futures that are dropped cost the connection and nothing else.
pub struct AsyncClient {
    session: Session,
    connection: Option<TcpStream>,
    origin: Instant,
}

impl AsyncClient {
    pub fn new(endpoint: Endpoint) -> AsyncClient {
        AsyncClient::with(Options::new(endpoint))
    }

    pub fn with(options: Options) -> AsyncClient {
        AsyncClient { session: Session::new(options), connection: None, origin: Instant::now() }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.session.options.endpoint
    }

    /// The version that the service answers in, once it has answered.
    pub fn version(&self) -> Option<Version> {
        self.session.versions.settled()
    }

    /// Whether the service is known to hold requests.
    pub fn can_hold(&self) -> bool {
        self.session.holding == Holding::Yes
    }

    /// The document, whether it changed or not.
    pub async fn document(&mut self) -> Result<Document, Error> {
        match self.run(GetDocument { condition: Condition::Always }).await? {
            Poll::Changed(document) => Ok(document),
            Poll::Unchanged => unreachable!("an answer without a document is not taken where none was offered"),
        }
    }

    /// The document if it is another one than in the last answer, and at once.
    pub async fn poll(&mut self) -> Result<Poll, Error> {
        self.ask(None).await
    }

    /// Like [`AsyncClient::poll`], but a service that can ([`AsyncClient::can_hold`]) answers only when
    /// the document changes, or after this time.
    pub async fn hold(&mut self, time: Duration) -> Result<Poll, Error> {
        self.ask(Some(time)).await
    }

    /// Lets these events start before their time.
    pub async fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        for call in Approve::all(ids) {
            self.run(call).await?;
        }
        Ok(())
    }

    pub async fn instance(&mut self) -> Result<Instance, Error> {
        self.run(GetInstance).await
    }

    /// What is there now and whatever happens from now on, one change after the other.
    pub fn watch(mut self) -> AsyncWatch {
        self.session.etag = None;
        AsyncWatch { client: self, pump: Pump::default() }
    }

    async fn ask(&mut self, hold: Option<Duration>) -> Result<Poll, Error> {
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
                    let answer = self.send(&request).await;
                    exchange.answered(&mut self.session, answer, self.origin.elapsed())
                }
            };
        }
    }

    async fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let kept = self.connection.take();
        let was_kept = kept.is_some();
        let mut stream = match kept {
            Some(stream) => stream,
            None => self.connect().await.map_err(|source| Failure::Error(self.unreachable(source)))?,
        };
        let mut decoder = Decoder::new();
        let bytes = request.bytes(self.endpoint());
        let endpoint = || self.endpoint().clone();
        match timeout(request.timeout, converse(&mut stream, &mut decoder, &bytes)).await {
            Ok(Ok(response)) => {
                self.connection = response.reusable.then_some(stream);
                Ok(response)
            }
            Err(_) => Err(Failure::Error(Error::Slow { endpoint: endpoint(), timeout: request.timeout })),
            Ok(Err(_)) if was_kept && decoder.is_untouched() => Err(Failure::Stale),
            Ok(Err(Broken::Io(source))) => Err(Failure::Error(self.unreachable(source))),
            Ok(Err(Broken::Http(source))) => Err(Failure::Error(Error::NotHttp { endpoint: endpoint(), source })),
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

    fn unreachable(&self, source: io::Error) -> Error {
        Error::Unreachable { endpoint: self.endpoint().clone(), source }
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
    pump: Pump,
}

impl AsyncWatch {
    /// The pause from one poll to the next.
    pub fn every(mut self, interval: Duration) -> AsyncWatch {
        self.pump.interval = interval;
        self
    }

    /// How long a service that can hold requests may do so; `None` to poll like everywhere else.
    pub fn hold(mut self, hold: Option<Duration>) -> AsyncWatch {
        self.pump.hold = hold;
        self
    }

    /// Goes on with what an earlier program had seen.
    pub fn resume(mut self, tracker: Tracker) -> AsyncWatch {
        self.pump.tracker = tracker;
        self
    }

    /// The events that are not over.
    pub fn tracker(&self) -> &Tracker {
        &self.pump.tracker
    }

    pub fn client(&mut self) -> &mut AsyncClient {
        &mut self.client
    }

    /// [`AsyncClient::approve`], and remembers that these may start before their time.
    pub async fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        self.client.approve(ids).await?;
        ids.iter().for_each(|id| self.pump.tracker.approved(id));
        Ok(())
    }

    /// The next change. There is always another one. No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            match self.pump.next(self.client.origin.elapsed()) {
                Next::Give(change) => return Ok(change),
                Next::Poll { after, hold } => {
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    let poll = self.client.ask(hold).await?;
                    self.pump.polled(&poll, SystemTime::now());
                }
            }
        }
    }
}

enum Broken {
    Io(io::Error),
    Http(HttpError),
}

async fn converse(stream: &mut TcpStream, decoder: &mut Decoder, bytes: &[u8]) -> Result<Response, Broken> {
    stream.write_all(bytes).await.map_err(Broken::Io)?;
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        stream.read_buf(&mut buffer).await.map_err(Broken::Io)?;
        if let Some(response) = decoder.feed(&buffer).map_err(Broken::Http)? {
            return Ok(response);
        }
    }
}

/// A document without events has 37 bytes, and its head some 250.
const READ_BYTES: usize = 4096;
