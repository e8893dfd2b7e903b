//! Maintenance windows: recurring spans of local time.
//!
//! The core reads no time zone database. A [`Zone`] carries the offsets that its user looked up, so the same
//! input always gives the same windows.

use std::time::Duration;

use crate::model::Name;
use crate::time::Timestamp;

const DAY_SECS: i64 = 86_400;

/// How many days ahead the next window is looked for. Every window recurs within a week, or within two if one
/// occurrence lies in an hour that the clocks skip.
const SEARCH_DAYS: i64 = 16;

/// A window that recurs on certain weekdays, for example "Saturday 22:00 to 04:00".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub days: Weekdays,
    /// Local start time, in minutes after midnight.
    pub start_minute: u32,
    /// Local end time, in minutes after midnight. A window that does not end after its start ends the next day.
    pub end_minute: u32,
    pub zone: Zone,
}

/// The weekdays on which a window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weekdays(u8);

/// A time zone: its name and its offsets from UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: Name,
    /// Each offset in seconds, with the time from which it applies, in order. The first applies to all earlier
    /// times too.
    pub offsets: Vec<(Timestamp, i32)>,
}

/// One occurrence of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl Weekdays {
    pub const ALL: Weekdays = Weekdays(0x7f);

    /// Days as numbers from 0 (Monday) to 6 (Sunday). Other numbers are ignored.
    pub fn new(days: impl IntoIterator<Item = u8>) -> Weekdays {
        Weekdays(days.into_iter().filter(|day| *day < 7).fold(0, |mask, day| mask | 1 << day))
    }

    pub fn contains(self, day: u8) -> bool {
        self.0 >> day & 1 == 1
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The days as numbers from 0 (Monday) to 6 (Sunday).
    pub fn days(self) -> impl Iterator<Item = u8> {
        (0..7).filter(move |day| self.contains(*day))
    }
}

impl Zone {
    pub fn utc() -> Zone {
        Zone { name: "UTC".into(), offsets: Vec::new() }
    }

    fn offset_at(&self, at: Timestamp) -> i64 {
        let later = self.offsets.partition_point(|(from, _)| *from <= at);
        self.offsets.get(later.saturating_sub(1)).map_or(0, |(_, offset)| i64::from(*offset))
    }

    /// The first moment at which local clocks show this time or later. A local time that is skipped gives the end
    /// of the gap; one that occurs twice gives its first occurrence.
    fn first_moment(&self, local_secs: i64) -> Timestamp {
        let moment = |offset: i32| Timestamp::from_secs(local_secs - i64::from(offset));
        let Some((_, first)) = self.offsets.first() else { return Timestamp::from_secs(local_secs) };
        let mut spans = Vec::with_capacity(self.offsets.len());
        for (n, (from, offset)) in self.offsets.iter().enumerate() {
            let from = if n == 0 { Timestamp(i64::MIN) } else { *from };
            spans.push((from, self.offsets.get(n + 1).map_or(Timestamp(i64::MAX), |(next, _)| *next), *offset));
        }
        let reached = spans.into_iter().filter_map(|(from, until, offset)| {
            let at = moment(offset).max(from);
            (at < until).then_some(at)
        });
        reached.min().unwrap_or_else(|| moment(*first))
    }
}

impl Window {
    /// The local length of the window.
    pub fn length(&self) -> Duration {
        let minutes = match self.end_minute.checked_sub(self.start_minute) {
            Some(minutes) if minutes > 0 => minutes,
            _ => self.end_minute + 24 * 60 - self.start_minute,
        };
        Duration::from_secs(u64::from(minutes) * 60)
    }

    /// The occurrence that contains `at`, or else the next one.
    fn current_or_next(&self, at: Timestamp) -> Option<Span> {
        let local_day = (at.as_secs() + self.zone.offset_at(at)).div_euclid(DAY_SECS);
        (local_day - 2..local_day + SEARCH_DAYS)
            .filter(|day| self.days.contains(weekday(*day)))
            .map(|day| self.occurrence(day))
            .find(|span| span.end > at && span.start < span.end)
    }

    fn occurrence(&self, day: i64) -> Span {
        let start = day * DAY_SECS + i64::from(self.start_minute) * 60;
        let end = start + self.length().as_secs() as i64;
        Span { start: self.zone.first_moment(start), end: self.zone.first_moment(end) }
    }
}

/// The day of the week of a day since 1970-01-01, which was a Thursday. 0 is Monday.
fn weekday(day: i64) -> u8 {
    (day + 3).rem_euclid(7) as u8
}

