//! A persistent set of machine IDs, in order. Every machine is in two such sets (its scope's and its host's), so they are compact:
//! sorted chunks, of which a change copies one.

use std::sync::Arc;

use crate::ids::MachineId;

/// A chunk with more IDs is split. A change copies up to a kilobyte of IDs, and a pointer for each chunk.
const CHUNK_MAX: usize = 128;

type Chunk = Arc<[MachineId]>;

/// No chunk is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdSet(Arc<[Chunk]>);

impl IdSet {
    /// The set of these IDs, which are sorted and distinct.
    pub fn from_sorted(ids: &[MachineId]) -> IdSet {
        IdSet(ids.chunks(CHUNK_MAX).map(Chunk::from).collect())
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = MachineId> {
        self.0.iter().flat_map(|chunk| chunk.iter().copied())
    }

    /// The set with these IDs, too.
    pub fn with(&self, ids: &[MachineId]) -> IdSet {
        let mut set = self.clone();
        ids.iter().for_each(|id| set.insert(*id));
        set
    }

    /// The set without this ID.
    pub fn without(&self, id: MachineId) -> IdSet {
        let mut set = self.clone();
        set.remove(id);
        set
    }

    fn insert(&mut self, id: MachineId) {
        let at = self.chunk_of(id).min(self.0.len().saturating_sub(1));
        let Some(chunk) = self.0.get(at) else {
            *self = IdSet::from_sorted(&[id]);
            return;
        };
        let Err(position) = chunk.binary_search(&id) else { return };
        let (before, after) = chunk.split_at(position);
        if chunk.len() < CHUNK_MAX {
            self.0 = self.replaced(at, &[&[before, &[id], after].concat()]);
        } else if after.is_empty() {
            // IDs are assigned in sequence, so most sets grow at their ends. This leaves full chunks behind.
            self.0 = self.replaced(at, &[before, &[id]]);
        } else {
            let grown = [before, &[id], after].concat();
            let (first, second) = grown.split_at(grown.len() / 2);
            self.0 = self.replaced(at, &[first, second]);
        }
    }

    fn remove(&mut self, id: MachineId) {
        let at = self.chunk_of(id);
        let Some(chunk) = self.0.get(at) else { return };
        let Ok(position) = chunk.binary_search(&id) else { return };
        let rest = [&chunk[..position], &chunk[position + 1..]].concat();
        self.0 = if rest.is_empty() { self.replaced(at, &[]) } else { self.replaced(at, &[&rest]) };
    }

    /// The first chunk that ends at this ID or after it.
    fn chunk_of(&self, id: MachineId) -> usize {
        self.0.partition_point(|chunk| chunk.last().is_some_and(|last| *last < id))
    }

    /// The chunks, with others in place of the one at this position.
    fn replaced(&self, at: usize, chunks: &[&[MachineId]]) -> Arc<[Chunk]> {
        let (before, after) = (&self.0[..at], &self.0[at + 1..]);
        let chunks = chunks.iter().map(|ids| Chunk::from(*ids));
        before.iter().cloned().chain(chunks).chain(after.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::Guid;

    fn check(set: &IdSet, model: &BTreeSet<u64>) {
        assert!(set.iter().map(|id| id.0).eq(model.iter().copied()));
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
        assert!(set.0.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
    }

    /// Random changes, compared with an ordered set. Old copies keep their contents.
    #[test]
    fn behaves_like_an_ordered_set() {
        for seed in 0..6 {
            let random = |n: u64| Guid(seed).derive(n).0 as u64;
            let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
            let mut copies = Vec::new();
            for n in 0..3000 {
                let id = random(n) % 900;
                if random(n + 10_000) % 4 == 0 || n > 2500 {
                    set.remove(MachineId(id));
                    model.remove(&id);
                } else {
                    set.insert(MachineId(id));
                    model.insert(id);
                }
                if n % 20 == 0 {
                    check(&set, &model);
                }
                if n % 500 == 0 {
                    copies.push((set.clone(), model.clone()));
                }
            }
            copies.iter().for_each(|(set, model)| check(set, model));
            for id in std::mem::take(&mut model) {
                set.remove(MachineId(id));
            }
            check(&set, &model);
        }
    }

    #[test]
    fn a_set_that_grows_at_its_end_has_full_chunks() {
        let mut set = IdSet::default();
        let ids: Vec<MachineId> = (0..1000).map(MachineId).collect();
        ids.iter().for_each(|id| set.insert(*id));
        assert_eq!(set.0.len(), 1000_usize.div_ceil(CHUNK_MAX));
        assert!(set.iter().eq(IdSet::from_sorted(&ids).iter()));
    }
}
