//! A store in memory, for tests and temporary servers.

mod replica;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_core::{Entity, Key, Scope, Timestamp, Write};

use crate::history::{matches, rows_of};
use crate::*;

/// Clones share their contents. Keep a clone to reopen the store after its server has stopped.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    revision: u64,
    /// Of the last applied record, in a cluster.
    position: Option<String>,
    clock: Option<ClockKind>,
    stamp: Option<ClockStamp>,
    entities: BTreeMap<Key, Entity>,
    attachments: BTreeMap<AttachmentKey, String>,
    history: VecDeque<HistoryRow>,
    last_number: u64,
    last_at: Option<Timestamp>,
}

/// Kind and key of the owner, and the name. Other stores use the same order.
type AttachmentKey = (&'static str, String, String);

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Ignores lock poisoning, because every change below is complete before it can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let state = self.state();
        Ok(Loaded { revision: state.revision, entities: state.entities.values().cloned().collect() })
    }

    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let mut state = self.state();
        if state.revision != expected {
            return Err(CommitError::Conflict { expected, found: state.revision });
        }
        for write in &batch.writes {
            state.write(write);
        }
        for attachment in &batch.attachments {
            state.attach(attachment);
        }
        let last = state.last_at.unwrap_or(Timestamp(i64::MIN));
        for row in rows_of(batch, last) {
            let number = state.last_number + 1;
            state.remember(HistoryRow { number, ..row });
        }
        if batch.stamp.is_some() {
            state.stamp.clone_from(&batch.stamp);
        }
        state.revision += 1;
        Ok(state.revision)
    }

    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let mut state = self.state();
        let old = state.history.partition_point(|row| row.at < before).min(limit as usize);
        state.history.drain(..old);
        Ok(old as u32)
    }

    fn clock_kind(&mut self) -> Result<Option<ClockKind>, StoreError> {
        Ok(self.state().clock)
    }

    fn set_clock_kind(&mut self, kind: ClockKind) -> Result<(), StoreError> {
        self.state().clock = Some(kind);
        Ok(())
    }

    fn clock_stamp(&mut self) -> Result<Option<ClockStamp>, StoreError> {
        Ok(self.state().stamp.clone())
    }

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        let mut new = State { revision: contents.revision, clock: contents.clock, ..State::default() };
        for entity in &contents.entities {
            new.put(entity);
        }
        for attachment in &contents.attachments {
            new.attach(attachment);
        }
        for row in history {
            new.remember(row?);
        }
        let mut state = self.state();
        if !state.is_empty() {
            return Err(StoreError::not_empty());
        }
        *state = new;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for MemoryStore {
    fn history(&self, query: &HistoryQuery) -> Result<Vec<HistoryRow>, StoreError> {
        let state = self.state();
        let limit = query.page_size();
        let from = query.after.map_or(0, |after| state.history.partition_point(|row| row.number <= after));
        let found = state.history.range(from..).filter(|row| matches(query, row));
        if query.newest {
            let mut rows: Vec<_> = found.rev().take(limit).cloned().collect();
            rows.reverse();
            Ok(rows)
        } else {
            Ok(found.take(limit).cloned().collect())
        }
    }

    fn attachment(&self, owner: Owner, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.state().attachments.get(&attachment_key(owner, name)).cloned())
    }

    fn attachments(
        &self,
        owner: Owner,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let state = self.state();
        let (kind, key) = owner.record_name();
        let from = match after {
            Some(after) if after >= prefix => Excluded(attachment_key(owner, after)),
            Some(_) | None => Included(attachment_key(owner, prefix)),
        };
        let found = state.attachments.range((from, Unbounded));
        let found = found.take_while(|((of, whose, name), _)| (*of, whose) == (kind, &key) && name.starts_with(prefix));
        let limit = limit.min(ATTACHMENTS_PAGE_MAX) as usize;
        Ok(found.take(limit).map(|((_, _, name), value)| (name.clone(), value.clone())).collect())
    }

    fn all_attachments(&self, after: Option<(Owner, &str)>) -> Result<Vec<Attachment>, StoreError> {
        let state = self.state();
        let from = after.map_or(Unbounded, |(owner, name)| Excluded(attachment_key(owner, name)));
        let found = state.attachments.range((from, Unbounded)).take(ATTACHMENTS_PAGE_MAX as usize);
        let found = found.filter_map(|((kind, key, name), value)| {
            Some(Attachment::put(Owner::from_record_name(kind, key)?, name.clone(), value.clone()))
        });
        Ok(found.collect())
    }
}

fn attachment_key(owner: Owner, name: &str) -> AttachmentKey {
    let (kind, key) = owner.record_name();
    (kind, key, name.to_string())
}

impl State {
    fn write(&mut self, write: &Write) {
        match write {
            Write::Put(entity) => self.put(entity),
            Write::Delete(key) => self.delete(key),
        }
    }

    fn delete(&mut self, key: &Key) {
        self.entities.remove(key);
        let Some(owner) = Owner::from_key(key) else { return };
        let first = attachment_key(owner, "");
        let of_owner = self.attachments.range(first.clone()..).map(|(key, _)| key);
        let gone: Vec<_> = of_owner.take_while(|(kind, key, _)| (kind, key) == (&first.0, &first.1)).cloned().collect();
        gone.iter().for_each(|key| drop(self.attachments.remove(key)));
    }

    fn attach(&mut self, attachment: &Attachment) {
        let key = attachment_key(attachment.owner, &attachment.name);
        match &attachment.value {
            Some(value) => drop(self.attachments.insert(key, value.clone())),
            None => drop(self.attachments.remove(&key)),
        }
    }

    /// Drops the live events of a scope, like other stores.
    fn put(&mut self, entity: &Entity) {
        let kept = match entity {
            Entity::Scope(scope) if !scope.live.is_empty() => {
                Entity::Scope(Arc::new(Scope { live: Vec::new(), ..(**scope).clone() }))
            }
            other => other.clone(),
        };
        self.entities.insert(entity.key(), kept);
    }

    fn remember(&mut self, row: HistoryRow) {
        self.last_number = row.number;
        self.last_at = Some(row.at);
        self.history.push_back(row);
    }

    fn is_empty(&self) -> bool {
        self.revision == 0 && self.entities.is_empty() && self.attachments.is_empty() && self.last_number == 0
    }
}
