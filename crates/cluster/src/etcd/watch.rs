//! Wakes a follower up when the head or the leader changes, and keeps the records of new commits for it.
//!
//! Events can be lost, and records that are not taken in time are dropped. Everything is read again then, and the chain of records
//! shows a gap.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::StreamExt as _;

use super::client::Connection;
use super::keys::Keys;
use super::messages::{KeyValue, WatchCreateRequest, WatchEvent, WatchRequest, WatchResponse};
use crate::contract::{READ_BYTES_MAX, READ_ENTRIES_MAX};

const DELETED: i32 = 1;

/// A running watch. It ends when it is dropped, or when the connection fails.
pub struct Watch {
    changes: watch::Receiver<u64>,
    received: Arc<Mutex<Received>>,
    task: tokio::task::JoinHandle<()>,
}

/// Answers of a watch that a follower has not taken yet.
#[derive(Debug, Default)]
struct Received {
    /// The number of answers.
    changes: u64,
    /// The number of answers that are not about records only.
    other_changes: u64,
    /// Records with their revisions, which rise, and the bytes of their values.
    records: VecDeque<(u64, KeyValue)>,
    bytes: usize,
    /// The highest revision of a record, also of those that were dropped.
    newest: u64,
}

/// New records, as a follower takes them.
#[derive(Debug, PartialEq)]
pub struct NewRecords {
    /// In order, without gaps.
    pub records: Vec<KeyValue>,
    /// The highest revision that the watch knows.
    pub newest: u64,
    /// The number of changes so far.
    pub changes: u64,
}

impl Watch {
    /// Starts a watch and waits until etcd has confirmed it: every later change is noticed.
    pub async fn start(connection: &Connection, keys: &Keys, timeout: Duration) -> Option<Watch> {
        let (key, range_end) = keys.watched();
        let request = WatchRequest { create_request: Some(WatchCreateRequest { key, range_end }) };
        let create = async {
            let mut answers = connection.watch(request).await.ok()?;
            let first = answers.next().await?.ok()?;
            (first.created && !first.canceled).then_some(answers)
        };
        let mut answers = tokio::time::timeout(timeout, create).await.ok()??;
        let (sender, changes) = watch::channel(0);
        let received: Arc<Mutex<Received>> = Arc::default();
        let (shared, keys) = (received.clone(), keys.clone());
        let task = tokio::spawn(async move {
            while let Some(Ok(WatchResponse { canceled: false, events, .. })) = answers.next().await {
                let changes = lock(&shared).add(&keys, events);
                sender.send_replace(changes);
            }
        });
        Some(Watch { changes, received, task })
    }

    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// The number of changes so far that are not new records.
    pub fn other_changes(&self) -> u64 {
        lock(&self.received).other_changes
    }

    /// Waits until there are more changes than these, or the watch ends, or the time is up.
    pub async fn wait(&mut self, seen: u64, wait: Duration) {
        let more = self.changes.wait_for(|number| *number != seen);
        let _ = tokio::time::timeout(wait, more).await;
    }

    /// Takes the records from a revision, if nothing else has changed since there were this many other changes.
    pub fn take_records(&self, from: u64, other_changes: u64) -> Option<NewRecords> {
        lock(&self.received).take(from, other_changes)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Received {
    /// Adds the events of one answer. Returns the number of changes.
    fn add(&mut self, keys: &Keys, events: Vec<WatchEvent>) -> u64 {
        let mut has_others = false;
        for WatchEvent { kind, kv } in events {
            let Some(kv) = kv else { continue };
            match keys.parse_log(&kv.key) {
                // A truncation.
                Some(_) if kind == DELETED => {}
                Some(revision) => self.push(revision, kv),
                None => has_others |= kv.key != keys.head(),
            }
        }
        self.changes += 1;
        self.other_changes += u64::from(has_others);
        self.changes
    }

    fn push(&mut self, revision: u64, kv: KeyValue) {
        if revision <= self.newest || self.records.len() == READ_ENTRIES_MAX || self.bytes > READ_BYTES_MAX {
            self.records.clear();
            self.bytes = 0;
        }
        self.newest = revision;
        self.bytes += kv.value.len();
        self.records.push_back((revision, kv));
    }

    /// Removes the first record if its revision is a certain one.
    fn pop_if(&mut self, is_wanted: impl FnOnce(u64) -> bool) -> Option<KeyValue> {
        self.records.front().filter(|(revision, _)| is_wanted(*revision))?;
        let (_, kv) = self.records.pop_front()?;
        self.bytes -= kv.value.len();
        Some(kv)
    }

    fn take(&mut self, from: u64, other_changes: u64) -> Option<NewRecords> {
        while self.pop_if(|revision| revision < from).is_some() {}
        if self.other_changes != other_changes {
            return None;
        }
        let mut records = Vec::new();
        while let Some(kv) = self.pop_if(|revision| revision == from + records.len() as u64) {
            records.push(kv);
        }
        (!records.is_empty()).then_some(NewRecords { records, newest: self.newest, changes: self.changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: Vec<u8>) -> WatchEvent {
        WatchEvent { kind: 0, kv: Some(KeyValue { key, mod_revision: 1, value: vec![1; 100] }) }
    }

    fn commit(received: &mut Received, keys: &Keys, revision: u64) {
        received.add(keys, vec![put(keys.head()), put(keys.log(revision))]);
    }

    fn revisions(keys: &Keys, taken: Option<NewRecords>) -> Vec<u64> {
        let records = taken.map(|taken| taken.records).unwrap_or_default();
        records.iter().filter_map(|kv| keys.parse_log(&kv.key)).collect()
    }

    #[test]
    fn records_are_taken_once_in_order_and_without_gaps() {
        let (keys, mut received) = (Keys::new("r"), Received::default());
        for revision in [3, 4, 5, 7] {
            commit(&mut received, &keys, revision);
        }
        let taken = received.take(4, 0);
        assert_eq!(taken.as_ref().map(|taken| (taken.newest, taken.changes)), Some((7, 4)));
        assert_eq!(revisions(&keys, taken), [4, 5]);
        assert_eq!(revisions(&keys, received.take(6, 0)), [0; 0], "6 is missing");
        assert_eq!(revisions(&keys, received.take(7, 0)), [7]);
        assert_eq!((received.records.len(), received.bytes), (0, 0));
    }

    #[test]
    fn a_change_of_the_leader_makes_the_follower_read() {
        let (keys, mut received) = (Keys::new("r"), Received::default());
        commit(&mut received, &keys, 1);
        received.add(&keys, vec![WatchEvent { kind: DELETED, ..put(keys.leader()) }]);
        assert_eq!(received.take(1, 0), None);
        assert_eq!(revisions(&keys, received.take(1, 1)), [1]);
        received.add(&keys, vec![WatchEvent { kind: DELETED, ..put(keys.log(1)) }]);
        assert_eq!((received.other_changes, received.records.len()), (1, 0), "a truncation is no news");
    }

    #[test]
    fn records_that_are_not_taken_are_dropped() {
        let (keys, mut received) = (Keys::new("r"), Received::default());
        let last = 3 * READ_ENTRIES_MAX as u64;
        for revision in 1..=last {
            commit(&mut received, &keys, revision);
            assert!(received.records.len() <= READ_ENTRIES_MAX);
        }
        assert_eq!(received.take(1, 0), None, "the first ones are read");
        assert_eq!(received.newest, last);
        // The log was replaced.
        commit(&mut received, &keys, 2);
        assert_eq!(revisions(&keys, received.take(2, 0)), [2]);
    }
}
