//! Bytes of a fixed length in hexadecimal.

/// None unless the text has exactly two digits for each byte.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    // `from_str_radix` would accept a sign.
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn two_digits_are_a_byte() {
        assert_eq!(decode("00ff7A"), Some([0, 255, 0x7a]));
        for wrong in ["", "00ff7", "00ff7a00", "00ff+a", "00ff7g", "00ffä"] {
            assert_eq!(decode::<3>(wrong), None, "{wrong}");
        }
    }
}
