//! ISO 8601 durations, as used by `notBeforeTimeout`: `PT5M`, `PT300S`, `PT7M30S`, `PT0.25H`.
//!
//! ```text
//! P nW
//! P [nD] [T [nH] [nM] [nS]]      at least one number; a fraction only in the last one
//! ```
//!
//! Years and months are rejected, because their length varies.

use std::fmt;

/// Parses a duration that is a whole number of seconds.
pub fn parse_secs(text: &str) -> Result<u64, DurationError> {
    let after_p = text.strip_prefix('P').ok_or(DurationError::Malformed)?;
    let (date, time) = match after_p.split_once('T') {
        Some((_, "")) => return Err(DurationError::Malformed),
        Some((date, time)) => (date, time),
        None => (after_p, ""),
    };
    let mut sum = Sum::default();
    sum.add_all(date, DATE_UNITS)?;
    if sum.count_weeks > 0 && (sum.count > 1 || !time.is_empty()) {
        return Err(DurationError::Malformed);
    }
    sum.add_all(time, TIME_UNITS)?;
    sum.whole_secs()
}

/// A reason to reject a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationError {
    Malformed,
    /// It contains years or months.
    NoFixedLength,
    /// It contains a fraction of a second.
    NotWholeSeconds,
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DurationError::Malformed => {
                "This is not an ISO 8601 duration: write P, T, then hours, minutes and seconds, \
                 for example PT5M or PT7M30S."
            }
            DurationError::NoFixedLength => {
                "Years and months have no fixed length: write the duration in minutes, for \
                 example PT5M."
            }
            DurationError::NotWholeSeconds => {
                "The duration is not a whole number of seconds: omit the fraction, for \
                 example PT300S."
            }
            DurationError::TooLong => "The duration is too long: write a shorter one, for example PT15M.",
        })
    }
}

impl std::error::Error for DurationError {}

/// Designators in the required order, each with its length in seconds; zero if the length varies.
const DATE_UNITS: &[(char, u64)] = &[('Y', 0), ('M', 0), ('W', 604_800), ('D', 86_400)];
const TIME_UNITS: &[(char, u64)] = &[('H', 3_600), ('M', 60), ('S', 1)];

/// Maximum number of digits. Keeps the sum in range, and a fraction a whole number of nanoseconds.
const DIGITS_MAX: usize = 9;

const NANOS_PER_SEC: u128 = 1_000_000_000;

#[derive(Default)]
struct Sum {
    nanos: u128,
    count: usize,
    count_weeks: usize,
    fraction_seen: bool,
}

impl Sum {
    fn add_all(&mut self, mut text: &str, mut units: &[(char, u64)]) -> Result<(), DurationError> {
        while !text.is_empty() {
            let end = text.find(|c: char| c.is_ascii_uppercase()).ok_or(DurationError::Malformed)?;
            let designator = char::from(text.as_bytes()[end]);
            let position = units.iter().position(|unit| unit.0 == designator);
            let position = position.ok_or(DurationError::Malformed)?;
            self.add(&text[..end], units[position])?;
            text = &text[end + 1..];
            units = &units[position + 1..];
        }
        Ok(())
    }

    fn add(&mut self, number: &str, (designator, unit_secs): (char, u64)) -> Result<(), DurationError> {
        if self.fraction_seen {
            return Err(DurationError::Malformed);
        }
        let (whole, fraction) = match number.split_once(['.', ',']) {
            Some((whole, fraction)) => (parse_digits(whole)?, Some(fraction)),
            None => (parse_digits(number)?, None),
        };
        if unit_secs == 0 {
            return Err(DurationError::NoFixedLength);
        }
        self.nanos += whole * u128::from(unit_secs) * NANOS_PER_SEC;
        if let Some(fraction) = fraction {
            self.nanos += parse_fraction(fraction)? * u128::from(unit_secs);
            self.fraction_seen = true;
        }
        self.count += 1;
        self.count_weeks += usize::from(designator == 'W');
        Ok(())
    }

    fn whole_secs(self) -> Result<u64, DurationError> {
        if self.count == 0 {
            return Err(DurationError::Malformed);
        }
        if !self.nanos.is_multiple_of(NANOS_PER_SEC) {
            return Err(DurationError::NotWholeSeconds);
        }
        Ok((self.nanos / NANOS_PER_SEC) as u64)
    }
}

/// The digits after the decimal point, in billionths.
fn parse_fraction(text: &str) -> Result<u128, DurationError> {
    if text.len() > DIGITS_MAX {
        return Err(DurationError::NotWholeSeconds);
    }
    Ok(parse_digits(text)? * 10u128.pow((DIGITS_MAX - text.len()) as u32))
}

fn parse_digits(text: &str) -> Result<u128, DurationError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DurationError::Malformed);
    }
    if text.len() > DIGITS_MAX {
        return Err(DurationError::TooLong);
    }
    text.parse().map_err(|_| DurationError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, secs: Result<u64, DurationError>) {
        assert_eq!(parse_secs(text), secs, "{text:?}");
    }

    #[test]
    fn equivalent_durations_are_equal() {
        for five_minutes in ["PT5M", "PT300S", "PT4M60S", "PT5M0S", "PT0H5M", "P0DT5M", "PT05M", "PT5.0M", "PT300.000S"]
        {
            check(five_minutes, Ok(300));
        }
        check("PT7M30S", Ok(450));
        check("PT7.5M", Ok(450));
        check("PT7,5M", Ok(450));
        check("PT0.25H", Ok(900));
        check("PT1.5H", Ok(5_400));
        check("PT1H1S", Ok(3_601));
        check("P1D", Ok(86_400));
        check("P1DT1H", Ok(90_000));
        check("P2W", Ok(1_209_600));
        check("PT0S", Ok(0));
    }

    #[test]
    fn invalid_durations_have_specific_errors() {
        use DurationError::*;
        for malformed in [
            "",
            "P",
            "PT",
            "P1DT",
            "5M",
            "T5M",
            "PT5",
            "PT5m",
            "pt5m",
            "-PT5M",
            "PT-5M",
            "PT+5M",
            "PT5M ",
            " PT5M",
            "PT5S5M",
            "PT5M5M",
            "PT.5M",
            "PT5.M",
            "PT1.5M30S",
            "P5H",
            "PT5D",
            "P1W1D",
            "P1WT1H",
            "PT5M5",
            "PTM",
            "PT5X",
            "PT5MT5S",
            "PT٥M",
            "00:05:00",
            "P1D1W",
        ] {
            check(malformed, Err(Malformed));
        }
        check("P1Y", Err(NoFixedLength));
        check("P1M", Err(NoFixedLength));
        check("P1Y2M3DT4H", Err(NoFixedLength));
        check("PT0.5S", Err(NotWholeSeconds));
        check("PT0.001M", Err(NotWholeSeconds));
        check("PT0.3333333333H", Err(NotWholeSeconds));
        check("PT9999999999S", Err(TooLong));
    }

    proptest! {
        #[test]
        fn parsing_any_text_does_not_panic(text in ".{0,30}") {
            let _ = parse_secs(&text);
        }

        #[test]
        fn parsing_almost_valid_durations_does_not_panic(text in "P[0-9YMWDTHS.,]{0,24}") {
            let _ = parse_secs(&text);
        }

        #[test]
        fn hours_minutes_and_seconds_add_up(h in 0u64..1000, m in 0u64..1000, s in 0u64..1000) {
            prop_assert_eq!(parse_secs(&format!("PT{h}H{m}M{s}S")), Ok(h * 3600 + m * 60 + s));
        }
    }
}
