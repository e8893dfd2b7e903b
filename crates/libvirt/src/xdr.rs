//! XDR, the encoding of RPC payloads (RFC 4506): big-endian, in units of four bytes.
//!
//! Only the types that libvirt's protocol uses. The decoder never panics and never allocates more than its input holds.

/// The longest string or opaque value in libvirt's protocol.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;

const UNIT: usize = 4;

/// A payload that does not follow the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XdrError {
    /// The payload is shorter than its structure.
    #[error("the payload ends after {0} bytes, in the middle of a value")]
    Truncated(usize),
    /// The payload is longer than its structure.
    #[error("{0} bytes follow the payload")]
    Trailing(usize),
    /// A list, string or opaque value is longer than the protocol allows.
    #[error("a value has {length} elements, more than {max}")]
    TooLong {
        /// The length in the payload.
        length: usize,
        /// The longest allowed length.
        max: usize,
    },
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A union or an optional value has an unknown discriminant.
    #[error("unknown discriminant {0}")]
    Discriminant(i32),
}

/// Result of decoding.
pub type XdrResult<T> = Result<T, XdrError>;

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty payload.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// A signed 32-bit integer.
    #[must_use]
    pub fn i32(mut self, value: i32) -> Encoder {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// An unsigned 32-bit integer.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Encoder {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A signed 64-bit integer.
    #[must_use]
    pub fn i64(mut self, value: i64) -> Encoder {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// An unsigned 64-bit integer.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Encoder {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A double-precision number.
    #[must_use]
    pub fn f64(mut self, value: f64) -> Encoder {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Bytes of a fixed length.
    #[must_use]
    pub fn fixed(mut self, value: &[u8]) -> Encoder {
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT), 0);
        self
    }

    /// Bytes, preceded by their number.
    #[must_use]
    pub fn opaque(self, value: &[u8]) -> Encoder {
        // A value beyond 4 GiB is beyond the size of a message and refused before it is sent.
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX)).fixed(value)
    }

    /// A string.
    #[must_use]
    pub fn string(self, value: &str) -> Encoder {
        self.opaque(value.as_bytes())
    }

    /// A string that can be absent.
    #[must_use]
    pub fn optional_string(self, value: Option<&str>) -> Encoder {
        match value {
            Some(value) => self.u32(1).string(value),
            None => self.u32(0),
        }
    }

    /// The encoded bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads values one after the other.
