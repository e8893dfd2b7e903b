//! Percent-encoding: `%41` in a path or a query stands for `A`.
//!
//! A `%` that is not followed by two hexadecimal digits stands for itself. The caller decides whether the bytes
//! must be UTF-8.

use std::fmt::Write;

/// The meaning of `+`: a space in queries, a plus sign in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlusSign {
    Space,
    Literal,
}

pub fn decode_bytes(text: &str, plus: PlusSign) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (byte, length) = match *rest {
            [] => return None,
            [b'%', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [b'+', ..] if plus == PlusSign::Space => (b' ', 1),
            [byte, ..] => (byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}

/// Encodes a path for a URL; slashes stay.
pub fn encode_path(path: &str) -> String {
    encode(path, b"/-._~()")
}

/// Encodes one segment of a path or one value of a query; slashes are encoded too.
pub fn encode_component(text: &str) -> String {
    encode(text, b"-._~()")
}

/// Encodes every byte but ASCII letters, digits and the bytes in `plain`.
fn encode(text: &str, plain: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || plain.contains(&byte) => encoded.push(char::from(byte)),
            byte => write!(encoded, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    encoded
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}
