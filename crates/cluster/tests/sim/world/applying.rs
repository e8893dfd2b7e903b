//! Copies that apply entries: at once, slowly, or not at all.

use std::collections::btree_map::Entry as Slot;

use forewarn_cluster::Entry;

use super::{Event, World};
use crate::checker::id_of;

/// How often a copy stores what it has applied, although nothing requires it.
const STORED_PERCENT: u64 = 10;

impl World {
    /// Applies entries in one transaction. If it takes long, it can be committed early or late.
    pub(super) fn apply(&mut self, index: usize, entries: Vec<Entry>) -> Result<(), String> {
        self.summary.batches += u64::from(entries.len() > 1);
        if self.is_faulty() && self.rng.below(1000) < self.faults.hangs {
            let is_late = self.rng.percent(50);
            if is_late {
                self.nodes[index].uncommitted = entries;
            } else {
                self.commit_to_disk(index, &entries)?;
            }
            let node = &mut self.nodes[index];
            node.is_hung = true;
            let (process, at) = (node.process, self.now + 500 + self.rng.below(8_000));
            self.at(at, Event::Applied { node: index, process });
            // As if a second thread used the machine meanwhile.
            for step in 1..8 {
                self.at(self.now + step * 300, Event::Poll { node: index, process });
            }
            return Ok(());
        }
        if self.is_faulty() && self.rng.below(1000) < self.faults.apply_failures {
            return self.fail_to_apply(index, &entries);
        }
        self.commit_to_disk(index, &entries)?;
        if let Some(machine) = &mut self.nodes[index].machine {
            machine.applied();
        }
        Ok(())
    }

    fn commit_to_disk(&mut self, index: usize, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            let writes = self.contents.get(&id_of(entry)).map_or(&[][..], |content| &content.transition.writes);
            self.nodes[index].disk.apply(entry, writes)?;
            if self.stores.percent(STORED_PERCENT) {
                self.nodes[index].disk.store();
            }
            self.check_copy(index)?;
            let written = self.checker.history.get(entry.revision as usize - 1);
            if !self.was_restored && written != Some(entry) {
                return Err(format!("invariant \"one order everywhere\": {entry:?}, but the log has {written:?}"));
            }
        }
        Ok(())
    }

    /// All servers have the same copy at the same position.
    fn check_copy(&mut self, index: usize) -> Result<(), String> {
        let disk = &self.nodes[index].disk;
        match self.copies.entry(disk.position.hash) {
            Slot::Vacant(slot) => drop(slot.insert(disk.copy.clone())),
            Slot::Occupied(slot) if *slot.get() != disk.copy => {
                let name = &self.nodes[index].name;
                return Err(format!("invariant \"copies at one position are equal\": {name} at {:?}", disk.position));
            }
            Slot::Occupied(_) => {}
        }
        Ok(())
    }

    /// The copy cannot apply one of the entries, and those after it. The server starts again at the copy's position.
    fn fail_to_apply(&mut self, index: usize, entries: &[Entry]) -> Result<(), String> {
        let applied = self.rng.below(entries.len() as u64) as usize;
        self.commit_to_disk(index, &entries[..applied])?;
        let node = &mut self.nodes[index];
        if let Some(machine) = &mut node.machine {
            machine.apply_failed();
        }
        let (process, at) = (node.process, self.now + 1000);
        self.at(at, Event::Recover { node: index, process });
        Ok(())
    }

    /// A server whose copy could not apply an entry tries again.
    pub(super) fn recover(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        let position = node.disk.position;
        if let Some(machine) = &mut node.machine {
            *machine = machine.restart(position);
            node.waits_for = None;
        }
        self.poll(index)
    }

    pub(super) fn end_apply(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        if !std::mem::replace(&mut node.is_hung, false) {
            return Ok(());
        }
        let entries = std::mem::take(&mut node.uncommitted);
        self.commit_to_disk(index, &entries)?;
        if let Some(machine) = &mut self.nodes[index].machine {
            machine.applied();
        }
        self.poll(index)
    }
}
