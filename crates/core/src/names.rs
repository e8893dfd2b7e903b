//! Names as they are found: without regard to case, by order or by hash.

use crate::model::{Group, Name};

/// A group's name; the part after it tells equal names apart.
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

    /// Before all keys of this name.
    pub fn first_of(name: &str) -> NameKey {
        NameKey { name: name.to_ascii_lowercase().into(), within: Name::default(), subscription: Name::default() }
    }
}

/// A machine's name in the upper half, where it is in the lower. Different names may have one hash: who
/// finds a machine by it compares the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub fn new(name: &str, within: &str, subscription: &str) -> NameHash {
        let place = hash(subscription.bytes(), hash(within.bytes(), BASIS));
        NameHash(upper_half(name) | place >> 32)
    }

    /// The first and the last hash that machines of this name may have, wherever they are.
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

/// FNV-1a without regard to case, and mixed so that its upper half depends on all of it.
fn hash(bytes: impl Iterator<Item = u8>, from: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.fold(from, step);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Without a copy of what is folded already: most names, and those that all machines share.
fn fold_shared(name: &Name) -> Name {
    let is_folded = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_folded { name.clone() } else { name.to_ascii_lowercase().into() }
}
