//! The contract of a replicated log: a fenced, linear list of records that several servers share.
//!
//! Writes carry the token of the leadership they belong to. A log refuses a write whose token is not the current one,
//! whichever server sends it, however late it arrives. Methods block; the caller chooses the thread.

use std::time::Duration;

use crate::record::{Entry, Nonce, Position, Record};

/// A shared log. Each server has its own value of this type.
pub trait Log: Send {
    /// Creates the region with its log at this position. Does nothing if the region exists.
    fn create(&mut self, head: &Position) -> Result<Created, LogError>;

    /// The current state and some entries from a revision, read at the same instant: at most [`READ_ENTRIES_MAX`], and no more
    /// than fit into [`READ_BYTES_MAX`].
    fn read(&mut self, from: u64) -> Result<LogPage, LogError>;

    /// Like [`Log::read`], but waits up to `wait` for an entry at `from`, or for the leadership of the last read to
    /// end.
    fn follow(&mut self, from: u64, wait: Duration) -> Result<LogPage, LogError>;

    /// Appends a record if the token is current and the head is the expected one.
    fn append(&mut self, token: Token, expected: &Position, record: &Record) -> Result<AppendResult, LogError>;

    /// Writes a heartbeat if the token is current and the last heartbeat has this version: a late heartbeat must not replace a newer one.
    fn write_heartbeat(
        &mut self,
        token: Token,
        after_version: u64,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatResult, LogError>;

    /// Takes the leadership if neither leader nor heartbeat has changed since the sighting.
    fn take_over(&mut self, seen: ObservedVersions, leader: &Leader) -> Result<TakeoverResult, LogError>;

    /// Ends a leadership, if the token is current, so that another server can take over without waiting.
    fn resign(&mut self, token: Token) -> Result<(), LogError>;

    /// Publishes the progress of a server. Not fenced: every server writes its own.
    fn report(&mut self, member: &Member) -> Result<(), LogError>;

    fn roster(&mut self) -> Result<MemberList, LogError>;

    /// Removes a server that does not come back, so that the log no longer keeps records for it.
    fn remove(&mut self, name: &str) -> Result<(), LogError>;

    /// Deletes all records up to this revision if the token is current, and frees the space of values that were overwritten before
    /// an earlier truncation. There need not be a record to delete.
    fn truncate(&mut self, token: Token, through: u64) -> Result<TruncateResult, LogError>;

    /// The health of the service behind the log, for operators.
    fn health(&mut self) -> Result<Vec<Backend>, LogError>;
}

/// Entries in one answer. A follower that was away reads hundreds of small ones at once.
pub const READ_ENTRIES_MAX: usize = 256;

/// Bytes of payloads in one answer, unless its first entry has more: an answer must fit into memory several times.
pub const READ_BYTES_MAX: usize = 8 << 20;

/// The compare value of a leadership. It restarts when the service behind the log is rebuilt; terms do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub node: String,
    /// The address at which the other servers reach it.
    pub address: String,
    /// Identifies the takeover, so that its server recognizes it when the answer was lost.
    pub nonce: Nonce,
}

/// A heartbeat of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The region's time.
    pub time_ms: i64,
    /// The last revision that the leader has applied.
    pub revision: u64,
}

/// The progress of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// The last revision that it has applied durably.
    pub applied: u64,
    /// The newest payload format that it reads.
    pub format: u32,
    /// The newest format of payload contents that the member can read; the payload format may wrap these contents. If a server
    /// of an earlier version does not report it, this is its payload format.
    pub content_format: u32,
    pub address: String,
}

/// Everything about a region but its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// None: the leader resigned, or there never was one.
    pub leader: Option<(Token, Leader)>,
    pub heartbeat: Option<Heartbeat>,
    /// Changes with every heartbeat.
    pub heartbeat_version: u64,
    /// None: the region does not exist.
    pub head: Option<Position>,
}

impl View {
    pub fn token(&self) -> Option<Token> {
        self.leader.as_ref().map(|(token, _)| *token)
    }

    pub fn sighting(&self) -> ObservedVersions {
        ObservedVersions {
            leader_version: self.token().map_or(0, |token| token.0),
            heartbeat_version: self.heartbeat_version,
        }
    }
}

/// The versions of leader and heartbeat that a server has seen; 0 for a missing leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedVersions {
    pub leader_version: u64,
    pub heartbeat_version: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    pub view: View,
    /// Consecutive. The first one is later than asked for if the log was truncated.
    pub entries: Vec<Entry>,
    /// The head was the newest one when the log was asked. Otherwise, there may be more entries.
    pub is_read: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberList {
    /// Ordered by name.
    pub members: Vec<Member>,
    /// The approximate size of the stored log.
    pub log_bytes: u64,
}

/// One process of the service behind the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub endpoint: String,
    /// Its version, or why it does not answer.
    pub status: Result<BackendStatus, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    pub version: String,
    pub bytes: u64,
    pub is_leader: bool,
    /// Alarms, such as "no space".
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    New,
    Exists(Position),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendResult {
    Done,
    /// Nothing was written: another token is current, or the head is not the expected one.
    Conflict(Box<Conflict>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub view: View,
    /// The record at the revision that the refused one would have had.
    pub rival: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatResult {
    Done {
        /// The version of the new heartbeat.
        version: u64,
        /// The head at the time of the heartbeat.
        head: Option<Position>,
    },
    /// The last heartbeat has another version: an earlier one of this leader was written although its answer was lost.
    Overtaken { version: u64 },
    /// Another token is current.
    Deposed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverResult {
    Won(Token),
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncateResult {
    Done,
    /// Another token is current.
    Deposed,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Nothing was written, and the same request may succeed later.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// Nothing was written, and repeating the request does not help.
    #[error("the log refused the request: {0}")]
    Refused(String),
    /// The request may have been carried out, or may still be.
    #[error("the log did not answer: {0}")]
    InDoubt(String),
}
