//! The query string of a metadata request.
//!
//! Like Azure, the server rejects a request that repeats any parameter, known or not. Names are compared after
//! decoding and without regard to case, so that no spelling of a name passes that check; for the same reason
//! `API-Version` is accepted as `api-version`. Values are decoded but otherwise unchanged. A `%` that is not
//! followed by two hexadecimal digits stands for itself, `+` is a space, and bytes that are not UTF-8 become
//! U+FFFD.
//!
//! This runs for every poll of every machine, so it only allocates if a value is encoded.

use std::borrow::Cow;

use crate::percent::{PlusSign, decode_bytes};

/// Maximum number of parameters. More than any client sends, and few enough to compare each name with every
/// other.
pub const PARAMETERS_MAX: usize = 16;

/// Maximum time for which a GET may be held. Shorter than the idle timeouts of common proxies and clients.
pub const WAIT_SECS_MAX: u64 = 300;

/// The known parameters. `Some("")` is a parameter without a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query<'a> {
    pub api_version: Option<Cow<'a, str>>,
    pub format: Option<Cow<'a, str>>,
    pub wait: Option<Cow<'a, str>>,
    /// The resource for which a token is requested.
    pub resource: Option<Cow<'a, str>>,
    /// Selects one of several identities.
    pub client_id: Option<Cow<'a, str>>,
    /// To be repeated in an attested document.
    pub nonce: Option<Cow<'a, str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// The name of a parameter that occurs more than once.
    Repeated(String),
    TooMany,
}

impl<'a> Query<'a> {
    /// Parses the part after the `?`, or an empty string if there is none.
    pub fn parse(raw: &'a str) -> Result<Query<'a>, QueryError> {
        let mut query = Query::default();
        for (index, (name, value)) in split_pairs(raw).enumerate() {
            if index == PARAMETERS_MAX {
                return Err(QueryError::TooMany);
            }
            if split_pairs(raw).take(index).any(|(earlier, _)| is_same_name(earlier, name)) {
                return Err(QueryError::Repeated(decode(name).into_owned()));
            }
            query.set(name, value);
        }
        Ok(query)
    }

    fn set(&mut self, name: &str, value: &'a str) {
        let slot = if is_same_name(name, "api-version") {
            &mut self.api_version
        } else if is_same_name(name, "format") {
            &mut self.format
        } else if is_same_name(name, "wait") {
            &mut self.wait
        } else if is_same_name(name, "resource") {
            &mut self.resource
        } else if is_same_name(name, "client_id") {
            &mut self.client_id
        } else if is_same_name(name, "nonce") {
            &mut self.nonce
        } else {
            return;
        };
        *slot = Some(decode(value));
    }
}

/// Parses the value of `wait`: a whole number of seconds up to [`WAIT_SECS_MAX`].
pub fn wait_secs(given: &str) -> Option<u64> {
    // `parse` alone would accept a sign.
    let digits = given.bytes().all(|byte| byte.is_ascii_digit());
    let secs = digits.then(|| given.parse().ok()).flatten();
    secs.filter(|&secs| secs <= WAIT_SECS_MAX)
}

fn split_pairs(raw: &str) -> impl Iterator<Item = (&str, &str)> {
    let parameters = raw.split('&').filter(|parameter| !parameter.is_empty());
    parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

fn is_same_name(left: &str, right: &str) -> bool {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    decode_bytes(left, PlusSign::Space).map(lower).eq(decode_bytes(right, PlusSign::Space).map(lower))
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes: Vec<u8> = decode_bytes(text, PlusSign::Space).collect();
    Cow::Owned(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Renders `api-version|format|wait`, with `-` for missing parameters, or the error.
    fn render(raw: &str) -> String {
        let or_dash = |value: Option<Cow<'_, str>>| value.map_or("-".to_owned(), Cow::into_owned);
        match Query::parse(raw) {
            Ok(query) => [query.api_version, query.format, query.wait].map(or_dash).join("|"),
            Err(QueryError::Repeated(name)) => format!("repeated {name}"),
            Err(QueryError::TooMany) => "too many".to_owned(),
        }
    }

    fn check(raw: &str, expected: &str) {
        assert_eq!(render(raw), expected, "{raw:?}");
    }

    #[test]
    fn known_parameters_are_found_among_others() {
        check("", "-|-|-");
        check("api-version=2020-07-01", "2020-07-01|-|-");
        check("api-version=2020-07-01&format=text&wait=30", "2020-07-01|text|30");
        check("wait=1&x=y&&format=json&", "-|json|1");
        check("api-version", "|-|-");
        check("api-version=", "|-|-");
        check("api-version=a=b", "a=b|-|-");
        check("=2020-07-01", "-|-|-");
    }

    #[test]
    fn names_and_values_are_decoded() {
        check("api%2Dversion=2020%2d07%2D01", "2020-07-01|-|-");
        check("%61pi-version=1", "1|-|-");
        check("API-Version=2020-07-01", "2020-07-01|-|-");
        check("format=te+xt", "-|te xt|-");
        check("format=%", "-|%|-");
        check("format=%4", "-|%4|-");
        check("format=%zz%74", "-|%zzt|-");
        check("format=%c3%a9", "-|é|-");
        check("format=%ff", "-|\u{FFFD}|-");
        check("wait=3%260", "-|-|3&0");
    }

    #[test]
    fn a_repeated_name_is_rejected_in_any_spelling() {
        check("api-version=2020-07-01&api-version=2020-07-01", "repeated api-version");
        check("api-version=1&x=2&API%2DVERSION=3", "repeated API-VERSION");
        check("x=1&x=2", "repeated x");
        check("x&x", "repeated x");
        check("a=1&b=2&c=3&b=4", "repeated b");
        check("a+b=1&a%20b=2", "repeated a b");
        check("=1&=2", "repeated ");
        check("xy=1&x=2", "-|-|-");
    }

    #[test]
    fn the_number_of_parameters_is_limited() {
        let many = |count: usize| (0..count).map(|n| format!("p{n}=")).collect::<Vec<_>>().join("&");
        check(&many(PARAMETERS_MAX), "-|-|-");
        check(&many(PARAMETERS_MAX + 1), "too many");
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_within_the_limit() {
        assert_eq!(["0", "60", "300", "007"].map(wait_secs), [0, 60, 300, 7].map(Some));
        for refused in ["", "301", "-1", "+5", "1.5", "5s", " 5", "99999999999999999999999"] {
            assert_eq!(wait_secs(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn plain_values_are_borrowed() {
        let query = Query::parse("api-version=2020-07-01&wait=5").unwrap();
        assert!(matches!(query.api_version, Some(Cow::Borrowed("2020-07-01"))));
        assert!(matches!(query.wait, Some(Cow::Borrowed("5"))));
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_does_not_panic(bytes: Vec<u8>) {
            let _ = Query::parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn parsing_almost_valid_queries_does_not_panic(raw in "([a-b%&=+2dD]|api-version=|wait=|format){0,12}") {
            let _ = Query::parse(&raw);
        }

        #[test]
        fn an_encoded_value_is_decoded(value: String) {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let raw = format!("format={encoded}");
            let query = Query::parse(&raw).unwrap();
            prop_assert_eq!(query.format.as_deref(), Some(value.as_str()));
        }
    }
}
