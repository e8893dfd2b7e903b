//! GUIDs as text: 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
//!
//! Event IDs are written in upper case, all other GUIDs (`vmId`, request IDs) in lower case. Parsing ignores
//! case but requires the hyphens, because the service never writes another form.

use std::fmt;

/// Length of the text.
pub const LEN: usize = 36;

/// `51941B56-8080-45AC-81AE-8BDA818F5958`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper(pub u128);

/// `51941b56-8080-45ac-81ae-8bda818f5958`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lower(pub u128);

/// Formats in upper case, without allocating.
pub fn format_upper(guid: u128) -> [u8; LEN] {
    encode(guid, b"0123456789ABCDEF")
}

/// Formats in lower case, without allocating.
pub fn format_lower(guid: u128) -> [u8; LEN] {
    encode(guid, b"0123456789abcdef")
}

/// Parses a GUID in any case. Returns `None` for any other text, including GUIDs without hyphens, with braces
/// or with spaces.
pub fn parse(text: &str) -> Option<u128> {
    let bytes: &[u8; LEN] = text.as_bytes().try_into().ok()?;
    let mut guid = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        if is_hyphen(index) {
            (byte == b'-').then_some(())?;
        } else {
            guid = guid << 4 | u128::from(char::from(byte).to_digit(16)?);
        }
    }
    Some(guid)
}

impl fmt::Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ascii(f, &format_upper(self.0))
    }
}

impl fmt::Display for Lower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ascii(f, &format_lower(self.0))
    }
}

fn encode(guid: u128, digits: &[u8; 16]) -> [u8; LEN] {
    let mut text = [b'-'; LEN];
    for (byte, at) in guid.to_be_bytes().into_iter().zip(BYTE_POSITIONS) {
        text[at] = digits[usize::from(byte >> 4)];
        text[at + 1] = digits[usize::from(byte & 0xF)];
    }
    text
}

/// Where the digits of each byte begin.
const BYTE_POSITIONS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

fn is_hyphen(index: usize) -> bool {
    matches!(index, 8 | 13 | 18 | 23)
}

fn write_ascii(f: &mut fmt::Formatter<'_>, text: &[u8; LEN]) -> fmt::Result {
    f.pad(str::from_utf8(text).expect("hexadecimal digits are ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: u128 = 0x51941B56_8080_45AC_81AE_8BDA818F5958;

    fn check(text: &str, guid: Option<u128>) {
        assert_eq!(parse(text), guid, "{text:?}");
    }

    #[test]
    fn guids_are_formatted_in_both_cases() {
        assert_eq!(Upper(EXAMPLE).to_string(), "51941B56-8080-45AC-81AE-8BDA818F5958");
        assert_eq!(Lower(EXAMPLE).to_string(), "51941b56-8080-45ac-81ae-8bda818f5958");
        assert_eq!(Upper(1).to_string(), "00000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn parsing_ignores_case_but_requires_hyphens() {
        check("51941B56-8080-45AC-81AE-8BDA818F5958", Some(EXAMPLE));
        check("51941b56-8080-45ac-81ae-8bda818f5958", Some(EXAMPLE));
        check("51941B56-8080-45ac-81ae-8BDA818F5958", Some(EXAMPLE));
        check("", None);
        check("51941B56808045AC81AE8BDA818F5958", None);
        check("{51941B56-8080-45AC-81AE-8BDA818F5958}", None);
        check("51941B56-8080-45AC-81AE-8BDA818F595", None);
        check("51941B56-8080-45AC-81AE-8BDA818F5958 ", None);
        check("51941B56-8080-45AC-81AE-8BDA818F595G", None);
        check("51941B56-8080-45AC-81AE+8BDA818F5958", None);
        check("51941B5-68080-45AC-81AE-8BDA818F5958", None);
        check("51941B56-8080-45AC-81AE-8BDA818F595é", None);
    }

    proptest! {
        #[test]
        fn formatted_guids_are_parsed_back(guid: u128) {
            prop_assert_eq!(parse(&Upper(guid).to_string()), Some(guid));
            prop_assert_eq!(parse(&Lower(guid).to_string()), Some(guid));
        }

        #[test]
        fn parsing_any_text_does_not_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn accepted_text_is_the_text_of_the_guid(text in "[0-9a-fA-F-]{36}") {
            if let Some(guid) = parse(&text) {
                prop_assert_eq!(Upper(guid).to_string(), text.to_uppercase());
            }
        }
    }
}
