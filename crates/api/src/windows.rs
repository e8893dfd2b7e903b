//! Maintenance windows of the API as the rules need them: with the offsets of their time zone looked up.

use std::time::Duration;

use forewarn_api_types::{MaintenanceWindow, Weekday};
use forewarn_core::{Name, Timestamp, Weekdays, Window, Zone};
use jiff::tz::TimeZone;

use super::error::{ApiError, ErrorCode};

/// How far ahead offsets are looked up. After that, the last one applies. Rollouts last days, not years.
const OFFSETS_AHEAD: Duration = Duration::from_secs(3 * 366 * 86_400);

pub fn resolve(windows: &[MaintenanceWindow], now: Timestamp) -> Result<Vec<Window>, ApiError> {
    windows.iter().map(|window| resolve_one(window, now)).collect()
}

fn resolve_one(window: &MaintenanceWindow, now: Timestamp) -> Result<Window, ApiError> {
    let days = match window.days.as_slice() {
        [] => Weekdays::ALL,
        days => Weekdays::new(days.iter().map(|day| number_of(*day))),
    };
    Ok(Window {
        days,
        start_minute: parse_minute(&window.start)?,
        end_minute: parse_minute(&window.end)?,
        zone: find_zone(window.time_zone.as_deref().unwrap_or("UTC"), now)?,
    })
}

fn invalid(message: String) -> ApiError {
    ApiError::field("windows", message)
}

/// From 0 (Monday) to 6 (Sunday).
fn number_of(day: Weekday) -> u8 {
    match day {
        Weekday::Mon => 0,
        Weekday::Tue => 1,
        Weekday::Wed => 2,
        Weekday::Thu => 3,
        Weekday::Fri => 4,
        Weekday::Sat => 5,
        Weekday::Sun => 6,
    }
}

fn parse_minute(text: &str) -> Result<u32, ApiError> {
    let parse = || {
        let (hour, minute) = text.split_once(':')?;
        let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    parse().ok_or_else(|| invalid(format!("has the invalid time '{text}'. Use HH:MM, from 00:00 to 23:59")))
}

fn find_zone(name: &str, now: Timestamp) -> Result<Zone, ApiError> {
    if name.eq_ignore_ascii_case("UTC") {
        return Ok(Zone::utc());
    }
    let zone = TimeZone::get(name).map_err(|_| {
        let message = format!("The time zone '{name}' is unknown. Use an IANA name such as Europe/Berlin, or UTC.");
        ApiError::new(ErrorCode::UnknownTimeZone, message).with_target("windows")
    })?;
    let start = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    let end = now + OFFSETS_AHEAD;
    let mut offsets = vec![(Timestamp(0), zone.to_offset(start).seconds())];
    for transition in zone.following(start) {
        let at = Timestamp(transition.timestamp().as_millisecond());
        if at > end {
            break;
        }
        offsets.push((at, transition.offset().seconds()));
    }
    let name = zone.iana_name().map_or_else(|| Name::from(name), Name::from);
    Ok(Zone { name, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> MaintenanceWindow {
        MaintenanceWindow::parse(text).expect("a window")
    }

    fn next(text: &str, now: &str) -> (String, String) {
        let now: jiff::Timestamp = now.parse().expect("a time");
        let now = Timestamp(now.as_millisecond());
        let windows = resolve(&[window(text)], now).expect("a valid window");
        let span = forewarn_core::current_or_next(&windows, now).expect("it recurs");
        let show = |at: Timestamp| jiff::Timestamp::from_millisecond(at.0).expect("in range").to_string();
        (show(span.start), show(span.end))
    }

    #[test]
    fn windows_follow_the_clocks_of_their_zone() {
        let summer = next("Sat 22:00-04:00 Europe/Berlin", "2026-07-01T00:00:00Z");
        assert_eq!(summer, ("2026-07-04T20:00:00Z".into(), "2026-07-05T02:00:00Z".into()));
        let winter = next("Sat 22:00-04:00 Europe/Berlin", "2026-12-01T00:00:00Z");
        assert_eq!(winter, ("2026-12-05T21:00:00Z".into(), "2026-12-06T03:00:00Z".into()));
        let utc = next("22:00-04:00", "2026-12-01T00:00:00Z");
        assert_eq!(utc, ("2026-11-30T22:00:00Z".into(), "2026-12-01T04:00:00Z".into()));
    }

    #[test]
    fn a_start_in_the_hour_that_berlin_skips_moves_to_three_o_clock() {
        let span = next("02:30-05:00 Europe/Berlin", "2026-03-28T12:00:00Z");
        assert_eq!(span, ("2026-03-29T01:00:00Z".into(), "2026-03-29T03:00:00Z".into()));
    }

    #[test]
    fn a_start_in_the_hour_that_berlin_repeats_counts_once() {
        let span = next("02:30-05:00 Europe/Berlin", "2026-10-24T12:00:00Z");
        assert_eq!(span, ("2026-10-25T00:30:00Z".into(), "2026-10-25T04:00:00Z".into()));
    }

    #[test]
    fn invalid_windows_name_the_problem() {
        let now = Timestamp(0);
        assert!(
            MaintenanceWindow::parse("Xyz 22:00-04:00")
                .is_err_and(|problem| problem.contains("'Xyz' is not a weekday"))
        );
        for (text, problem) in
            [("25:00-04:00", "invalid time '25:00'"), ("22:00-04:00 Mars/Base", "The time zone 'Mars/Base' is unknown")]
        {
            let error = resolve(&[window(text)], now).expect_err("invalid");
            assert!(error.message.contains(problem), "{}", error.message);
        }
    }
}
