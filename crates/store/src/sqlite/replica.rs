//! The store as a server's copy of a replicated region. The position in the log is the row `log_position` of `meta`; a store
//! that does not belong to a cluster has no such row.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forewarn_core::{Key, Timestamp, Write};
use rusqlite::{Connection, TransactionBehavior};

use super::error::read_error;
use super::{SqliteStore, open, read, schema, search, write};
use crate::replica::out_of_order;
use crate::{Change, Replicated, SnapshotWriter, StoreError};

const POSITION: &str = "log_position";

/// All tables but those of searches and of SQLite itself.
const TABLES: [&str; 4] = ["meta", "records", "attachments", "history"];

/// History rows that are deleted in one statement.
const FORGET_ROWS: u32 = 1000;

impl Replicated for SqliteStore {
    fn position(&mut self) -> Result<Option<String>, StoreError> {
        self.meta(POSITION)
    }

    fn set_position(&mut self, position: &str) -> Result<(), StoreError> {
        schema::set_meta(&self.connection, POSITION, position).map_err(read_error)
    }

    fn apply(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        if !self.is_copy {
            schema::sync_on_demand(&self.connection).map_err(read_error)?;
            self.is_copy = true;
        }
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(read_error)?;
        let found = write::read_revision(&transaction)?;
        if found + 1 != revision {
            return Err(out_of_order(found, revision));
        }
        write_changes(&transaction, changes).map_err(read_error)?;
        write::set_revision(&transaction, found + changes.len() as u64).map_err(read_error)?;
        schema::set_meta(&transaction, POSITION, position).map_err(read_error)?;
        transaction.commit().map_err(read_error)?;
        self.last_at = changes.iter().rev().find_map(|change| change.rows.last()).map_or(self.last_at, |row| row.at);
        self.forget_recent_rows();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let log = open::log_path(Path::new(self.connection.path().unwrap_or_default()));
        match fs::File::open(log) {
            Ok(log) => log.sync_data().map_err(|error| StoreError::Io(error.into())),
            // Everything is in the database.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::Io(error.into())),
        }
    }

    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError> {
        Ok((self.last_at, write::read_newest_number(&self.connection).map_err(read_error)?))
    }

    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        let rows = read::query_oldest(&self.connection, before, limit).map_err(read_error)?;
        Ok(rows.iter().map(|row| row.number).max())
    }

    fn copier(&self) -> Arc<dyn SnapshotWriter> {
        Arc::new(SqliteCopier(self.connection.path().unwrap_or_default().into()))
    }

    fn install(&mut self, copy: &Path) -> Result<(), StoreError> {
        // Upgrades an older format, and refuses a newer one and other files.
        drop(open::open_writer(copy)?);
        let path = copy.display().to_string();
        self.connection.execute("ATTACH DATABASE ?1 AS copy", [&path]).map_err(read_error)?;
        let replaced = replace_all(&mut self.connection);
        self.connection.execute("DETACH DATABASE copy", []).map_err(read_error)?;
        replaced.map_err(read_error)?;
        self.last_at = write::read_last_at(&self.connection).map_err(read_error)?;
        self.forget_recent_rows();
        Ok(())
    }
}

/// Writes the changes in order. The stamp and the clock of the last one that has them apply.
fn write_changes(connection: &Connection, changes: &[Change]) -> rusqlite::Result<()> {
    let last = find_last_writes(changes);
    for (index, change) in changes.iter().enumerate() {
        for write in &change.writes {
            match write {
                Write::Put(entity) if last.get(&entity.key()).is_some_and(|last| *last > index) => {}
                Write::Put(entity) => write::put_entity(connection, entity)?,
                Write::Delete(key) => write::delete_entity(connection, key)?,
            }
        }
        for attachment in &change.attachments {
            write::attach(connection, attachment)?;
        }
        for row in &change.rows {
            write::insert_history_row(connection, Some(row.number), row)?;
        }
        if let (Some(first), Some(last)) = (change.rows.first(), change.rows.last()) {
            search::enter_full_blocks(connection, first.number.saturating_sub(1), last.number)?;
        }
        if let Some(through) = change.forget_through {
            forget_through(connection, through)?;
        }
    }
    if let Some(stamp) = changes.iter().rev().find_map(|change| change.stamp.as_ref()) {
        schema::set_meta(connection, "clock_stamp", &stamp.to_text())?;
    }
    if let Some(clock) = changes.iter().rev().find_map(|change| change.clock) {
        schema::set_meta(connection, "clock", clock.as_str())?;
    }
    Ok(())
}

/// The last of several changes that writes each entity: what earlier ones put would be replaced in the same transaction. A
/// deletion is never left out, because it also deletes attachments.
fn find_last_writes(changes: &[Change]) -> BTreeMap<Key, usize> {
    if changes.len() < 2 {
        return BTreeMap::new();
    }
    let writes = changes.iter().enumerate().flat_map(|(index, change)| change.writes.iter().map(move |it| (index, it)));
    let keyed = writes.map(|(index, write)| match write {
        Write::Put(entity) => (entity.key(), index),
        Write::Delete(key) => (key.clone(), index),
    });
    keyed.collect()
}

fn forget_through(connection: &Connection, through: u64) -> rusqlite::Result<()> {
    loop {
        let rows = read::query_through(connection, through, FORGET_ROWS)?;
        if rows.is_empty() {
            return Ok(());
        }
        write::delete_rows(connection, &rows)?;
    }
}

/// Replaces the rows of all tables by those of the attached database.
fn replace_all(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in TABLES.into_iter().chain(search::TABLES) {
        let columns = columns_of(&transaction, table)?;
        transaction.execute(&format!("DELETE FROM main.{table}"), [])?;
        let sql = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM copy.{table}");
        transaction.execute(&sql, [])?;
    }
    transaction.execute("DELETE FROM main.sqlite_sequence", [])?;
    transaction.execute("INSERT INTO main.sqlite_sequence SELECT * FROM copy.sqlite_sequence", [])?;
    transaction.commit()
}

/// The names of a table's columns, because an upgraded table can have them in another order.
fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
    let names: Vec<String> = statement.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(names.join(", "))
}

struct SqliteCopier(PathBuf);

impl SnapshotWriter for SqliteCopier {
    fn copy_to(&self, file: &Path) -> Result<(), StoreError> {
        let connection = open::open_reader(&self.0)?;
        let _ = fs::remove_file(file);
        // SQLite writes into an empty file, but would create one that others can read.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .map_err(|error| StoreError::Message(format!("cannot create {}: {error}", file.display())))?;
        connection.execute("VACUUM INTO ?1", [file.display().to_string()]).map_err(read_error)?;
        Ok(())
    }
}
