//! Queries for attachments and history. Every query uses an index and reads at most one page, and the rows that are not in the
//! search tables yet.
//!
//! Of the history filters, the most selective one chooses the search table; the others are checked on the rows found.
//! Times are first converted to bounds on row numbers, because rows are ordered by time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forewarn_core::{Guid, MachineId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::error::read_error;
use super::{query_one, search};
use crate::history::{fold, matches, split_words};
use crate::recent::RecentRows;
use crate::text::parse_guid;
use crate::{ATTACHMENTS_PAGE_MAX, Attachment, HistoryKind, HistoryQuery, HistoryRow, Owner, Reader, StoreError};

pub(super) struct SqliteReader {
    /// For history and lists.
    connection: Mutex<Connection>,
    /// For single attachments, which guests' token requests read: a slow history query must not delay them.
    single: Mutex<Connection>,
    recent: Mutex<RecentRows>,
}

impl SqliteReader {
    /// `newest`: the number of the newest history row.
    pub fn new(connection: Connection, single: Connection, newest: u64) -> SqliteReader {
        SqliteReader {
            connection: Mutex::new(connection),
            single: Mutex::new(single),
            recent: Mutex::new(RecentRows::new(newest)),
        }
    }

    /// The rows of the commits of this store.
    pub fn recent(&self) -> MutexGuard<'_, RecentRows> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader for SqliteReader {
    fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryRow>, StoreError> {
        if let Some(rows) = self.recent_history(query) {
            return Ok(rows);
        }
        let mut connection = self.connection();
        let view = connection.transaction().map_err(read_error)?;
        query_history(&view, query).map_err(read_error)
    }

    fn recent_history(&self, query: &HistoryQuery) -> Option<Vec<HistoryRow>> {
        let slice = self.recent().select(query)?;
        slice.answer(query)
    }

    fn attachment(&self, owner: Owner, name: &str) -> Result<Option<String>, StoreError> {
        let (kind, key) = owner.record_name();
        let sql = "SELECT value FROM attachments WHERE kind = ?1 AND key = ?2 AND name = ?3";
        let single = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        query_one(&single, sql, [kind, &key, name]).map_err(read_error)
    }

    fn attachments(
        &self,
        owner: Owner,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let (kind, key) = owner.record_name();
        let limit = limit.min(ATTACHMENTS_PAGE_MAX);
        let (comparison, from) = match after {
            Some(after) if after >= prefix => (">", after),
            Some(_) | None => (">=", prefix),
        };
        let sql = format!(
            "SELECT name, value FROM attachments WHERE kind = ?1 AND key = ?2 AND name {comparison} ?3
              ORDER BY name LIMIT ?4"
        );
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&sql).map_err(read_error)?;
        let rows = statement.query_map(params![kind, key, from, limit], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String)>>>).map_err(read_error)?;
        Ok(rows.into_iter().take_while(|(name, _)| name.starts_with(prefix)).collect())
    }

    fn all_attachments(&self, after: Option<(Owner, &str)>) -> Result<Vec<Attachment>, StoreError> {
        let (owner, name) = after.map_or((Default::default(), ""), |(owner, name)| (owner.record_name(), name));
        let sql = "SELECT kind, key, name, value FROM attachments WHERE (kind, key, name) > (?1, ?2, ?3)
                    ORDER BY kind, key, name LIMIT ?4";
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql).map_err(read_error)?;
        let rows = statement.query_map(params![owner.0, owner.1, name, ATTACHMENTS_PAGE_MAX], read_attachment);
        rows.and_then(Iterator::collect).map_err(read_error)
    }
}

#[cfg(test)]
impl SqliteReader {
    /// Keeps the connection for history and lists busy.
    pub fn lock_lists(&self) -> MutexGuard<'_, Connection> {
        self.connection()
    }
}

fn read_attachment(row: &Row<'_>) -> rusqlite::Result<Attachment> {
    let (kind, key): (String, String) = (row.get(0)?, row.get(1)?);
    let owner = Owner::from_record_name(&kind, &key).ok_or_else(|| invalid_value(1, "attachments", &key))?;
    Ok(Attachment { owner, name: row.get(2)?, value: Some(row.get(3)?) })
}

