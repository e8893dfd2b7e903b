//! Bytes of records and of the small values beside them. A record is versioned and compressed; small values are JSON, so
//! that operators can read them with `etcdctl`.

use serde_json::{Value, json};

use crate::contract::{Heartbeat, Leader, Member};
use crate::hex;
use crate::record::{Hash, Nonce, Position, Record, RecordKind};

/// The newest format of records that this program reads and writes.
pub const RECORD_FORMAT: u8 = 1;

/// The largest payload. A commit of 512 commands takes a tenth of a percent of this; larger means that something is wrong.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Payloads below this size rarely become smaller.
const COMPRESS_BYTES_MIN: usize = 128;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// Format, kind, compression, term, session, counter, previous hash, payload length.
const HEADER_BYTES: usize = 3 + 3 * 8 + 32 + 4;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a record has format {0}, but this program reads formats up to {RECORD_FORMAT}: upgrade this server")]
    NewerFormat(u8),
    #[error("invalid {0} in the log: {1}")]
    Invalid(&'static str, String),
}

pub fn encode_record(record: &Record) -> Vec<u8> {
    let compressed = (record.payload.len() >= COMPRESS_BYTES_MIN).then(|| lz4_flex::block::compress(&record.payload));
    let compressed = compressed.filter(|bytes| bytes.len() < record.payload.len());
    let (method, body) = match &compressed {
        Some(bytes) => (LZ4, bytes),
        None => (PLAIN, &record.payload),
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend([RECORD_FORMAT, record.kind.tag(), method]);
    for number in [record.term, record.nonce.session, record.nonce.counter] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(record.previous.0);
    bytes.extend((record.payload.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

pub fn decode_record(bytes: &[u8]) -> Result<Record, DecodeError> {
    let invalid = |what: &str| DecodeError::Invalid("record", what.to_owned());
    let mut input = Input(bytes);
    let format = input.take::<1>().ok_or_else(|| invalid("it is empty"))?[0];
    if format != RECORD_FORMAT {
        return Err(DecodeError::NewerFormat(format));
    }
    let header = input.header().ok_or_else(|| invalid("it is too short"))?;
    let kind = RecordKind::from_tag(header.kind).ok_or_else(|| invalid("its kind is unknown"))?;
    if header.length > PAYLOAD_BYTES_MAX {
        return Err(invalid("its payload is too large"));
    }
    let payload = match header.method {
        PLAIN => input.0.to_vec(),
        LZ4 => lz4_flex::block::decompress(input.0, header.length).map_err(|error| invalid(&error.to_string()))?,
        _ => return Err(invalid("its compression is unknown")),
    };
    if payload.len() != header.length {
        return Err(invalid("its length is wrong"));
    }
    Ok(Record { kind, term: header.term, previous: header.previous, nonce: header.nonce, payload })
}

struct Header {
    kind: u8,
    method: u8,
    term: u64,
    nonce: Nonce,
    previous: Hash,
    length: usize,
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn header(&mut self) -> Option<Header> {
        let [kind, method] = self.take()?;
        let term = self.number()?;
        let nonce = Nonce { session: self.number()?, counter: self.number()? };
        let previous = Hash(self.take()?);
        let length = u32::from_be_bytes(self.take()?) as usize;
        Some(Header { kind, method, term, nonce, previous, length })
    }
}

/// The text of a position. Commits compare it byte for byte, so it never changes.
pub fn encode_position(position: &Position) -> String {
    let Position { revision, term, hash } = position;
    format!(r#"{{"revision":{revision},"term":{term},"hash":"{hash}"}}"#)
}

pub fn decode_position(bytes: &[u8]) -> Result<Position, DecodeError> {
    let fields = Fields::parse("head", bytes)?;
    let text = fields.text("hash")?;
    let hash = hex::decode(&text).map(Hash).ok_or_else(|| fields.invalid("hash"))?;
    Ok(Position { revision: fields.number("revision")?, term: fields.number("term")?, hash })
}

pub fn encode_leader(leader: &Leader) -> String {
    let Leader { node, address, nonce } = leader;
    json!({ "node": node, "address": address, "session": nonce.session, "attempt": nonce.counter }).to_string()
}

pub fn decode_leader(bytes: &[u8]) -> Result<Leader, DecodeError> {
    let fields = Fields::parse("leader", bytes)?;
    let nonce = Nonce { session: fields.number("session")?, counter: fields.number("attempt")? };
    Ok(Leader { node: fields.text("node")?, address: fields.text("address")?, nonce })
}

pub fn encode_heartbeat(heartbeat: &Heartbeat) -> String {
    json!({ "time_ms": heartbeat.time_ms, "revision": heartbeat.revision }).to_string()
}

pub fn decode_heartbeat(bytes: &[u8]) -> Result<Heartbeat, DecodeError> {
    let fields = Fields::parse("heartbeat", bytes)?;
    let time_ms = fields.value["time_ms"].as_i64().ok_or_else(|| fields.invalid("time_ms"))?;
    Ok(Heartbeat { time_ms, revision: fields.number("revision")? })
}

pub fn encode_member(member: &Member) -> String {
    let Member { applied, format, content_format, address, .. } = member;
    json!({ "applied": applied, "format": format, "content_format": content_format, "address": address }).to_string()
}

/// The name is the end of the key.
pub fn decode_member(name: &str, bytes: &[u8]) -> Result<Member, DecodeError> {
    let fields = Fields::parse("member", bytes)?;
    let format = u32::try_from(fields.number("format")?).map_err(|_| fields.invalid("format"))?;
    let content_format = fields.value["content_format"].as_u64().and_then(|number| u32::try_from(number).ok());
    let (applied, address) = (fields.number("applied")?, fields.text("address")?);
    Ok(Member { name: name.to_owned(), applied, format, content_format: content_format.unwrap_or(format), address })
}

/// A JSON object and the name of the value, for error messages. Unknown fields are ignored.
struct Fields {
    what: &'static str,
    value: Value,
}

impl Fields {
    fn parse(what: &'static str, bytes: &[u8]) -> Result<Fields, DecodeError> {
        let value = serde_json::from_slice(bytes).map_err(|error| DecodeError::Invalid(what, error.to_string()))?;
        Ok(Fields { what, value })
    }

    fn invalid(&self, name: &str) -> DecodeError {
        DecodeError::Invalid(self.what, format!("the field '{name}' is missing or invalid"))
    }

    fn number(&self, name: &str) -> Result<u64, DecodeError> {
        self.value[name].as_u64().ok_or_else(|| self.invalid(name))
    }

    fn text(&self, name: &str) -> Result<String, DecodeError> {
        self.value[name].as_str().map(str::to_owned).ok_or_else(|| self.invalid(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: Vec<u8>) -> Record {
        let nonce = Nonce { session: u64::MAX, counter: 7 };
        Record { kind: RecordKind::Data, term: 5, previous: Hash([9; 32]), nonce, payload }
    }

    #[test]
    fn records_survive_encoding() {
        let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for payload in [Vec::new(), b"short".to_vec(), vec![b'x'; 5000], noise] {
            let record = record(payload);
            assert_eq!(decode_record(&encode_record(&record)), Ok(record));
        }
    }

    #[test]
    fn repetitive_payloads_become_smaller() {
        assert!(encode_record(&record(vec![b'x'; 100_000])).len() < 2_000);
    }

    #[test]
    fn damaged_records_are_errors() {
        let good = encode_record(&record(vec![b'x'; 5000]));
        for length in 0..good.len() {
            assert!(decode_record(&good[..length]).is_err(), "cut to {length} bytes");
        }
        for place in [1, 2, HEADER_BYTES - 1, HEADER_BYTES - 4] {
            let mut bad = good.clone();
            bad[place] ^= 0x70;
            assert!(decode_record(&bad).is_err(), "byte {place}");
        }
    }

    #[test]
    fn a_newer_format_asks_for_an_upgrade() {
        let mut bytes = encode_record(&record(Vec::new()));
        bytes[0] = 2;
        assert_eq!(decode_record(&bytes), Err(DecodeError::NewerFormat(2)));
    }

    /// Servers of different versions compare this text, so it is part of the format.
    #[test]
    fn positions_have_a_fixed_text() {
        let position = Position { revision: 12, term: 3, hash: Hash([0xab; 32]) };
        let text = encode_position(&position);
        assert_eq!(text, format!(r#"{{"revision":12,"term":3,"hash":"{}"}}"#, "ab".repeat(32)));
        assert_eq!(decode_position(text.as_bytes()), Ok(position));
    }

    #[test]
    fn small_values_survive_encoding() {
        let leader =
            Leader { node: "a".into(), address: "https://a:1".into(), nonce: Nonce { session: u64::MAX, counter: 1 } };
        assert_eq!(decode_leader(encode_leader(&leader).as_bytes()), Ok(leader));
        let heartbeat = Heartbeat { time_ms: -5, revision: 9 };
        assert_eq!(decode_heartbeat(encode_heartbeat(&heartbeat).as_bytes()), Ok(heartbeat));
        let member = Member { name: "b".into(), applied: 4, format: 1, content_format: 2, address: "x".into() };
        assert_eq!(decode_member("b", encode_member(&member).as_bytes()), Ok(member));
        assert!(decode_leader(b"{}").is_err() && decode_heartbeat(b"nonsense").is_err());
    }
}
