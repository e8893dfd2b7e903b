//! The cause of an operation: the operation itself, or the rollout that requested it.

use forewarn_core::{Operation, OperationId, Region, RolloutId};

/// An operation, or a rollout with all its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActivityId {
    Operation(OperationId),
    Rollout(RolloutId),
}

impl ActivityId {
    /// The ID as it appears in addresses and element IDs.
    pub fn key(self) -> String {
        match self {
            ActivityId::Operation(id) => format!("op-{id}"),
            ActivityId::Rollout(id) => format!("ro-{id}"),
        }
    }

    pub fn href(self) -> String {
        match self {
            ActivityId::Operation(id) => format!("/operations/{id}"),
            ActivityId::Rollout(id) => format!("/rollouts/{id}"),
        }
    }
}

/// The operation or rollout that an operation belongs to.
pub fn find_cause(region: &Region, operation: OperationId) -> ActivityId {
    let rollout = region.operation(operation).and_then(|operation| find_rollout(region, operation));
    rollout.map_or(ActivityId::Operation(operation), ActivityId::Rollout)
}

/// The rollout that requested an operation. Maintenance that a rollout carries out is its own cause.
pub fn find_rollout(region: &Region, operation: &Operation) -> Option<RolloutId> {
    operation.rollout.filter(|_| region.rollout_of_maintenance(operation).is_none())
}
