//! A persistent set of pairs of a hash and a machine, in order. Hashes need not be unique, so a lookup returns candidates, and
//! the caller compares what was hashed.
//!
//! A trie over the digits of hash and ID: branches above sorted leaves. Pairs are spread evenly because hashes are; machines
//! with equal hashes are separated by their IDs, so that no leaf grows without bound.

use std::sync::Arc;

use crate::ids::MachineId;

/// Bits of the hash per level.
const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;

/// A leaf with more pairs is split.
const LEAF_MAX: usize = 64;

/// Leaves with no more pairs than this in total are joined. Far below `LEAF_MAX`, so that a pair that comes and goes does not
/// split and join a leaf each time.
const JOIN_MAX: usize = LEAF_MAX / 4;

type Pair = (u64, MachineId);

#[derive(Clone, Debug, Default)]
pub(crate) struct HashIndex(IndexNode);

#[derive(Clone, Debug)]
enum IndexNode {
    Branch(Arc<[IndexNode; WIDTH]>),
    Leaf(Arc<[Pair]>),
}

impl Default for IndexNode {
    fn default() -> IndexNode {
        IndexNode::Leaf(Arc::default())
    }
}

impl HashIndex {
    /// The index of all these pairs. Much faster than inserting them one by one.
    pub fn build(mut pairs: Vec<Pair>) -> HashIndex {
        pairs.sort_unstable();
        pairs.dedup();
        HashIndex(IndexNode::build(&pairs, 0))
    }

    pub fn insert(&mut self, hash: u64, machine: MachineId) {
        self.0.insert((hash, machine), 0);
    }

    pub fn remove(&mut self, hash: u64, machine: MachineId) {
        if self.0.first_from((hash, machine), 0) == Some((hash, machine)) {
            self.0.remove((hash, machine), 0);
        }
    }

    /// The machines with this hash.
    pub fn get(&self, hash: u64) -> impl Iterator<Item = MachineId> {
        self.range(hash, hash)
    }

    /// The machines with a hash from `first` to `last`, in order of the hashes.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = MachineId> {
        let mut next = Some((first, MachineId(0)));
        std::iter::from_fn(move || {
            let (hash, machine) = self.0.first_from(next?, 0).filter(|(hash, _)| *hash <= last)?;
            next = match machine.0.checked_add(1) {
                Some(id) => Some((hash, MachineId(id))),
                None => hash.checked_add(1).map(|hash| (hash, MachineId(0))),
            };
            Some(machine)
        })
    }
}

impl IndexNode {
    /// `pairs` are sorted, distinct, and have the same digits above `depth`.
    fn build(pairs: &[Pair], depth: u32) -> IndexNode {
        if pairs.len() <= LEAF_MAX {
            return IndexNode::Leaf(pairs.into());
        }
        let child = |at: usize| {
            let from = pairs.partition_point(|pair| digit(*pair, depth) < at);
            let to = pairs.partition_point(|pair| digit(*pair, depth) <= at);
            IndexNode::build(&pairs[from..to], depth + 1)
        };
        IndexNode::Branch(Arc::new(std::array::from_fn(child)))
    }

    /// The first pair that is not less than this one.
    fn first_from(&self, pair: Pair, depth: u32) -> Option<Pair> {
        match self {
            IndexNode::Leaf(pairs) => pairs.get(position(pairs, pair, depth)).copied(),
            IndexNode::Branch(children) => {
                let at = digit(pair, depth);
                let rest =
                    || children[at + 1..].iter().find_map(|child| child.first_from((0, MachineId(0)), depth + 1));
                children[at].first_from(pair, depth + 1).or_else(rest)
            }
        }
    }

    fn insert(&mut self, pair: Pair, depth: u32) {
        match self {
            IndexNode::Branch(children) => Arc::make_mut(children)[digit(pair, depth)].insert(pair, depth + 1),
            IndexNode::Leaf(pairs) => {
                let Err(at) = pairs.binary_search(&pair) else { return };
                let (before, after) = pairs.split_at(at);
                let grown: Vec<Pair> = [before, &[pair], after].concat();
                *self = IndexNode::build(&grown, depth);
            }
        }
    }

