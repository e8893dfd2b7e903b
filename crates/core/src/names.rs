//! Lookup keys: case-insensitive names, sorted for groups and hashed for machines; hashes of VM IDs and addresses.

use std::net::IpAddr;

use crate::group_type::GroupType;
use crate::ids::{Guid, mix};
use crate::model::{Address, Group, Name, ResourceGroupRef};

/// The lookup key of a group: its name, qualified by where it is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameKey {
    pub name: Name,
    pub within: Name,
    pub subscription: Name,
    pub group_type: GroupType,
}

impl NameKey {
    pub fn new(name: &Name, home: &ResourceGroupRef, group_type: GroupType) -> NameKey {
        let (within, subscription) = (fold_shared(&home.resource_group), fold_shared(&home.subscription));
        NameKey { name: fold_shared(name), within, subscription, group_type }
    }

    pub fn of_group(group: &Group) -> NameKey {
        NameKey::new(&group.name, &group.home, GroupType::of(group))
    }

    /// A key that sorts before all keys with this name.
    pub fn first_of(name: &str) -> NameKey {
        let name = name.to_ascii_lowercase().into();
        let (within, subscription) = (Name::default(), Name::default());
        NameKey { name, within, subscription, group_type: GroupType::AvailabilitySet }
    }
}

/// The hash of a machine's name (upper half) and of the container in which the name is unique (lower half).
/// Different names may have the same hash, so a lookup also compares the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(pub u64);

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

/// VM IDs can be chosen by operators, so their bits are not random.
pub(crate) fn hash_guid(guid: Guid) -> u64 {
    mix((guid.0 >> 64) as u64 ^ mix(guid.0 as u64))
}

pub(crate) fn hash_address(address: &Address) -> u64 {
    let network = hash(address.network.bytes(), BASIS);
    match address.ip {
        IpAddr::V4(ip) => mix(network ^ u64::from(u32::from(ip))),
        IpAddr::V6(ip) => mix(network ^ hash_guid(Guid(ip.into()))),
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
    if is_folded { name.clone() } else { name.to_ascii_lowercase() }
}
