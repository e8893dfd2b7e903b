//! A persistent map from numbers to values, in order of the numbers. The region assigns IDs in sequence, so a radix tree is
//! dense: a lookup reads one pointer per level and compares no keys.

use std::fmt;
use std::sync::Arc;

use crate::ids::{GroupId, MachineId, ScopeId};

/// Bits of the key per level. A change of a shared map counts a reference for every neighbor in the leaf, so wider leaves would
/// make writes slower.
const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;

/// A number that the region assigned.
pub(crate) trait AssignedId: Copy {
    fn number(self) -> u64;
}

macro_rules! assigned {
    ($($id:ident)*) => {
        $(impl AssignedId for $id {
            fn number(self) -> u64 {
                self.0
            }
        })*
    };
}

assigned!(MachineId ScopeId GroupId);

#[derive(Clone)]
pub(crate) struct IdMap<V> {
    root: Option<Node<V>>,
    /// The position in the key of the digit that the root looks at.
    shift: u32,
    len: usize,
}

#[derive(Clone)]
enum Node<V> {
    Branch(Arc<[Option<Node<V>>; WIDTH]>),
    Leaf(Arc<[Option<V>; WIDTH]>),
}

impl<V> Default for IdMap<V> {
    fn default() -> IdMap<V> {
        IdMap { root: None, shift: 0, len: 0 }
    }
}

impl<V> IdMap<V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, id: &impl AssignedId) -> Option<&V> {
        let key = id.number();
        let (mut node, mut shift) = (self.root.as_ref().filter(|_| self.covers(key))?, self.shift);
        loop {
            match node {
                Node::Branch(children) => node = children[digit(key, shift)].as_ref()?,
                Node::Leaf(values) => return values[digit(key, 0)].as_ref(),
            }
            shift -= BITS;
        }
    }

    pub fn contains_key(&self, id: &impl AssignedId) -> bool {
        self.get(id).is_some()
    }

    /// All values, in order of their IDs.
    pub fn values(&self) -> Values<'_, V> {
        Values { map: self, from: 0, to: u64::MAX, left: self.len }
    }

    /// The values of this ID and all greater ones.
    pub fn values_from(&self, id: impl AssignedId) -> impl Iterator<Item = &V> {
        let mut next = Some(id.number());
        std::iter::from_fn(move || {
            let (key, value) = self.first_from(next?)?;
            next = key.checked_add(1);
            Some(value)
        })
    }

    /// The greatest ID.
    pub fn last_number(&self) -> Option<u64> {
        self.last_to(u64::MAX).map(|(key, _)| key)
    }

    fn covers(&self, key: u64) -> bool {
        key.checked_shr(self.shift + BITS).unwrap_or(0) == 0
    }

    fn first_from(&self, key: u64) -> Option<(u64, &V)> {
        self.root.as_ref().filter(|_| self.covers(key))?.first_from(self.shift, key)
    }

    fn last_to(&self, key: u64) -> Option<(u64, &V)> {
        let key = if self.covers(key) { key } else { u64::MAX };
        self.root.as_ref()?.last_to(self.shift, key)
    }
}

impl<V: Clone> IdMap<V> {
    pub fn insert(&mut self, id: impl AssignedId, value: V) -> Option<V> {
        let key = id.number();
        while !self.covers(key) {
            self.grow();
        }
        let before = self.root.get_or_insert_with(|| Node::empty(self.shift)).insert(self.shift, key, value);
        self.len += usize::from(before.is_none());
        before
    }

    pub fn remove(&mut self, id: &impl AssignedId) -> Option<V> {
        // Without this check, removing nothing would copy the path.
        self.get(id)?;
        let root = self.root.as_mut()?;
        let before = root.remove(self.shift, id.number());
        if root.is_empty() {
            *self = IdMap::default();
        } else {
            self.len -= 1;
        }
        before
    }

    fn grow(&mut self) {
        self.shift += BITS;
        if let Some(root) = self.root.take() {
            let mut children = [const { None }; WIDTH];
            children[0] = Some(root);
            self.root = Some(Node::Branch(Arc::new(children)));
        }
    }
}

impl<V> Node<V> {
    fn empty(shift: u32) -> Node<V> {
        match shift {
            0 => Node::Leaf(Arc::new([const { None }; WIDTH])),
            _ => Node::Branch(Arc::new([const { None }; WIDTH])),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::Branch(children) => children.iter().all(Option::is_none),
            Node::Leaf(values) => values.iter().all(Option::is_none),
        }
    }

