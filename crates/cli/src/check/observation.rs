//! What was observed of a handler in one case. Plain data, in the order of time.

use std::time::Duration;

use super::marks::Mark;

/// Since the handler was started.
pub type Elapsed = Duration;

#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub requests: Vec<Request>,
    pub events: Vec<Event>,
    pub marks: Vec<(Elapsed, Mark)>,
    /// It ended by itself, and how.
    pub exit: Option<(Elapsed, String)>,
    /// The scenario could not be played to its end, and why.
    pub error: Option<String>,
    /// When nobody looked any more.
    pub until: Elapsed,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub at: Elapsed,
    pub what: RequestKind,
    /// None: the connection was reset.
    pub status: Option<u16>,
    pub faulty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Poll,
    Approve(Vec<String>),
    /// Instance metadata and the like.
    Other,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub id: String,
    pub kind: String,
    /// Whether it is about the handler's machine.
    pub mine: bool,
    pub appeared: Elapsed,
    pub started: Option<Elapsed>,
    pub ended: Option<Elapsed>,
    pub canceled: bool,
}

impl Event {
    /// Whether there was anything to approve.
    pub fn had_notice(&self) -> bool {
        self.started.is_none_or(|started| started > self.appeared)
    }
}

impl Observation {
    pub fn polls(&self) -> impl DoubleEndedIterator<Item = &Request> {
        self.requests.iter().filter(|request| request.what == RequestKind::Poll)
    }

    /// The first poll after a time that was answered properly.
    pub fn poll_after(&self, at: Elapsed) -> Option<Elapsed> {
        let good = |request: &&Request| matches!(request.status, Some(200 | 304)) && !request.faulty;
        self.polls().filter(good).map(|request| request.at).find(|poll| *poll >= at)
    }

    /// Approvals that the server did not take, though nothing was wrong with the server.
    pub fn refused_approvals(&self) -> usize {
        let refused = |request: &&Request| {
            matches!(request.what, RequestKind::Approve(_))
                && !request.faulty
                && request.status.is_some_and(|it| it >= 400)
        };
        self.requests.iter().filter(refused).count()
    }

    /// The status with which every poll was refused, and how many there were; None: not all were.
    pub fn all_refused(&self) -> Option<(u16, usize)> {
        let polls: Vec<&Request> = self.polls().filter(|request| !request.faulty).collect();
        let status = polls.first()?.status.filter(|status| *status >= 400)?;
        polls.iter().all(|request| request.status == Some(status)).then_some((status, polls.len()))
    }

    /// When the handler approved an event, if it did.
    pub fn approval(&self, id: &str) -> Option<Elapsed> {
        let names = |request: &&Request| match &request.what {
            RequestKind::Approve(ids) => ids.iter().any(|it| it.eq_ignore_ascii_case(id)),
            RequestKind::Poll | RequestKind::Other => false,
        };
        self.requests.iter().find(names).map(|request| request.at)
    }

    pub fn mark_after(&self, mark: Mark, at: Elapsed) -> Option<Elapsed> {
        self.marks.iter().find(|(when, which)| *which == mark && *when >= at).map(|(when, _)| *when)
    }
}
