//! The default store: one directory with `forewarn.db`, a database that a person can open with
//! `sqlite3`, and `lock`, which the kernel lets go when the server dies, however it dies.
//!
//! One connection writes, one batch a transaction; another one, read-only, answers queries of history.

mod error;
mod open;
mod read;
mod schema;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forewarn_core::{Entity, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};

use crate::record::{self, Interner};
use crate::*;
use error::{certainly_not_written, read_error, refused};
use read::SqliteReader;

/// The order of the fields is the order of closing: the writer last, so that it leaves one whole file,
/// and only then the lock.
pub struct SqliteStore {
    reader: Arc<SqliteReader>,
    connection: Connection,
    /// The time of the latest row of history.
    last_at: Timestamp,
    /// Held, not used.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in this directory, or makes one. Fails with a sentence when another server uses
    /// it, or when what is there is not a store that this program can read.
    pub fn open(directory: &Path) -> Result<SqliteStore, StoreError> {
        let lock = open::lock(directory)?;
        let path = open::find_or_make(directory)?;
        let connection = open::writer(&path)?;
        let reader = Arc::new(SqliteReader::new(open::reader(&path)?));
        let last_at = write::last_at(&connection).map_err(read_error)?;
        Ok(SqliteStore { reader, connection, last_at, _lock: lock })
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        schema::meta(&self.connection, key).map_err(read_error)
    }
}

impl Store for SqliteStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let view = self.connection.transaction().map_err(read_error)?;
        let revision = write::revision(&view)?;
        let mut interner = Interner::default();
        let mut entities = Vec::new();
        let mut statement = view.prepare("SELECT kind, key, version, body FROM records").map_err(read_error)?;
        let mut rows = statement.query([]).map_err(read_error)?;
        while let Some(row) = rows.next().map_err(read_error)? {
            entities.push(entity(row, &mut interner)?);
        }
        entities.sort_by_cached_key(|entity| entity.key());
        Ok(Loaded { revision, entities })
    }

    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
        let found = write::revision(&transaction).map_err(|error| CommitError::Refused(error.into()))?;
        if found != expected {
            return Err(CommitError::Conflict { expected, found });
        }
        let last_at = write::batch(&transaction, batch, self.last_at).map_err(refused)?;
        write::set_revision(&transaction, expected + 1).map_err(refused)?;
        if let Err(error) = transaction.commit() {
            return Err(self.fate(expected, error));
        }
        self.last_at = last_at;
        Ok(expected + 1)
    }

    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(read_error)?;
        let forgotten = write::forget(&transaction, before, limit).map_err(read_error)?;
        transaction.commit().map_err(read_error)?;
        Ok(forgotten)
    }

    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError> {
        self.meta("clock")?.as_deref().map(ClockKind::parse).transpose()
    }

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError> {
        schema::set_meta(&self.connection, "clock", kind.as_str()).map_err(read_error)
    }

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(read_error)?;
        if write::revision(&transaction)? != 0 || write::has_rows(&transaction).map_err(read_error)? {
            return Err(StoreError::not_empty());
        }
        for entity in &contents.entities {
            write::put(&transaction, entity).map_err(read_error)?;
        }
        for attachment in &contents.attachments {
            write::attach(&transaction, attachment).map_err(read_error)?;
        }
        for row in history {
            let row = row?;
            write::remember(&transaction, Some(row.number), &row).map_err(read_error)?;
        }
        write::set_revision(&transaction, contents.revision).map_err(read_error)?;
        if let Some(clock) = contents.clock {
            schema::set_meta(&transaction, "clock", clock.as_str()).map_err(read_error)?;
        }
        transaction.commit().map_err(read_error)?;
        self.last_at = write::last_at(&self.connection).map_err(read_error)?;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}

impl SqliteStore {
    /// What a failed COMMIT means. The transaction was rolled back when it was dropped, if SQLite had
    /// not done that itself.
    fn fate(&self, expected: u64, error: rusqlite::Error) -> CommitError {
        let as_before = self.connection.is_autocommit()
            && write::revision(&self.connection).is_ok_and(|revision| revision == expected);
        if as_before && certainly_not_written(&error) { refused(error) } else { CommitError::Doubt(error.into()) }
    }
}

fn entity(row: &Row<'_>, interner: &mut Interner) -> Result<Entity, StoreError> {
    let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str().ok());
    let (kind, key) = (text(0).unwrap_or("?"), text(1).unwrap_or("?"));
    let (Ok(version), Some(body)) = (row.get(2), text(3)) else {
        return Err(StoreError::Message(format!(
            "the record {kind} '{key}' cannot be read: its version is not a number or its body is not text. \
             Restore forewarn.db from a backup."
        )));
    };
    record::decode(kind, key, version, body, interner)
}

/// The first column of the only row.
fn one<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests;
