//! UUIDs, as libvirt identifies domains.

use std::fmt;
use std::str::FromStr;

/// A UUID. Its text form has hyphens and lowercase digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// The text is not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid UUID '{0}': use 32 hexadecimal digits, with or without hyphens")]
pub struct InvalidUuid(pub String);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&index) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Uuid, InvalidUuid> {
        let digits: Option<Vec<u8>> = text.chars().filter(|c| *c != '-').map(|c| Some(c.to_digit(16)? as u8)).collect();
        let bytes: Option<Vec<u8>> = digits.map(|digits| digits.chunks(2).map(join).collect());
        match bytes.as_deref().map(<[u8; 16]>::try_from) {
            Some(Ok(bytes)) if text.chars().filter(|c| *c != '-').count() == 32 => Ok(Uuid(bytes)),
            _ => Err(InvalidUuid(text.to_owned())),
        }
    }
}

fn join(digits: &[u8]) -> u8 {
    digits.iter().fold(0, |byte, digit| byte << 4 | digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_correspond() {
        let text = "6695eb01-f6a4-8304-79aa-97f2502e193f";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!(uuid.0[..4], [0x66, 0x95, 0xeb, 0x01]);
        assert_eq!(uuid.to_string(), text);
        assert_eq!(text.replace('-', "").to_uppercase().parse(), Ok(uuid));
        for text in ["", "6695eb01", "6695eb01-f6a4-8304-79aa-97f2502e193", "6695eb01-f6a4-8304-79aa-97f2502e193g"] {
            assert_eq!(text.parse::<Uuid>(), Err(InvalidUuid(text.to_owned())));
        }
    }
}
