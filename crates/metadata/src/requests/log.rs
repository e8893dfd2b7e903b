//! The last requests of each machine, to show what its handler did.
//!
//! A log is created at a machine's first request. There is a fixed number of slots for logs; a machine keeps its slot while it
//! sends requests. A poll of the document, which is nearly every request, takes 24 bytes and no allocation; everything else
//! about a request is a `RequestDetails`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forewarn_core::{EventId, MachineId, Timestamp};
use forewarn_wire::version::Version;

use super::RequestEntry;
use super::summary::{PollCounter, PollSummary};
use crate::faults::{AppliedFault, Method};

/// Requests kept per machine: about a minute of a handler that polls each second.
pub const REQUESTS_KEPT_MAX: usize = 64;

/// Machines whose requests are kept. Polls alone take 25 MB then; machines that all use long paths and many approvals, 300 MB.
pub const LOGS_MAX: usize = 1 << 14;

/// A machine that sent no request for this long gives up its slot.
pub const SILENT_AFTER: Duration = Duration::from_secs(600);

/// Characters kept of a path, version or method that a machine chose.
pub const TEXT_CHARS_MAX: usize = 64;

/// Event IDs kept of one approval.
pub const APPROVED_KEPT_MAX: usize = 8;

/// Slots that are allocated together, when the first of them is needed.
const CHUNK: usize = 1 << 8;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSeen {
    /// Counts up from 1 for each machine.
    pub number: u64,
    /// When it arrived, on the program's clock.
    pub at: Timestamp,
    pub method: String,
    /// Without `/vm/…` in front.
    pub path: String,
    pub version: Option<String>,
    /// None: there was no response, because a fault reset the connection or the machine did not wait.
    pub status: Option<u16>,
    /// The incarnation of the document that the response contained or confirmed.
    pub incarnation: Option<u32>,
    /// The approved events; at most [`APPROVED_KEPT_MAX`] of them.
    pub approved: Vec<EventId>,
    /// The faults that the request met.
    pub faults: Vec<AppliedFault>,
}

/// The recent requests of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLog {
    /// Oldest first.
    pub requests: Vec<RequestSeen>,
    pub summary: PollSummary,
}

/// Everything about a request but its time, method, version and status.
#[derive(Debug, Default)]
pub struct RequestDetails {
    /// The machine was off, so that the request came from elsewhere.
    pub is_off: bool,
    pub method: Option<Box<str>>,
    /// None: the document of events.
    pub path: Option<Box<str>>,
    pub version: Option<Box<str>>,
    pub approved: Box<[EventId]>,
    pub faults: Box<[AppliedFault]>,
}

pub struct Logs {
    chunks: Vec<OnceLock<Box<[LogSlot]>>>,
}

/// Starts a cache line.
#[derive(Default)]
#[repr(align(64))]
struct LogSlot(Mutex<Log>);

/// The order matters: the first cache line tells whose slot it is and whether another machine can take it, and with many
/// machines nearly every poll needs no more.
#[derive(Default)]
#[repr(C)]
struct Log {
    machine: u64,
    newest: Option<Timestamp>,
    numbered: u64,
    entries: VecDeque<Entry>,
    polls: PollCounter,
}

struct Entry {
    at: Timestamp,
    extra: Option<Box<RequestDetails>>,
    /// 0: none.
    status: u16,
    /// 0: none.
    incarnation: u32,
    method: Method,
    version: Option<Version>,
}

impl Logs {
    pub fn new() -> Logs {
        Logs { chunks: (0..LOGS_MAX / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    pub fn write(&self, entry: RequestEntry, status: Option<u16>) {
        let mut log = self.slot(entry.machine);
        if log.machine != entry.machine.0 && !log.try_assign(entry.machine, entry.at) {
            return;
        }
        if entry.is_poll() {
            log.polls.count(entry.at);
        }
        if status == Some(200) && entry.extra.as_ref().is_some_and(|extra| !extra.approved.is_empty() && !extra.is_off)
        {
            log.polls.record_approval(entry.at);
        }
        if log.entries.len() == REQUESTS_KEPT_MAX {
            log.entries.pop_front();
        }
        log.numbered += 1;
        log.newest = Some(entry.at);
        let RequestEntry { at, method, version, incarnation, extra, .. } = entry;
        let incarnation = incarnation.unwrap_or(0);
        log.entries.push_back(Entry { at, extra, status: status.unwrap_or(0), incarnation, method, version });
    }

    /// A machine that has no log yet gets one when its request is answered.
    pub fn record_hold(&self, machine: MachineId, until: Timestamp) {
        let mut log = self.slot(machine);
        if log.machine == machine.0 {
            log.polls.record_hold(until);
        }
    }

    /// The requests after the one with this number.
    pub fn read(&self, machine: MachineId, after: u64) -> RequestLog {
        let log = self.slot(machine);
        if log.machine != machine.0 {
            return RequestLog::default();
        }
        let first = log.numbered + 1 - log.entries.len() as u64;
        let numbered = (first..).zip(&log.entries);
        let polls: Vec<Timestamp> = log.entries.iter().filter(|entry| entry.is_poll()).map(|entry| entry.at).collect();
        RequestLog {
            requests: numbered
                .filter(|(number, _)| *number > after)
                .map(|(number, entry)| entry.describe(number))
                .collect(),
            summary: log.polls.summarize(&polls),
        }
    }

    fn slot(&self, machine: MachineId) -> MutexGuard<'_, Log> {
        let index = machine.0 as usize % LOGS_MAX;
        let chunk = self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| LogSlot::default()).collect());
        chunk[index % CHUNK].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Assigns the slot to a machine if it is free, and tells whether it was.
    fn try_assign(&mut self, machine: MachineId, now: Timestamp) -> bool {
        let is_free = self.newest.is_none_or(|newest| now.since(newest) > SILENT_AFTER);
        if is_free {
            *self = Log { machine: machine.0, ..Log::default() };
        }
        is_free
    }
}

impl Entry {
    fn is_poll(&self) -> bool {
        is_poll(self.method, self.extra.as_deref())
    }

