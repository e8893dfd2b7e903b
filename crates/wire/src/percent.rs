//! Percent-encoding: `%41` in a path or a query is an `A`.
//!
//! A `%` that no two hexadecimal digits follow stands for itself. Whether the bytes are text is for the caller to say.

use std::fmt::Write;

/// What a `+` is: in queries a blank, in paths a plus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plus {
    Blank,
    Itself,
}

pub fn decoded_bytes(text: &str, plus: Plus) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (byte, length) = match *rest {
            [] => return None,
            [b'%', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [b'+', ..] if plus == Plus::Blank => (b' ', 1),
            [byte, ..] => (byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}

/// A path that may stand in a header: all that is not plain ASCII is encoded, slashes are not.
pub fn encoded_path(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'(' | b')' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => write!(text, "%{byte:02X}").expect("a string takes all that is written"),
        }
    }
    text
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}
