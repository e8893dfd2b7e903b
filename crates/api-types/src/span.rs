//! Durations in text form: `90s`, `15m`, `1h30m`.

use std::time::Duration;

/// The maximum duration; longer ones are probably typos.
pub const SPAN_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// Parses `90s`, `15m`, `1h30m`, `2d` or `500ms`; a bare number is seconds. The error completes the sentence "must be …".
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let must = "a duration such as 90s, 15m, 1h30m or 2d, at most 400d";
    let span = span_of_parts(text).ok_or(must)?;
    if span > SPAN_MAX { Err(must.into()) } else { Ok(span) }
}

fn span_of_parts(text: &str) -> Option<Duration> {
    if let Ok(secs) = text.parse::<u32>() {
        return Some(Duration::from_secs(secs.into()));
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        sum = sum.checked_add(unit(&rest[..letters])?.checked_mul(number)?)?;
        rest = &rest[letters..];
    }
    (!text.is_empty()).then_some(sum)
}

fn unit(letters: &str) -> Option<Duration> {
    Some(match letters {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        "d" => Duration::from_secs(24 * 3600),
        _ => return None,
    })
}

/// Formats a duration as the shortest text that [`parse_span`] parses: `1h30m`, `0s`.
pub fn format_span(span: Duration) -> String {
    let units = [("d", 24 * 3600 * 1000), ("h", 3600 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];
    let mut rest = span.as_millis();
    let mut text = String::new();
    // A single day is written as 24h, as in the documentation.
    let from = usize::from(rest < 2 * 24 * 3600 * 1000);
    for (letters, millis) in &units[from..] {
        if rest >= *millis {
            text += &format!("{}{letters}", rest / millis);
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        let check = |text: &str, millis: u64, again: &str| {
            let read = parse_span(text).unwrap();
            assert_eq!((read, format_span(read).as_str()), (Duration::from_millis(millis), again), "{text}");
        };
        check("0", 0, "0s");
        check("90", 90_000, "1m30s");
        check("15m", 900_000, "15m");
        check("1h30m", 5_400_000, "1h30m");
        check("24h", 86_400_000, "24h");
        check("2d", 172_800_000, "2d");
        check("1s500ms", 1_500, "1s500ms");
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in ["", "m", "1x", "-1s", "1.5h", "15 m", "99999999d", "401d", "٣s"] {
            assert!(parse_span(text).is_err(), "{text:?}");
        }
    }
}
