//! The statements of a writing transaction.

use forewarn_core::{Entity, Key, MachineId, Timestamp, Write};
use rusqlite::{Connection, Result, params};

use super::error::read_error;
use super::{query_one, schema, search};
use crate::history::{rows_of, search_names, search_operations, ticket_words};
use crate::text::iso;
use crate::{Attachment, Batch, HistoryRow, Owner, StoreError, record};

pub(super) fn read_revision(connection: &Connection) -> std::result::Result<u64, StoreError> {
    let text = schema::read_meta(connection, "revision").map_err(read_error)?.unwrap_or_default();
    text.parse().map_err(|_| {
        StoreError::Message(format!(
            "the revision in forewarn.db is '{text}', which is not a number. Restore the file from a backup."
        ))
    })
}

pub(super) fn set_revision(connection: &Connection, revision: u64) -> Result<()> {
    schema::set_meta(connection, "revision", &revision.to_string())
}

/// Writes a batch. Returns its history rows with their numbers.
pub(super) fn write_batch(connection: &Connection, batch: &Batch, last_at: Timestamp) -> Result<Vec<HistoryRow>> {
    for write in &batch.writes {
        match write {
            Write::Put(entity) => put_entity(connection, entity)?,
            Write::Delete(key) => delete_entity(connection, key)?,
        }
    }
    for attachment in &batch.attachments {
        attach(connection, attachment)?;
    }
    if let Some(stamp) = &batch.stamp {
        schema::set_meta(connection, "clock_stamp", &stamp.to_text())?;
    }
    let mut rows = rows_of(batch, last_at);
    for row in &mut rows {
        row.number = insert_history_row(connection, None, row)?;
    }
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        search::enter_full_blocks(connection, first.number.saturating_sub(1), last.number)?;
    }
    Ok(rows)
}

pub(super) fn put_entity(connection: &Connection, entity: &Entity) -> Result<()> {
    let record = record::encode(entity);
    connection
        .prepare_cached(
            "INSERT INTO records (kind, key, version, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body",
        )?
        .execute(params![record.kind, record.key, record.version, record.body])
        .map(drop)
}

pub(super) fn delete_entity(connection: &Connection, entity: &Key) -> Result<()> {
    let (kind, key) = record::name_of(entity);
    connection.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?.execute([kind, &key])?;
    if Owner::from_key(entity).is_some() {
        connection.prepare_cached("DELETE FROM attachments WHERE kind = ?1 AND key = ?2")?.execute([kind, &key])?;
    }
    Ok(())
}

pub(super) fn attach(connection: &Connection, attachment: &Attachment) -> Result<()> {
    let (kind, key) = attachment.owner.record_name();
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

/// Adds a history row and returns its number. None: assign the next number. The caller enters the row in the search tables.
pub(super) fn insert_history_row(connection: &Connection, number: Option<u64>, row: &HistoryRow) -> Result<u64> {
    connection
        .prepare_cached(
            "INSERT INTO history (number, at_ms, at, kind, event, operation, joined, scope, machines, actor, target,
                                  outcome, detail, machine_ids)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            number,
            row.at.0,
            iso(row.at),
            row.kind,
            row.event.map(|id| id.to_string()),
            row.operation.map(|id| id.to_string()),
            json_list(&row.joined.iter().map(ToString::to_string).collect::<Vec<_>>()),
            row.scope,
            json_list(&row.machines),
            row.actor,
            row.target,
            row.outcome,
            row.detail,
            json_numbers(&row.machine_ids),
        ])?;
    Ok(connection.last_insert_rowid().unsigned_abs())
}

/// A JSON array, or NULL if it is empty.
fn json_list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| serde_json::Value::from(items).to_string())
}

/// A JSON array, or NULL if it is empty.
fn json_numbers(ids: &[MachineId]) -> Option<String> {
    let numbers: Vec<u64> = ids.iter().map(|id| id.0).collect();
    (!numbers.is_empty()).then(|| serde_json::Value::from(numbers).to_string())
}

/// Deletes the oldest rows.
pub(super) fn delete_history(connection: &Connection, before: Timestamp, limit: u32) -> Result<u32> {
    let old = super::read::query_oldest(connection, before, limit)?;
    delete_rows(connection, &old)?;
    Ok(u32::try_from(old.len()).unwrap_or(u32::MAX))
}

/// Deletes rows together with their index entries.
pub(super) fn delete_rows(connection: &Connection, rows: &[HistoryRow]) -> Result<()> {
    let prepare = |table: &str, column: &str| {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE block = ?1 AND number = ?2 AND {column} = ?3"))
    };
    let mut row_gone = connection.prepare_cached("DELETE FROM history WHERE number = ?1")?;
    let mut event_gone = prepare("history_events", "event")?;
    let mut kind_gone = prepare("history_kinds", "kind")?;
    let mut name_gone = prepare("history_machines", "name")?;
    let mut id_gone = prepare("history_machine_ids", "machine")?;
    let mut word_gone = prepare("history_words", "word")?;
    let mut operation_gone = prepare("history_operations", "operation")?;
    for row in rows {
        let block = search::block_of(row.number);
        if let Some(event) = row.event {
            event_gone.execute(params![block, row.number, event.to_string()])?;
        }
        kind_gone.execute(params![block, row.number, row.kind])?;
        for name in search_names(row) {
            name_gone.execute(params![block, row.number, name])?;
        }
        for operation in search_operations(row) {
            operation_gone.execute(params![block, row.number, operation.to_string()])?;
        }
        for machine in &row.machine_ids {
            id_gone.execute(params![block, row.number, machine.0])?;
        }
        for word in ticket_words(row) {
            word_gone.execute(params![block, row.number, word])?;
        }
        row_gone.execute([row.number])?;
    }
    Ok(())
}

/// The time of the latest history row, or the minimum if there is none.
pub(super) fn read_last_at(connection: &Connection) -> Result<Timestamp> {
    let latest = query_one::<i64>(connection, "SELECT at_ms FROM history ORDER BY number DESC LIMIT 1", [])?;
    Ok(Timestamp(latest.unwrap_or(i64::MIN)))
}

/// The number of the newest history row, also if it was deleted; zero if there never was one.
pub(super) fn read_newest_number(connection: &Connection) -> Result<u64> {
    let number = query_one::<u64>(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'history'", [])?;
    Ok(number.unwrap_or(0))
}

pub(super) fn has_rows(connection: &Connection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM records) OR EXISTS (SELECT 1 FROM attachments)
               OR EXISTS (SELECT 1 FROM sqlite_sequence WHERE seq > 0)";
    Ok(query_one::<bool>(connection, sql, [])?.unwrap_or(false))
}
