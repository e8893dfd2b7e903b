//! The observations of a handler in one case, as plain data in chronological order.

use std::time::Duration;

use crate::marks::Mark;

/// Time since the start of the handler.
pub type Elapsed = Duration;

#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub requests: Vec<ObservedRequest>,
    pub events: Vec<ObservedEvent>,
    pub marks: Vec<(Elapsed, Mark)>,
    /// When and how the handler exited by itself.
    pub exit: Option<(Elapsed, String)>,
    /// Why the case could not be completed.
    pub error: Option<String>,
    /// End of the observation.
    pub until: Elapsed,
}

#[derive(Clone, Debug)]
pub struct ObservedRequest {
    pub at: Elapsed,
    pub what: RequestKind,
    /// None if the connection was reset.
    pub status: Option<u16>,
    /// The incarnation of the document that the response contained or confirmed.
    pub incarnation: Option<u64>,
    pub faulty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Poll,
    Approve(Vec<String>),
    /// Instance metadata and others.
    Other,
}

#[derive(Clone, Debug)]
pub struct ObservedEvent {
    pub id: String,
    pub kind: String,
    /// Whether the event affects the handler's machine.
    pub mine: bool,
    pub appeared: Elapsed,
    /// The first incarnation of the document that contains the event, as far as it is known.
    pub shown_in: Option<u64>,
    /// Whether another machine approved the event.
    pub approved_elsewhere: bool,
    pub started: Option<Elapsed>,
    pub ended: Option<Elapsed>,
    pub canceled: bool,
}

impl ObservedEvent {
    /// Whether the event could be approved before it started.
    pub fn had_notice(&self) -> bool {
        self.started.is_none_or(|started| started > self.appeared)
    }
}

impl Observation {
    pub fn polls(&self) -> impl DoubleEndedIterator<Item = &ObservedRequest> {
        self.requests.iter().filter(|request| request.what == RequestKind::Poll)
    }

    /// The first successful poll at or after a time.
    pub fn poll_after(&self, at: Elapsed) -> Option<Elapsed> {
        let good = |request: &&ObservedRequest| matches!(request.status, Some(200 | 304)) && !request.faulty;
        self.polls().filter(good).map(|request| request.at).find(|poll| *poll >= at)
    }

    /// When the handler was first sent a document that contains an event. The time of the poll alone does not decide it:
    /// under load, a poll can be answered from the document before the event, and one that was held, after it.
    pub fn seen(&self, event: &ObservedEvent) -> Option<Elapsed> {
        let good = |request: &&ObservedRequest| matches!(request.status, Some(200 | 304)) && !request.faulty;
        let shows = |request: &&ObservedRequest| {
            event.shown_in.zip(request.incarnation).is_some_and(|(first, sent)| sent >= first)
        };
        let shown = self.polls().filter(good).find(shows).map(|request| request.at);
        let approved = self.approval(&event.id);
        let seen = shown.or_else(|| self.poll_after(event.appeared));
        seen.into_iter().chain(approved).min()
    }

    /// Number of approvals that the server refused without a fault being injected.
    pub fn refused_approvals(&self) -> usize {
        let refused = |request: &&ObservedRequest| {
            matches!(request.what, RequestKind::Approve(_))
                && !request.faulty
                && request.status.is_some_and(|it| it >= 400)
        };
        self.requests.iter().filter(refused).count()
    }

    /// The status and number of polls if all were refused; None otherwise.
    pub fn all_refused(&self) -> Option<(u16, usize)> {
        let polls: Vec<&ObservedRequest> = self.polls().filter(|request| !request.faulty).collect();
        let status = polls.first()?.status.filter(|status| *status >= 400)?;
        polls.iter().all(|request| request.status == Some(status)).then_some((status, polls.len()))
    }

    /// When the handler approved an event.
    pub fn approval(&self, id: &str) -> Option<Elapsed> {
        let names = |request: &&ObservedRequest| match &request.what {
            RequestKind::Approve(ids) => ids.iter().any(|it| it.eq_ignore_ascii_case(id)),
            RequestKind::Poll | RequestKind::Other => false,
        };
        self.requests.iter().find(names).map(|request| request.at)
    }

    pub fn mark_after(&self, mark: Mark, at: Elapsed) -> Option<Elapsed> {
        self.marks.iter().find(|(when, which)| *which == mark && *when >= at).map(|(when, _)| *when)
    }
}