    /// The first entry at or after a key. Digits above `shift` are ignored; the key that is returned lacks them.
    fn first_from(&self, shift: u32, key: u64) -> Option<(u64, &V)> {
        let start = digit(key, shift);
        match self {
            Node::Leaf(values) => (start..WIDTH).find_map(|at| Some((at as u64, values[at].as_ref()?))),
            Node::Branch(children) => (start..WIDTH).find_map(|at| {
                let below = if at == start { key } else { 0 };
                let (rest, value) = children[at].as_ref()?.first_from(shift - BITS, below)?;
                Some(((at as u64) << shift | rest, value))
            }),
        }
    }

    /// The last entry at or before a key.
    fn last_to(&self, shift: u32, key: u64) -> Option<(u64, &V)> {
        let start = digit(key, shift);
        match self {
            Node::Leaf(values) => (0..=start).rev().find_map(|at| Some((at as u64, values[at].as_ref()?))),
            Node::Branch(children) => (0..=start).rev().find_map(|at| {
                let below = if at == start { key } else { u64::MAX };
                let (rest, value) = children[at].as_ref()?.last_to(shift - BITS, below)?;
                Some(((at as u64) << shift | rest, value))
            }),
        }
    }
}

impl<V: Clone> Node<V> {
    fn insert(&mut self, shift: u32, key: u64, value: V) -> Option<V> {
        match self {
            Node::Leaf(values) => Arc::make_mut(values)[digit(key, 0)].replace(value),
            Node::Branch(children) => {
                let child = &mut Arc::make_mut(children)[digit(key, shift)];
                child.get_or_insert_with(|| Node::empty(shift - BITS)).insert(shift - BITS, key, value)
            }
        }
    }

    fn remove(&mut self, shift: u32, key: u64) -> Option<V> {
        match self {
            Node::Leaf(values) => Arc::make_mut(values)[digit(key, 0)].take(),
            Node::Branch(children) => {
                let child = &mut Arc::make_mut(children)[digit(key, shift)];
                let node = child.as_mut()?;
                let before = node.remove(shift - BITS, key);
                if node.is_empty() {
                    *child = None;
                }
                before
            }
        }
    }
}

fn digit(key: u64, shift: u32) -> usize {
    (key >> shift) as usize % WIDTH
}

pub(crate) struct Values<'m, V> {
    map: &'m IdMap<V>,
    from: u64,
    to: u64,
    left: usize,
}

impl<'m, V> Iterator for Values<'m, V> {
    type Item = &'m V;

    fn next(&mut self) -> Option<&'m V> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = self.map.first_from(self.from)?;
        self.from = key.saturating_add(1);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<V> DoubleEndedIterator for Values<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = self.map.last_to(self.to)?;
        self.to = key.saturating_sub(1);
        Some(value)
    }
}

impl<V> ExactSizeIterator for Values<'_, V> {}

impl<V: fmt::Debug> fmt::Debug for IdMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::Guid;

    fn check(map: &IdMap<u64>, model: &BTreeMap<u64, u64>, near: u64) {
        assert_eq!(map.len(), model.len());
        assert!(map.values().eq(model.values()));
        assert!(map.values().rev().eq(model.values().rev()));
        assert!(map.values_from(MachineId(near)).eq(model.range(near..).map(|(_, value)| value)));
        assert_eq!(map.last_number(), model.last_key_value().map(|(key, _)| *key));
        for key in near.saturating_sub(3)..=near.saturating_add(3) {
            assert_eq!(map.get(&MachineId(key)), model.get(&key), "{key}");
        }
    }

    /// Random changes of dense, sparse and extreme keys, compared with an ordered map. Old copies keep their contents.
    #[test]
    fn behaves_like_an_ordered_map() {
        for seed in 0..20 {
            let random = |n: u64| Guid(seed).derive(n).0 as u64;
            let (mut map, mut model) = (IdMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for n in 0..300 {
                let key = match random(n) % 8 {
                    0 => random(n + 1000),
                    1 => u64::MAX - random(n + 1000) % 20,
                    _ => random(n + 1000) % 600,
                };
                if random(n + 2000).is_multiple_of(3) {
                    assert_eq!(map.remove(&MachineId(key)), model.remove(&key));
                } else {
                    assert_eq!(map.insert(MachineId(key), n), model.insert(key, n));
                }
                check(&map, &model, key);
                if n % 50 == 0 {
                    copies.push((map.clone(), model.clone()));
                }
            }
            copies.iter().for_each(|(map, model)| check(map, model, 300));
            for key in model.clone().into_keys() {
                map.remove(&MachineId(key));
                model.remove(&key);
                check(&map, &model, key);
            }
        }
    }
}
