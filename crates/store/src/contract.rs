//! What the server asks of a store, whichever it is.
//!
//! A store keeps the entities of one region, and the history of what happened to it. All writes come
//! from one writer, as batches that are all or nothing; reads of history come from anywhere.

use std::sync::Arc;

use forewarn_core::{Entity, EventId, Fact, OperationId, Timestamp, Write};

use crate::attachment::{Attachment, Owner};
use crate::error::{CommitError, StoreError};

/// The writer's side. Blocking: the caller decides on which thread.
pub trait Store: Send {
    /// Everything that is stored.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Stores the batch and makes `expected_revision + 1` of the revision, durably, or does nothing.
    /// Only if the stored revision is the expected one.
    fn commit(&mut self, expected_revision: u64, batch: &Batch) -> Result<u64, CommitError>;

    /// Removes history that is older than `before`; not more than `limit` rows at a time. Returns how many went.
    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;

    /// The kind of clock that the stored times are of; None: nobody has said yet.
    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError>;

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError>;

    /// Fills an empty store, all or nothing: an error in `history` leaves it empty. A store that is not
    /// empty is refused.
    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError>;

    fn reader(&self) -> Arc<dyn Reader>;
}

/// Reads beside the writer, from any thread.
pub trait Reader: Send + Sync {
    /// Newest last. At most [`HISTORY_PAGE_MAX`] rows.
    fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryRow>, StoreError>;

    fn attachment(&self, owner: Owner, name: &str) -> Result<Option<String>, StoreError>;

    /// Those of an owner whose names begin with `prefix` and come after `after`, in the order of their names.
    /// At most [`ATTACHMENTS_PAGE_MAX`].
    fn attachments(
        &self,
        owner: Owner,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError>;

    /// Those of every owner, in one order, after the given one. At most [`ATTACHMENTS_PAGE_MAX`].
    fn all_attachments(&self, after: Option<(Owner, &str)>) -> Result<Vec<Attachment>, StoreError>;
}

/// Rows of history in one answer.
pub const HISTORY_PAGE_MAX: u32 = 1000;

#[derive(Debug)]
pub struct Loaded {
    pub revision: u64,
    /// In the order of their keys; scopes without their live events, which `Region::load` finds.
    pub entities: Vec<Entity>,
}

/// What a store starts with when it is restored.
#[derive(Debug)]
pub struct Contents {
    pub revision: u64,
    pub clock: Option<ClockKind>,
    pub entities: Vec<Entity>,
    pub attachments: Vec<Attachment>,
}

/// Rows in the order of their numbers.
pub type HistoryRows<'a> = dyn Iterator<Item = Result<HistoryRow, StoreError>> + 'a;

/// Times of the one mean nothing to the other, so a store is of one kind for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    Real,
    Manual,
}

impl ClockKind {
    /// The word that is stored.
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
                "the clock is of kind '{word}', and this program knows 'real' and 'manual'. \
                 Start the version of Forewarn that wrote it."
            ))),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub writes: Vec<Write>,
    pub facts: Vec<Fact>,
    pub audit: Vec<Audit>,
    /// Written after `writes`, in order. An entity that is deleted takes its attachments with it.
    pub attachments: Vec<Attachment>,
}

/// A management action that was accepted: who, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub at: Timestamp,
    pub actor: String,
    /// `restart`, `delete`, `machine.register`…
    pub action: String,
    /// What it was done to, as a person would name it.
    pub target: String,
    /// Further facts, as a JSON object.
    pub detail: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Rows with a greater number.
    pub after: Option<u64>,
    pub event: Option<EventId>,
    /// Rows of this operation, those of events that it joined included.
    pub operation: Option<OperationId>,
    /// A machine's name, without regard to case. Finds audits of which it is the target, too.
    pub machine: Option<String>,
    /// Any of these, None being that of rows without one; empty: all.
    pub scopes: Vec<Option<u64>>,
    /// Any of these; empty: all.
    pub kinds: Vec<String>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// The newest ones that fit instead of the oldest.
    pub newest: bool,
    pub limit: Option<u32>,
}

impl HistoryQuery {
    pub(crate) fn page_size(&self) -> usize {
        self.limit.unwrap_or(HISTORY_PAGE_MAX).min(HISTORY_PAGE_MAX) as usize
    }
}

/// One line of history as it is kept: words, not types, because it outlives the program that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Grows, and is never given twice.
    pub number: u64,
    /// Never before that of the row before: the clock does not go back.
    pub at: Timestamp,
    /// `appeared`, `approved`, `started`, `ended`, `operation-ended`, `machine-added`,
    /// `machine-removed`, `scope-on`, `scope-off`, `audit`.
    pub kind: String,
    pub event: Option<EventId>,
    pub operation: Option<OperationId>,
    /// Further operations that joined the event.
    pub joined: Vec<OperationId>,
    pub scope: Option<u64>,
    /// The machines concerned, by name.
    pub machines: Vec<String>,
    /// Who did it, where somebody did: `guest:NAME`, `management:NAME`, `policy`; for `audit` as it was given.
    pub actor: Option<String>,
    /// For `audit` what it was done to, as a person would name it.
    pub target: Option<String>,
    /// For `ended` and `operation-ended` how; for `appeared` the type; for `audit` the action.
    pub outcome: Option<String>,
    /// The rest, as a JSON object.
    pub detail: String,
}
