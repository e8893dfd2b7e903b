//! Sample values for the cases.

use crate::contract::{AppendResult, Heartbeat, Leader, Log, Member, TakeoverResult, Token};
use crate::record::{Nonce, Position, Record, RecordKind};

pub fn leader(node: &str) -> Leader {
    Leader { node: node.into(), address: format!("https://{node}:1"), nonce: Nonce { session: 1, counter: 1 } }
}

pub fn heartbeat(revision: u64) -> Heartbeat {
    Heartbeat { time_ms: 1_000, revision }
}

pub fn member(name: &str, applied: u64) -> Member {
    Member { name: name.into(), applied, format: 1, content_format: 1, address: format!("https://{name}:1") }
}

/// The record that continues this position.
pub fn record(after: &Position, payload: &[u8]) -> Record {
    Record {
        kind: RecordKind::Data,
        term: after.term,
        previous: after.hash,
        nonce: Nonce { session: 1, counter: after.revision + 1 },
        payload: payload.to_vec(),
    }
}

/// A payload that compression cannot make smaller.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Creates the region and takes the leadership.
pub fn lead(log: &mut dyn Log, node: &str) -> Token {
    log.create(&Position::START).expect("create");
    let seen = log.read(1).expect("read").view.sighting();
    match log.take_over(seen, &leader(node)).expect("take over") {
        TakeoverResult::Won(token) => token,
        TakeoverResult::Lost => panic!("the takeover was refused although nothing has changed"),
    }
}

/// Appends a record that must be accepted.
pub fn append(log: &mut dyn Log, token: Token, after: &Position, payload: &[u8]) -> Position {
    let record = record(after, payload);
    assert_eq!(log.append(token, after, &record).expect("append"), AppendResult::Done);
    record.position_at(after.revision + 1)
}

/// Appends several small records.
pub fn append_many(log: &mut dyn Log, token: Token, number: u64) -> Position {
    (0..number).fold(Position::START, |head, n| append(log, token, &head, n.to_string().as_bytes()))
}
