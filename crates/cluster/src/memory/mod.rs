//! A log in memory, shared by all its clones. It behaves like the log on etcd: one counter of versions, compares, and
//! writes that happen completely or not at all.

mod faulty;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::contract::{
    AppendResult, Backend, BackendStatus, Conflict, Created, Heartbeat, HeartbeatResult, Leader, Log, LogError,
    LogPage, Member, MemberList, ObservedVersions, READ_BYTES_MAX, READ_ENTRIES_MAX, TakeoverResult, Token,
    TruncateResult, View,
};
use crate::encoding::PAYLOAD_BYTES_MAX;
use crate::record::{Entry, Position, Record};

pub use faulty::{Fault, Faults, FaultyLog};

/// A handle to a log in memory.
#[derive(Clone, Default)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    /// Whether there was a leader when this handle last read.
    saw_leader: bool,
}

#[derive(Default)]
struct Shared {
    contents: Mutex<MemoryContents>,
    changed: Condvar,
}

/// The contents of a log in memory. A copy is a backup.
#[derive(Clone, Default)]
pub struct MemoryContents {
    /// Increases with every write, like the revision of etcd.
    version: u64,
    view: View,
    records: BTreeMap<u64, Record>,
    members: BTreeMap<String, Member>,
}

impl MemoryLog {
    pub fn new() -> MemoryLog {
        MemoryLog::default()
    }

    pub fn back_up(&self) -> MemoryContents {
        self.contents().clone()
    }

    /// The state without the records.
    pub fn view(&self) -> View {
        self.contents().view.clone()
    }

    /// Replaces everything, as an operator does who restores the service from a backup.
    pub fn restore(&self, backup: MemoryContents) {
        *self.contents() = backup;
        self.shared.changed.notify_all();
    }

    fn contents(&self) -> MutexGuard<'_, MemoryContents> {
        self.shared.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut MemoryContents) -> T) -> T {
        let answer = change(&mut self.contents());
        self.shared.changed.notify_all();
        answer
    }
}

impl Log for MemoryLog {
    fn create(&mut self, head: &Position) -> Result<Created, LogError> {
        Ok(self.change(|contents| match contents.view.head {
            Some(existing) => Created::Exists(existing),
            None => {
                contents.view.head = Some(*head);
                Created::New
            }
        }))
    }

    fn read(&mut self, from: u64) -> Result<LogPage, LogError> {
        let tail = self.contents().tail(from);
        self.saw_leader = tail.view.leader.is_some();
        Ok(tail)
    }

    fn follow(&mut self, from: u64, wait: Duration) -> Result<LogPage, LogError> {
        let until = Instant::now() + wait;
        let shared = self.shared.clone();
        let mut contents = shared.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = loop {
            let tail = contents.tail(from);
            let left = until.saturating_duration_since(Instant::now());
            let is_vacated = self.saw_leader && tail.view.leader.is_none();
            if !tail.entries.is_empty() || is_vacated || left.is_zero() {
                break tail;
            }
            self.saw_leader |= tail.view.leader.is_some();
            let woken = shared.changed.wait_timeout(contents, left).unwrap_or_else(PoisonError::into_inner);
            contents = woken.0;
        };
        self.saw_leader = tail.view.leader.is_some();
        Ok(tail)
    }

    fn append(&mut self, token: Token, expected: &Position, record: &Record) -> Result<AppendResult, LogError> {
        if record.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(LogError::Refused(format!("the payload has {} bytes", record.payload.len())));
        }
        Ok(self.change(|contents| contents.append(token, expected, record)))
    }

    fn write_heartbeat(
        &mut self,
        token: Token,
        after_version: u64,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatResult, LogError> {
        Ok(self.change(|contents| {
            if contents.view.token() != Some(token) {
                return HeartbeatResult::Deposed;
            }
            if contents.view.heartbeat_version != after_version {
                return HeartbeatResult::Overtaken { version: contents.view.heartbeat_version };
            }
            contents.version += 1;
            contents.view.heartbeat = Some(*heartbeat);
            contents.view.heartbeat_version = contents.version;
            HeartbeatResult::Done { version: contents.version, head: contents.view.head }
        }))
    }

    fn take_over(&mut self, seen: ObservedVersions, leader: &Leader) -> Result<TakeoverResult, LogError> {
        Ok(self.change(|contents| {
            if contents.view.sighting() != seen {
                return TakeoverResult::Lost;
            }
            contents.version += 1;
            let token = Token(contents.version);
            contents.view.leader = Some((token, leader.clone()));
            TakeoverResult::Won(token)
        }))
    }

    fn resign(&mut self, token: Token) -> Result<(), LogError> {
        self.change(|contents| {
            if contents.view.token() == Some(token) {
                contents.version += 1;
                contents.view.leader = None;
            }
        });
        Ok(())
    }

    fn report(&mut self, member: &Member) -> Result<(), LogError> {
        self.change(|contents| contents.members.insert(member.name.clone(), member.clone()));
        Ok(())
    }

    fn roster(&mut self) -> Result<MemberList, LogError> {
        let contents = self.contents();
        let log_bytes = contents.records.values().map(|record| record.payload.len() as u64).sum();
        Ok(MemberList { members: contents.members.values().cloned().collect(), log_bytes })
    }

    fn remove(&mut self, name: &str) -> Result<(), LogError> {
        self.change(|contents| contents.members.remove(name));
        Ok(())
    }

    fn truncate(&mut self, token: Token, through: u64) -> Result<TruncateResult, LogError> {
        Ok(self.change(|contents| {
            if contents.view.token() != Some(token) {
                return TruncateResult::Deposed;
            }
            contents.records = contents.records.split_off(&(through + 1));
            TruncateResult::Done
        }))
    }

    fn health(&mut self) -> Result<Vec<Backend>, LogError> {
        let bytes = self.roster()?.log_bytes;
        let status = BackendStatus { version: "memory".into(), bytes, is_leader: true, errors: Vec::new() };
        Ok(vec![Backend { endpoint: "memory".into(), status: Ok(status) }])
    }
}

impl MemoryContents {
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The records that have not been truncated.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.records.iter().map(|(revision, record)| Entry::new(*revision, record.clone()))
    }

    fn entry(&self, revision: u64) -> Option<Entry> {
        self.records.get(&revision).map(|record| Entry::new(revision, record.clone()))
    }

    fn tail(&self, from: u64) -> LogPage {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (revision, record) in self.records.range(from..).take(READ_ENTRIES_MAX) {
            bytes += record.payload.len();
            if bytes > READ_BYTES_MAX && !entries.is_empty() {
                break;
            }
            entries.push(Entry::new(*revision, record.clone()));
        }
        LogPage { view: self.view.clone(), entries, is_read: true }
    }

    fn append(&mut self, token: Token, expected: &Position, record: &Record) -> AppendResult {
        let is_current = self.view.token() == Some(token);
        let is_expected = self.view.head == Some(*expected);
        if !is_current || !is_expected {
            let rival = self.entry(expected.revision + 1);
            return AppendResult::Conflict(Box::new(Conflict { view: self.view.clone(), rival }));
        }
        let entry = Entry::new(expected.revision + 1, record.clone());
        self.version += 1;
        self.view.head = Some(entry.position());
        self.records.insert(entry.revision, entry.record);
        AppendResult::Done
    }
}
