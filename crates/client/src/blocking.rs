//! The client on a thread of the caller's.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use forewarn_wire::version::Version;

use crate::calls::{Approve, Condition, GetDocument, GetInstance, Poll};
use crate::document::Document;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::EventId;
use crate::http::{Decoder, Request, Response};
use crate::instance::Instance;
use crate::options::Options;
use crate::session::{Call, Exchange, Failure, Holding, Session, Step};
use crate::watch::Watch;

/// A client that blocks. It has one connection, which it keeps.
///
/// A clone has a connection of its own and knows what the original knew: use one to approve while
/// another waits.
pub struct Client {
    session: Session,
    connection: Option<TcpStream>,
    clock: Arc<dyn Clock>,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> Client {
        Client::with(Options::new(endpoint))
    }

    pub fn with(options: Options) -> Client {
        Client::with_clock(options, Arc::new(SystemClock::default()))
    }

    /// For tests that must not wait.
    pub fn with_clock(options: Options, clock: Arc<dyn Clock>) -> Client {
        Client { session: Session::new(options), connection: None, clock }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.session.options.endpoint
    }

    /// The version that the service answers in, once it has answered.
    pub fn version(&self) -> Option<Version> {
        self.session.versions.settled()
    }

    /// Whether the service is known to hold requests, so that [`Client::hold`] waits there and not
    /// here.
    pub fn can_hold(&self) -> bool {
        self.session.holding == Holding::Yes
    }

    /// The document, whether it changed or not.
    pub fn document(&mut self) -> Result<Document, Error> {
        match self.run(GetDocument { condition: Condition::Always })? {
            Poll::Changed(document) => Ok(document),
            Poll::Unchanged => unreachable!("an answer without a document is not taken where none was offered"),
        }
    }

    /// The document if it is another one than in the last answer, and at once.
    pub fn poll(&mut self) -> Result<Poll, Error> {
        self.ask(None)
    }

    /// Like [`Client::poll`], but where the service can ([`Client::can_hold`]) it answers only when
    /// the document changes, or after this time. Elsewhere it answers at once, and the caller has to
    /// pace himself.
    pub fn hold(&mut self, time: Duration) -> Result<Poll, Error> {
        self.ask(Some(time))
    }

    /// Lets these events start before their time. Approving one that was approved, or that has
    /// started, is no error; one that is over is.
    pub fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        Approve::all(ids).try_for_each(|call| self.run(call))
    }

    pub fn instance(&mut self) -> Result<Instance, Error> {
        self.run(GetInstance)
    }

    /// What is there now and whatever happens from now on, one change after the other.
    pub fn watch(mut self) -> Watch {
        // The watch has not seen what was asked for before it began.
        self.session.etag = None;
        Watch::new(self)
    }

    pub(crate) fn ask(&mut self, hold: Option<Duration>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: hold.map_or(Condition::IfChanged, Condition::Hold) })
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn run<C: Call>(&mut self, call: C) -> Result<C::Output, Error> {
        let (mut exchange, mut step) = Exchange::begin(call, &self.session, self.clock.now());
        loop {
            step = match step {
                Step::Done(result) => return result,
                Step::Send { after, request } => {
                    if !after.is_zero() {
                        self.clock.sleep(after);
                    }
                    let answer = self.send(&request);
                    exchange.answered(&mut self.session, answer, self.clock.now())
                }
            };
        }
    }

    fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let kept = self.connection.take();
        let was_kept = kept.is_some();
        let mut stream = match kept {
            Some(stream) => stream,
            None => self.connect().map_err(|source| Failure::Error(self.unreachable(source)))?,
        };
        let mut decoder = Decoder::new();
        match converse(&mut stream, &mut decoder, &request.bytes(self.endpoint()), request.timeout) {
            Ok(response) => {
                self.connection = response.reusable.then_some(stream);
                Ok(response)
            }
            Err(Broken::Slow) => {
                Err(Failure::Error(Error::Slow { endpoint: self.endpoint().clone(), timeout: request.timeout }))
            }
            Err(_) if was_kept && decoder.is_untouched() => Err(Failure::Stale),
            Err(Broken::Io(source)) => Err(Failure::Error(self.unreachable(source))),
            Err(Broken::Http(source)) => {
                Err(Failure::Error(Error::NotHttp { endpoint: self.endpoint().clone(), source }))
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let endpoint = self.endpoint();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (endpoint.host(), endpoint.port()).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.session.options.connect_timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn unreachable(&self, source: io::Error) -> Error {
        Error::Unreachable { endpoint: self.endpoint().clone(), source }
    }
}

impl Clone for Client {
    fn clone(&self) -> Client {
        Client { session: self.session.clone(), connection: None, clock: self.clock.clone() }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Where a client has its time from.
pub trait Clock: Send + Sync {
    /// The time since some moment; never goes back.
    fn now(&self) -> Duration;

    /// The time of day, to compare with `NotBefore`. Where the service has a clock of its own, such as
    /// Forewarn's manual one, this should be the same.
    fn wall(&self) -> SystemTime;

    fn sleep(&self, time: Duration);
}

/// The machine's own clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

enum Broken {
    Slow,
    Io(io::Error),
    Http(crate::http::HttpError),
}

/// Sends the bytes and reads one answer, all of it before the time is over, however the bytes come.
fn converse(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
    bytes: &[u8],
    timeout: Duration,
) -> Result<Response, Broken> {
    let deadline = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout)).map_err(Broken::Io)?;
    stream.write_all(bytes).map_err(broken)?;
    let mut buffer = [0; READ_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Broken::Slow);
        }
        stream.set_read_timeout(Some(left)).map_err(Broken::Io)?;
        let count = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(broken)?,
        };
        if let Some(response) = decoder.feed(&buffer[..count]).map_err(Broken::Http)? {
            return Ok(response);
        }
    }
}

/// A document without events has 37 bytes, and its head some 250.
const READ_BYTES: usize = 4096;

fn broken(error: io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Broken::Slow,
        _ => Broken::Io(error),
    }
}
