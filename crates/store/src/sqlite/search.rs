//! The search tables of history: which rows belong to an event, an operation, a machine, a kind or a word of a ticket.
//!
//! Rows are entered in blocks. The keys of single rows are scattered over the tables, so entering each row in its commit would
//! change a page per key; a sorted block changes each page once. Numbers alone decide which rows are entered: all up to the last
//! full block. The few rows after that are searched one by one.

use rusqlite::{Connection, Result, params};

use super::{read, write};
use crate::history::ticket_words;

/// Rows of a block, by number. A search reads at most this many rows that are not entered yet.
pub(super) const BLOCK_ROWS: u64 = 1024;

/// All tables with search keys. Each has a column `number`.
pub(super) const TABLES: [&str; 6] = [
    "history_events",
    "history_kinds",
    "history_operations",
    "history_machines",
    "history_machine_ids",
    "history_words",
];

/// All but the words: enter the rows with numbers from ?1 to ?2. A store that was upgraded has some of them already. Like
/// [`fold`](crate::history::fold), SQLite's `lower` only knows ASCII.
const ENTER: [&str; 5] = [
    "INSERT OR IGNORE INTO history_events (event, number)
     SELECT event, number FROM history WHERE number BETWEEN ?1 AND ?2 AND event IS NOT NULL
      ORDER BY event, number",
    "INSERT OR IGNORE INTO history_kinds (kind, number)
     SELECT kind, number FROM history WHERE number BETWEEN ?1 AND ?2
      ORDER BY kind, number",
    "INSERT OR IGNORE INTO history_operations (operation, number)
     SELECT operation, number FROM history WHERE number BETWEEN ?1 AND ?2 AND operation IS NOT NULL
      UNION ALL
     SELECT joined.value, number FROM history, json_each(history.joined) joined WHERE number BETWEEN ?1 AND ?2
      ORDER BY 1, 2",
    "INSERT OR IGNORE INTO history_machines (name, number)
     SELECT lower(target), number FROM history WHERE number BETWEEN ?1 AND ?2 AND target IS NOT NULL
      UNION ALL
     SELECT lower(machine.value), number FROM history, json_each(history.machines) machine
      WHERE number BETWEEN ?1 AND ?2
      ORDER BY 1, 2",
    "INSERT OR IGNORE INTO history_machine_ids (machine, number, kind)
     SELECT machine.value, number, history.kind FROM history, json_each(history.machine_ids) machine
      WHERE number BETWEEN ?1 AND ?2
      ORDER BY 1, 2",
];

/// The number up to which rows are entered, if the newest row has this number.
pub(super) fn last_entered(newest: u64) -> u64 {
    newest - newest % BLOCK_ROWS
}

/// Enters the blocks that new rows have filled. `before`: the number of the newest row before them.
pub(super) fn enter_full_blocks(connection: &Connection, before: u64, newest: u64) -> Result<()> {
    let (first, last) = (last_entered(before) + 1, last_entered(newest));
    if first > last {
        return Ok(());
    }
    for sql in ENTER {
        connection.prepare_cached(sql)?.execute((first, last))?;
    }
    enter_words(connection, first, last)
}

/// Enters the words of all rows of an older store.
pub(super) fn fill_words(connection: &Connection) -> Result<()> {
    for first in (0..=write::read_newest_number(connection)?).step_by(BLOCK_ROWS as usize) {
        enter_words(connection, first, first + BLOCK_ROWS - 1)?;
    }
    Ok(())
}

fn enter_words(connection: &Connection, first: u64, last: u64) -> Result<()> {
    let rows = read::query_ended_operations(connection, (first, last))?;
    let mut entries: Vec<(String, u64)> = Vec::new();
    for row in &rows {
        entries.extend(ticket_words(row).into_iter().map(|word| (word, row.number)));
    }
    entries.sort();
    let mut enter = connection.prepare_cached("INSERT OR IGNORE INTO history_words (word, number) VALUES (?1, ?2)")?;
    for (word, number) in entries {
        enter.execute(params![word, number])?;
    }
    Ok(())
}
