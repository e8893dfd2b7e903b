//! The default store: a directory with `forewarn.db`, a database that can be inspected with `sqlite3`, and
//! `lock`, which the kernel releases when the server process ends.
//!
//! One connection writes, one transaction per batch. Two others are read-only: one for history and lists, one for single
//! attachments.

mod error;
mod load;
mod open;
mod read;
mod replica;
mod schema;
mod search;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forewarn_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::recent::RecentRows;
use crate::*;
use error::{commit_refused, is_certainly_unwritten, read_error};
use read::SqliteReader;

/// Damaged pages that a check reports. The first ones are enough to know that a backup is needed.
const PROBLEMS_MAX: u32 = 10;

/// Fields are dropped in this order: the writer after the reader, so that it leaves a single file, and then the
/// lock.
pub struct SqliteStore {
    reader: Arc<SqliteReader>,
    connection: Connection,
    /// Time of the latest history row.
    last_at: Timestamp,
    /// Commits wait for [`crate::Replicated::sync`] to become durable.
    is_copy: bool,
    /// Held until the store is dropped.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in this directory, or creates it. Fails if another server uses the directory, or if it
    /// does not contain a store that this program can read.
    pub fn open(directory: &Path) -> Result<SqliteStore, StoreError> {
        let lock = open::lock_directory(directory)?;
        let path = open::find_or_create(directory)?;
        let connection = open::open_writer(&path)?;
        let newest = write::read_newest_number(&connection).map_err(read_error)?;
        let reader = Arc::new(SqliteReader::new(open::open_reader(&path)?, open::open_reader(&path)?, newest));
        let last_at = write::read_last_at(&connection).map_err(read_error)?;
        Ok(SqliteStore { reader, connection, last_at, is_copy: false, _lock: lock })
    }

    /// Looks for damaged pages in the database of this directory, on a connection of its own, while a server uses it. Returns
    /// the problems found. Takes about a second per gigabyte.
    pub fn quick_check(directory: &Path) -> Result<Vec<String>, StoreError> {
        let connection = open::open_reader(&open::database(directory))?;
        let sql = format!("PRAGMA quick_check({PROBLEMS_MAX})");
        let mut statement = connection.prepare(&sql).map_err(read_error)?;
        let rows = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
        let found: Vec<String> = rows.map_err(read_error)?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// Lets readers read the rows up to now from the database.
    /// Called after a commit, so it cannot fail: without the number, readers use the store.
    fn forget_recent_rows(&self) {
        let newest = write::read_newest_number(&self.connection).unwrap_or(u64::MAX);
        *self.reader.recent() = RecentRows::new(newest);
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        schema::read_meta(&self.connection, key).map_err(read_error)
    }
}

impl Store for SqliteStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        // A commit in doubt may have added rows.
        self.forget_recent_rows();
        let view = self.connection.transaction().map_err(read_error)?;
        let revision = write::read_revision(&view)?;
        let entities = load::read_entities(&view)?;
        Ok(Loaded { revision, entities })
    }

    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(commit_refused)?;
        let found = write::read_revision(&transaction).map_err(|error| CommitError::Refused(error.into()))?;
        if found != expected {
            return Err(CommitError::Conflict { expected, found });
        }
        let rows = write::write_batch(&transaction, batch, self.last_at).map_err(commit_refused)?;
        write::set_revision(&transaction, expected + 1).map_err(commit_refused)?;
        if let Err(error) = transaction.commit() {
            return Err(self.classify_commit_error(expected, error));
        }
        self.last_at = rows.last().map_or(self.last_at, |row| row.at);
        let mut recent = self.reader.recent();
        rows.into_iter().for_each(|row| recent.add(row));
        Ok(expected + 1)
    }

    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(read_error)?;
        let forgotten = write::delete_history(&transaction, before, limit).map_err(read_error)?;
        transaction.commit().map_err(read_error)?;
        self.forget_recent_rows();
        Ok(forgotten)
    }

    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError> {
        self.meta("clock")?.as_deref().map(ClockKind::parse).transpose()
    }

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError> {
        schema::set_meta(&self.connection, "clock", kind.as_str()).map_err(read_error)
    }

    fn clock_stamp(&mut self) -> Result<Option<ClockStamp>, StoreError> {
        Ok(self.meta("clock_stamp")?.as_deref().and_then(ClockStamp::parse))
    }

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(read_error)?;
        if write::read_revision(&transaction)? != 0 || write::has_rows(&transaction).map_err(read_error)? {
            return Err(StoreError::not_empty());
        }
        for entity in &contents.entities {
            write::put_entity(&transaction, entity).map_err(read_error)?;
        }
        for attachment in &contents.attachments {
            write::attach(&transaction, attachment).map_err(read_error)?;
        }
        let mut newest = 0;
        for row in history {
            let row = row?;
            newest = write::insert_history_row(&transaction, Some(row.number), &row).map_err(read_error)?;
        }
        search::enter_full_blocks(&transaction, 0, newest).map_err(read_error)?;
        write::set_revision(&transaction, contents.revision).map_err(read_error)?;
        if let Some(clock) = contents.clock {
            schema::set_meta(&transaction, "clock", clock.as_str()).map_err(read_error)?;
        }
        transaction.commit().map_err(read_error)?;
        self.last_at = write::read_last_at(&self.connection).map_err(read_error)?;
        self.forget_recent_rows();
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}

impl SqliteStore {
    /// Classifies a failed COMMIT. The transaction has already been rolled back, by SQLite or when it was
    /// dropped.
    fn classify_commit_error(&self, expected: u64, error: rusqlite::Error) -> CommitError {
        let as_before = self.connection.is_autocommit()
            && write::read_revision(&self.connection).is_ok_and(|revision| revision == expected);
        if as_before && is_certainly_unwritten(&error) {
            commit_refused(error)
        } else {
            CommitError::Doubt(error.into())
        }
    }
}

/// The first column of the only row.
fn query_one<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests;
