//! The tables. `meta` contains the properties of the whole store: `format`, `revision`, `clock` and `clock_stamp`.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::read_error;
use super::{query_one, search, write};
use crate::StoreError;
use crate::record::{self, Interner};

/// The version of the tables. Records have their own version.
pub(super) const FORMAT: u32 = 11;

/// `FWRN`: identifies databases of Forewarn.
const APPLICATION_ID: i32 = 0x4657_524e;

const TABLES: &str = "
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE records (
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INT  NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE history (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     INT  NOT NULL,
    at        TEXT NOT NULL,
    kind      TEXT NOT NULL,
    event     TEXT,
    operation TEXT,
    joined    TEXT,
    scope     INT,
    machines  TEXT,
    actor     TEXT,
    target    TEXT,
    outcome   TEXT,
    detail    TEXT NOT NULL
);

-- For inspection with sqlite3.
CREATE VIEW machines AS
SELECT CAST(key AS INT)            AS id,
       body ->> 'name'             AS name,
       body ->> 'subscription'     AS subscription,
       body ->> 'resource_group'   AS resource_group,
       body ->> 'scope'            AS scope,
       body ->> 'host'             AS host,
       body ->> 'update_domain'    AS update_domain,
       body ->> 'fault_domain'     AS fault_domain,
       body ->> 'power'            AS power,
       body ->> 'vm_id'            AS vm_id
  FROM records
 WHERE kind = 'machine';

CREATE VIEW events AS
SELECT key                         AS id,
       body ->> 'seq'              AS seq,
       body ->> 'type'             AS type,
       body ->> 'cause'            AS cause,
       body ->> 'scope'            AS scope,
       body ->> 'status'           AS status,
       body ->> 'visibility'       AS visibility,
       strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> 'not_before') / 1000.0, 'unixepoch') AS not_before,
       (SELECT group_concat(resource.value ->> 'name', ', ') FROM json_each(body, '$.resources') AS resource) AS machines,
       body ->> 'description'      AS description
  FROM records
 WHERE kind = 'event';
";

/// Added in format 2. An owner is identified like its record.
const ATTACHMENTS: &str = "
CREATE TABLE attachments (
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key, name)
) WITHOUT ROWID;
";

/// Added in format 4: the machines of a row by ID.
const MACHINE_IDS: &str = "ALTER TABLE history ADD COLUMN machine_ids TEXT;";

/// Creates the tables of an empty store, atomically.
pub(super) fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} {ATTACHMENTS} {MACHINE_IDS} {}
         PRAGMA application_id = {APPLICATION_ID};
         INSERT INTO meta (key, value) VALUES ('format', '{FORMAT}'), ('revision', '0');
         COMMIT;",
        search::CREATE
    ))
}

/// Upgrades a store of an older format. Fails if the database is not a store, or has an unknown format.
pub(super) fn check_format(connection: &Connection) -> Result<(), StoreError> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(read_error)?;
    if application != APPLICATION_ID {
        return Err(StoreError::Message(
            "forewarn.db was not created by Forewarn. Choose another data directory, or restore \
             forewarn.db from a backup."
                .into(),
        ));
    }
    let format = read_meta(connection, "format").map_err(read_error)?.unwrap_or_default();
    match format.parse::<u32>() {
        Ok(FORMAT) => Ok(()),
        Ok(1) => upgrade(connection, &[ATTACHMENTS, MACHINE_IDS]),
        Ok(2 | 3) => upgrade(connection, &[MACHINE_IDS]),
        // These formats allow records with more content, or have other search tables. Older records are still valid.
        Ok(4..=10) => upgrade(connection, &[]),
        Ok(newer) if newer > FORMAT => Err(StoreError::Message(format!(
            "forewarn.db was written by a newer version of Forewarn: its format is {newer}, but this program reads \
             formats up to {FORMAT}. Use that version, or restore an older backup."
        ))),
        _ => Err(StoreError::Message(format!(
            "the format of forewarn.db is '{format}', which is invalid. Restore the file from a backup."
        ))),
    }
}

fn upgrade(connection: &Connection, missing: &[&str]) -> Result<(), StoreError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(read_error)?;
    transaction.execute_batch(&missing.concat()).map_err(read_error)?;
    transaction.execute_batch(&[search::DROP_OLDER, search::CREATE].concat()).map_err(read_error)?;
    convert_maintenance(&transaction)?;
    let newest = write::read_newest_number(&transaction).map_err(read_error)?;
    search::enter_full_blocks(&transaction, 0, newest).map_err(read_error)?;
    set_meta(&transaction, "format", &FORMAT.to_string()).map_err(read_error)?;
    transaction.commit().map_err(read_error)
}

/// Before format 7, the operation of maintenance by update domain had the progress that its rollout has now.
fn convert_maintenance(connection: &Connection) -> Result<(), StoreError> {
    let mut interner = Interner::default();
    let sql = "SELECT key, version, body FROM records WHERE kind = 'operation'";
    let mut statement = connection.prepare(sql).map_err(read_error)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(read_error)?;
    let rows: Vec<(String, u32, String)> = rows.collect::<rusqlite::Result<_>>().map_err(read_error)?;
    for (key, version, body) in rows {
        if let Some(rollout) = record::decode_rollout("operation", &key, &body, &mut interner)? {
            let operation = record::decode("operation", &key, version, &body, &mut interner)?;
            write::put_entity(connection, &operation).map_err(read_error)?;
            write::put_entity(connection, &rollout).map_err(read_error)?;
        }
    }
    Ok(())
}

/// Makes a commit durable: when it returns, it is in the log on disk.
pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)
}

/// Makes commits durable only when the log is synced. Until then they survive a crash of the process, not one of the computer.
pub(super) fn sync_on_demand(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "NORMAL")
}

/// Number of pages in the log before they are copied to the database. Most commits change the same pages, so a
/// longer log copies each page less often. Reading 32 MB of log after a crash does not take long.
const LOG_PAGES: i64 = 8000;

/// Size of the page cache: the inner pages of a million records, and the most used leaves.
const CACHE_KIB: i64 = 16 * 1024;

/// The log is truncated to this size after a large batch.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;

pub(super) fn read_meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    query_one(connection, "SELECT value FROM meta WHERE key = ?1", [key])
}

pub(super) fn set_meta(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([key, value]).map(drop)
}
