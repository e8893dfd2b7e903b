//! The tables, and the facts about the whole store in `meta`: `format`, `revision`, `clock`.

use rusqlite::Connection;

use super::error::read_error;
use super::one;
use crate::StoreError;

/// The format of the tables; records have versions of their own.
pub(super) const FORMAT: u32 = 3;

/// `FWRN`: tells our databases from other people's.
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
CREATE INDEX history_at ON history (at_ms);
CREATE INDEX history_kind ON history (kind);
CREATE INDEX history_event ON history (event) WHERE event IS NOT NULL;

-- What history is found by: names in lower case, and every operation of a row.
CREATE TABLE history_machines (
    name   TEXT NOT NULL,
    number INT  NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;

CREATE TABLE history_operations (
    operation TEXT NOT NULL,
    number    INT  NOT NULL,
    PRIMARY KEY (operation, number)
) WITHOUT ROWID;

-- For people.
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

/// New in format 2. The owner is named as its record is.
const ATTACHMENTS: &str = "
CREATE TABLE attachments (
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key, name)
) WITHOUT ROWID;
";

/// Makes the tables of an empty store, all or none of them.
pub(super) fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} {ATTACHMENTS}
         PRAGMA application_id = {APPLICATION_ID};
         INSERT INTO meta (key, value) VALUES ('format', '{FORMAT}'), ('revision', '0');
         COMMIT;"
    ))
}

/// Brings a store of an older format to the present one, and refuses what is not a store of ours, or is one
/// of a format that this program does not know.
pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(read_error)?;
    if application != APPLICATION_ID {
        return Err(StoreError::Message(
            "forewarn.db is a database, but not one of Forewarn. Choose another data directory, or restore \
             forewarn.db from a backup."
                .into(),
        ));
    }
    let format = meta(connection, "format").map_err(read_error)?.unwrap_or_default();
    match format.parse::<u32>() {
        Ok(FORMAT) => Ok(()),
        Ok(1) => upgrade(connection, ATTACHMENTS).map_err(read_error),
        // Records of the third may be about several machines; those of the second are read as they are.
        Ok(2) => upgrade(connection, "").map_err(read_error),
        Ok(newer) if newer > FORMAT => Err(StoreError::Message(format!(
            "forewarn.db was written by a newer version of Forewarn: its format is {newer}, and this program knows \
             {FORMAT}. Start that version, or use a backup from before."
        ))),
        _ => Err(StoreError::Message(format!(
            "forewarn.db says that its format is '{format}', which no version of Forewarn writes. Restore it from a \
             backup."
        ))),
    }
}

fn upgrade(connection: &Connection, missing: &str) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {missing}
         UPDATE meta SET value = '{FORMAT}' WHERE key = 'format';
         COMMIT;"
    ))
}

/// What a commit promises: it is on the disk, in the log, when it returns.
pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)
}

/// Pages in the log before they are copied into the database. Most commits touch the same pages again, so a
/// longer log copies each less often; reading 32 MB of it back after a crash takes a moment.
const LOG_PAGES: i64 = 8000;

/// Pages in memory: the inner pages of a million records, with room for the warm ones.
const CACHE_KIB: i64 = 16 * 1024;

/// A log that a large batch made longer is cut back to this.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;

pub(super) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    one(connection, "SELECT value FROM meta WHERE key = ?1", [key])
}

pub(super) fn set_meta(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([key, value]).map(drop)
}