    /// The pair is in this node.
    fn remove(&mut self, pair: Pair, depth: u32) {
        match self {
            IndexNode::Leaf(pairs) => *pairs = pairs.iter().filter(|other| **other != pair).copied().collect(),
            IndexNode::Branch(children) => {
                Arc::make_mut(children)[digit(pair, depth)].remove(pair, depth + 1);
                if let Some(joined) = join(children) {
                    *self = joined;
                }
            }
        }
    }

    /// The number of pairs in a leaf.
    fn leaf_len(&self) -> Option<usize> {
        match self {
            IndexNode::Branch(_) => None,
            IndexNode::Leaf(pairs) => Some(pairs.len()),
        }
    }
}

/// The position of the first pair that is not less than this one. Hashes are spread evenly, so the search begins where the pair
/// should be: a binary search would read more cache lines.
fn position(pairs: &[Pair], pair: Pair, depth: u32) -> usize {
    let rest = pair.0.checked_shl(BITS * depth).unwrap_or(0);
    let expected = ((u128::from(rest) * pairs.len() as u128) >> u64::BITS) as usize;
    let before = pairs[..expected].iter().rev().take_while(|other| **other >= pair).count();
    let after = pairs[expected..].iter().take_while(|other| **other < pair).count();
    expected - before + after
}

/// One leaf with all pairs, if these are few leaves with few pairs.
fn join(children: &[IndexNode; WIDTH]) -> Option<IndexNode> {
    let total: usize = children.iter().map(IndexNode::leaf_len).sum::<Option<usize>>()?;
    let pairs = children.iter().flat_map(|child| match child {
        IndexNode::Branch(_) => &[][..],
        IndexNode::Leaf(pairs) => pairs,
    });
    (total <= JOIN_MAX).then(|| IndexNode::Leaf(pairs.copied().collect()))
}

/// A digit of the hash, or of the ID below it.
fn digit((hash, machine): Pair, depth: u32) -> usize {
    let digits = u64::BITS / BITS;
    let (number, depth) = if depth < digits { (hash, depth) } else { (machine.0, depth - digits) };
    (number >> (u64::BITS - BITS * (depth + 1))) as usize % WIDTH
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::Guid;

    fn check(index: &HashIndex, model: &BTreeSet<Pair>, hash: u64) {
        let expected = |first: u64, last: u64| -> Vec<MachineId> {
            let from = (first, MachineId(0));
            model.range(from..=(last, MachineId(u64::MAX))).map(|(_, machine)| *machine).collect()
        };
        let half = u64::from(u32::MAX);
        for (first, last) in [(hash, hash), (hash & !half, hash | half), (0, u64::MAX), (hash, u64::MAX)] {
            assert_eq!(index.range(first, last).collect::<Vec<_>>(), expected(first, last), "{first:x}..={last:x}");
        }
    }

    /// Random changes of even, clustered and equal hashes, compared with an ordered set. Old copies keep their contents.
    #[test]
    fn behaves_like_an_ordered_set() {
        for seed in 0..12 {
            let random = |n: u64| Guid(seed).derive(n).0 as u64;
            let (mut index, mut model) = (HashIndex::default(), BTreeSet::new());
            let mut copies = Vec::new();
            for n in 0..1500 {
                let hash = match seed % 4 {
                    0 => random(n % 700),
                    1 => random(n % 5),
                    2 => (random(n % 5) << 60) | (n % 300),
                    _ => u64::MAX - n % 3,
                };
                let machine = MachineId(match random(n + 10_000) % 9 {
                    0 => u64::MAX - n % 2,
                    other => other * 100 + n % 7,
                });
                if random(n + 20_000).is_multiple_of(3) || n > 1200 {
                    index.remove(hash, machine);
                    model.remove(&(hash, machine));
                } else {
                    index.insert(hash, machine);
                    model.insert((hash, machine));
                }
                if n % 20 == 0 {
                    check(&index, &model, hash);
                    check(&HashIndex::build(model.iter().copied().collect()), &model, hash);
                }
                if n % 300 == 0 {
                    copies.push((index.clone(), model.clone()));
                }
            }
            copies.iter().for_each(|(index, model)| check(index, model, random(1)));
            for (hash, machine) in std::mem::take(&mut model) {
                index.remove(hash, machine);
            }
            assert_eq!(index.0.leaf_len(), Some(0), "empty branches are removed");
        }
    }
}
