//! The blocking client: sockets and waiting. All decisions are in `session` and `watch`.

mod watch;

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
use crate::session::{Call, Exchange, Failure, HoldSupport, Session, Step, TransferError};

pub use watch::Watch;

/// Blocking client with one persistent connection.
///
/// A clone has its own connection and starts with what the original has learned about the service. Use a clone to
/// approve events while the original waits in [`Client::hold`].
///
/// ```no_run
/// use forewarn_client::{Client, Endpoint};
///
/// let mut client = Client::new(Endpoint::link_local());
/// for event in client.document()?.events {
///     println!("{} {} not before {}", event.id, event.kind, event.not_before_text());
/// }
/// # Ok::<(), forewarn_client::Error>(())
/// ```
pub struct Client {
    session: Session,
    connection: Option<TcpStream>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// Creates a client with the default options.
    pub fn new(endpoint: Endpoint) -> Client {
        Client::with_options(Options::new(endpoint))
    }

    /// Creates a client with these options.
    pub fn with_options(options: Options) -> Client {
        Client::with_clock(options, Arc::new(SystemClock::default()))
    }

    /// Creates a client with another clock, for tests that must not wait.
    pub fn with_clock(options: Options, clock: Arc<dyn Clock>) -> Client {
        Client { session: Session::new(options), connection: None, clock }
    }

    /// Endpoint of the service.
    pub fn endpoint(&self) -> &Endpoint {
        &self.session.options.endpoint
    }

    /// API version in use; `None` until the service has responded.
    pub fn version(&self) -> Option<Version> {
        self.session.versions.confirmed()
    }

    /// Whether the service is known to support long polling, so that [`Client::hold`] waits for a change.
    pub fn can_hold(&self) -> bool {
        self.session.hold_support == HoldSupport::Yes
    }

    /// Fetches the document, whether it has changed or not.
    pub fn document(&mut self) -> Result<Document, Error> {
        match self.run(GetDocument { condition: Condition::Always })? {
            Poll::Changed(document) => Ok(document),
            Poll::Unchanged => unreachable!("an unconditional request has no ETag that could match"),
        }
    }

    /// Fetches the document if it has changed since the last response. Returns immediately.
    pub fn poll(&mut self) -> Result<Poll, Error> {
        self.get_document(None)
    }

    /// Long poll: returns when the document changes, or after `time`.
    ///
    /// A service without long polling ([`Client::can_hold`]) responds immediately; the caller must then pace its
    /// requests.
    pub fn hold(&mut self, time: Duration) -> Result<Poll, Error> {
        self.get_document(Some(time))
    }

    /// Approves events, so that they can start before `NotBefore`.
    ///
    /// Approving an event that has been approved or has started succeeds. Approving one that has finished is an error.
    pub fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        Approve::batches(ids).try_for_each(|call| self.run(call))
    }

    /// Fetches the instance metadata of this machine.
    pub fn instance(&mut self) -> Result<Instance, Error> {
        self.run(GetInstance)
    }

    /// Watches for changes, starting with the current events.
    pub fn watch(mut self) -> Watch {
        // The watch has not seen the documents that this client fetched before.
        self.session.etag = None;
        Watch::new(self)
    }

    fn get_document(&mut self, hold: Option<Duration>) -> Result<Poll, Error> {
        self.run(GetDocument { condition: hold.map_or(Condition::IfChanged, Condition::Hold) })
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
                    let response = self.send(&request);
                    exchange.handle_response(&mut self.session, response, self.clock.now())
                }
            };
        }
    }

    fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let idle = self.connection.take();
        let was_idle = idle.is_some();
        let connected = match idle {
            Some(stream) => Ok(stream),
            None => self.connect(),
        };
        let mut decoder = Decoder::new();
        let bytes = request.to_bytes(self.endpoint());
        let result = connected.map_err(TransferError::Io).and_then(|mut stream| {
            let response = send_and_receive(&mut stream, &mut decoder, &bytes, request.timeout)?;
            Ok((response, stream))
        });
        match result {
            Ok((response, stream)) => {
                self.connection = response.reusable.then_some(stream);
                Ok(response)
            }
            Err(error) => {
                let is_stale = was_idle && decoder.is_untouched();
                Err(error.into_failure(self.endpoint(), request.timeout, is_stale))
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let endpoint = self.endpoint();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
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

/// Source of time for a [`Client`].
pub trait Clock: Send + Sync {
    /// Monotonic time since a fixed moment.
    fn now(&self) -> Duration;

    /// Time of day, which is compared with `NotBefore`. If the service uses another clock, such as Forewarn's manual
    /// clock, return the time of that clock.
    fn wall_time(&self) -> SystemTime;

    /// Blocks the thread for this long.
    fn sleep(&self, time: Duration);
}

/// Clock of the operating system.
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

    fn wall_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Sends a request and reads its response. The timeout covers all of it, even if the bytes arrive one at a time.
fn send_and_receive(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
    bytes: &[u8],
    timeout: Duration,
) -> Result<Response, TransferError> {
    let deadline = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout)).map_err(TransferError::Io)?;
    stream.write_all(bytes).map_err(classify_io_error)?;
    let mut buffer = [0; READ_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TransferError::TimedOut);
        }
        stream.set_read_timeout(Some(left)).map_err(TransferError::Io)?;
        let count = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(classify_io_error)?,
        };
        if let Some(response) = decoder.feed(&buffer[..count]).map_err(TransferError::Http)? {
            return Ok(response);
        }
    }
}

/// A response without events has about 300 bytes.
const READ_BYTES: usize = 4096;

fn classify_io_error(error: io::Error) -> TransferError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TransferError::TimedOut,
        _ => TransferError::Io(error),
    }
}
