//! Text forms of times and GUIDs.

use forewarn_core::{Guid, Timestamp};

/// Formats a time as `2026-01-31T23:59:59.999Z`.
pub(crate) fn iso(at: Timestamp) -> String {
    let ms_of_day = at.0.rem_euclid(MS_PER_DAY);
    let (year, month, day) = civil(at.0.div_euclid(MS_PER_DAY));
    let (secs, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z", secs / 3600, secs / 60 % 60, secs % 60)
}

/// Parses the form that [`iso`] writes, and no other.
pub(crate) fn parse_iso(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let secs = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
    let at = Timestamp(days_from_civil(year, month, day) * MS_PER_DAY + secs * 1000 + number(20..23)?);
    (iso(at) == text).then_some(at)
}

/// Parses the form in which `Guid` is displayed, and no other.
pub(crate) fn parse_guid(text: &str) -> Option<Guid> {
    let hyphens = [8, 13, 18, 23];
    if text.len() != 36 {
        return None;
    }
    text.bytes()
        .enumerate()
        .try_fold(0u128, |bits, (place, byte)| {
            if hyphens.contains(&place) {
                return (byte == b'-').then_some(bits);
            }
            Some(bits << 4 | u128::from(char::from(byte).to_digit(16)?))
        })
        .map(Guid)
}

const MS_PER_DAY: i64 = 24 * 3600 * 1000;

/// Days since 1970-01-01. Howard Hinnant's `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01. Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_they_are_written() {
        for ms in [0, 1, 951_782_400_000, 1_790_000_000_123, -86_400_000, 4_102_444_799_999] {
            assert_eq!(parse_iso(&iso(Timestamp(ms))), Some(Timestamp(ms)), "{ms}");
        }
        for text in ["", "1970-01-01", "1970-13-01T00:00:00.000Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000+"] {
            assert_eq!(parse_iso(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_formatted_in_utc_with_milliseconds() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
            (1_772_323_201_000, "2026-03-01T00:00:01.000Z"),
        ] {
            assert_eq!(iso(Timestamp(ms)), text);
        }
    }

    #[test]
    fn only_the_displayed_form_of_a_guid_is_parsed() {
        let guid = Guid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(parse_guid(&guid.to_string()), Some(guid));
        for wrong in ["", "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdeg"] {
            assert_eq!(parse_guid(wrong), None, "{wrong}");
        }
        assert_eq!(parse_guid(&guid.to_string().replace('-', "+")), None);
    }
}
