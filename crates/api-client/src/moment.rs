//! Times on the command line: in the formats that are printed, and relative to the server's clock.

use std::time::Duration;

use forewarn_api_types::Clock;
use forewarn_api_types::span::parse_span;
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::decode::decode;
use crate::failure::Failure;
use crate::{Api, Call};

/// A time as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(Timestamp),
    /// On the current day of the server's clock, in UTC.
    Today(civil::Time),
    Ago(Duration),
    In(Duration),
}

/// The meaning of a duration without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Past,
    Future,
}

const FORMATS: &str = "a time such as 2026-07-28T10:00:00Z, '2026-07-28 10:00:00' (UTC) or 10:00";

/// A time in the past: `1h` is an hour ago.
pub fn parse_past(text: &str) -> Result<Moment, String> {
    parse(text, Direction::Past).ok_or_else(|| format!("{FORMATS}, or a duration ago such as 1h"))
}

/// A time in the future: `+2h` is in two hours.
pub fn parse_future(text: &str) -> Result<Moment, String> {
    parse(text, Direction::Future).ok_or_else(|| format!("{FORMATS}, or a duration from now such as +2h"))
}

/// A time with a date; without a zone it is in UTC, as printed.
pub fn parse_absolute(text: &str) -> Option<Timestamp> {
    let printed = || text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    // A date alone is more likely a mistake than midnight.
    let has_time = text.contains(':');
    text.parse().ok().or_else(|| has_time.then(printed).flatten())
}

fn parse(text: &str, direction: Direction) -> Option<Moment> {
    if text == "now" {
        return Some(Moment::In(Duration::ZERO));
    }
    if let Some(rest) = text.strip_prefix('+') {
        return parse_span(rest).ok().map(Moment::In);
    }
    if let Some(rest) = text.strip_prefix('-').or_else(|| text.strip_suffix(" ago")) {
        return parse_span(rest).ok().map(Moment::Ago);
    }
    if let Ok(span) = parse_span(text) {
        return Some(match direction {
            Direction::Past => Moment::Ago(span),
            Direction::Future => Moment::In(span),
        });
    }
    let today = || text.contains(':').then(|| text.parse().ok()).flatten().map(Moment::Today);
    parse_absolute(text).map(Moment::At).or_else(today)
}

impl Moment {
    /// The time on the server's clock, which can be manual.
    pub fn resolve(self, api: &Api) -> Result<Timestamp, Failure> {
        if let Moment::At(at) = self {
            return Ok(at);
        }
        let clock: Clock = decode(&api.get(&Call::api(&["clock"]))?)?;
        let unrepresentable = || Failure::Usage("the time is out of range: use a nearer one".into());
        self.relative_to(clock.now.timestamp()).ok_or_else(unrepresentable)
    }

    fn relative_to(self, now: Timestamp) -> Option<Timestamp> {
        let signed = |span: Duration| SignedDuration::try_from(span).ok();
        match self {
            Moment::At(at) => Some(at),
            Moment::Ago(span) => now.checked_sub(signed(span)?).ok(),
            Moment::In(span) => now.checked_add(signed(span)?).ok(),
            Moment::Today(time) => {
                let day = now.to_zoned(TimeZone::UTC).date();
                Some(day.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp())
            }
        }
    }
}

/// The same for an option that may be absent.
pub fn resolve(moment: Option<Moment>, api: &Api) -> Result<Option<Timestamp>, Failure> {
    moment.map(|moment| moment.resolve(api)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_accepted_as_printed_and_relative_to_now() {
        let now: Timestamp = "2026-07-28T10:15:00Z".parse().unwrap();
        let check = |text: &str, parse: fn(&str) -> Result<Moment, String>, expected: &str| {
            let found = parse(text).unwrap().relative_to(now).unwrap();
            assert_eq!(found.to_string(), expected, "{text}");
        };
        check("2026-07-28T12:00:00+02:00", parse_past, "2026-07-28T10:00:00Z");
        check("2026-07-28 10:00:00", parse_past, "2026-07-28T10:00:00Z");
        check("10:00:12", parse_past, "2026-07-28T10:00:12Z");
        check("10:00", parse_future, "2026-07-28T10:00:00Z");
        check("1h", parse_past, "2026-07-28T09:15:00Z");
        check("1h ago", parse_past, "2026-07-28T09:15:00Z");
        check("-90s", parse_past, "2026-07-28T10:13:30Z");
        check("2h", parse_future, "2026-07-28T12:15:00Z");
        check("+1h30m", parse_future, "2026-07-28T11:45:00Z");
        check("now", parse_future, "2026-07-28T10:15:00Z");
        for wrong in ["tomorrow", "2026-07-28", "+", "25:00", ""] {
            assert!(parse_past(wrong).is_err(), "{wrong:?}");
        }
    }
}
