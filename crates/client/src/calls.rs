//! The calls of the service: fetch the document, approve events, fetch instance metadata.

use std::time::Duration;

use forewarn_wire::approval::START_REQUESTS_MAX;
use serde_json::json;

use crate::document::Document;
use crate::event::EventId;
use crate::http::{Method, Request, Response};
use crate::instance::Instance;
use crate::session::{
    Call, CallOutcome, Etag, HoldSupport, Session, classify_refusal, classify_refusal_or_version, is_forewarn,
};

/// Result of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// The document differs from the last one, or is the first.
    Changed(Document),
    /// The document is the same as last time.
    Unchanged,
}

/// Longest long poll; Forewarn's limit.
pub const HOLD_MAX: Duration = Duration::from_secs(300);

/// Fetches the document.
pub(crate) struct GetDocument {
    pub condition: Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    /// Only if the document has changed.
    IfChanged,
    /// Only if the document has changed. A service with long polling waits this long for a change.
    Hold(Duration),
}

impl GetDocument {
    fn hold_secs(&self, session: &Session) -> Option<u64> {
        match self.condition {
            Condition::Hold(time) if session.hold_support == HoldSupport::Yes => Some(time.min(HOLD_MAX).as_secs()),
            Condition::Hold(_) | Condition::Always | Condition::IfChanged => None,
        }
    }

    fn etag(&self, session: &Session) -> Option<String> {
        let version = session.versions.current();
        let etag = session.etag.as_ref().filter(|etag| etag.version == version && self.condition != Condition::Always);
        etag.map(|etag| etag.value.clone())
    }

    fn read_document(&self, session: &mut Session, response: &Response) -> CallOutcome<Poll> {
        let version = session.versions.current();
        let document = match Document::parse(version, &response.body) {
            Ok(document) => document,
            Err(error) => return CallOutcome::Done(Err(error.into())),
        };
        session.versions.accept();
        session.etag = response.header("etag").map(|value| Etag { version, value: value.to_owned() });
        session.hold_support = match session.hold_support {
            HoldSupport::Refused => HoldSupport::Refused,
            HoldSupport::Yes | HoldSupport::No if is_forewarn(response) => HoldSupport::Yes,
            HoldSupport::Yes | HoldSupport::No => HoldSupport::No,
        };
        CallOutcome::Done(Ok(Poll::Changed(document)))
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

    fn read(&self, session: &mut Session, response: Response) -> CallOutcome<Poll> {
        match response.status {
            200 => self.read_document(session, &response),
            304 if self.etag(session).is_some() => CallOutcome::Done(Ok(Poll::Unchanged)),
            400 if self.hold_secs(session).is_some() && self.etag(session).is_some() => {
                // A proxy, or another version of Forewarn, does not know `wait`: send the request without it.
                session.hold_support = HoldSupport::Refused;
                match classify_refusal(&response) {
                    CallOutcome::Done(Err(error)) => CallOutcome::RetryNow(error),
                    other => other,
                }
            }
            _ => classify_refusal_or_version(&mut session.versions, &response),
        }
    }
}

/// Approves events.
pub(crate) struct Approve {
    body: String,
}

impl Approve {
    /// Splits the approvals into requests of at most [`START_REQUESTS_MAX`] events.
    pub fn batches(ids: &[EventId]) -> impl Iterator<Item = Approve> + '_ {
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

    fn read(&self, session: &mut Session, response: Response) -> CallOutcome<()> {
        match response.status {
            200..=299 => {
                session.versions.accept();
                CallOutcome::Done(Ok(()))
            }
            _ => classify_refusal_or_version(&mut session.versions, &response),
        }
    }
}

/// Fetches instance metadata.
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

    fn read(&self, session: &mut Session, response: Response) -> CallOutcome<Instance> {
        match response.status {
            200 => {
                let parsed = Instance::parse(session.instance_versions.current(), &response.body);
                if parsed.is_ok() {
                    session.instance_versions.accept();
                }
                CallOutcome::Done(parsed.map_err(Into::into))
            }
            _ => classify_refusal_or_version(&mut session.instance_versions, &response),
        }
    }
}

const EVENTS: &str = "/metadata/scheduledevents?api-version=";
