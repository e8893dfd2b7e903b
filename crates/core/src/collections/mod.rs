//! Persistent collections for the data that every poll reads, or that grows with every machine. Cloning one copies a pointer; a change copies the nodes on
//! one path. A lookup reads few cache lines, and all but the last ones are shared by many keys and stay in the cache.

mod hash_index;
mod id_map;
mod id_set;

pub(crate) use hash_index::HashIndex;
pub(crate) use id_map::IdMap;
pub(crate) use id_set::IdSet;
