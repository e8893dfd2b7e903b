//! The newest history rows in memory. Most readers follow the commits and ask only for rows that were just written.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::history::matches;
use crate::{HISTORY_PAGE_MAX, HistoryQuery, HistoryRow};

/// A reader that is two full pages behind reads the store.
const ROWS_MAX: usize = 2 * HISTORY_PAGE_MAX as usize;

/// The last rows of a history, without gaps.
#[derive(Debug)]
pub(crate) struct RecentRows {
    /// Every row with a higher number is here.
    after: u64,
    rows: VecDeque<Arc<HistoryRow>>,
}

/// Some of the last rows, to be searched without the lock that the writer needs.
pub(crate) struct RecentSlice {
    /// Whether no older row can match.
    is_complete: bool,
    rows: Vec<Arc<HistoryRow>>,
}

impl RecentRows {
    /// Knows no rows. `newest`: the number of the newest row of the history.
    pub fn new(newest: u64) -> RecentRows {
        RecentRows { after: newest, rows: VecDeque::new() }
    }

    /// Adds the next row.
    pub fn add(&mut self, row: HistoryRow) {
        if self.rows.len() == ROWS_MAX
            && let Some(oldest) = self.rows.pop_front()
        {
            self.after = oldest.number;
        }
        self.rows.push_back(Arc::new(row));
    }

    /// The rows that a query may ask for. None: they are not enough.
    pub fn select(&self, query: &HistoryQuery) -> Option<RecentSlice> {
        let is_complete = query.after.is_some_and(|after| after >= self.after);
        if !is_complete && !query.newest {
            return None;
        }
        let first = query.after.map_or(0, |after| self.position_after(after));
        Some(RecentSlice { is_complete, rows: self.rows.range(first..).cloned().collect() })
    }

    /// The index of the first row with a higher number.
    fn position_after(&self, number: u64) -> usize {
        self.rows.partition_point(|row| row.number <= number)
    }
}

impl RecentSlice {
    /// The result of the query. None: older rows may match too.
    pub fn answer(&self, query: &HistoryQuery) -> Option<Vec<HistoryRow>> {
        let limit = query.page_size();
        let found = self.rows.iter().map(|row| &**row).filter(|row| matches(query, row));
        if query.newest {
            let mut rows: Vec<HistoryRow> = found.rev().take(limit).cloned().collect();
            rows.reverse();
            (self.is_complete || rows.len() == limit).then_some(rows)
        } else {
            Some(found.take(limit).cloned().collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::rows_of;
    use crate::{HistoryKind, conformance::sample};
    use forewarn_core::Timestamp;

    fn row(number: u64) -> HistoryRow {
        let first = rows_of(&sample::batch(), Timestamp(0)).into_iter().next().expect("the sample has rows");
        HistoryRow { number, kind: if number.is_multiple_of(2) { "started" } else { "ended" }.into(), ..first }
    }

    fn check(recent: &RecentRows, query: HistoryQuery, expected: Option<&[u64]>) {
        let found = recent.select(&query).and_then(|slice| slice.answer(&query));
        let numbers = found.map(|rows| rows.iter().map(|row| row.number).collect::<Vec<_>>());
        assert_eq!(numbers.as_deref(), expected, "{query:?}");
    }

    #[test]
    fn a_query_is_answered_only_if_no_older_row_can_match() {
        let mut recent = RecentRows::new(4);
        let after = |after| HistoryQuery { after: Some(after), ..HistoryQuery::default() };
        check(&recent, after(4), Some(&[]));
        check(&recent, after(3), None);
        (5..=9).for_each(|number| recent.add(row(number)));
        check(&recent, after(4), Some(&[5, 6, 7, 8, 9]));
        check(&recent, after(3), None);
        check(&recent, HistoryQuery::default(), None);
        check(&recent, HistoryQuery { limit: Some(2), ..after(5) }, Some(&[6, 7]));
        check(&recent, HistoryQuery { kinds: vec![HistoryKind::Ended], ..after(5) }, Some(&[7, 9]));
        let newest = |limit| HistoryQuery { newest: true, limit: Some(limit), ..HistoryQuery::default() };
        check(&recent, newest(2), Some(&[8, 9]));
        check(&recent, newest(6), None);
        check(&recent, HistoryQuery { kinds: vec![HistoryKind::Ended], ..newest(3) }, Some(&[5, 7, 9]));
        check(&recent, HistoryQuery { kinds: vec![HistoryKind::Ended], ..newest(4) }, None);
        check(&recent, HistoryQuery { after: Some(7), ..newest(9) }, Some(&[8, 9]));
        check(&recent, HistoryQuery { before: Some(8), ..newest(2) }, Some(&[6, 7]));
        check(&recent, HistoryQuery { before: Some(6), ..newest(2) }, None);
    }

    #[test]
    fn old_rows_are_not_kept() {
        let mut recent = RecentRows::new(0);
        let last = ROWS_MAX as u64 + 3;
        (1..=last).for_each(|number| recent.add(row(number)));
        assert_eq!((recent.rows.len(), recent.after), (ROWS_MAX, 3));
        let query = |after| HistoryQuery { after: Some(after), ..HistoryQuery::default() };
        check(&recent, query(last - 1), Some(&[last]));
        check(&recent, query(2), None);
    }
}
