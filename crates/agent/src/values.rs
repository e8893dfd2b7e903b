//! Values that occur both in the configuration file and on the command line: durations and addresses.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// Duration in the notation of the configuration file, such as `10s`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        parse_span(&String::deserialize(deserializer)?).map(Span).map_err(de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
    }
}

/// Parses a number and a unit: `500ms`, `10s`, `5m`, `1h`.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: Option<u64> = text[..digits].parse().ok();
    let span = number.and_then(|number| match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    });
    span.ok_or_else(|| format!("invalid duration '{text}': use a number and a unit, such as 500ms, 10s or 5m"))
}

pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid address '{text}': use IP:PORT, such as 127.0.0.1:9137"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, expected) in [("1s", 1000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for text in ["", "s", "1", "1 s", "-1s", "1.5s", "é", "99999999999999999999s"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
