//! The small words that people type: spans of time, points in time, addresses, yes and no. Each parser
//! answers with the value or with what the text must be, to stand after "but must be".

use std::net::SocketAddr;

use forewarn_server::nearest::nearest;
pub use forewarn_server::span::{span, span_text};

/// The same where the server counts in seconds.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    let span = span(text)?;
    let whole = span.subsec_nanos() == 0;
    whole.then_some(span.as_secs()).ok_or_else(|| "whole seconds, such as 90s or 15m".into())
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
        let near = nearest(text, names.iter().copied());
        let hint = near.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
        format!("one of: {}{hint}", names.join(", "))
    })
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
    fn terminate_notification_is_minutes_or_a_span() {
        assert_eq!(terminate_timeout("10").unwrap(), "PT10M");
        assert_eq!(terminate_timeout("7m30s").unwrap(), "PT450S");
        assert!(terminate_timeout("soon").is_err());
    }

    #[test]
    fn seconds_are_whole() {
        assert_eq!(whole_seconds("1m1s"), Ok(61));
        assert!(whole_seconds("1s500ms").is_err());
        assert!(whole_seconds("1x").is_err());
    }
}
