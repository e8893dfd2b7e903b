//! Selects the smallest entries of a list without sorting all of them.

use std::collections::BinaryHeap;

/// The `count` smallest entries by `key`, in order, without sorting all of them.
pub fn smallest_by<T, K: Ord>(entries: impl Iterator<Item = T>, count: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    struct Entry<T, K>(K, T);
    impl<T, K: Ord> PartialEq for Entry<T, K> {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl<T, K: Ord> Eq for Entry<T, K> {}
    impl<T, K: Ord> PartialOrd for Entry<T, K> {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl<T, K: Ord> Ord for Entry<T, K> {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            self.0.cmp(&other.0)
        }
    }
    let mut smallest = BinaryHeap::new();
    for entry in entries {
        smallest.push(Entry(key(&entry), entry));
        if smallest.len() > count {
            smallest.pop();
        }
    }
    smallest.into_sorted_vec().into_iter().map(|Entry(_, entry)| entry).collect()
}
