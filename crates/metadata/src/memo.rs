//! Remembers the machine that a `/vm/…` prefix named, so that a poll does not search for it each time. With many machines a
//! search costs more than the rest of a response, because each step of it reads cold memory.
//!
//! The table has a fixed size and no locks. A slot holds the hash of a name, the machine and its event group, and a checksum;
//! a slot that two threads wrote at once has a wrong checksum and counts as empty. Entries are valid for one roster: when a
//! machine is added or removed, every name is searched again.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use forewarn_core::{MachineId, ScopeId};

use super::route::NamedMachine;

/// Two names for each of 100,000 machines, in 8 MB.
const SLOTS: usize = 1 << 18;

/// Slots that are allocated together, when the first of them is needed.
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
    checksum: AtomicU64,
}

impl Memo {
    pub fn new() -> Memo {
        Memo { key: RandomState::new(), chunks: (0..SLOTS / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// The machine with this name in this roster. Errors of `find` are not remembered.
    pub fn get<E>(
        &self,
        roster: u64,
        named: &NamedMachine<'_>,
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
        let same = self.tag.load(Ordering::Relaxed) == tag
            && self.checksum.load(Ordering::Relaxed) == checksum(tag, machine, scope);
        same.then_some((MachineId(machine), ScopeId(scope)))
    }

    fn write(&self, tag: u64, (machine, scope): (MachineId, ScopeId)) {
        self.tag.store(tag, Ordering::Relaxed);
        self.machine.store(machine.0, Ordering::Relaxed);
        self.scope.store(scope.0, Ordering::Relaxed);
        self.checksum.store(checksum(tag, machine.0, scope.0), Ordering::Relaxed);
    }
}

/// Never the content of an empty slot; differs for each triple that could be mixed up.
fn checksum(tag: u64, machine: u64, scope: u64) -> u64 {
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

    fn not_called() -> Found {
        panic!("the machine is known")
    }

    #[test]
    fn a_name_is_searched_for_once_in_a_roster() {
        let memo = Memo::new();
        let named = NamedMachine::parse("rg/web");
        assert_eq!(memo.get(1, &named, || found(7)), found(7));
        assert_eq!(memo.get(1, &named, not_called), found(7));
        assert_eq!(memo.get(2, &named, || found(8)), found(8), "another roster");
        assert_eq!(memo.get(2, &NamedMachine::parse("web"), || found(9)), found(9), "another name");
    }

    #[test]
    fn errors_are_not_remembered() {
        let memo = Memo::new();
        let named = NamedMachine::parse("web");
        assert_eq!(memo.get(1, &named, || Err("unknown")), Err("unknown"));
        assert_eq!(memo.get(1, &named, || found(7)), found(7));
    }

    #[test]
    fn a_slot_that_two_threads_wrote_counts_as_empty() {
        let slot = Slot::default();
        assert_eq!(slot.read(0), None);
        slot.write(5, (MachineId(1), ScopeId(2)));
        assert_eq!(slot.read(5), Some((MachineId(1), ScopeId(2))));
        slot.machine.store(3, Ordering::Relaxed);
        assert_eq!(slot.read(5), None);
    }
}
