//! The log on etcd 3.5.13 or later.
//!
//! ```text
//! /forewarn/REGION/leader        node, address; the version of its last change is the token
//!                 /head          position of the last record
//!                 /beat          time, revision of the last heartbeat
//!                 /log/REVISION  one record per commit
//!                 /part/REVISION/NONCE/N   parts of records over 1 MiB, written before the record
//!                 /member/NAME   progress of a server
//!                 /secret/NAME   a secret of the region, sealed
//! ```
//!
//! A commit is one transaction: compare token and head, then put head and record. Reads are linearizable. A watch wakes followers
//! up and brings them new records. The chain of records shows a gap, so a lost event costs time, not correctness.

mod client;
mod keys;
mod messages;
mod options;
mod parts;
mod txn;
mod watch;

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::contract::{
    AppendResult, Backend, BackendStatus, Conflict, Created, Heartbeat, HeartbeatResult, Leader, Log, LogError,
    LogPage, Member, MemberList, ObservedVersions, READ_BYTES_MAX, READ_ENTRIES_MAX, TakeoverResult, Token,
    TruncateResult, View,
};
use crate::encoding::{
    DecodeError, PAYLOAD_BYTES_MAX, decode_heartbeat, decode_leader, decode_member, decode_position, decode_record,
    encode_heartbeat, encode_leader, encode_member, encode_position, encode_record,
};
use crate::record::{Entry, Position, Record};
use client::{Client, Method};
use keys::Keys;
use messages::{
    CompactionRequest, CompactionResponse, KeyValue, RequestOp, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};
pub use options::{AddressError, EtcdOptions, EtcdTls, EtcdUser};
use txn::{Answer, always, delete, delete_range, get, get_range, is_value, is_version, put};
use watch::{NewRecords, Watch};

/// The age of the last read up to which a follower takes records from its watch instead of reading them. The leader's heartbeat is
/// seen with every read, and there are several reads per heartbeat.
const VIEW_AGE_MAX: Duration = Duration::from_millis(150);

/// Entries in the first read, whose size is not known. Each value has up to a megabyte, and all must fit into one answer.
const PAGE_FIRST: usize = 32;

/// A server's connection to a log on etcd. Each value has a thread of its own for the network, and its methods block, so they
/// must not be called from asynchronous code.
pub struct EtcdLog {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    connection: EtcdConnection,
}

struct EtcdConnection {
    client: Client,
    keys: Keys,
    request_timeout: Duration,
    watch: Option<Watch>,
    /// The connection that the watch uses. On another one it would be silent without anything being wrong.
    watch_generation: u64,
    /// The head at the last read, and the number of changes that the watch had noticed before it.
    last_read: Option<(u64, u64)>,
    /// The state at the last read, when it was read, and the number of other changes that the watch had noticed before it.
    last_view: Option<(View, Instant, u64)>,
    /// Entries to ask for in the next read.
    page: usize,
    /// The revision of etcd at the last truncation. The next one compacts up to here, so that slow watchers of other
    /// programs keep their history for a while.
    compact_to: Option<i64>,
}