/// The oldest rows, as far as they are before a time.
pub(super) fn query_oldest(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<HistoryRow>> {
    let mut rows = query_through(connection, i64::MAX as u64, limit)?;
    rows.truncate(rows.partition_point(|row| row.at < before));
    Ok(rows)
}

/// Rows up to this number, oldest first.
pub(super) fn query_through(connection: &Connection, through: u64, limit: u32) -> rusqlite::Result<Vec<HistoryRow>> {
    let sql = format!("SELECT {COLUMNS} FROM history h WHERE h.number <= ?1 ORDER BY h.number LIMIT ?2");
    connection.prepare_cached(&sql)?.query_map((through, limit), read_row)?.collect()
}

/// The ends of operations among the rows from `first` to `last`.
pub(super) fn query_ended_operations(
    connection: &Connection,
    (first, last): (u64, u64),
) -> rusqlite::Result<Vec<HistoryRow>> {
    let sql = format!("SELECT {COLUMNS} FROM history h WHERE h.number BETWEEN ?1 AND ?2 AND h.kind = ?3");
    let kind = HistoryKind::OperationEnded.as_str();
    connection.prepare_cached(&sql)?.query_map(params![first, last, kind], read_row)?.collect()
}

fn query_history(connection: &Connection, query: &HistoryQuery) -> rusqlite::Result<Vec<HistoryRow>> {
    let Some((first, last)) = find_bounds(connection, query)? else { return Ok(Vec::new()) };
    let entered = match uses_search_table(query) {
        true => search::last_entered(read_newest(connection)?),
        false => last,
    };
    let mut rows = Vec::new();
    for select in build_selects(query, (first, last.min(entered))) {
        let found = connection
            .prepare_cached(&select.sql)?
            .query_map(params_from_iter(select.values), read_row)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        rows.extend(found);
    }
    rows.extend(query_not_entered(connection, query, (first.max(entered + 1), last))?);
    rows.sort_by_key(|row| row.number);
    let limit = query.page_size();
    if query.newest {
        rows.drain(..rows.len().saturating_sub(limit));
    } else {
        rows.truncate(limit);
    }
    Ok(rows)
}

/// The matching rows that no search table has yet.
fn query_not_entered(
    connection: &Connection,
    query: &HistoryQuery,
    (first, last): (u64, u64),
) -> rusqlite::Result<Vec<HistoryRow>> {
    if first > last {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(&rows_between_sql())?;
    let rows = statement.query_map([first, last].map(bound), read_row)?;
    rows.filter(|row| row.as_ref().map_or(true, |row| matches(query, row))).collect()
}

pub(super) fn rows_between_sql() -> String {
    format!("SELECT {COLUMNS} FROM history h WHERE h.number BETWEEN ?1 AND ?2 ORDER BY h.number")
}

/// A row number as SQLite stores it.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number of the newest row that is still there.
fn read_newest(connection: &Connection) -> rusqlite::Result<u64> {
    let newest = query_one::<u64>(connection, "SELECT number FROM history ORDER BY number DESC LIMIT 1", [])?;
    Ok(newest.unwrap_or(0))
}

/// The range of row numbers that can match the query. None: no row can match.
fn find_bounds(connection: &Connection, query: &HistoryQuery) -> rusqlite::Result<Option<(u64, u64)>> {
    let mut first = query.after.map_or(0, |after| after.saturating_add(1));
    let mut last = query.before.map_or(i64::MAX as u64, |before| before.saturating_sub(1));
    if let Some(since) = query.since {
        first = first.max(find_first_since(connection, since)?);
    }
    if let Some(until) = query.until {
        last = last.min(find_first_since(connection, until)?.saturating_sub(1));
    }
    Ok((first <= last).then_some((first, last)))
}

/// The number of the first row at or after a time, found by bisection. If there is none, the number after the newest row.
fn find_first_since(connection: &Connection, since: Timestamp) -> rusqlite::Result<u64> {
    // The row is in this range, or is the one at its end.
    let (mut low, mut high) = (0, read_newest(connection)? + 1);
    let mut statement = connection.prepare_cached(NEXT_ROW)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let next = statement.query_row([bound(middle)], |row| Ok((row.get::<_, u64>(0)?, Timestamp(row.get(1)?))));
        match next.optional()? {
            Some((number, at)) if at < since => low = number + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

pub(super) const NEXT_ROW: &str = "SELECT number, at_ms FROM history WHERE number >= ?1 ORDER BY number LIMIT 1";

const COLUMNS: &str = "h.number, h.at_ms, h.kind, h.event, h.operation, h.joined, h.scope, h.machines, h.actor, \
                       h.target, h.outcome, h.detail, h.machine_ids";

struct Select {
    sql: String,
    values: Vec<Value>,
}

/// Whether a filter chooses a search table. Otherwise the rows are read in order.
fn uses_search_table(query: &HistoryQuery) -> bool {
    has_leading_filter(query) || query.machine_id.is_some() || !query.kinds.is_empty()
}

/// Whether a filter is more selective than the kind.
fn has_leading_filter(query: &HistoryQuery) -> bool {
    query.event.is_some()
        || query.operation.is_some()
        || query.machine.is_some()
        || query.target.is_some()
        || query.ticket.is_some()
}

/// One statement, or one for each kind if no other filter is more selective. The rows of a machine are found by its ID
/// and, where they have none, by its name.
fn build_selects(query: &HistoryQuery, bounds: (u64, u64)) -> Vec<Select> {
    let is_by_machine = query.event.is_none() && query.operation.is_none();
    if let Some(id) = query.machine_id.filter(|_| is_by_machine) {
        let by_id = build_select_by_id(query, id, bounds);
        let by_name = query.machine.as_ref().map(|_| build_select(query, &query.kinds, bounds));
        return std::iter::once(by_id).chain(by_name).collect();
    }
    let mut kinds = query.kinds.clone();
    kinds.sort();
    kinds.dedup();
    if has_leading_filter(query) || kinds.is_empty() {
        vec![build_select(query, &kinds, bounds)]
    } else {
        kinds.chunks(1).map(|kind| build_select(query, kind, bounds)).collect()
    }
}

fn build_select_by_id(query: &HistoryQuery, id: MachineId, (first, last): (u64, u64)) -> Select {
    let mut values = vec![Value::from(id.0 as i64)];
    values.extend([first, last].map(|number| Value::from(bound(number))));
    let mut conditions = vec!["i.machine = ?".to_string(), "i.number BETWEEN ? AND ?".to_string()];
    if !query.kinds.is_empty() {
        conditions.push(format!("i.kind IN ({})", vec!["?"; query.kinds.len()].join(", ")));
        values.extend(query.kinds.iter().map(|kind| Value::from(kind.as_str().to_owned())));
    }
    add_parties(query, &mut conditions, &mut values);
    add_scopes(query, &mut conditions, &mut values);
    values.push(Value::from(query.page_size() as i64));
    let order = if query.newest { "DESC" } else { "ASC" };
    let from = "history_machine_ids i CROSS JOIN history h ON h.number = i.number";
    let conditions = conditions.join(" AND ");
    let sql = format!("SELECT {COLUMNS} FROM {from} WHERE {conditions} ORDER BY i.number {order} LIMIT ?");
    Select { sql, values }
}

fn build_select(query: &HistoryQuery, kinds: &[HistoryKind], (first, last): (u64, u64)) -> Select {
    let mut values = Vec::new();
    let mut conditions = Vec::new();
    let (from, number) = if let Some(event) = query.event {
        conditions.push("e.event = ?".to_string());
        values.push(Value::from(event.to_string()));
        ("history_events e CROSS JOIN history h ON h.number = e.number", "e.number")
    } else if let Some(operation) = query.operation {
        conditions.push("o.operation = ?".to_string());
        values.push(Value::from(operation.to_string()));
        ("history_operations o CROSS JOIN history h ON h.number = o.number", "o.number")
    } else if let Some(machine) = &query.machine {
        conditions.push("m.name = ?".to_string());
        values.push(Value::from(fold(machine)));
        if query.machine_id.is_some() {
            conditions.push("h.machine_ids IS NULL".to_string());
        }
        ("history_machines m CROSS JOIN history h ON h.number = m.number", "m.number")
    } else if let Some(target) = &query.target {
        // The names of a row include its target.
        conditions.push("m.name = ?".to_string());
        values.push(Value::from(fold(target)));
        ("history_machines m CROSS JOIN history h ON h.number = m.number", "m.number")
    } else if let Some(ticket) = &query.ticket {
        conditions.push("w.word = ?".to_string());
        values.push(Value::from(split_words(ticket).into_iter().next().unwrap_or_default()));
        ("history_words w CROSS JOIN history h ON h.number = w.number", "w.number")
    } else if let [kind] = kinds {
        conditions.push("k.kind = ?".to_string());
        values.push(Value::from(kind.as_str().to_owned()));
        ("history_kinds k CROSS JOIN history h ON h.number = k.number", "k.number")
    } else {
        ("history h", "h.number")
    };
    conditions.push(format!("{number} BETWEEN ? AND ?"));
    values.extend([first, last].map(|number| Value::from(bound(number))));
    add_filters(query, &mut conditions, &mut values);
    if has_leading_filter(query) && !kinds.is_empty() {
        conditions.push(format!("h.kind IN ({})", vec!["?"; kinds.len()].join(", ")));
        values.extend(kinds.iter().map(|kind| Value::from(kind.as_str().to_owned())));
    }
    values.push(Value::from(query.page_size() as i64));
    let order = if query.newest { "DESC" } else { "ASC" };
    let conditions = conditions.join(" AND ");
    let sql = format!("SELECT {COLUMNS} FROM {from} WHERE {conditions} ORDER BY {number} {order} LIMIT ?");
    Select { sql, values }
}

/// Adds the filters that did not choose the index.
fn add_filters(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    if let (Some(_), Some(operation)) = (query.event, query.operation) {
        let found = "SELECT 1 FROM history_operations o WHERE o.operation = ? AND o.number = h.number";
        conditions.push(format!("EXISTS ({found})"));
        values.push(Value::from(operation.to_string()));
    }
    if query.event.is_some() || query.operation.is_some() {
        add_machine(query, conditions, values);
    }
    add_parties(query, conditions, values);
    add_scopes(query, conditions, values);
}

/// Like [`fold`], SQLite's `lower` only knows ASCII.
fn add_parties(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    if let Some(target) = &query.target {
        conditions.push("lower(h.target) = ?".to_string());
        values.push(Value::from(fold(target)));
    }
    if let Some(actor) = &query.actor {
        conditions.push("instr(lower(h.actor), ?) > 0".to_string());
        values.push(Value::from(fold(actor)));
    }
    if let Some(ticket) = &query.ticket {
        for word in split_words(ticket) {
            conditions.push("EXISTS (SELECT 1 FROM history_words t WHERE t.word = ? AND t.number = h.number)".into());
            values.push(Value::from(word));
        }
    }
}

fn add_machine(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    let by_name = "EXISTS (SELECT 1 FROM history_machines m WHERE m.name = ? AND m.number = h.number)";
    let by_id = "EXISTS (SELECT 1 FROM history_machine_ids i WHERE i.machine = ? AND i.number = h.number)";
    match (&query.machine, query.machine_id) {
        (Some(name), None) => {
            conditions.push(by_name.to_string());
            values.push(Value::from(fold(name)));
        }
        (Some(name), Some(id)) => {
            conditions.push(format!("({by_id} OR h.machine_ids IS NULL AND {by_name})"));
            values.extend([Value::from(id.0 as i64), Value::from(fold(name))]);
        }
        (None, Some(id)) => {
            conditions.push(by_id.to_string());
            values.push(Value::from(id.0 as i64));
        }
        (None, None) => {}
    }
}

fn add_scopes(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    if !query.scopes.is_empty() {
        conditions.push(format!("({})", vec!["h.scope IS ?"; query.scopes.len()].join(" OR ")));
        values.extend(query.scopes.iter().map(|scope| Value::from(scope.map(|scope| scope as i64))));
    }
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<HistoryRow> {
    Ok(HistoryRow {
        number: row.get(0)?,
        at: Timestamp(row.get(1)?),
        kind: row.get(2)?,
        event: read_guid(row, 3)?,
        operation: read_guid(row, 4)?,
        joined: read_list(row, 5)?
            .iter()
            .map(|text| parse_guid(text).ok_or_else(|| invalid_value(5, "history", text)))
            .collect::<Result<_, _>>()?,
        scope: row.get(6)?,
        machines: read_list(row, 7)?,
        actor: row.get(8)?,
        target: row.get(9)?,
        outcome: row.get(10)?,
        detail: row.get(11)?,
        machine_ids: read_numbers(row, 12)?.into_iter().map(MachineId).collect(),
    })
}

fn read_guid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Guid>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| parse_guid(&text).ok_or_else(|| invalid_value(column, "history", &text))).transpose()
}

fn read_list(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: Option<String> = row.get(column)?;
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(&text).map_err(|_| invalid_value(column, "history", &text)))
}

fn read_numbers(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u64>> {
    let text: Option<String> = row.get(column)?;
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(&text).map_err(|_| invalid_value(column, "history", &text)))
}

fn invalid_value(column: usize, table: &str, text: &str) -> rusqlite::Error {
    let reason = format!("the table '{table}' contains the invalid value '{text}'");
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, reason.into())
}

/// The statements of a query, for tests of their query plans.
#[cfg(test)]
pub(super) fn statements(query: &HistoryQuery) -> Vec<String> {
    build_selects(query, (0, 1)).into_iter().map(|select| select.sql).collect()
}
