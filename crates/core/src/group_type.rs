//! The types of groups.

use crate::model::{Group, GroupKind};

/// The type of a group. In a resource group, each type has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    AvailabilitySet,
    CloudService,
    ScaleSet,
}

impl GroupType {
    pub const ALL: [GroupType; 3] = [GroupType::AvailabilitySet, GroupType::CloudService, GroupType::ScaleSet];

    pub fn of(group: &Group) -> GroupType {
        match group.kind {
            GroupKind::AvailabilitySet => GroupType::AvailabilitySet,
            GroupKind::CloudService => GroupType::CloudService,
            GroupKind::ScaleSet(_) => GroupType::ScaleSet,
        }
    }

    /// The name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::AvailabilitySet => "availability set",
            GroupType::CloudService => "cloud service",
            GroupType::ScaleSet => "scale set",
        }
    }
}
