//! The contract between the server and a store.
//!
//! A store keeps the entities of one region and the history of their changes. A single writer commits batches,
//! each of them atomically; any thread may read the history and the attachments.

use std::sync::Arc;

use forewarn_core::{Entity, EventId, Fact, MachineId, OperationId, Timestamp, Write};

use crate::attachment::{Attachment, Owner};
use crate::error::{CommitError, StoreError};
use crate::kind::HistoryKind;

/// The writing side of a store. Methods block; the caller chooses the thread.
pub trait Store: Send {
    /// Reads all entities.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Stores the batch durably and increments the revision to `expected_revision + 1`, or does nothing. Fails
    /// if the stored revision is not the expected one.
    fn commit(&mut self, expected_revision: u64, batch: &Batch) -> Result<u64, CommitError>;

    /// Deletes up to `limit` history rows that are older than `before`. Returns the number of deleted rows.
    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;

    /// The kind of clock that the stored times come from. None: not set yet.
    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError>;

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError>;

    /// The stamp of the latest commit that had one.
    fn clock_stamp(&mut self) -> Result<Option<ClockStamp>, StoreError>;

    /// Fills an empty store, atomically: an error in `history` leaves the store empty. Fails if the store is
    /// not empty.
    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError>;

    fn reader(&self) -> Arc<dyn Reader>;
}

/// The reading side of a store, usable from any thread next to the writer.
pub trait Reader: Send + Sync {
    /// Up to [`HISTORY_PAGE_MAX`] matching rows, newest last.
    fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryRow>, StoreError>;

    /// The same from memory, without blocking. None: the store must be read.
    fn recent_history(&self, _query: &HistoryQuery) -> Option<Vec<HistoryRow>> {
        None
    }

    fn attachment(&self, owner: Owner, name: &str) -> Result<Option<String>, StoreError>;

    /// Attachments of an owner whose names start with `prefix` and sort after `after`, ordered by name. At most
    /// [`ATTACHMENTS_PAGE_MAX`].
    fn attachments(
        &self,
        owner: Owner,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError>;

    /// Attachments of all owners after the given one, in a fixed order. At most [`ATTACHMENTS_PAGE_MAX`].
    fn all_attachments(&self, after: Option<(Owner, &str)>) -> Result<Vec<Attachment>, StoreError>;
}

/// Maximum number of history rows in one result.
pub const HISTORY_PAGE_MAX: u32 = 1000;

#[derive(Debug)]
pub struct Loaded {
    pub revision: u64,
    /// Ordered by key. Scopes have no live events; `Region::load` restores them.
    pub entities: Vec<Entity>,
}

/// The initial contents of a restored store.
#[derive(Debug)]
pub struct Contents {
    pub revision: u64,
    pub clock: Option<ClockKind>,
    pub entities: Vec<Entity>,
    pub attachments: Vec<Attachment>,
}

/// History rows, ordered by number.
pub type HistoryRows<'a> = dyn Iterator<Item = Result<HistoryRow, StoreError>> + 'a;

/// The kind of clock that a store's times come from. It never changes, because times of one kind are
/// meaningless to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    Real,
    Manual,
}

impl ClockKind {
    /// The word used in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ClockKind::Real => "real",
            ClockKind::Manual => "manual",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<ClockKind, StoreError> {
        match word {
            "real" => Ok(ClockKind::Real),
            "manual" => Ok(ClockKind::Manual),
            _ => Err(StoreError::Message(format!(
                "the clock has the unknown kind '{word}', but this program only supports 'real' and 'manual'. \
                 Use the version of Forewarn that wrote it."
            ))),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub writes: Vec<Write>,
    pub facts: Vec<Fact>,
    pub audit: Vec<Audit>,
    /// Applied after `writes`, in order. Deleting an entity also deletes its attachments.
    pub attachments: Vec<Attachment>,
    /// The clocks at the time of the commit. None: unchanged, or the clock is manual.
    pub stamp: Option<ClockStamp>,
}

/// The readings of the clocks at a commit. After a restart in the same boot, time continues by the boot-time clock,
/// whatever happened to the wall clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStamp {
    /// Identifies the boot of the operating system.
    pub boot_id: String,
    /// The boot-time clock, in milliseconds.
    pub boot_ms: i64,
    pub time: Timestamp,
}

impl ClockStamp {
    /// The text that the store writes.
    pub(crate) fn to_text(&self) -> String {
        format!("{} {} {}", self.boot_id, self.boot_ms, self.time.0)
    }

