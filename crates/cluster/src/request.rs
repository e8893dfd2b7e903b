//! Calls of a [`Log`] as values, so that the state machine can ask for them, and simulations can delay or lose them.

use std::time::Duration;

use crate::contract::{
    AppendResult, Beat, BeatResult, Leader, Log, LogError, LogPage, Member, MemberList, ObservedVersions,
    TakeoverResult, Token, TruncateResult,
};
use crate::record::{Position, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Follow { from: u64, wait: Duration },
    Append { token: Token, expected: Position, record: Record },
    Beat { token: Token, after_version: u64, beat: Beat },
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
    Beaten(BeatResult),
    TakenOver(TakeoverResult),
    Resigned,
    Reported,
    MemberList(MemberList),
    Truncated(TruncateResult),
}

impl Request {
    pub fn run(&self, log: &mut dyn Log) -> Result<Response, LogError> {
        match self {
            Request::Follow { from, wait } => log.follow(*from, *wait).map(Response::LogPage),
            Request::Append { token, expected, record } => log.append(*token, expected, record).map(Response::Appended),
            Request::Beat { token, after_version, beat } => {
                log.beat(*token, *after_version, beat).map(Response::Beaten)
            }
            Request::TakeOver { seen, leader } => log.take_over(*seen, leader).map(Response::TakenOver),
            Request::Resign { token } => log.resign(*token).map(|()| Response::Resigned),
            Request::Report { member } => log.report(member).map(|()| Response::Reported),
            Request::MemberList => log.roster().map(Response::MemberList),
            Request::Truncate { token, through } => log.truncate(*token, *through).map(Response::Truncated),
        }
    }

    /// Whether the request only reads. Its answer can be out of date, but never in doubt.
    pub fn is_read(&self) -> bool {
        match self {
            Request::Follow { .. } | Request::MemberList => true,
            Request::Append { .. }
            | Request::Beat { .. }
            | Request::TakeOver { .. }
            | Request::Resign { .. }
            | Request::Report { .. }
            | Request::Truncate { .. } => false,
        }
    }
}