/// The span in which `at` lies, or the next one. Windows that touch or overlap are one span. None: there are no
/// windows, so there is no restriction.
pub fn current_or_next(windows: &[Window], at: Timestamp) -> Option<Span> {
    let mut span = windows.iter().filter_map(|window| window.current_or_next(at)).min()?;
    loop {
        let next = windows.iter().filter_map(|window| window.current_or_next(span.end)).min();
        match next.filter(|next| next.start <= span.end) {
            // A window without end would be merged forever; a week is as good as always.
            Some(next) if span.end.since(span.start) < Duration::from_secs(7 * 86_400) => span.end = next.end,
            _ => return Some(span),
        }
    }
}

impl Span {
    pub fn contains(self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2027-01-04 was a Monday.
    const MONDAY: i64 = 1_799_020_800;

    fn at(day: i64, hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_secs(MONDAY + day * DAY_SECS + hour * 3600 + minute * 60)
    }

    fn window(days: Weekdays, start: u32, end: u32, zone: Zone) -> Window {
        Window { days, start_minute: start * 60, end_minute: end * 60, zone }
    }

    fn check(windows: &[Window], now: Timestamp, expected: (Timestamp, Timestamp)) {
        let span = current_or_next(windows, now).expect("there is a window");
        assert_eq!((span.start, span.end), expected, "at {now:?}");
    }

    #[test]
    fn the_test_week_begins_on_a_monday() {
        assert_eq!(weekday(MONDAY.div_euclid(DAY_SECS)), 0);
        assert_eq!(MONDAY % DAY_SECS, 0);
    }

    #[test]
    fn a_daily_window_contains_its_start_but_not_its_end() {
        let nightly = [window(Weekdays::ALL, 1, 5, Zone::utc())];
        check(&nightly, at(0, 0, 59), (at(0, 1, 0), at(0, 5, 0)));
        check(&nightly, at(0, 1, 0), (at(0, 1, 0), at(0, 5, 0)));
        check(&nightly, at(0, 5, 0), (at(1, 1, 0), at(1, 5, 0)));
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_starts() {
        let saturday = [window(Weekdays::new([5]), 22, 4, Zone::utc())];
        check(&saturday, at(0, 12, 0), (at(5, 22, 0), at(6, 4, 0)));
        check(&saturday, at(6, 3, 59), (at(5, 22, 0), at(6, 4, 0)));
        check(&saturday, at(6, 4, 0), (at(12, 22, 0), at(13, 4, 0)));
    }

    #[test]
    fn windows_that_touch_are_one_span() {
        let windows = [window(Weekdays::ALL, 20, 0, Zone::utc()), window(Weekdays::ALL, 0, 2, Zone::utc())];
        check(&windows, at(0, 21, 0), (at(0, 20, 0), at(1, 2, 0)));
    }

    #[test]
    fn a_window_that_always_applies_ends_the_search() {
        let always = [window(Weekdays::ALL, 0, 0, Zone::utc())];
        assert!(current_or_next(&always, at(0, 12, 0)).is_some_and(|span| span.contains(at(3, 0, 0))));
    }

    /// UTC+1, and UTC+2 from Wednesday 01:00 UTC to Friday 01:00 UTC: at those times, clocks go from 02:00 to 03:00
    /// and back from 03:00 to 02:00.
    fn short_summer() -> Zone {
        let offsets = vec![(Timestamp(0), 3600), (at(2, 1, 0), 7200), (at(4, 1, 0), 3600)];
        Zone { name: "Test/Zone".into(), offsets }
    }

    #[test]
    fn local_times_follow_the_offset() {
        let nightly = [window(Weekdays::ALL, 4, 6, short_summer())];
        check(&nightly, at(0, 0, 0), (at(0, 3, 0), at(0, 5, 0)));
        check(&nightly, at(2, 0, 0), (at(2, 2, 0), at(2, 4, 0)));
        check(&nightly, at(4, 2, 0), (at(4, 3, 0), at(4, 5, 0)));
    }

    #[test]
    fn a_start_that_the_clocks_skip_moves_to_the_next_time_that_exists() {
        let wednesday = [Window { start_minute: 150, ..window(Weekdays::new([2]), 0, 4, short_summer()) }];
        check(&wednesday, at(0, 0, 0), (at(2, 1, 0), at(2, 2, 0)));
    }

    #[test]
    fn a_window_that_lies_in_the_skipped_hour_does_not_occur() {
        let skipped = Window { start_minute: 130, end_minute: 170, ..window(Weekdays::new([2]), 0, 0, short_summer()) };
        check(&[skipped], at(0, 0, 0), (at(9, 1, 10), at(9, 1, 50)));
    }

    #[test]
    fn a_start_that_occurs_twice_counts_once() {
        let friday = [Window { start_minute: 150, ..window(Weekdays::new([4]), 0, 4, short_summer()) }];
        check(&friday, at(4, 0, 0), (at(4, 0, 30), at(4, 3, 0)));
        check(&friday, at(4, 3, 0), (at(11, 1, 30), at(11, 3, 0)));
    }
}