impl EtcdLog {
    /// Prepares a connection. It is opened by the first request, so that a server starts without etcd too.
    pub fn new(options: EtcdOptions) -> std::io::Result<EtcdLog> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("forewarn-etcd")
            .enable_all()
            .build()?;
        let connection = EtcdConnection {
            keys: Keys::new(&options.region),
            request_timeout: options.request_timeout,
            client: Client::new(options),
            watch: None,
            watch_generation: 0,
            last_read: None,
            last_view: None,
            page: PAGE_FIRST,
            compact_to: None,
        };
        Ok(EtcdLog { runtime: Some(runtime), connection })
    }

    /// Stores a sealed secret of the region unless there is one of that name, and returns the stored one.
    pub fn share_secret(&mut self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        self.run(async |connection| connection.share_secret(name, sealed).await)
    }

    /// Reads a sealed secret of the region.
    pub fn read_secret(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        self.run(async |connection| connection.read_secret(name).await)
    }

    /// Replaces a sealed secret of the region if it is still the given one. Returns whether it was.
    pub fn replace_secret(&mut self, name: &str, before: &[u8], sealed: &[u8]) -> Result<bool, LogError> {
        self.run(async |connection| {
            let key = connection.keys.secret(name);
            let compare = vec![is_value(key.clone(), before)];
            let success = vec![put(key, sealed)];
            let answer = connection.txn(TxnRequest { compare, success, failure: Vec::new() }).await?;
            Ok(answer.succeeded)
        })
    }

    fn run<T>(&mut self, work: impl AsyncFnOnce(&mut EtcdConnection) -> Result<T, LogError>) -> Result<T, LogError> {
        let EtcdLog { runtime, connection } = self;
        match runtime {
            Some(runtime) => runtime.block_on(work(connection)),
            None => Err(LogError::Unavailable("the log is closed".into())),
        }
    }
}

