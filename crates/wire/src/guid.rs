//! GUIDs as text: 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
//!
//! Events show theirs in upper case, everything else (`vmId`, request ids) in lower case. Reading
//! does not care for the case but insists on the hyphens, as the service itself never writes
//! another form.

use std::fmt;

/// The length of the text.
pub const LEN: usize = 36;

/// `51941B56-8080-45AC-81AE-8BDA818F5958`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper(pub u128);

/// `51941b56-8080-45ac-81ae-8bda818f5958`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lower(pub u128);

/// The text in upper case, without an allocation.
pub fn upper(guid: u128) -> [u8; LEN] {
    encode(guid, b"0123456789ABCDEF")
}

/// The text in lower case, without an allocation.
pub fn lower(guid: u128) -> [u8; LEN] {
    encode(guid, b"0123456789abcdef")
}

/// Reads a GUID in any case. `None` when it is anything else, also without hyphens, with braces or
/// with blanks.
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
        write_ascii(f, &upper(self.0))
    }
}

impl fmt::Display for Lower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ascii(f, &lower(self.0))
    }
}

fn encode(guid: u128, digits: &[u8; 16]) -> [u8; LEN] {
    let mut text = [b'-'; LEN];
    let mut rest = guid;
    for index in (0..LEN).rev().filter(|&index| !is_hyphen(index)) {
        text[index] = digits[(rest & 0xF) as usize];
        rest >>= 4;
    }
    text
}

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
    fn both_cases_are_written() {
        assert_eq!(Upper(EXAMPLE).to_string(), "51941B56-8080-45AC-81AE-8BDA818F5958");
        assert_eq!(Lower(EXAMPLE).to_string(), "51941b56-8080-45ac-81ae-8bda818f5958");
        assert_eq!(Upper(1).to_string(), "00000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn any_case_is_read_and_nothing_but_the_form_with_hyphens() {
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
        fn what_was_written_reads_back(guid: u128) {
            prop_assert_eq!(parse(&Upper(guid).to_string()), Some(guid));
            prop_assert_eq!(parse(&Lower(guid).to_string()), Some(guid));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_read_was_the_guids_own_text(text in "[0-9a-fA-F-]{36}") {
            if let Some(guid) = parse(&text) {
                prop_assert_eq!(Upper(guid).to_string(), text.to_uppercase());
            }
        }
    }
}
