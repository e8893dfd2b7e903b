//! What a client knows of its service, and what it makes of each answer. No I/O, no clock.
//!
//! ```text
//!   Call::request ──▶ Step::Send ──▶ (a shell sends it) ──▶ Exchange::answered ──▶ Call::read
//!                        ▲                                          │
//!                        └── another version, or after a pause ─────┤
//!                                                                   └──▶ Step::Done
//! ```
//!
//! Shells, blocking or async, do what a [`Step`] says and decide nothing.

use std::time::Duration;

use forewarn_wire::version::{InstanceVersion, Version};

use crate::error::Error;
use crate::http::{Request, Response};
use crate::negotiation::Negotiation;
use crate::options::Options;
use crate::retry::{Jitter, Trouble};

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub options: Options,
    pub versions: Negotiation<Version>,
    pub instance_versions: Negotiation<InstanceVersion>,
    pub etag: Option<Etag>,
    pub holding: Holding,
    jitter: Jitter,
}

/// The mark of a document. It is good for the version that it came with and no other: each version
/// shows another document under the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Etag {
    pub version: Version,
    pub value: String,
}

/// Whether the service can hold a request until the document changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It did not say that it can.
    No,
    Yes,
    /// It said so, and then refused.
    Refused,
}

/// Something to ask of the service.
pub(crate) trait Call {
    type Output;

    fn request(&self, session: &Session) -> Request;

    fn read(&self, session: &mut Session, response: Response) -> Reading<Self::Output>;
}

/// What an answer means.
pub(crate) enum Reading<T> {
    Done(Result<T, Error>),
    /// Ask again at once, because the session has learned something; if it cannot, this is the error.
    Again(Error),
    /// Ask again when the policy says so; if it does not, this is the error.
    Retry(Trouble, Error),
}

/// What the shell has to do next.
pub(crate) enum Step<T> {
    Send { after: Duration, request: Request },
    Done(Result<T, Error>),
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// The connection had been kept from an earlier request and the other side had closed it.
    Stale,
    Error(Error),
}

/// One call from its first request to its outcome.
pub(crate) struct Exchange<C> {
    call: C,
    started: Duration,
    failed: u32,
    /// Requests that cost no patience: other versions, connections that were closed while idle.
    extra: u32,
    /// What was said to the newest version, which says more than what is said to the oldest.
    first_refusal: Option<Error>,
}

/// Each version once and a few more: no service, however strange, keeps us in a circle.
const EXTRA_MAX: u32 = 16;

impl<C: Call> Exchange<C> {
    /// `now` is the time since any moment, as long as it is always the same one.
    pub fn begin(call: C, session: &Session, now: Duration) -> (Exchange<C>, Step<C::Output>) {
        let step = Step::Send { after: Duration::ZERO, request: call.request(session) };
        (Exchange { call, started: now, failed: 0, extra: 0, first_refusal: None }, step)
    }

    pub fn answered(
        &mut self,
        session: &mut Session,
        answer: Result<Response, Failure>,
        now: Duration,
    ) -> Step<C::Output> {
        match answer {
            Ok(response) => match self.call.read(session, response) {
                Reading::Done(result) => Step::Done(result.map_err(|error| self.better(error))),
                Reading::Again(error) => self.again(session, Some(error)),
                Reading::Retry(trouble, error) => self.retry(session, &trouble, error, now),
            },
            Err(Failure::Stale) => self.again(session, None),
            Err(Failure::Error(error)) => self.retry(session, &Trouble::Connection, error, now),
        }
    }

    fn again(&mut self, session: &Session, error: Option<Error>) -> Step<C::Output> {
        self.extra += 1;
        if let Some(error) = error {
            let first = self.first_refusal.get_or_insert(error);
            if self.extra > EXTRA_MAX {
                let message = format!("it refuses again and again: {first}");
                return Step::Done(Err(Error::Refused { status: 400, message }));
            }
        }
        Step::Send { after: Duration::ZERO, request: self.call.request(session) }
    }

    fn retry(&mut self, session: &mut Session, trouble: &Trouble, error: Error, now: Duration) -> Step<C::Output> {
        self.failed += 1;
        let elapsed = now.saturating_sub(self.started);
        match session.options.retry.delay(trouble, self.failed, elapsed, session.jitter.draw()) {
            Some(after) => Step::Send { after, request: self.call.request(session) },
            None => Step::Done(Err(error)),
        }
    }

    fn better(&mut self, error: Error) -> Error {
        match (error, self.first_refusal.take()) {
            (Error::NoVersion { .. }, Some(first @ Error::NoVersion { .. })) => first,
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
            instance_versions: Negotiation::new(crate::instance::versions()),
            etag: None,
            holding: Holding::No,
            jitter,
            options,
        }
    }

    /// How long an answer may take. The first request may be what turns the feature on for the
    /// machine's scope, which takes the original service up to two minutes.
    pub fn timeout(&self) -> Duration {
        match self.versions.settled() {
            Some(_) => self.options.timeout,
            None => self.options.timeout.max(self.options.first_timeout),
        }
    }
}

/// What an answer means that is not the one asked for, whatever was asked.
pub(crate) fn refusal<T>(response: &Response) -> Reading<T> {
    let (status, message) = (response.status, message(response));
    let unavailable = || Error::Unavailable { status, message: message.clone() };
    match status {
        410 => Reading::Retry(Trouble::Gone, unavailable()),
        408 | 429 | 500..=599 => Reading::Retry(Trouble::Busy { retry_after: retry_after(response) }, unavailable()),
        _ => Reading::Done(Err(Error::Refused { status, message })),
    }
}

/// Like [`refusal`], for paths that have versions.
pub(crate) fn refusal_or_other_version<T, V: Copy>(versions: &mut Negotiation<V>, response: &Response) -> Reading<T> {
    if !is_about_version(response) {
        return refusal(response);
    }
    let error = Error::NoVersion { status: response.status, message: message(response) };
    match versions.refused() {
        true => Reading::Again(error),
        false => Reading::Done(Err(error)),
    }
}

pub(crate) fn is_forewarn(response: &Response) -> bool {
    response.header("server").is_some_and(|server| server.contains("Forewarn"))
}

/// 404 is what the service says to a version it does not have, and says nothing else with it. Forewarn
/// has other reasons (it does not know the machine) and names them.
fn is_about_version(response: &Response) -> bool {
    let says = |word: &str| String::from_utf8_lossy(&response.body).to_ascii_lowercase().contains(word);
    match response.status {
        404 => !is_forewarn(response) || says("version"),
        400 => says("api-version"),
        _ => false,
    }
}

/// How much of a refusal is repeated in the error.
const MESSAGE_CHARS_MAX: usize = 400;

/// The sentence in `{"error": "…"}`, or the body as it is.
fn message(response: &Response) -> String {
    let text = match serde_json::from_slice::<serde_json::Value>(&response.body) {
        Ok(value) => value["error"].as_str().map(str::to_owned).unwrap_or_else(|| value.to_string()),
        Err(_) => String::from_utf8_lossy(&response.body).into_owned(),
    };
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let message: String = clean.take(MESSAGE_CHARS_MAX).collect();
    match message.trim() {
        "" => "it does not say why".into(),
        message => message.into(),
    }
}

/// Seconds, or a date; a date is compared with that of the answer itself, so that no clock is needed.
fn retry_after(response: &Response) -> Option<Duration> {
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
