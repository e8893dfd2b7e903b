//! The small words that people type: spans of time, points in time, addresses, yes and no. Each parser
//! answers with the value or with what the text must be, to stand after "but must be".

use std::net::SocketAddr;
use std::time::Duration;

/// Spans longer than this are a slip of the finger.
pub const SPAN_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// `90s`, `15m`, `1h30m`, `2d`, `500ms`; a bare number is seconds.
pub fn span(text: &str) -> Result<Duration, String> {
    let must = "a span of time such as 90s, 15m, 1h30m or 2d, at most 400d";
    let span = span_of_parts(text).ok_or(must)?;
    if span > SPAN_MAX { Err(must.into()) } else { Ok(span) }
}

/// The same where the server counts in seconds.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    let span = span(text)?;
    let whole = span.subsec_nanos() == 0;
    whole.then_some(span.as_secs()).ok_or_else(|| "whole seconds, such as 90s or 15m".into())
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

/// The shortest text that [`span`] reads as the same: `1h30m`, `0s`.
pub fn span_text(span: Duration) -> String {
    let units = [("d", 24 * 3600 * 1000), ("h", 3600 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];
    let mut rest = span.as_millis();
    let mut text = String::new();
    // A day is written as 24h: so do people, and so do the documents.
    let from = usize::from(rest < 2 * 24 * 3600 * 1000);
    for (letters, millis) in &units[from..] {
        if rest >= *millis {
            text += &format!("{}{letters}", rest / millis);
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Terminate notification as the API writes it. A bare number is minutes, as with `az`.
pub fn terminate_timeout(text: &str) -> Result<String, String> {
    if let Ok(minutes) = text.parse::<u32>() {
        return Ok(format!("PT{minutes}M"));
    }
    let seconds = whole_seconds(text).map_err(|_| "5 to 15 minutes, as a number or such as 7m30s")?;
    Ok(format!("PT{seconds}S"))
}

/// `PUBLISHER:OFFER:SKU:VERSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub [String; 4]);

pub fn image(text: &str) -> Result<Image, String> {
    let parts: Vec<String> = text.split(':').map(str::to_owned).collect();
    parts.try_into().map(Image).map_err(|_| "PUBLISHER:OFFER:SKU:VERSION".into())
}

/// The most of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    None,
    Of(u32),
}

pub fn number_or_none(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    text.parse().map(Limit::Of).map_err(|_| "a whole number, or none".into())
}

/// A point in time, RFC 3339 with its offset.
pub fn time(text: &str) -> Result<jiff::Timestamp, String> {
    text.parse().map_err(|_| "a point in time such as 2026-07-28T10:00:00Z".into())
}

pub fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:8170 or [::1]:8170".into())
}

pub fn yes_or_no(text: &str) -> Result<bool, String> {
    word(text, &[("true", true), ("false", false), ("on", true), ("off", false)])
}

/// One of these words.
pub fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint =
            nearest(text, names.iter().copied()).map_or(String::new(), |name| format!(" (did you mean {name}?)"));
        format!("one of: {}{hint}", names.join(", "))
    })
}

/// The one that was probably meant: at most one letter in three is wrong.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &&str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    let nearest = names.into_iter().min_by_key(distance)?;
    (distance(&nearest) <= (typed.chars().count() / 3).max(1)).then_some(nearest)
}

/// The name of a machine, a network, a host.
pub fn name(text: &str) -> Result<String, String> {
    let fits = (1..=128).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if fits { Ok(text.into()) } else { Err("a name of 1 to 128 bytes without spaces".into()) }
}

pub fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| format!("a whole number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        let check = |text: &str, millis: u64, again: &str| {
            let read = span(text).unwrap();
            assert_eq!((read, span_text(read).as_str()), (Duration::from_millis(millis), again), "{text}");
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
    fn the_nearest_name_is_near() {
        let names = ["web_0", "web_1", "database", "db"];
        let check = |typed: &str, expected: Option<&str>| assert_eq!(nearest(typed, names), expected, "{typed}");
        check("web1", Some("web_1"));
        check("WBE_1", Some("web_1"));
        check("databsae", Some("database"));
        check("bd", Some("db"));
        check("cache", None);
        check("web_123456", None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn terminate_notification_is_minutes_or_a_span() {
        assert_eq!(terminate_timeout("10").unwrap(), "PT10M");
        assert_eq!(terminate_timeout("7m30s").unwrap(), "PT450S");
        assert!(terminate_timeout("soon").is_err());
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "m", "1", "1x", "-1s", "1.5h", "15 m", "99999999d", "401d", "٣s"] {
            assert_eq!(span(text).is_err(), text != "1", "{text:?}");
        }
        assert_eq!(whole_seconds("1m1s"), Ok(61));
        assert!(whole_seconds("1s500ms").is_err());
    }
}
