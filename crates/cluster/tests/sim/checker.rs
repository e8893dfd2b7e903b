//! The judge of a run: sees every write that reaches the log and every answer that a client gets.

use std::collections::BTreeMap;

use forewarn_cluster::machine::Outcome;
use forewarn_cluster::{Entry, Position, RecordKind, View};

/// A client's knowledge of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Nothing,
    Committed,
    NotCommitted,
}

#[derive(Default)]
pub struct Checker {
    /// Everything that was ever appended to the current log.
    pub history: Vec<Entry>,
    requests: BTreeMap<u64, Known>,
    /// The process that opened each term.
    term_owners: BTreeMap<u64, u64>,
}

fn violated(invariant: &str, detail: String) -> Result<(), String> {
    Err(format!("invariant \"{invariant}\": {detail}"))
}

impl Checker {
    pub fn head(&self) -> Position {
        self.history.last().map_or(Position::START, Entry::position)
    }

    pub fn started(&mut self, id: u64) {
        self.requests.insert(id, Known::Nothing);
    }

    /// A record was written. `before` is the state of the log just before.
    pub fn appended(&mut self, before: &View, token: u64, entry: Entry) -> Result<(), String> {
        if before.token().map(|token| token.0) != Some(token) {
            return violated(
                "a deposed leader does not write",
                format!("{entry:?} with token {token}, not {before:?}"),
            );
        }
        let head = self.head();
        if entry.revision != head.revision + 1 || entry.record.previous != head.hash {
            return violated("the log is one chain", format!("{entry:?} after {head:?}"));
        }
        if entry.record.term < head.term {
            return violated("terms never fall", format!("{entry:?} after {head:?}"));
        }
        self.check_term(&entry)?;
        if entry.record.kind == RecordKind::Data {
            self.check_request(&entry)?;
        }
        self.history.push(entry);
        Ok(())
    }

    fn check_term(&mut self, entry: &Entry) -> Result<(), String> {
        let session = entry.record.nonce.session;
        let owner = *self.term_owners.entry(entry.record.term).or_insert(session);
        if owner != session {
            return violated("a term has one leader", format!("{entry:?}, but the term belongs to {owner:x}"));
        }
        Ok(())
    }

    fn check_request(&self, entry: &Entry) -> Result<(), String> {
        let id = id_of(entry);
        if self.requests.get(&id) == Some(&Known::NotCommitted) {
            return violated(
                "what failed does not happen",
                format!("request {id} was answered with a failure: {entry:?}"),
            );
        }
        let is_here = |other: &&Entry| other.record.kind == RecordKind::Data && id_of(other) == id;
        if let Some(other) = self.history.iter().find(is_here) {
            return violated("nothing happens twice", format!("request {id}: {entry:?} and {other:?}"));
        }
        Ok(())
    }

    /// A client got its answer.
    pub fn answered(&mut self, id: u64, outcome: &Outcome) -> Result<(), String> {
        let is_here = self.history.iter().any(|entry| entry.record.kind == RecordKind::Data && id_of(entry) == id);
        let known = match outcome {
            Outcome::Committed(_) if !is_here => {
                return violated("what was acknowledged has happened", format!("request {id}"));
            }
            Outcome::Failed(_) | Outcome::Deposed if is_here => {
                return violated("what failed does not happen", format!("request {id}: {outcome:?}"));
            }
            Outcome::Committed(_) => Known::Committed,
            Outcome::Failed(_) | Outcome::Deposed => Known::NotCommitted,
            Outcome::Unknown => Known::Nothing,
        };
        self.requests.insert(id, known);
        Ok(())
    }

    /// The log was replaced by an older one. Requests that are gone no longer count.
    pub fn restored(&mut self, head: Position) {
        self.history.truncate(head.revision as usize);
        let kept: Vec<u64> = self.history.iter().map(id_of).collect();
        self.requests.retain(|id, known| *known != Known::Committed || kept.contains(id));
        let last_term = self.head().term;
        self.term_owners.retain(|term, _| *term <= last_term);
    }

    pub fn finish(&self) -> Result<(), String> {
        let present: Vec<u64> =
            self.history.iter().filter(|entry| entry.record.kind == RecordKind::Data).map(id_of).collect();
        for (id, known) in &self.requests {
            if *known == Known::Committed && !present.contains(id) {
                return violated("nothing acknowledged is lost", format!("request {id}"));
            }
        }
        Ok(())
    }
}

/// The number of the request that an entry carries.
pub fn id_of(entry: &Entry) -> u64 {
    entry.record.payload.as_slice().try_into().map_or(u64::MAX, u64::from_be_bytes)
}
