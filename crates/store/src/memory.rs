//! A store that lasts as long as the program: for servers to throw away, and for tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_core::{Entity, Key, Scope, Timestamp, Write};

use crate::history::{fold, rows_of, search_names, search_operations};
use crate::*;

/// Clones share what is stored: keep one to open the store again after its server has gone.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    clock: Option<ClockKind>,
    entities: BTreeMap<Key, Entity>,
    history: VecDeque<HistoryRow>,
    last_number: u64,
    last_at: Option<Timestamp>,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// A panic elsewhere does not end the store: every change below is complete before it can panic.
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
        let last = state.last_at.unwrap_or(Timestamp(i64::MIN));
        for row in rows_of(batch, last) {
            let number = state.last_number + 1;
            state.remember(HistoryRow { number, ..row });
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

    fn restore(&mut self, contents: &Contents, history: &mut HistoryRows<'_>) -> Result<(), StoreError> {
        let mut new = State { revision: contents.revision, clock: contents.clock, ..State::default() };
        for entity in &contents.entities {
            new.put(entity);
        }
        for row in history {
            new.remember(row?);
        }
        let mut state = self.state();
        if !state.is_empty() {
            return Err(not_empty());
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
}

impl State {
    fn write(&mut self, write: &Write) {
        match write {
            Write::Put(entity) => self.put(entity),
            Write::Delete(key) => drop(self.entities.remove(key)),
        }
    }

    /// As other stores do: without the live events of a scope.
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
        self.revision == 0 && self.entities.is_empty() && self.last_number == 0
    }
}

fn matches(query: &HistoryQuery, row: &HistoryRow) -> bool {
    let HistoryQuery { after: _, event, operation, machine, kinds, since, until, newest: _, limit: _ } = query;
    event.is_none_or(|event| row.event == Some(event))
        && operation.is_none_or(|operation| search_operations(row).contains(&operation))
        && machine.as_ref().is_none_or(|machine| search_names(row).contains(&fold(machine)))
        && (kinds.is_empty() || kinds.contains(&row.kind))
        && since.is_none_or(|since| row.at >= since)
        && until.is_none_or(|until| row.at < until)
}