#[derive(Debug)]
pub struct Decoder<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Decoder<'b> {
    /// Reads a payload from its start.
    pub fn new(bytes: &'b [u8]) -> Decoder<'b> {
        Decoder { bytes, at: 0 }
    }

    /// A signed 32-bit integer.
    pub fn i32(&mut self) -> XdrResult<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// An unsigned 32-bit integer.
    pub fn u32(&mut self) -> XdrResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A signed 64-bit integer.
    pub fn i64(&mut self) -> XdrResult<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned 64-bit integer.
    pub fn u64(&mut self) -> XdrResult<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A double-precision number.
    pub fn f64(&mut self) -> XdrResult<f64> {
        self.array().map(f64::from_be_bytes)
    }

    /// Bytes of a fixed length.
    pub fn fixed<const LENGTH: usize>(&mut self) -> XdrResult<[u8; LENGTH]> {
        let value = self.array()?;
        self.take(LENGTH.next_multiple_of(UNIT) - LENGTH)?;
        Ok(value)
    }

    /// Bytes, preceded by their number.
    pub fn opaque(&mut self) -> XdrResult<&'b [u8]> {
        let length = self.length(BYTES_MAX)?;
        let value = self.take(length)?;
        self.take(length.next_multiple_of(UNIT) - length)?;
        Ok(value)
    }

    /// A string.
    pub fn string(&mut self) -> XdrResult<String> {
        let bytes = self.opaque()?;
        Ok(std::str::from_utf8(bytes).map_err(|_| XdrError::NotUtf8)?.to_owned())
    }

    /// A string that can be absent.
    pub fn optional_string(&mut self) -> XdrResult<Option<String>> {
        self.optional(Decoder::string)
    }

    /// A value that can be absent.
    pub fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> XdrResult<T>) -> XdrResult<Option<T>> {
        match self.i32()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            other => Err(XdrError::Discriminant(other)),
        }
    }

    /// A list of at most `max` values.
    pub fn list<T>(&mut self, max: usize, mut read: impl FnMut(&mut Self) -> XdrResult<T>) -> XdrResult<Vec<T>> {
        let length = self.length(max)?;
        // Every element takes at least one unit, so a false length cannot reserve more than the payload justifies.
        let mut values = Vec::with_capacity(length.min(self.remaining() / UNIT));
        for _ in 0..length {
            values.push(read(self)?);
        }
        Ok(values)
    }

    /// Succeeds if nothing is left.
    pub fn end(self) -> XdrResult<()> {
        if self.remaining() == 0 { Ok(()) } else { Err(XdrError::Trailing(self.remaining())) }
    }

    fn length(&mut self, max: usize) -> XdrResult<usize> {
        let length = self.u32()? as usize;
        if length <= max { Ok(length) } else { Err(XdrError::TooLong { length, max }) }
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: usize) -> XdrResult<&'b [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(XdrError::Truncated(self.bytes.len()))?;
        let value = &self.bytes[self.at..end];
        self.at = end;
        Ok(value)
    }

    fn array<const LENGTH: usize>(&mut self) -> XdrResult<[u8; LENGTH]> {
        let truncated = XdrError::Truncated(self.bytes.len());
        self.take(LENGTH)?.try_into().map_err(|_| truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let bytes = Encoder::new().i32(-2).u64(7).string("abcde").optional_string(None).fixed(b"xyz").f64(0.5).finish();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decoder.i32(), Ok(-2));
        assert_eq!(decoder.u64(), Ok(7));
        assert_eq!(decoder.string().as_deref(), Ok("abcde"));
        assert_eq!(decoder.optional_string(), Ok(None));
        assert_eq!(decoder.fixed(), Ok(*b"xyz"));
        assert_eq!(decoder.f64(), Ok(0.5));
        assert_eq!(decoder.end(), Ok(()));
    }

    #[test]
    fn strings_are_padded_to_four_bytes() {
        assert_eq!(Encoder::new().string("test1").finish(), b"\0\0\0\x05test1\0\0\0");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = Encoder::new().string("abcde").u64(1).optional_string(Some("x")).finish();
        let read = |bytes: &[u8]| -> XdrResult<()> {
            let mut decoder = Decoder::new(bytes);
            decoder.string()?;
            decoder.u64()?;
            decoder.optional_string()?;
            decoder.end()
        };
        assert_eq!(read(&whole), Ok(()));
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Err(XdrError::Truncated(length)));
        }
        assert_eq!(read(&[&whole[..], &[0; 4]].concat()), Err(XdrError::Trailing(4)));
    }

    #[test]
    fn false_lengths_and_discriminants_are_errors() {
        let huge = Encoder::new().u32(u32::MAX).finish();
        assert_eq!(Decoder::new(&huge).opaque(), Err(XdrError::TooLong { length: u32::MAX as usize, max: BYTES_MAX }));
        assert_eq!(
            Decoder::new(&huge).list(10, Decoder::u32),
            Err(XdrError::TooLong { length: u32::MAX as usize, max: 10 })
        );
        let long = Encoder::new().u32(1_000_000).finish();
        assert_eq!(Decoder::new(&long).list(2_000_000, Decoder::u32), Err(XdrError::Truncated(4)));
        let two = Encoder::new().i32(2).finish();
        assert_eq!(Decoder::new(&two).optional_string(), Err(XdrError::Discriminant(2)));
        let latin1 = Encoder::new().opaque(b"\xe4").finish();
        assert_eq!(Decoder::new(&latin1).string(), Err(XdrError::NotUtf8));
    }
}