    fn describe(&self, number: u64) -> RequestSeen {
        let nothing = RequestDetails::default();
        let extra = self.extra.as_deref().unwrap_or(&nothing);
        let version = extra.version.as_deref().or(self.version.map(Version::as_str));
        RequestSeen {
            number,
            at: self.at,
            method: extra.method.as_deref().unwrap_or(self.method.as_str()).to_owned(),
            path: extra.path.as_deref().unwrap_or("/metadata/scheduledevents").to_owned(),
            version: version.map(str::to_owned),
            status: Some(self.status).filter(|status| *status != 0),
            incarnation: Some(self.incarnation).filter(|incarnation| *incarnation != 0),
            approved: extra.approved.to_vec(),
            faults: extra.faults.to_vec(),
        }
    }
}

/// A GET of the document of events by a handler on the machine.
pub(super) fn is_poll(method: Method, extra: Option<&RequestDetails>) -> bool {
    let is_of_handler = |extra: &RequestDetails| extra.path.is_none() && extra.method.is_none() && !extra.is_off;
    matches!(method, Method::Get) && extra.is_none_or(is_of_handler)
}

/// A text that a machine chose, shortened to what is kept of it.
pub fn shorten(text: &str) -> Box<str> {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(machine: u64, secs: i64) -> RequestEntry {
        RequestEntry::new(MachineId(machine), Timestamp::from_secs(secs), Method::Get)
    }

    #[test]
    fn the_newest_requests_are_kept_and_numbered() {
        let logs = Logs::new();
        assert_eq!(logs.read(MachineId(7), 0), RequestLog::default());
        for secs in 1..=REQUESTS_KEPT_MAX as i64 + 6 {
            logs.write(poll(7, secs), Some(200));
        }
        let log = logs.read(MachineId(7), 0);
        assert_eq!(log.requests.len(), REQUESTS_KEPT_MAX);
        assert_eq!((log.requests[0].number, log.requests[0].at), (7, Timestamp::from_secs(7)));
        assert_eq!(log.summary.first_poll, Some(Timestamp::from_secs(1)), "also when the request itself is not kept");
        assert_eq!(log.summary.polls, REQUESTS_KEPT_MAX as u64 + 6);
        let newest: Vec<u64> = logs.read(MachineId(7), 68).requests.iter().map(|request| request.number).collect();
        assert_eq!(newest, [69, 70]);
    }

    #[test]
    fn a_slot_belongs_to_its_machine_until_the_machine_is_silent() {
        let logs = Logs::new();
        let other = 7 + LOGS_MAX as u64;
        logs.write(poll(7, 100), Some(200));
        logs.write(poll(other, 101), Some(200));
        assert_eq!((logs.read(MachineId(7), 0).requests.len(), logs.read(MachineId(other), 0).requests.len()), (1, 0));
        logs.write(poll(other, 101 + SILENT_AFTER.as_secs() as i64), Some(200));
        assert_eq!((logs.read(MachineId(7), 0).requests.len(), logs.read(MachineId(other), 0).requests.len()), (0, 1));
    }

    #[test]
    fn a_hold_lasts_until_the_end_of_the_longest_held_request() {
        let logs = Logs::new();
        let at = Timestamp::from_secs;
        logs.record_hold(MachineId(7), at(50));
        assert_eq!(logs.read(MachineId(7), 0).summary.held_until, None, "it has no log yet");
        logs.write(poll(7, 1), Some(200));
        logs.record_hold(MachineId(7), at(60));
        logs.record_hold(MachineId(7), at(20));
        logs.record_hold(MachineId(7 + LOGS_MAX as u64), at(90));
        assert_eq!(logs.read(MachineId(7), 0).summary.held_until, Some(at(60)));
    }

    #[test]
    fn only_gets_of_the_document_are_polls() {
        let logs = Logs::new();
        let elsewhere = RequestDetails { path: Some("/metadata/instance".into()), ..RequestDetails::default() };
        logs.write(RequestEntry { extra: Some(Box::new(elsewhere)), ..poll(7, 1) }, Some(200));
        logs.write(RequestEntry { method: Method::Post, ..poll(7, 2) }, Some(200));
        logs.write(poll(7, 3), None);
        let log = logs.read(MachineId(7), 0);
        let told: Vec<_> = log.requests.iter().map(|seen| (seen.method.as_str(), seen.path.as_str())).collect();
        assert_eq!(
            told,
            [
                ("GET", "/metadata/instance"),
                ("POST", "/metadata/scheduledevents"),
                ("GET", "/metadata/scheduledevents")
            ]
        );
        assert_eq!((log.summary.polls, log.summary.first_poll), (1, Some(Timestamp::from_secs(3))));
        assert_eq!(log.requests[2].status, None);
    }

    #[test]
    fn an_entry_without_extras_stays_small() {
        assert!(size_of::<Entry>() <= 24);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(&*shorten("/metadata"), "/metadata");
        assert_eq!(shorten(&"ü".repeat(100)).chars().count(), TEXT_CHARS_MAX + 1);
    }
}
