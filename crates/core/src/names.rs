//! Case-insensitive lookup keys for names: sorted for groups, hashed for machines.

use crate::model::{Group, Name};

/// The lookup key of a group: its name, qualified by where it is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameKey {
    pub name: Name,
    pub within: Name,
    pub subscription: Name,
}

impl NameKey {
    pub fn new(name: &Name, within: &Name, subscription: &Name) -> NameKey {
        NameKey { name: fold_shared(name), within: fold_shared(within), subscription: fold_shared(subscription) }
    }

    pub fn of_group(group: &Group) -> NameKey {
        NameKey::new(&group.name, &group.home.resource_group, &group.home.subscription)
    }

    /// A key that sorts before all keys with this name.
    pub fn first_of(name: &str) -> NameKey {
        NameKey { name: name.to_ascii_lowercase().into(), within: Name::default(), subscription: Name::default() }
    }
}

/// The hash of a machine's name (upper half) and of the container in which the name is unique (lower half).
/// Different names may have the same hash, so a lookup also compares the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub fn new(name: &str, within: &str, subscription: &str) -> NameHash {
        let place = hash(subscription.bytes(), hash(within.bytes(), BASIS));
        NameHash(upper_half(name) | place >> 32)
    }

    /// The range of hashes of machines with this name in any container.
    pub fn all_of(name: &str) -> (NameHash, NameHash) {
        let first = upper_half(name);
        (NameHash(first), NameHash(first | u64::from(u32::MAX)))
    }
}

pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn upper_half(name: &str) -> u64 {
    hash(name.bytes(), BASIS) & !u64::from(u32::MAX)
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Case-insensitive FNV-1a, mixed so that its upper half depends on every byte.
fn hash(bytes: impl Iterator<Item = u8>, from: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.fold(from, step);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Converts to lower case. Shares the text if it already is, as most names are.
fn fold_shared(name: &Name) -> Name {
    let is_folded = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_folded { name.clone() } else { name.to_ascii_lowercase().into() }
}