impl Drop for EtcdLog {
    fn drop(&mut self) {
        self.connection.watch = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Log for EtcdLog {
    fn create(&mut self, head: &Position) -> Result<Created, LogError> {
        self.run(async |etcd| etcd.create(head).await)
    }

    fn read(&mut self, from: u64) -> Result<LogPage, LogError> {
        self.run(async |etcd| etcd.read(from).await)
    }

    fn follow(&mut self, from: u64, wait: Duration) -> Result<LogPage, LogError> {
        self.run(async |etcd| etcd.follow(from, wait).await)
    }

    fn append(&mut self, token: Token, expected: &Position, record: &Record) -> Result<AppendResult, LogError> {
        self.run(async |etcd| etcd.append(token, expected, record).await)
    }

    fn write_heartbeat(
        &mut self,
        token: Token,
        after_version: u64,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatResult, LogError> {
        self.run(async |etcd| {
            let keys = &etcd.keys;
            let compare = vec![is_version(keys.leader(), token.0), is_version(keys.heartbeat(), after_version)];
            let success = vec![put(keys.heartbeat(), encode_heartbeat(heartbeat)), get(keys.head())];
            let failure = vec![get(keys.leader()), get(keys.heartbeat()), get(keys.head())];
            let mut answer = etcd.txn(TxnRequest { compare, success, failure }).await?;
            if answer.succeeded {
                let version = answer.revision.unsigned_abs();
                return Ok(HeartbeatResult::Done { version, head: position_of(answer.next_key())? });
            }
            let view = view_of(&mut answer)?;
            let is_current = view.token() == Some(token);
            Ok(if is_current {
                HeartbeatResult::Overtaken { version: view.heartbeat_version }
            } else {
                HeartbeatResult::Deposed
            })
        })
    }

    fn take_over(&mut self, seen: ObservedVersions, leader: &Leader) -> Result<TakeoverResult, LogError> {
        self.run(async |etcd| {
            let compare = vec![
                is_version(etcd.keys.leader(), seen.leader_version),
                is_version(etcd.keys.heartbeat(), seen.heartbeat_version),
            ];
            let success = vec![put(etcd.keys.leader(), encode_leader(leader))];
            let answer = etcd.txn(TxnRequest { compare, success, failure: Vec::new() }).await?;
            Ok(if answer.succeeded {
                TakeoverResult::Won(Token(answer.revision.unsigned_abs()))
            } else {
                TakeoverResult::Lost
            })
        })
    }

    fn resign(&mut self, token: Token) -> Result<(), LogError> {
        self.run(async |etcd| etcd.fenced(token, vec![delete(etcd.keys.leader())]).await.map(drop))
    }

    fn report(&mut self, member: &Member) -> Result<(), LogError> {
        if member.name.is_empty() || member.name.contains('/') {
            return Err(LogError::Refused(format!("invalid server name '{}': it is part of a key", member.name)));
        }
        self.run(async |etcd| {
            let key = etcd.keys.member(&member.name);
            etcd.txn(always(vec![put(key, encode_member(member))])).await.map(drop)
        })
    }

    fn roster(&mut self) -> Result<MemberList, LogError> {
        self.run(async |etcd| {
            let status: StatusResponse = etcd.client.call(Method::Status, StatusRequest {}).await?;
            let mut answer = etcd.txn(always(vec![get_range(etcd.keys.members(), 0)])).await?;
            let member = |kv: &KeyValue| decode_member(Keys::last_part(&kv.key), &kv.value);
            let members = answer.next_range().iter().map(member).collect::<Result<_, _>>().map_err(invalid)?;
            Ok(MemberList { members, log_bytes: status.db_size_in_use.unsigned_abs() })
        })
    }

    fn remove(&mut self, name: &str) -> Result<(), LogError> {
        self.run(async |etcd| etcd.txn(always(vec![delete(etcd.keys.member(name))])).await.map(drop))
    }

    fn truncate(&mut self, token: Token, through: u64) -> Result<TruncateResult, LogError> {
        self.run(async |etcd| etcd.truncate(token, through).await)
    }

    fn health(&mut self) -> Result<Vec<Backend>, LogError> {
        self.run(async |etcd| {
            let statuses = etcd.client.statuses().await;
            Ok(statuses.into_iter().map(|(endpoint, status)| backend(endpoint, status)).collect())
        })
    }
}

impl EtcdConnection {
    async fn txn(&mut self, request: TxnRequest) -> Result<Answer, LogError> {
        let response: TxnResponse = self.client.call(Method::Txn, request).await?;
        Ok(Answer::from(response))
    }

    /// A transaction that happens only if the token is current.
    async fn fenced(&mut self, token: Token, success: Vec<RequestOp>) -> Result<Answer, LogError> {
        let compare = vec![is_version(self.keys.leader(), token.0)];
        self.txn(TxnRequest { compare, success, failure: Vec::new() }).await
    }

    async fn create(&mut self, head: &Position) -> Result<Created, LogError> {
        let compare = vec![is_version(self.keys.head(), 0)];
        let success = vec![put(self.keys.head(), encode_position(head))];
        let mut answer = self.txn(TxnRequest { compare, success, failure: vec![get(self.keys.head())] }).await?;
        if answer.succeeded {
            return Ok(Created::New);
        }
        let existing = position_of(answer.next_key())?;
        existing.map(Created::Exists).ok_or_else(|| LogError::Unavailable("the region was deleted meanwhile".into()))
    }

    async fn share_secret(&mut self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        let key = self.keys.secret(name);
        let compare = vec![is_version(key.clone(), 0)];
        let success = vec![put(key.clone(), sealed)];
        let mut answer = self.txn(TxnRequest { compare, success, failure: vec![get(key)] }).await?;
        if answer.succeeded {
            return Ok(sealed.to_vec());
        }
        let existing = answer.next_key().map(|found| found.value);
        existing.ok_or_else(|| LogError::Unavailable("the secret was deleted meanwhile".into()))
    }

    async fn read_secret(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let mut answer = self.txn(always(vec![get(self.keys.secret(name))])).await?;
        Ok(answer.next_key().map(|found| found.value))
    }

    async fn read(&mut self, from: u64) -> Result<LogPage, LogError> {
        let (changes, begun) = (self.watch.as_ref().map_or(0, Watch::changes), Instant::now());
        let other_changes = self.watch.as_ref().map_or(0, Watch::other_changes);
        let keys = &self.keys;
        let reads = vec![
            get(keys.leader()),
            get(keys.heartbeat()),
            get(keys.head()),
            get_range(keys.log_from(from), self.page),
        ];
        let answer = self.txn(always(reads)).await;
        let mut answer = answer.map_err(|error| {
            // The answer may have been too large, or too slow for its size.
            self.page = (self.page / 2).max(1);
            match error {
                // A read is never in doubt.
                LogError::InDoubt(why) | LogError::Unavailable(why) => LogError::Unavailable(why),
                LogError::Refused(why) => LogError::Refused(why),
            }
        })?;
        let view = view_of(&mut answer)?;
        let (records, revision) = (answer.next_range(), answer.revision);
        let mut entries: Vec<Entry> = Vec::with_capacity(records.len());
        let mut bytes = 0;
        for record in records {
            let entry = self.entry_of(record, revision).await?;
            bytes += entry.record.payload.len();
            if bytes > READ_BYTES_MAX && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        self.page = choose_page(self.page, entries.len(), bytes);
        self.last_view = Some((view.clone(), begun, other_changes));
        self.last_read = view.head.map(|head| (head.revision, changes));
        Ok(LogPage { view, entries, is_read: true })
    }

    /// The watch makes it possible to wait without reading: nothing has changed while it is silent.
    async fn follow(&mut self, from: u64, wait: Duration) -> Result<LogPage, LogError> {
        if wait.is_zero() {
            return self.read(from).await;
        }
        // A new watch forgets the last read.
        let saw_leader = self.last_view.as_ref().is_some_and(|(view, ..)| view.leader.is_some());
        self.ensure_watch().await?;
        if let Some(tail) = self.take_new_records(from) {
            return Ok(tail);
        }
        let changes = self.watch.as_ref().map_or(0, Watch::changes);
        if self.last_read.is_none_or(|(head, seen)| head >= from || seen != changes) {
            let tail = self.read(from).await?;
            if !tail.entries.is_empty() || saw_leader && tail.view.leader.is_none() {
                return Ok(tail);
            }
        }
        let seen = self.last_read.map_or(changes, |(_, seen)| seen);
        match &mut self.watch {
            Some(watch) => watch.wait(seen, wait).await,
            None => tokio::time::sleep(wait).await,
        }
        match self.take_new_records(from) {
            Some(tail) => Ok(tail),
            None => self.read(from).await,
        }
    }

    /// The records that the watch has received, with the leader and the heartbeat of the last read. None if that read was too long ago,
    /// the leader has changed, or a record has parts.
    fn take_new_records(&mut self, from: u64) -> Option<LogPage> {
        let (view, read_at, other_changes) = self.last_view.as_ref()?;
        if read_at.elapsed() >= VIEW_AGE_MAX {
            return None;
        }
        let NewRecords { records, newest, changes } = self.watch.as_ref()?.take_records(from, *other_changes)?;
        let entries: Vec<Entry> = (from..)
            .zip(&records)
            .map(|(revision, kv)| Some(Entry::new(revision, decode_record(&kv.value).ok()?)))
            .collect::<Option<_>>()?;
        let head = entries.last().map(Entry::position);
        self.last_read = Some((newest, changes));
        Some(LogPage { view: View { head, ..view.clone() }, entries, is_read: false })
    }

    /// Without a watch, following still works, at the pace of the waits.
    async fn ensure_watch(&mut self) -> Result<(), LogError> {
        let connection = self.client.connect().await?;
        let is_current = self.watch_generation == self.client.generation();
        if !is_current || !self.watch.as_ref().is_some_and(Watch::is_running) {
            self.last_read = None;
            self.watch_generation = self.client.generation();
            self.last_view = None;
            self.watch = Watch::start(&connection, &self.keys, self.request_timeout).await;
        }
        Ok(())
    }

    async fn append(&mut self, token: Token, expected: &Position, record: &Record) -> Result<AppendResult, LogError> {
        if record.payload.len() > PAYLOAD_BYTES_MAX {
            let length = record.payload.len();
            return Err(LogError::Refused(format!("a payload of {length} bytes is over {PAYLOAD_BYTES_MAX}")));
        }
        // A leader knows its own records.
        self.watch = None;
        let revision = expected.revision + 1;
        let value = self.store_parts(token, revision, record.nonce, encode_record(record)).await?;
        let keys = &self.keys;
        let head = record.position_at(revision);
        let compare = vec![is_version(keys.leader(), token.0), is_value(keys.head(), encode_position(expected))];
        let success = vec![put(keys.head(), encode_position(&head)), put(keys.log(revision), value)];
        let failure = vec![get(keys.leader()), get(keys.heartbeat()), get(keys.head()), get(keys.log(revision))];
        let mut answer = self.txn(TxnRequest { compare, success, failure }).await?;
        if answer.succeeded {
            return Ok(AppendResult::Done);
        }
        let view = view_of(&mut answer)?;
        let rival = match answer.next_key() {
            Some(record) => Some(self.entry_of(record, answer.revision).await?),
            None => None,
        };
        Ok(AppendResult::Conflict(Box::new(Conflict { view, rival })))
    }

    async fn truncate(&mut self, token: Token, through: u64) -> Result<TruncateResult, LogError> {
        let deletions =
            vec![delete_range(self.keys.log_before(through + 1)), delete_range(self.keys.parts_before(through + 1))];
        let answer = self.fenced(token, deletions).await?;
        if !answer.succeeded {
            return Ok(TruncateResult::Deposed);
        }
        if let Some(revision) = self.compact_to.replace(answer.revision) {
            // Another program may have compacted further: then there is nothing to do.
            let compacted: Result<CompactionResponse, LogError> =
                self.client.call(Method::Compact, CompactionRequest { revision }).await;
            if let Err(error) = compacted {
                tracing::debug!(%error, revision, "cannot compact etcd");
            }
        }
        Ok(TruncateResult::Done)
    }
}

/// The entries to ask for after an answer with this many entries and bytes: as many of this size as fit into one answer. Larger
/// ones may follow, so the number grows slowly.
fn choose_page(page: usize, entries: usize, bytes: usize) -> usize {
    if entries == 0 {
        return PAGE_FIRST;
    }
    let fitting = (READ_BYTES_MAX * entries).checked_div(bytes).unwrap_or(READ_ENTRIES_MAX);
    fitting.clamp(1, (2 * page).min(READ_ENTRIES_MAX))
}

/// Leader, heartbeat and head, in this order.
fn view_of(answer: &mut Answer) -> Result<View, LogError> {
    let leader = answer.next_key().map(|kv| {
        let token = Token(kv.mod_revision.unsigned_abs());
        decode_leader(&kv.value).map(|leader| (token, leader))
    });
    let leader = leader.transpose().map_err(invalid)?;
    let heartbeat = answer.next_key();
    let heartbeat_version = heartbeat.as_ref().map_or(0, |kv| kv.mod_revision.unsigned_abs());
    let heartbeat = heartbeat.map(|kv| decode_heartbeat(&kv.value)).transpose().map_err(invalid)?;
    Ok(View { leader, heartbeat, heartbeat_version, head: position_of(answer.next_key())? })
}

fn position_of(kv: Option<KeyValue>) -> Result<Option<Position>, LogError> {
    kv.map(|kv| decode_position(&kv.value)).transpose().map_err(invalid)
}

fn invalid(error: DecodeError) -> LogError {
    LogError::Refused(error.to_string())
}

fn backend(endpoint: String, status: Result<StatusResponse, LogError>) -> Backend {
    let status = status.map_err(|error| error.to_string()).map(|status| BackendStatus {
        is_leader: status.header.is_some_and(|header| header.member_id == status.leader),
        version: status.version,
        bytes: status.db_size_in_use.unsigned_abs(),
        errors: status.errors,
    });
    Backend { endpoint, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_records_are_small_and_shrink_at_once() {
        assert_eq!(choose_page(32, 32, 32 * 2000), 64);
        assert_eq!(choose_page(64, 2, 0), 128);
        assert_eq!(choose_page(256, 0, 0), PAGE_FIRST);
        assert_eq!(choose_page(256, 256, 256 * 2000), READ_ENTRIES_MAX);
        assert_eq!(choose_page(256, 8, READ_BYTES_MAX), 8);
        assert_eq!(choose_page(8, 1, 8 * READ_BYTES_MAX), 1);
    }
}