    /// Reads a stamp as the store writes it. None: the text is not a stamp.
    pub(crate) fn parse(text: &str) -> Option<ClockStamp> {
        let mut words = text.split(' ');
        let boot_id = words.next()?.to_owned();
        let (boot_ms, time) = (words.next()?.parse().ok()?, Timestamp(words.next()?.parse().ok()?));
        Some(ClockStamp { boot_id, boot_ms, time })
    }
}

/// An accepted management action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub at: Timestamp,
    pub actor: String,
    /// `restart`, `delete`, `machine.register`…
    pub action: String,
    /// The target's name, as a user would write it.
    pub target: String,
    /// The machines that the action was for, so that machines with the same name keep separate histories.
    pub machines: Vec<MachineId>,
    /// Additional details, as a JSON object.
    pub detail: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Only rows with a higher number.
    pub after: Option<u64>,
    /// Only rows with a lower number.
    pub before: Option<u64>,
    pub event: Option<EventId>,
    /// Only rows of this operation, including rows of events that it joined.
    pub operation: Option<OperationId>,
    /// Only rows that concern a machine with this name, case-insensitive. Includes audit rows whose target it
    /// is.
    pub machine: Option<String>,
    /// With `machine`: only rows of the machine with this ID. Rows without IDs, such as those of older versions, are
    /// matched by name.
    pub machine_id: Option<MachineId>,
    /// Only rows with this target, case-insensitive.
    pub target: Option<String>,
    /// Only rows whose actor contains this text, case-insensitive. No index finds them: limit the range of numbers or times.
    pub actor: Option<String>,
    /// Only ends of operations whose ticket or description has all words of this text, case-insensitive.
    pub ticket: Option<String>,
    /// Only rows of these scopes; None stands for rows without a scope. Empty: all.
    pub scopes: Vec<Option<u64>>,
    /// Only rows of these kinds. Empty: all.
    pub kinds: Vec<HistoryKind>,
    /// Only rows at or after this time.
    pub since: Option<Timestamp>,
    /// Only rows before this time.
    pub until: Option<Timestamp>,
    /// If there are more rows than fit, return the newest instead of the oldest.
    pub newest: bool,
    pub limit: Option<u32>,
}

impl HistoryQuery {
    pub(crate) fn page_size(&self) -> usize {
        self.limit.unwrap_or(HISTORY_PAGE_MAX).min(HISTORY_PAGE_MAX) as usize
    }
}

/// A row of the history. It contains words instead of types, because it outlives the program that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Increases, and is never reused.
    pub number: u64,
    /// Never earlier than the previous row's, because the clock does not go back.
    pub at: Timestamp,
    /// `appeared`, `approved`, `started`, `ended`, `operation-ended`, `machine-added`,
    /// `machine-removed`, `scope-on`, `scope-off`, `rollout`, `host`, `audit`.
    pub kind: String,
    pub event: Option<EventId>,
    pub operation: Option<OperationId>,
    /// Other operations that joined the event.
    pub joined: Vec<OperationId>,
    pub scope: Option<u64>,
    /// Names of the affected machines.
    pub machines: Vec<String>,
    /// IDs of the affected machines. Empty in rows before format 4.
    pub machine_ids: Vec<MachineId>,
    /// The actor, if there is one: `guest:NAME`, `management:NAME` or `policy`; for `audit` rows as given.
    pub actor: Option<String>,
    /// For `audit` rows, the target's name as a user would write it; for `host` rows, the host; for `rollout` rows, the
    /// rollout's ID.
    pub target: Option<String>,
    /// The outcome of `ended` and `operation-ended`, the event type of `appeared`, the action of `audit`, the new state
    /// of a `host`, the change of a `rollout`.
    pub outcome: Option<String>,
    /// Additional details, as a JSON object.
    pub detail: String,
}
