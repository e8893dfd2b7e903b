//! Compares what a log says with the position of the local copy.

use std::fmt;

use super::Machine;
use crate::contract::{LogPage, View};
use crate::record::{Entry, Position};

/// The relation of the log to the local copy.
pub enum LogRelation {
    /// The log continues with these entries.
    Continues(Vec<Entry>),
    /// The local copy is at the head.
    Current,
    /// The next entries were deleted.
    Missing,
    /// The log ends before the local copy: a stale read, or an older log.
    Behind(Position),
    Diverged(Divergence),
    NoRegion,
}

/// The local copy and the log have different histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub local: Position,
    /// The log's head, or the entry that does not continue the local copy.
    pub log: Position,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { local, log } = self;
        write!(
            f,
            "this server's copy (revision {}, term {}, hash {:?}) is not part of the region's log (revision {}, term {}, \
             hash {:?}): the log was restored or replaced; move this server's data directory away to copy the region \
             again, or create the region from it",
            local.revision, local.term, local.hash, log.revision, log.term, log.hash
        )
    }
}

impl std::error::Error for Divergence {}

/// Judges an answer of the log against the local copy.
pub fn compare(local: Position, tail: LogPage) -> LogRelation {
    let LogPage { view: View { head, .. }, entries, is_read: _ } = tail;
    let Some(head) = head else { return LogRelation::NoRegion };
    if head.revision < local.revision {
        return LogRelation::Behind(head);
    }
    if head.revision == local.revision {
        return if head == local {
            LogRelation::Current
        } else {
            LogRelation::Diverged(Divergence { local, log: head })
        };
    }
    match entries.first() {
        Some(first) if first.revision == local.revision + 1 => {}
        Some(_) | None => return LogRelation::Missing,
    }
    let mut last = local;
    for entry in &entries {
        if !last.precedes(entry) {
            return LogRelation::Diverged(Divergence { local, log: entry.position() });
        }
        last = entry.position();
    }
    LogRelation::Continues(entries)
}

impl Machine {
    /// One read can be stale. Several in a row mean that the log was replaced by an older one.
    pub(super) fn on_stale_read(&mut self, head: Position) {
        self.behind_reads += 1;
        if self.behind_reads >= self.settings.behind_reads {
            self.stop(Divergence { local: self.position, log: head });
        }
    }
}
