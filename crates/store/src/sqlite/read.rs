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
    let mut rows = Vec::new();
    if uses_search_table(query) {
        let entered = search::last_entered(read_newest(connection)?);
        let not_entered = (first.max(entered + 1), last);
        if query.newest {
            rows.extend(query_not_entered(connection, query, not_entered)?);
        }
        query_entered(connection, query, (first, last.min(entered)), &mut rows)?;
        if !query.newest && rows.len() < query.page_size() {
            rows.extend(query_not_entered(connection, query, not_entered)?);
        }
    } else {
        rows.extend(run(connection, &build_unfiltered(query, (first, last)))?);
    }
    rows.sort_by_key(|row| row.number);
    let limit = query.page_size();
    if query.newest {
        rows.drain(..rows.len().saturating_sub(limit));
    } else {
        rows.truncate(limit);
    }
    Ok(rows)
}

/// Adds matching rows of the search tables, block by block, until there are enough.
fn query_entered(
    connection: &Connection,
    query: &HistoryQuery,
    (first, last): (u64, u64),
    rows: &mut Vec<HistoryRow>,
) -> rusqlite::Result<()> {
    let mut selects = build_selects(query, (first, last));
    let mut blocks = search::blocks_of((first.max(read_oldest(connection)?), last));
    while rows.len() < query.page_size()
        && let Some(block) = if query.newest { blocks.next_back() } else { blocks.next() }
    {
        for select in &mut selects {
            select.values[BLOCK] = Value::from(block as i64);
            rows.extend(run(connection, select)?);
        }
    }
    Ok(())
}

