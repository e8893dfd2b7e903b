//! State that a client keeps about its service, and the interpretation of each response. No I/O, no clock.
//!
//! ```text
//!   Call::request ──▶ Step::Send ──▶ (client sends it) ──▶ Exchange::handle_response ──▶ Call::read
//!                        ▲                                          │
//!                        └── another version, or after a delay ─────┤
//!                                                                   └──▶ Step::Done
//! ```
//!
//! The blocking and the async client carry out each [`Step`] and decide nothing.

use std::io;
use std::time::Duration;

use forewarn_wire::version::{InstanceVersion, Version};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::http::{HttpError, Request, Response};
use crate::negotiation::Negotiation;
use crate::options::Options;
use crate::retry::{Jitter, RetryCause};

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub options: Options,
    pub versions: Negotiation<Version>,
    pub instance_versions: Negotiation<InstanceVersion>,
    pub etag: Option<Etag>,
    pub hold_support: HoldSupport,
    jitter: Jitter,
}

/// ETag of a document. It is valid only for its own version, because versions render different documents under the same
/// incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Etag {
    pub version: Version,
    pub value: String,
}

/// Whether the service supports long polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldSupport {
    /// The service has not identified itself as Forewarn.
    No,
    Yes,
    /// The service identified itself as Forewarn but refused a long poll.
    Refused,
}

/// One operation of the service.
pub(crate) trait Call {
    type Output;

    fn request(&self, session: &Session) -> Request;

    fn read(&self, session: &mut Session, response: Response) -> CallOutcome<Self::Output>;
}

/// Meaning of a response.
pub(crate) enum CallOutcome<T> {
    Done(Result<T, Error>),
    /// Send again immediately, because the session has changed. The error applies if that is not possible.
    RetryNow(Error),
    /// Send again when the retry policy allows it. The error applies if it does not.
    RetryLater(RetryCause, Error),
}

/// Next thing for a client to do.
pub(crate) enum Step<T> {
    Send { after: Duration, request: Request },
    Done(Result<T, Error>),
}

/// Reason why a request has no response.
pub(crate) enum Failure {
    /// The service had closed the idle connection.
    Stale,
    Error(Error),
}

/// Error while sending a request or reading its response.
pub(crate) enum TransferError {
    TimedOut,
    Io(io::Error),
    Http(HttpError),
}

impl TransferError {
    /// `is_stale`: nothing arrived on a connection that had been idle.
    pub fn into_failure(self, endpoint: &Endpoint, timeout: Duration, is_stale: bool) -> Failure {
        let endpoint = endpoint.clone();
        match self {
            TransferError::TimedOut => Failure::Error(Error::TimedOut { endpoint, timeout }),
            TransferError::Io(_) | TransferError::Http(_) if is_stale => Failure::Stale,
            TransferError::Io(source) => Failure::Error(Error::Unreachable { endpoint, source }),
            TransferError::Http(source) => Failure::Error(Error::InvalidResponse { endpoint, source }),
        }
    }
}

/// A call from its first request to its result.
pub(crate) struct Exchange<C> {
    call: C,
    started: Duration,
    failed: u32,
    /// Requests that do not count as retries: other versions, stale connections.
    extra: u32,
    /// Response to the newest version, which is more helpful than the response to the oldest.
    first_refusal: Option<Error>,
}

/// Enough for each version and a few more. Ends the loop if a service keeps refusing.
const EXTRA_MAX: u32 = 16;

impl<C: Call> Exchange<C> {
    /// Starts a call. `now` is the time since a fixed moment.
    pub fn begin(call: C, session: &Session, now: Duration) -> (Exchange<C>, Step<C::Output>) {
        let step = Step::Send { after: Duration::ZERO, request: call.request(session) };
        (Exchange { call, started: now, failed: 0, extra: 0, first_refusal: None }, step)
    }

    pub fn handle_response(
        &mut self,
        session: &mut Session,
        response: Result<Response, Failure>,
        now: Duration,
    ) -> Step<C::Output> {
        match response {
            Ok(response) => match self.call.read(session, response) {
                CallOutcome::Done(result) => Step::Done(result.map_err(|error| self.prefer_first_refusal(error))),
                CallOutcome::RetryNow(error) => self.resend(session, Some(error)),
                CallOutcome::RetryLater(cause, error) => self.retry(session, &cause, error, now),
            },
            Err(Failure::Stale) => self.resend(session, None),
            Err(Failure::Error(error)) => self.retry(session, &RetryCause::Connection, error, now),
        }
    }

