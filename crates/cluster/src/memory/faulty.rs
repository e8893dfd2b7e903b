//! A log that fails on demand: requests and answers get lost, requests arrive late, and reads are out of date.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::contract::{
    AppendResult, Backend, Created, Heartbeat, HeartbeatResult, Leader, Log, LogError, LogPage, Member, MemberList,
    ObservedVersions, TakeoverResult, Token, TruncateResult,
};
use crate::record::{Position, Record};
use crate::request::{Request, Response};

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The connection is refused: certainly nothing happens.
    Refused,
    /// The request never arrives, and the caller cannot know.
    RequestLost,
    /// The request is carried out, but the caller does not learn it.
    AnswerLost,
    /// The request is carried out after this number of later calls. The caller gets no answer.
    Late(u32),
    /// A read is answered with what the previous read saw.
    Stale,
}

/// The faults of the next calls of a [`FaultyLog`], one each.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<VecDeque<Fault>>>);

impl Faults {
    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    fn next(&self) -> Fault {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }
}

/// Any log, with faults. Without faults left, it works.
pub struct FaultyLog<L> {
    inner: L,
    faults: Faults,
    late: Vec<(u32, Request)>,
    last_tail: Option<LogPage>,
}

impl<L: Log> FaultyLog<L> {
    pub fn new(inner: L, faults: Faults) -> FaultyLog<L> {
        FaultyLog { inner, faults, late: Vec::new(), last_tail: None }
    }

    fn call(&mut self, request: Request) -> Result<Response, LogError> {
        self.run_late();
        match self.faults.next() {
            Fault::None => self.forward(&request),
            Fault::Refused => Err(LogError::Unavailable("connection refused".into())),
            Fault::RequestLost => Err(LogError::InDoubt("timed out".into())),
            Fault::AnswerLost => self.forward(&request).and(Err(LogError::InDoubt("timed out".into()))),
            Fault::Late(calls) => {
                self.late.push((calls, request));
                Err(LogError::InDoubt("timed out".into()))
            }
            Fault::Stale => match (&request, &self.last_tail) {
                (Request::Follow { from, .. }, Some(tail)) => Ok(Response::LogPage(LogPage {
                    view: tail.view.clone(),
                    entries: tail.entries.iter().filter(|entry| entry.revision >= *from).cloned().collect(),
                    is_read: false,
                })),
                _ => self.forward(&request),
            },
        }
    }

    fn forward(&mut self, request: &Request) -> Result<Response, LogError> {
        let response = request.run(&mut self.inner)?;
        if let Response::LogPage(tail) = &response {
            self.last_tail = Some(tail.clone());
        }
        Ok(response)
    }

    /// Carries out late requests whose time has come. Their answers are lost.
    fn run_late(&mut self) {
        let (due, waiting) = std::mem::take(&mut self.late).into_iter().partition(|(calls, _)| *calls == 0);
        self.late = waiting;
        for (calls, _) in &mut self.late {
            *calls -= 1;
        }
        let due: Vec<(u32, Request)> = due;
        for (_, request) in due {
            let _ = request.run(&mut self.inner);
        }
    }
}

/// The answer to a request of another kind: a defect of [`Request::run`].
fn mismatch<T>(response: Response) -> Result<T, LogError> {
    Err(LogError::Refused(format!("unexpected answer {response:?}")))
}

impl<L: Log> Log for FaultyLog<L> {
    fn create(&mut self, head: &Position) -> Result<Created, LogError> {
        self.inner.create(head)
    }

    fn read(&mut self, from: u64) -> Result<LogPage, LogError> {
        self.follow(from, Duration::ZERO)
    }

    fn follow(&mut self, from: u64, wait: Duration) -> Result<LogPage, LogError> {
        match self.call(Request::Follow { from, wait })? {
            Response::LogPage(tail) => Ok(tail),
            other => mismatch(other),
        }
    }

    fn append(&mut self, token: Token, expected: &Position, record: &Record) -> Result<AppendResult, LogError> {
        match self.call(Request::Append { token, expected: *expected, record: record.clone() })? {
            Response::Appended(appended) => Ok(appended),
            other => mismatch(other),
        }
    }

    fn write_heartbeat(
        &mut self,
        token: Token,
        after_version: u64,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatResult, LogError> {
        match self.call(Request::Heartbeat { token, after_version, heartbeat: *heartbeat })? {
            Response::HeartbeatWritten(result) => Ok(result),
            other => mismatch(other),
        }
    }

    fn take_over(&mut self, seen: ObservedVersions, leader: &Leader) -> Result<TakeoverResult, LogError> {
        match self.call(Request::TakeOver { seen, leader: leader.clone() })? {
            Response::TakenOver(taken) => Ok(taken),
            other => mismatch(other),
        }
    }

    fn resign(&mut self, token: Token) -> Result<(), LogError> {
        self.call(Request::Resign { token }).map(drop)
    }

    fn report(&mut self, member: &Member) -> Result<(), LogError> {
        self.call(Request::Report { member: member.clone() }).map(drop)
    }

    fn roster(&mut self) -> Result<MemberList, LogError> {
        match self.call(Request::MemberList)? {
            Response::MemberList(roster) => Ok(roster),
            other => mismatch(other),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), LogError> {
        self.inner.remove(name)
    }

    fn truncate(&mut self, token: Token, through: u64) -> Result<TruncateResult, LogError> {
        match self.call(Request::Truncate { token, through })? {
            Response::Truncated(truncated) => Ok(truncated),
            other => mismatch(other),
        }
    }

    fn health(&mut self) -> Result<Vec<Backend>, LogError> {
        self.inner.health()
    }
}
