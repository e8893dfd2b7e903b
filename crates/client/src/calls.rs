//! The calls of the service: the document, approval, instance metadata.

use std::time::Duration;

use forewarn_wire::approval::START_REQUESTS_MAX;
use serde_json::json;

use crate::document::Document;
use crate::event::EventId;
use crate::http::{Method, Request, Response};
use crate::instance::Instance;
use crate::session::{Call, Etag, Holding, Reading, Session, is_forewarn, refusal, refusal_or_other_version};

/// What a poll found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// The document is another one than last time, or nobody asked before.
    Changed(Document),
    Unchanged,
}

/// The longest that a request is held, which is also what Forewarn allows.
pub const HOLD_MAX: Duration = Duration::from_secs(300);

/// Asks for the document.
pub(crate) struct GetDocument {
    pub condition: Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Whatever it is.
    Always,
    /// Only if it is another one than last time.
    IfChanged,
    /// Like [`Condition::IfChanged`], and where the service can it answers only when it is, or after
    /// this time.
    Hold(Duration),
}

impl GetDocument {
    fn hold_secs(&self, session: &Session) -> Option<u64> {
        match self.condition {
            Condition::Hold(time) if session.holding == Holding::Yes => Some(time.min(HOLD_MAX).as_secs()),
            Condition::Hold(_) | Condition::Always | Condition::IfChanged => None,
        }
    }

    fn etag(&self, session: &Session) -> Option<String> {
        let version = session.versions.current();
        let etag = session.etag.as_ref().filter(|etag| etag.version == version && self.condition != Condition::Always);
        etag.map(|etag| etag.value.clone())
    }

    fn document(&self, session: &mut Session, response: &Response) -> Reading<Poll> {
        let version = session.versions.current();
        let document = match Document::parse(version, &response.body) {
            Ok(document) => document,
            Err(error) => return Reading::Done(Err(error.into())),
        };
        session.versions.accepted();
        session.etag = response.header("etag").map(|value| Etag { version, value: value.to_owned() });
        session.holding = match session.holding {
            Holding::Refused => Holding::Refused,
            Holding::Yes | Holding::No if is_forewarn(response) => Holding::Yes,
            Holding::Yes | Holding::No => Holding::No,
        };
        Reading::Done(Ok(Poll::Changed(document)))
    }
}

impl Call for GetDocument {
    type Output = Poll;

    fn request(&self, session: &Session) -> Request {
        let mut path = format!("{EVENTS}{}", session.versions.current());
        let etag = self.etag(session);
        let hold = self.hold_secs(session).filter(|_| etag.is_some());
        if let Some(secs) = hold {
            path.push_str(&format!("&wait={secs}"));
        }
        let timeout = session.timeout() + Duration::from_secs(hold.unwrap_or(0));
        Request { method: Method::Get, path, if_none_match: etag, timeout }
    }

    fn read(&self, session: &mut Session, response: Response) -> Reading<Poll> {
        match response.status {
            200 => self.document(session, &response),
            304 if self.etag(session).is_some() => Reading::Done(Ok(Poll::Unchanged)),
            400 if self.hold_secs(session).is_some() && self.etag(session).is_some() => {
                // Something between us and Forewarn, or another Forewarn: ask without holding.
                session.holding = Holding::Refused;
                match refusal(&response) {
                    Reading::Done(Err(error)) => Reading::Again(error),
                    other => other,
                }
            }
            _ => refusal_or_other_version(&mut session.versions, &response),
        }
    }
}

/// Approves events.
pub(crate) struct Approve {
    body: String,
}

impl Approve {
    /// As many calls as these ids need.
    pub fn all(ids: &[EventId]) -> impl Iterator<Item = Approve> + '_ {
        ids.chunks(START_REQUESTS_MAX).map(|ids| {
            let requests: Vec<_> = ids.iter().map(|id| json!({"EventId": id.as_str()})).collect();
            Approve { body: json!({"StartRequests": requests}).to_string() }
        })
    }
}

impl Call for Approve {
    type Output = ();

    fn request(&self, session: &Session) -> Request {
        Request {
            method: Method::Post { body: self.body.clone() },
            path: format!("{EVENTS}{}", session.versions.current()),
            if_none_match: None,
            timeout: session.timeout(),
        }
    }

    fn read(&self, session: &mut Session, response: Response) -> Reading<()> {
        match response.status {
            200..=299 => {
                session.versions.accepted();
                Reading::Done(Ok(()))
            }
            _ => refusal_or_other_version(&mut session.versions, &response),
        }
    }
}

/// Asks who this machine is.
pub(crate) struct GetInstance;

impl Call for GetInstance {
    type Output = Instance;

    fn request(&self, session: &Session) -> Request {
        Request {
            method: Method::Get,
            path: format!("/metadata/instance?api-version={}", session.instance_versions.current()),
            if_none_match: None,
            timeout: session.options.timeout,
        }
    }

    fn read(&self, session: &mut Session, response: Response) -> Reading<Instance> {
        match response.status {
            200 => {
                let parsed = Instance::parse(session.instance_versions.current(), &response.body);
                if parsed.is_ok() {
                    session.instance_versions.accepted();
                }
                Reading::Done(parsed.map_err(Into::into))
            }
            _ => refusal_or_other_version(&mut session.instance_versions, &response),
        }
    }
}

const EVENTS: &str = "/metadata/scheduledevents?api-version=";
