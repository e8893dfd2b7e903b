//! The statements of a transaction that writes.

use forewarn_core::{Entity, Key, Timestamp, Write};
use rusqlite::{Connection, Result, params};

use super::error::read_error;
use super::{one, schema};
use crate::history::{rows_of, search_names, search_operations};
use crate::text::iso;
use crate::{Attachment, Batch, HistoryRow, Owner, StoreError, record};

pub(super) fn revision(connection: &Connection) -> std::result::Result<u64, StoreError> {
    let text = schema::meta(connection, "revision").map_err(read_error)?.unwrap_or_default();
    text.parse().map_err(|_| {
        StoreError::Message(format!(
            "forewarn.db says that its revision is '{text}', which is not a number. Restore it from a backup."
        ))
    })
}

pub(super) fn set_revision(connection: &Connection, revision: u64) -> Result<()> {
    schema::set_meta(connection, "revision", &revision.to_string())
}

/// Writes a batch; the answer is the time of the latest row of history after it.
pub(super) fn batch(connection: &Connection, batch: &Batch, last_at: Timestamp) -> Result<Timestamp> {
    for write in &batch.writes {
        match write {
            Write::Put(entity) => put(connection, entity)?,
            Write::Delete(key) => delete(connection, key)?,
        }
    }
    for attachment in &batch.attachments {
        attach(connection, attachment)?;
    }
    let rows = rows_of(batch, last_at);
    for row in &rows {
        remember(connection, None, row)?;
    }
    Ok(rows.last().map_or(last_at, |row| row.at))
}

pub(super) fn put(connection: &Connection, entity: &Entity) -> Result<()> {
    let record = record::encode(entity);
    connection
        .prepare_cached(
            "INSERT INTO records (kind, key, version, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body",
        )?
        .execute(params![record.kind, record.key, record.version, record.body])
        .map(drop)
}

fn delete(connection: &Connection, entity: &Key) -> Result<()> {
    let (kind, key) = record::name_of(entity);
    connection.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?.execute([kind, &key])?;
    if Owner::of(entity).is_some() {
        connection.prepare_cached("DELETE FROM attachments WHERE kind = ?1 AND key = ?2")?.execute([kind, &key])?;
    }
    Ok(())
}

pub(super) fn attach(connection: &Connection, attachment: &Attachment) -> Result<()> {
    let (kind, key) = attachment.owner.name();
    let name = attachment.name.as_str();
    match &attachment.value {
        Some(value) => connection
            .prepare_cached(
                "INSERT INTO attachments (kind, key, name, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET value = excluded.value",
            )?
            .execute([kind, &key, name, value]),
        None => connection
            .prepare_cached("DELETE FROM attachments WHERE kind = ?1 AND key = ?2 AND name = ?3")?
            .execute([kind, &key, name]),
    }
    .map(drop)
}

/// Adds a row of history; None: with the next number.
pub(super) fn remember(connection: &Connection, number: Option<u64>, row: &HistoryRow) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO history (number, at_ms, at, kind, event, operation, joined, scope, machines, actor, target,
                                  outcome, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            number,
            row.at.0,
            iso(row.at),
            row.kind,
            row.event.map(|id| id.to_string()),
            row.operation.map(|id| id.to_string()),
            list(&row.joined.iter().map(ToString::to_string).collect::<Vec<_>>()),
            row.scope,
            list(&row.machines),
            row.actor,
            row.target,
            row.outcome,
            row.detail,
        ])?;
    let number = connection.last_insert_rowid();
    let mut by_name = connection.prepare_cached("INSERT INTO history_machines (name, number) VALUES (?1, ?2)")?;
    for name in search_names(row) {
        by_name.execute(params![name, number])?;
    }
    let mut by_operation =
        connection.prepare_cached("INSERT INTO history_operations (operation, number) VALUES (?1, ?2)")?;
    for operation in search_operations(row) {
        by_operation.execute(params![operation.to_string(), number])?;
    }
    Ok(())
}

/// A JSON array; NULL when there is nothing in it.
fn list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| serde_json::Value::from(items).to_string())
}

/// Removes the oldest rows, each with what it was found by.
pub(super) fn forget(connection: &Connection, before: Timestamp, limit: u32) -> Result<u32> {
    let old = super::read::oldest(connection, before, limit)?;
    let mut row_gone = connection.prepare_cached("DELETE FROM history WHERE number = ?1")?;
    let mut name_gone = connection.prepare_cached("DELETE FROM history_machines WHERE name = ?1 AND number = ?2")?;
    let mut operation_gone =
        connection.prepare_cached("DELETE FROM history_operations WHERE operation = ?1 AND number = ?2")?;
    for row in &old {
        for name in search_names(row) {
            name_gone.execute(params![name, row.number])?;
        }
        for operation in search_operations(row) {
            operation_gone.execute(params![operation.to_string(), row.number])?;
        }
        row_gone.execute([row.number])?;
    }
    Ok(u32::try_from(old.len()).unwrap_or(u32::MAX))
}

/// The time of the latest row of history, or the earliest time there is.
pub(super) fn last_at(connection: &Connection) -> Result<Timestamp> {
    let latest = one::<i64>(connection, "SELECT at_ms FROM history ORDER BY number DESC LIMIT 1", [])?;
    Ok(Timestamp(latest.unwrap_or(i64::MIN)))
}

pub(super) fn has_rows(connection: &Connection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM records) OR EXISTS (SELECT 1 FROM attachments)
               OR EXISTS (SELECT 1 FROM sqlite_sequence WHERE seq > 0)";
    Ok(one::<bool>(connection, sql, [])?.unwrap_or(false))
}
