//! Calls of a [`Log`] as values, so that the state machine can ask for them, and simulations can delay or lose them.

use std::time::Duration;

use crate::contract::{
    AppendResult, Heartbeat, HeartbeatResult, Leader, Log, LogError, LogPage, Member, MemberList, ObservedVersions,
    TakeoverResult, Token, TruncateResult,
};
use crate::record::{Position, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Follow { from: u64, wait: Duration },
    Append { token: Token, expected: Position, record: Record },
    Heartbeat { token: Token, after_version: u64, heartbeat: Heartbeat },
    TakeOver { seen: ObservedVersions, leader: Leader },
    Resign { token: Token },
    Report { member: Member },
    MemberList,
    Truncate { token: Token, through: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    LogPage(LogPage),
    Appended(AppendResult),
    HeartbeatWritten(HeartbeatResult),
    TakenOver(TakeoverResult),
    Resigned,
    Reported { applied: u64 },
    MemberList(MemberList),
    Truncated(TruncateResult),
}

impl Request {
    pub fn run(&self, log: &mut dyn Log) -> Result<Response, LogError> {
        match self {
            Request::Follow { from, wait } => log.follow(*from, *wait).map(Response::LogPage),
            Request::Append { token, expected, record } => log.append(*token, expected, record).map(Response::Appended),
            Request::Heartbeat { token, after_version, heartbeat } => {
                log.write_heartbeat(*token, *after_version, heartbeat).map(Response::HeartbeatWritten)
            }
            Request::TakeOver { seen, leader } => log.take_over(*seen, leader).map(Response::TakenOver),
            Request::Resign { token } => log.resign(*token).map(|()| Response::Resigned),
            Request::Report { member } => log.report(member).map(|()| Response::Reported { applied: member.applied }),
            Request::MemberList => log.roster().map(Response::MemberList),
            Request::Truncate { token, through } => log.truncate(*token, *through).map(Response::Truncated),
        }
    }

    /// Whether this reports the progress of the local copy, which lets the log delete what the copy has.
    pub fn reports_progress(&self) -> bool {
        matches!(self, Request::Report { .. })
    }

    /// The same request, with no more progress than what is durable: everything up to this revision.
    #[must_use]
    pub fn limited_to(self, durable: u64) -> Request {
        match self {
            Request::Report { member } => {
                Request::Report { member: Member { applied: member.applied.min(durable), ..member } }
            }
            other => other,
        }
    }

    /// Whether the request only reads. Its answer can be out of date, but never in doubt.
    pub fn is_read(&self) -> bool {
        match self {
            Request::Follow { .. } | Request::MemberList => true,
            Request::Append { .. }
            | Request::Heartbeat { .. }
            | Request::TakeOver { .. }
            | Request::Resign { .. }
            | Request::Report { .. }
            | Request::Truncate { .. } => false,
        }
    }
}
