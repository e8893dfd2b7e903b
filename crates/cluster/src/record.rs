//! Records of the log: their identity, their chain, and positions in it. How they are written as bytes is decided in
//! `encoding`.

use std::fmt;

use ring::digest::{Context, SHA256};

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The parent of the first record of a region.
    pub const ZERO: Hash = Hash([0; 32]);
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Identifies one attempt to write: a random number of the process, and a counter in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nonce {
    pub session: u64,
    pub counter: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The first record of a term.
    Opening,
    /// A commit of the application.
    Data,
    /// Takes the place of a commit whose outcome was in doubt, so that the commit can no longer happen.
    Empty,
}

/// One commit. The payload is opaque to this crate.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    /// Rises with every takeover and never falls.
    pub term: u64,
    /// The hash of the record before.
    pub previous: Hash,
    pub nonce: Nonce,
    pub payload: Vec<u8>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { kind, term, previous, nonce, payload } = self;
        let (session, counter, bytes) = (nonce.session, nonce.counter, payload.len());
        write!(f, "{kind:?}(term {term}, nonce {session:x}/{counter}, after {previous:?}, {bytes} bytes)")
    }
}

impl Record {
    /// The position after this record.
    pub fn position_at(&self, revision: u64) -> Position {
        Position { revision, term: self.term, hash: self.hash(revision) }
    }

    /// The hash that the next record refers to. It covers the content, not the encoding, so that records can be encoded
    /// again.
    fn hash(&self, revision: u64) -> Hash {
        let mut context = Context::new(&SHA256);
        context.update(b"forewarn record 1");
        context.update(&[self.kind.tag()]);
        for number in [revision, self.term, self.nonce.session, self.nonce.counter, self.payload.len() as u64] {
            context.update(&number.to_be_bytes());
        }
        context.update(&self.previous.0);
        context.update(&self.payload);
        let mut hash = Hash::ZERO;
        hash.0.copy_from_slice(context.finish().as_ref());
        hash
    }
}

impl RecordKind {
    /// The number used in hashes and encodings. It never changes.
    pub(crate) fn tag(self) -> u8 {
        match self {
            RecordKind::Data => 1,
            RecordKind::Opening => 2,
            RecordKind::Empty => 3,
        }
    }

    pub(crate) fn from_tag(tag: u8) -> Option<RecordKind> {
        [RecordKind::Data, RecordKind::Opening, RecordKind::Empty].into_iter().find(|kind| kind.tag() == tag)
    }
}

/// A record at its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub revision: u64,
    pub record: Record,
    /// Computed once: a hash of a large record takes long, and several parts of a server need it.
    position: Position,
}

impl Entry {
    pub fn new(revision: u64, record: Record) -> Entry {
        let position = record.position_at(revision);
        Entry { revision, record, position }
    }

    /// The position after this entry.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// A place in the chain of records: the last record before it, with its term and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub revision: u64,
    pub term: u64,
    pub hash: Hash,
}

impl Position {
    /// The position before the first record of an empty region.
    pub const START: Position = Position { revision: 0, term: 0, hash: Hash::ZERO };

    /// Whether this entry continues the chain here.
    pub fn precedes(&self, entry: &Entry) -> bool {
        entry.revision == self.revision + 1 && entry.record.previous == self.hash && entry.record.term >= self.term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> Record {
        let nonce = Nonce { session: 1, counter: 2 };
        Record { kind: RecordKind::Data, term: 3, previous: Hash::ZERO, nonce, payload: payload.to_vec() }
    }

    #[test]
    fn every_field_changes_the_hash() {
        let first = record(b"a");
        let variants = [
            Record { kind: RecordKind::Empty, ..first.clone() },
            Record { term: 4, ..first.clone() },
            Record { previous: Hash([1; 32]), ..first.clone() },
            Record { nonce: Nonce { session: 9, counter: 2 }, ..first.clone() },
            Record { nonce: Nonce { session: 1, counter: 9 }, ..first.clone() },
            record(b"b"),
        ];
        for other in variants {
            assert_ne!(first.hash(1), other.hash(1), "{other:?}");
        }
        assert_ne!(first.hash(1), first.hash(2));
    }

    #[test]
    fn an_entry_continues_only_the_chain_it_was_written_for() {
        let entry = Entry::new(1, record(b"a"));
        assert!(Position::START.precedes(&entry));
        assert!(!Position { revision: 1, ..Position::START }.precedes(&entry), "another revision");
        assert!(!Position { hash: Hash([1; 32]), ..Position::START }.precedes(&entry), "another parent");
        assert!(!Position { term: 4, ..Position::START }.precedes(&entry), "a lower term");
    }
}