    fn resend(&mut self, session: &Session, error: Option<Error>) -> Step<C::Output> {
        self.extra += 1;
        if let Some(error) = error {
            let first = self.first_refusal.get_or_insert(error);
            if self.extra > EXTRA_MAX {
                let message = format!("the service keeps refusing: {first}");
                return Step::Done(Err(Error::Refused { status: 400, message }));
            }
        }
        Step::Send { after: Duration::ZERO, request: self.call.request(session) }
    }

    fn retry(&mut self, session: &mut Session, cause: &RetryCause, error: Error, now: Duration) -> Step<C::Output> {
        self.failed += 1;
        let elapsed = now.saturating_sub(self.started);
        match session.options.retry.delay(cause, self.failed, elapsed, session.jitter.draw()) {
            Some(after) => Step::Send { after, request: self.call.request(session) },
            None => Step::Done(Err(error)),
        }
    }

    fn prefer_first_refusal(&mut self, error: Error) -> Error {
        match (error, self.first_refusal.take()) {
            (Error::UnsupportedVersion { .. }, Some(first @ Error::UnsupportedVersion { .. })) => first,
            (error, _) => error,
        }
    }
}

impl Session {
    pub fn new(options: Options) -> Session {
        let versions = match options.version {
            Some(version) => vec![version],
            None => Version::ALL.iter().rev().copied().collect(),
        };
        let jitter = options.jitter_seed.map_or_else(Jitter::random, Jitter::seeded);
        Session {
            versions: Negotiation::new(versions),
            instance_versions: Negotiation::new(crate::instance::supported_versions()),
            etag: None,
            hold_support: HoldSupport::No,
            jitter,
            options,
        }
    }

    /// Time limit for a response. The first request can enable Scheduled Events for the event group, which takes Azure
    /// up to two minutes.
    pub fn timeout(&self) -> Duration {
        match self.versions.confirmed() {
            Some(_) => self.options.timeout,
            None => self.options.timeout.max(self.options.first_timeout),
        }
    }
}

/// Interprets a response that is not a success.
pub(crate) fn classify_refusal<T>(response: &Response) -> CallOutcome<T> {
    let (status, message) = (response.status, read_message(response));
    let unavailable = || Error::Unavailable { status, message: message.clone() };
    match status {
        410 => CallOutcome::RetryLater(RetryCause::Gone, unavailable()),
        408 | 429 | 500..=599 => {
            CallOutcome::RetryLater(RetryCause::Busy { retry_after: parse_retry_after(response) }, unavailable())
        }
        _ => CallOutcome::Done(Err(Error::Refused { status, message })),
    }
}

/// Like [`refusal`], for paths that have versions.
pub(crate) fn classify_refusal_or_version<T, V: Copy>(
    versions: &mut Negotiation<V>,
    response: &Response,
) -> CallOutcome<T> {
    if !is_about_version(response) {
        return classify_refusal(response);
    }
    let error = Error::UnsupportedVersion { status: response.status, message: read_message(response) };
    match versions.reject() {
        true => CallOutcome::RetryNow(error),
        false => CallOutcome::Done(Err(error)),
    }
}

pub(crate) fn is_forewarn(response: &Response) -> bool {
    response.header("server").is_some_and(|server| server.contains("Forewarn"))
}

/// Azure uses 404 only for an unknown version. Forewarn uses it for other reasons too (an unknown machine) and names
/// them.
fn is_about_version(response: &Response) -> bool {
    let mentions = |word: &str| String::from_utf8_lossy(&response.body).to_ascii_lowercase().contains(word);
    match response.status {
        404 => !is_forewarn(response) || mentions("version"),
        400 => mentions("api-version"),
        _ => false,
    }
}

/// Length of the excerpt of a refusal that an error shows.
const MESSAGE_CHARS_MAX: usize = 400;

/// Reads the message in `{"error": "…"}`, or the whole body.
fn read_message(response: &Response) -> String {
    let text = match serde_json::from_slice::<serde_json::Value>(&response.body) {
        Ok(value) => value["error"].as_str().map(str::to_owned).unwrap_or_else(|| value.to_string()),
        Err(_) => String::from_utf8_lossy(&response.body).into_owned(),
    };
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let message: String = clean.take(MESSAGE_CHARS_MAX).collect();
    match message.trim() {
        "" => "no reason given".into(),
        message => message.into(),
    }
}

/// Parses `Retry-After`: seconds or a date. A date is compared with the response's own `Date`, so no clock is needed.
fn parse_retry_after(response: &Response) -> Option<Duration> {
    let value = response.header("retry-after")?;
    if let Ok(secs) = value.parse() {
        return Some(Duration::from_secs(secs));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(response.header("date")?).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
