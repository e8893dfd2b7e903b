//! Parsers for values on the command line and in the configuration: durations, times, addresses, numbers. The error of
//! each parser describes a valid value.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use forewarn_api_client::moment;
use forewarn_api_types::nearest::find_nearest;
pub use forewarn_api_types::span::{format_span, parse_span};
use forewarn_api_types::{FAULT_STATUSES, Word};
use forewarn_metadata::faults::{DELAY_MAX, RETRY_AFTER_SECS_MAX};
use forewarn_webhooks::RETRY_MAX as WEBHOOK_RETRY_MAX;

/// One of the words of the API, in any case.
pub fn word<T: Word>() -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(T::ALL.iter().map(|value| value.as_str()));
    words.map(|typed| {
        let found = T::ALL.iter().find(|value| value.as_str().eq_ignore_ascii_case(&typed));
        *found.expect("clap accepts only the words of the list")
    })
}

/// A duration in whole seconds.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    let span = parse_span(text)?;
    let whole = span.subsec_nanos() == 0;
    whole.then_some(span.as_secs()).ok_or_else(|| "whole seconds, such as 90s or 15m".into())
}

/// A terminate notification as an ISO 8601 duration. A plain number is minutes, as with `az`.
pub fn terminate_timeout(text: &str) -> Result<String, String> {
    if let Ok(minutes) = text.parse::<u32>() {
        return Ok(format!("PT{minutes}M"));
    }
    let seconds =
        whole_seconds(text).map_err(|_| "5 to 15 minutes, as a number of minutes or a duration such as 7m30s")?;
    Ok(format!("PT{seconds}S"))
}

/// `PUBLISHER:OFFER:SKU:VERSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub [String; 4]);

pub fn image(text: &str) -> Result<Image, String> {
    let parts: Vec<String> = text.split(':').map(str::to_owned).collect();
    parts.try_into().map(Image).map_err(|_| "PUBLISHER:OFFER:SKU:VERSION".into())
}

/// An upper limit.
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

/// An RFC 3339 time, or the same in UTC without an offset.
pub fn time(text: &str) -> Result<jiff::Timestamp, String> {
    moment::parse_absolute(text).ok_or_else(|| "a time such as 2026-07-28T10:00:00Z".into())
}

/// An address and a port. `:8170` means all IPv4 addresses of this computer, as with most servers.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    let named = match text.rsplit_once(':') {
        Some(("", port)) => port.parse().ok().map(|port| (Ipv4Addr::UNSPECIFIED, port).into()),
        Some(("localhost", port)) => port.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into()),
        Some(_) | None => text.parse().ok(),
    };
    named.ok_or_else(|| "an address and a port, such as 127.0.0.1:8170 or [::1]:8170".into())
}

pub fn yes_or_no(text: &str) -> Result<bool, String> {
    one_of(text, &[("true", true), ("false", false), ("on", true), ("off", false)])
}

/// One of a list of words.
pub fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = find_nearest(text, names.iter().copied());
        let hint = near.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
        format!("one of: {}{hint}", names.join(", "))
    })
}

/// A name of a machine, network or host.
pub fn name(text: &str) -> Result<String, String> {
    let fits = (1..=128).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if fits { Ok(text.into()) } else { Err("a name of 1 to 128 bytes without spaces".into()) }
}

pub fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| format!("a whole number from {least} to {most}"))
}

/// A count.
pub fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a whole number from 0".into())
}

pub fn positive(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a whole number from 1".into())
}

/// The ID of a fault or a run.
pub fn id_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a number such as 3".into())
}

pub fn percent(text: &str) -> Result<u8, String> {
    number(text, 1, 100).map(|number| number as u8)
}

pub fn port(text: &str) -> Result<u16, String> {
    number(text, 1, u32::from(u16::MAX)).map(|number| number as u16)
}

/// The status of a complete answer.
pub fn fault_status(text: &str) -> Result<u16, String> {
    let (least, most) = (*FAULT_STATUSES.start(), *FAULT_STATUSES.end());
    number(text, least.into(), most.into()).map(|number| number as u16)
}

/// A MAC address in any usual notation, as twelve digits.
pub fn mac(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|letter| !matches!(letter, ':' | '-' | '.')).collect();
    let fits = digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let expected = || "a MAC address such as 52:54:00:12:34:56".to_owned();
    fits.then(|| digits.to_ascii_uppercase()).ok_or_else(expected)
}

/// A delay of an answer.
pub fn delay(text: &str) -> Result<Duration, String> {
    let most = DELAY_MAX.as_secs();
    parse_span(text)
        .ok()
        .filter(|span| *span <= DELAY_MAX)
        .ok_or_else(|| format!("a duration of up to {most}s, such as 2s or 250ms"))
}

pub fn retry_after(text: &str) -> Result<u64, String> {
    let fits = |secs: &u64| *secs <= u64::from(RETRY_AFTER_SECS_MAX);
    whole_seconds(text)
        .ok()
        .filter(fits)
        .ok_or_else(|| format!("whole seconds up to {RETRY_AFTER_SECS_MAX}s, such as 2s"))
}

/// The retry period of a webhook.
pub fn retry_for(text: &str) -> Result<u64, String> {
    let seconds = whole_seconds(text)?;
    let fits = seconds <= WEBHOOK_RETRY_MAX.as_secs();
    fits.then_some(seconds).ok_or_else(|| format!("at most {}", format_span(WEBHOOK_RETRY_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminate_notifications_are_minutes_or_durations() {
        assert_eq!(terminate_timeout("10").unwrap(), "PT10M");
        assert_eq!(terminate_timeout("7m30s").unwrap(), "PT450S");
        assert!(terminate_timeout("soon").is_err());
    }

    #[test]
    fn number_errors_describe_valid_values() {
        assert_eq!((count("3"), positive("1"), percent("100"), port("80")), (Ok(3), Ok(1), Ok(100), Ok(80)));
        assert_eq!(delay("300s"), Ok(Duration::from_secs(300)));
        let errors = [count("-1").unwrap_err(), positive("0").unwrap_err(), percent("101").unwrap_err()];
        assert_eq!(errors, ["a whole number from 0", "a whole number from 1", "a whole number from 1 to 100"]);
        for wrong in [
            delay("301s").unwrap_err(),
            retry_after("2h").unwrap_err(),
            id_number("x").unwrap_err(),
            port("0").unwrap_err(),
        ] {
            assert!(!wrong.contains("digit"), "{wrong}");
        }
    }

    #[test]
    fn mac_addresses_are_accepted_in_any_notation() {
        for text in ["52:54:00:ab:34:56", "52-54-00-AB-34-56", "525400ab3456", "5254.00ab.3456"] {
            assert_eq!(mac(text).as_deref(), Ok("525400AB3456"));
        }
        assert!(mac("52:54:00:ab:34").is_err() && mac("52:54:00:ab:34:5x").is_err());
    }

    #[test]
    fn addresses_can_be_short() {
        let check = |text: &str, expected: &str| assert_eq!(socket(text).unwrap().to_string(), expected);
        check(":8169", "0.0.0.0:8169");
        check("localhost:8169", "127.0.0.1:8169");
        check("[::1]:8169", "[::1]:8169");
        for wrong in ["8169", "host:8169", ":", "localhost:", "localhost:70000"] {
            assert!(socket(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_whole() {
        assert_eq!(whole_seconds("1m1s"), Ok(61));
        assert!(whole_seconds("1s500ms").is_err());
        assert!(whole_seconds("1x").is_err());
    }
}
