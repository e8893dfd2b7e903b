//! Remembers whom a `/vm/…` prefix named, so that a poll does not search for the same machine each time.
//! With many machines a search costs more than the rest of an answer: the places that it looks at are
//! far apart in memory, and each visit finds them cold.
//!
//! A table of fixed size without locks. A slot holds a name's hash, who that is, and a sum of both; a slot
//! that two threads write at once has a wrong sum and counts as empty. What was remembered is valid for
//! one roster: when a machine comes or goes, everything is asked anew.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use forewarn_core::{MachineId, ScopeId};

use super::route::Named;

/// Names that are remembered at the most: two for each of 100,000 machines, in 8 MB.
const SLOTS: usize = 1 << 18;

/// Slots that are made at once, when the first of them is needed.
const CHUNK: usize = 1 << 12;

pub struct Memo {
    key: RandomState,
    chunks: Vec<OnceLock<Box<[Slot]>>>,
}

#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    machine: AtomicU64,
    scope: AtomicU64,
    sum: AtomicU64,
}

impl Memo {
    pub fn new() -> Memo {
        Memo { key: RandomState::new(), chunks: (0..SLOTS / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// The machine of this name in this roster, or whoever `find` finds; a refusal is not remembered.
    pub fn get<E>(
        &self,
        roster: u64,
        named: &Named<'_>,
        find: impl FnOnce() -> Result<(MachineId, ScopeId), E>,
    ) -> Result<(MachineId, ScopeId), E> {
        let tag = self.key.hash_one((roster, &named.group, &named.name));
        let slot = self.slot(tag);
        if let Some(known) = slot.read(tag) {
            return Ok(known);
        }
        let found = find()?;
        slot.write(tag, found);
        Ok(found)
    }

    fn slot(&self, tag: u64) -> &Slot {
        let place = tag as usize % SLOTS;
        let chunk = self.chunks[place / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
        &chunk[place % CHUNK]
    }
}

impl Slot {
    fn read(&self, tag: u64) -> Option<(MachineId, ScopeId)> {
        let (machine, scope) = (self.machine.load(Ordering::Relaxed), self.scope.load(Ordering::Relaxed));
        let same =
            self.tag.load(Ordering::Relaxed) == tag && self.sum.load(Ordering::Relaxed) == sum(tag, machine, scope);
        same.then_some((MachineId(machine), ScopeId(scope)))
    }

    fn write(&self, tag: u64, (machine, scope): (MachineId, ScopeId)) {
        self.tag.store(tag, Ordering::Relaxed);
        self.machine.store(machine.0, Ordering::Relaxed);
        self.scope.store(scope.0, Ordering::Relaxed);
        self.sum.store(sum(tag, machine.0, scope.0), Ordering::Relaxed);
    }
}

/// Never what an empty slot holds, and another one for each triple that could be mixed up.
fn sum(tag: u64, machine: u64, scope: u64) -> u64 {
    let mix = |x: u64, y: u64| (x ^ y.rotate_left(31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(mix(mix(1, tag), machine), scope) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Result<(MachineId, ScopeId), &'static str>;

    fn found(machine: u64) -> Found {
        Ok((MachineId(machine), ScopeId(machine + 100)))
    }

    fn nobody_asks() -> Found {
        panic!("it was known")
    }

    #[test]
    fn a_name_is_searched_for_once_in_a_roster() {
        let memo = Memo::new();
        let named = Named::plain("rg/web");
        assert_eq!(memo.get(1, &named, || found(7)), found(7));
        assert_eq!(memo.get(1, &named, nobody_asks), found(7));
        assert_eq!(memo.get(2, &named, || found(8)), found(8), "another roster");
        assert_eq!(memo.get(2, &Named::plain("web"), || found(9)), found(9), "another name");
    }

    #[test]
    fn refusals_are_not_remembered() {
        let memo = Memo::new();
        let named = Named::plain("web");
        assert_eq!(memo.get(1, &named, || Err("unknown")), Err("unknown"));
        assert_eq!(memo.get(1, &named, || found(7)), found(7));
    }

    #[test]
    fn a_slot_that_was_written_by_two_counts_as_empty() {
        let slot = Slot::default();
        assert_eq!(slot.read(0), None);
        slot.write(5, (MachineId(1), ScopeId(2)));
        assert_eq!(slot.read(5), Some((MachineId(1), ScopeId(2))));
        slot.machine.store(3, Ordering::Relaxed);
        assert_eq!(slot.read(5), None);
    }
}