fn run(connection: &Connection, select: &Select) -> rusqlite::Result<Vec<HistoryRow>> {
    connection.prepare_cached(&select.sql)?.query_map(params_from_iter(&select.values), read_row)?.collect()
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

/// The number of the oldest row that is still there.
fn read_oldest(connection: &Connection) -> rusqlite::Result<u64> {
    let oldest = query_one::<u64>(connection, "SELECT number FROM history ORDER BY number LIMIT 1", [])?;
    Ok(oldest.unwrap_or(0))
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

/// The index of the block among the values of a statement that reads a search table.
const BLOCK: usize = 0;

/// The search table that a filter chooses, with the column and the value to look for.
struct Search {
    table: &'static str,
    column: &'static str,
    value: Value,
}

/// Whether a filter chooses a search table. Otherwise the rows are read in order.
fn uses_search_table(query: &HistoryQuery) -> bool {
    leading_filter(query).is_some() || query.machine_id.is_some() || !query.kinds.is_empty()
}

/// The most selective filter, if one is more selective than the kind.
fn leading_filter(query: &HistoryQuery) -> Option<Search> {
    // The names of a row include its target.
    let name = query.machine.as_ref().or(query.target.as_ref());
    let (table, column, value) = if let Some(event) = query.event {
        ("history_events", "event", event.to_string())
    } else if let Some(operation) = query.operation {
        ("history_operations", "operation", operation.to_string())
    } else if let Some(name) = name {
        ("history_machines", "name", fold(name))
    } else {
        let ticket = query.ticket.as_ref()?;
        ("history_words", "word", split_words(ticket).into_iter().next().unwrap_or_default())
    };
    Some(Search { table, column, value: Value::from(value) })
}

/// One statement, or one for each kind if no other filter is more selective. The rows of a machine are found by its ID
/// and, where they have none, by its name.
fn build_selects(query: &HistoryQuery, bounds: (u64, u64)) -> Vec<Select> {
    let is_by_machine = query.event.is_none() && query.operation.is_none();
    if let Some(id) = query.machine_id.filter(|_| is_by_machine) {
        let by_id = build_select_by_id(query, id, bounds);
        let by_name = leading_filter(query).filter(|_| query.machine.is_some());
        return std::iter::once(by_id).chain(by_name.map(|search| build_select(query, search, bounds))).collect();
    }
    if let Some(search) = leading_filter(query) {
        return vec![build_select(query, search, bounds)];
    }
    let mut kinds = query.kinds.clone();
    kinds.sort();
    kinds.dedup();
    kinds.into_iter().map(|kind| build_select_by_kind(query, kind, bounds)).collect()
}

fn build_select_by_id(query: &HistoryQuery, id: MachineId, bounds: (u64, u64)) -> Select {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    if !query.kinds.is_empty() {
        conditions.push(format!("i.kind IN ({})", vec!["?"; query.kinds.len()].join(", ")));
        values.extend(query.kinds.iter().map(|kind| Value::from(kind.as_str().to_owned())));
    }
    add_parties(query, &mut conditions, &mut values);
    add_scopes(query, &mut conditions, &mut values);
    let search = Search { table: "history_machine_ids", column: "machine", value: Value::from(id.0 as i64) };
    finish_select(query, search, bounds, conditions, values)
}

fn build_select_by_kind(query: &HistoryQuery, kind: HistoryKind, bounds: (u64, u64)) -> Select {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    add_filters(query, &mut conditions, &mut values);
    let search = Search { table: "history_kinds", column: "kind", value: Value::from(kind.as_str().to_owned()) };
    finish_select(query, search, bounds, conditions, values)
}

fn build_select(query: &HistoryQuery, search: Search, bounds: (u64, u64)) -> Select {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    if search.column == "name" && query.machine.is_some() && query.machine_id.is_some() {
        conditions.push("h.machine_ids IS NULL".to_string());
    }
    add_filters(query, &mut conditions, &mut values);
    if !query.kinds.is_empty() {
        conditions.push(format!("h.kind IN ({})", vec!["?"; query.kinds.len()].join(", ")));
        values.extend(query.kinds.iter().map(|kind| Value::from(kind.as_str().to_owned())));
    }
    finish_select(query, search, bounds, conditions, values)
}

/// Reads one block of a search table, in order, with these conditions in addition.
fn finish_select(
    query: &HistoryQuery,
    search: Search,
    (first, last): (u64, u64),
    conditions: Vec<String>,
    values: Vec<Value>,
) -> Select {
    let Search { table, column, value } = search;
    let conditions: String = conditions.iter().map(|condition| format!(" AND {condition}")).collect();
    let order = order_of(query);
    let sql = format!(
        "SELECT {COLUMNS} FROM {table} i CROSS JOIN history h ON h.number = i.number
          WHERE i.block = ? AND i.{column} = ? AND i.number BETWEEN ? AND ?{conditions}
          ORDER BY i.number {order} LIMIT ?"
    );
    let mut all = vec![Value::Null, value];
    all.extend([first, last].map(|number| Value::from(bound(number))));
    all.extend(values);
    all.push(Value::from(query.page_size() as i64));
    Select { sql, values: all }
}

/// Reads rows in order.
fn build_unfiltered(query: &HistoryQuery, (first, last): (u64, u64)) -> Select {
    let mut conditions = vec!["h.number BETWEEN ? AND ?".to_string()];
    let mut values: Vec<Value> = [first, last].map(|number| Value::from(bound(number))).into();
    add_filters(query, &mut conditions, &mut values);
    values.push(Value::from(query.page_size() as i64));
    let (conditions, order) = (conditions.join(" AND "), order_of(query));
    Select {
        sql: format!("SELECT {COLUMNS} FROM history h WHERE {conditions} ORDER BY h.number {order} LIMIT ?"),
        values,
    }
}

fn order_of(query: &HistoryQuery) -> &'static str {
    if query.newest { "DESC" } else { "ASC" }
}

/// Adds the filters that did not choose the index.
fn add_filters(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    if let (Some(_), Some(operation)) = (query.event, query.operation) {
        conditions.push(has_key("history_operations", "operation"));
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
            conditions.push(has_key("history_words", "word"));
            values.push(Value::from(word));
        }
    }
}

fn add_machine(query: &HistoryQuery, conditions: &mut Vec<String>, values: &mut Vec<Value>) {
    let by_name = has_key("history_machines", "name");
    let by_id = has_key("history_machine_ids", "machine");
    match (&query.machine, query.machine_id) {
        (Some(name), None) => {
            conditions.push(by_name);
            values.push(Value::from(fold(name)));
        }
        (Some(name), Some(id)) => {
            conditions.push(format!("({by_id} OR h.machine_ids IS NULL AND {by_name})"));
            values.extend([Value::from(id.0 as i64), Value::from(fold(name))]);
        }
        (None, Some(id)) => {
            conditions.push(by_id);
            values.push(Value::from(id.0 as i64));
        }
        (None, None) => {}
    }
}

/// Whether the row `h` has a key.
fn has_key(table: &str, column: &str) -> String {
    let block = search::block_of_row();
    format!("EXISTS (SELECT 1 FROM {table} t WHERE t.block = {block} AND t.{column} = ? AND t.number = h.number)")
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
    let selects =
        if uses_search_table(query) { build_selects(query, (0, 1)) } else { vec![build_unfiltered(query, (0, 1))] };
    selects.into_iter().map(|select| select.sql).collect()
}
