//! Parsing of times: RFC 1123 (`Mon, 19 Sep 2016 18:29:47 GMT`) and, for old documentation and emulators, ISO 8601
//! (`2016-09-19T18:29:47Z`). Lenient: single-digit days and wrong weekdays occur in practice.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a time. Returns `None` for other formats and for times before 1970.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let secs = match text.split_once(',') {
        Some((weekday, rest)) if WEEKDAYS.iter().any(|day| is_prefix(day, weekday)) => parse_rfc_1123(rest)?,
        Some(_) => return None,
        None => parse_iso_8601(text)?,
    };
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(secs).ok()?))
}

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Accepts `Mon` and `Monday`, but not `Mo`.
fn is_prefix(whole: &str, text: &str) -> bool {
    text.len() >= 3 && whole.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

fn parse_rfc_1123(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace();
    let day = parse_number(words.next()?, 1..=2)?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? as i64 + 1;
    let year = parse_number(words.next()?, 4..=4)?;
    let time = parse_time_of_day(words.next()?)?;
    let zone = words.next()?;
    let is_utc = ["GMT", "UTC", "Z", "+0000"].iter().any(|known| known.eq_ignore_ascii_case(zone));
    (is_utc && words.next().is_none()).then_some(())?;
    Some(days_since_epoch(year, month, day)? * 86_400 + time)
}

/// A time without a zone is UTC.
fn parse_iso_8601(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-');
    let year = parse_number(parts.next()?, 4..=4)?;
    let month = parse_number(parts.next()?, 2..=2)?;
    let day = parse_number(parts.next()?, 2..=2)?;
    parts.next().is_none().then_some(())?;
    let (time, zone) = rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len()));
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    parse_number(fraction, 1..=9)?;
    Some(days_since_epoch(year, month, day)? * 86_400 + parse_time_of_day(time)? - parse_offset_secs(zone)?)
}

fn parse_offset_secs(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next() {
        None | Some('Z' | 'z') => return (zone.len() <= 1).then_some(0),
        Some('+') => 1,
        Some(_) => -1,
    };
    let (hours, minutes) = match &zone[1..] {
        text if text.len() == 4 => (text.get(..2)?, text.get(2..)?),
        text => text.split_once(':').unwrap_or((text, "00")),
    };
    let (hours, minutes) = (parse_number(hours, 2..=2)?, parse_number(minutes, 2..=2)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

fn parse_time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let mut next = |max| parts.next().and_then(|part| parse_number(part, 2..=2)).filter(|&value| value <= max);
    // A leap second (60) counts as the start of the next minute.
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    parts.next().is_none().then_some(hour * 3600 + minute * 60 + second)
}

fn parse_number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 to a date. The computation starts years in March, so that a leap day is the last day of the
/// year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=last).contains(&day).then_some(())?;
    let march_year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let before = march_year * 365 + march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    Some(before + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Option<u64>) {
        let secs = parse(text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(secs, expected, "{text:?}");
    }

    const SEED: Option<u64> = Some(1_474_309_787);

    #[test]
    fn both_formats_and_common_deviations_are_accepted() {
        check("Mon, 19 Sep 2016 18:29:47 GMT", SEED);
        check("mon, 19 sep 2016 18:29:47 utc", SEED);
        check("Monday, 19 Sep 2016 18:29:47 GMT", SEED);
        check("Tue, 19 Sep 2016 18:29:47 GMT", SEED);
        check("Sat, 01 Mar 2020 00:00:00 GMT", Some(1_583_020_800));
        check("Sat, 1 Mar 2020 00:00:00 GMT", Some(1_583_020_800));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("2016-09-19T18:29:47Z", SEED);
        check("2016-09-19t18:29:47z", SEED);
        check("2016-09-19 18:29:47", SEED);
        check("2016-09-19T18:29:47.1234567Z", SEED);
        check("2016-09-19T20:29:47+02:00", SEED);
        check("2016-09-19T13:59:47-0430", SEED);
        check("2016-09-19T18:29:47+00", SEED);
        check("2000-02-29T00:00:00Z", Some(951_782_400));
        check("9999-12-31T23:59:59Z", Some(253_402_300_799));
    }

    #[test]
    fn anything_else_is_rejected() {
        for text in [
            "",
            "now",
            "Mon, 19 Sep 2016",
            "Xyz, 19 Sep 2016 18:29:47 GMT",
            "Mo, 19 Sep 2016 18:29:47 GMT",
            "Mon, 31 Sep 2016 18:29:47 GMT",
            "Mon, 19 Sept 2016 18:29:47 GMT",
            "Mon, 19 Sep 2016 24:29:47 GMT",
            "Mon, 19 Sep 2016 18:29:47 CET",
            "Mon, 19 Sep 2016 18:29:47 GMT x",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "2016-09-19",
            "2016-9-19T18:29:47Z",
            "2016-13-19T18:29:47Z",
            "2016-09-19T18:29Z",
            "2016-09-19T18:29:47Zz",
            "2016-09-19T18:29:47+2",
            "2016-09-19T18:29:47.Z",
            "1900-02-29T00:00:00Z",
            "1474309787",
        ] {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn formatted_times_parse_back(secs in 0..253_402_300_799u64) {
            let time = UNIX_EPOCH + Duration::from_secs(secs);
            prop_assert_eq!(parse(&httpdate::fmt_http_date(time)), Some(time));
        }

        #[test]
        fn no_input_causes_a_panic(text in ".{0,40}", nearly in r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[Z+é-]?.{0,6}") {
            let _ = (parse(&text), parse(&nearly));
        }
    }
}
