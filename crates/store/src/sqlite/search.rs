//! The search tables of history: which rows belong to an event, an operation, a machine, a kind or a word of a ticket.
//!
//! Rows are entered in blocks, and the block is the first column of every key. The keys themselves are scattered, so in one
//! order for all rows each row would change a page of each table. A new block is added at the end of the tables. A search looks
//! into one block after another, and stops when it has found enough. Numbers alone decide which rows are entered: all up to the
//! last full block. The few rows after that are searched one by one.

use std::ops::Range;

use rusqlite::{Connection, Result, params};

use super::read;
use crate::history::ticket_words;

/// Rows of a block, by number. A search reads at most this many rows that are not entered yet.
const BLOCK_ROWS: u64 = 1024;

/// All tables with search keys. Each has the columns `block` and `number`.
pub(super) const TABLES: [&str; 6] = [
    "history_events",
    "history_kinds",
    "history_operations",
    "history_machines",
    "history_machine_ids",
    "history_words",
];

/// Creates the search tables. `kind` is repeated for machines, so that a search for rare rows of a busy machine reads only this
/// table. `name` is in lower case. `word`: of the tickets and descriptions of operations that have ended, in lower case.
pub(super) const CREATE: &str = "
CREATE TABLE history_events (
    block  INT  NOT NULL,
    event  TEXT NOT NULL,
    number INT  NOT NULL,
    PRIMARY KEY (block, event, number)
) WITHOUT ROWID;

CREATE TABLE history_kinds (
    block  INT  NOT NULL,
    kind   TEXT NOT NULL,
    number INT  NOT NULL,
    PRIMARY KEY (block, kind, number)
) WITHOUT ROWID;

CREATE TABLE history_operations (
    block     INT  NOT NULL,
    operation TEXT NOT NULL,
    number    INT  NOT NULL,
    PRIMARY KEY (block, operation, number)
) WITHOUT ROWID;

CREATE TABLE history_machines (
    block  INT  NOT NULL,
    name   TEXT NOT NULL,
    number INT  NOT NULL,
    PRIMARY KEY (block, name, number)
) WITHOUT ROWID;

CREATE TABLE history_machine_ids (
    block   INT  NOT NULL,
    machine INT  NOT NULL,
    number  INT  NOT NULL,
    kind    TEXT NOT NULL,
    PRIMARY KEY (block, machine, number)
) WITHOUT ROWID;

CREATE TABLE history_words (
    block  INT  NOT NULL,
    word   TEXT NOT NULL,
    number INT  NOT NULL,
    PRIMARY KEY (block, word, number)
) WITHOUT ROWID;
";

/// Removes the search tables and indexes of all older formats.
pub(super) const DROP_OLDER: &str = "
DROP TABLE IF EXISTS history_events;
DROP TABLE IF EXISTS history_kinds;
DROP TABLE IF EXISTS history_operations;
DROP TABLE IF EXISTS history_machines;
DROP TABLE IF EXISTS history_machine_ids;
DROP TABLE IF EXISTS history_words;
DROP INDEX IF EXISTS history_at;
DROP INDEX IF EXISTS history_kind;
DROP INDEX IF EXISTS history_event;
";

/// All but the words: enter the rows with numbers from ?2 to ?3 as block ?1. A row can name a machine twice. Like
/// [`fold`](crate::history::fold), SQLite's `lower` only knows ASCII.
const ENTER: [&str; 5] = [
    "INSERT OR IGNORE INTO history_events (block, event, number)
     SELECT ?1, event, number FROM history WHERE number BETWEEN ?2 AND ?3 AND event IS NOT NULL
      ORDER BY event, number",
    "INSERT OR IGNORE INTO history_kinds (block, kind, number)
     SELECT ?1, kind, number FROM history WHERE number BETWEEN ?2 AND ?3
      ORDER BY kind, number",
    "INSERT OR IGNORE INTO history_operations (block, operation, number)
     SELECT ?1, operation, number FROM history WHERE number BETWEEN ?2 AND ?3 AND operation IS NOT NULL
      UNION ALL
     SELECT ?1, joined.value, number FROM history, json_each(history.joined) joined WHERE number BETWEEN ?2 AND ?3
      ORDER BY 2, 3",
    "INSERT OR IGNORE INTO history_machines (block, name, number)
     SELECT ?1, lower(target), number FROM history WHERE number BETWEEN ?2 AND ?3 AND target IS NOT NULL
      UNION ALL
     SELECT ?1, lower(machine.value), number FROM history, json_each(history.machines) machine
      WHERE number BETWEEN ?2 AND ?3
      ORDER BY 2, 3",
    "INSERT OR IGNORE INTO history_machine_ids (block, machine, number, kind)
     SELECT ?1, machine.value, number, history.kind FROM history, json_each(history.machine_ids) machine
      WHERE number BETWEEN ?2 AND ?3
      ORDER BY 2, 3",
];

/// The number up to which rows are entered, if the newest row has this number.
pub(super) fn last_entered(newest: u64) -> u64 {
    newest - newest % BLOCK_ROWS
}

/// The block of a row.
pub(super) fn block_of(number: u64) -> u64 {
    number.saturating_sub(1) / BLOCK_ROWS
}

/// The block of the row `h`, in SQL.
pub(super) fn block_of_row() -> String {
    format!("(h.number - 1) / {BLOCK_ROWS}")
}

/// The blocks with rows from `first` to `last`.
pub(super) fn blocks_of((first, last): (u64, u64)) -> Range<u64> {
    if first > last { 0..0 } else { block_of(first)..block_of(last) + 1 }
}

/// Enters the blocks that new rows have filled. `before`: the number of the newest row before them.
pub(super) fn enter_full_blocks(connection: &Connection, before: u64, newest: u64) -> Result<()> {
    for block in before / BLOCK_ROWS..newest / BLOCK_ROWS {
        let (first, last) = (block * BLOCK_ROWS + 1, (block + 1) * BLOCK_ROWS);
        for sql in ENTER {
            connection.prepare_cached(sql)?.execute((block, first, last))?;
        }
        enter_words(connection, block, (first, last))?;
    }
    Ok(())
}

fn enter_words(connection: &Connection, block: u64, rows: (u64, u64)) -> Result<()> {
    let mut entries: Vec<(String, u64)> = Vec::new();
    for row in read::query_ended_operations(connection, rows)? {
        entries.extend(ticket_words(&row).into_iter().map(|word| (word, row.number)));
    }
    entries.sort();
    let sql = "INSERT OR IGNORE INTO history_words (block, word, number) VALUES (?1, ?2, ?3)";
    let mut enter = connection.prepare_cached(sql)?;
    for (word, number) in entries {
        enter.execute(params![block, word, number])?;
    }
    Ok(())
}
