//! The cause of an operation: the operation itself, or the rollout that requested it.

use forewarn_core::{Operation, OperationId, Region, Rollout, RolloutId};

use super::titles::{name_operation, name_rollout};

/// An operation, or a rollout with all its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActivityId {
    Operation(OperationId),
    Rollout(RolloutId),
}

impl ActivityId {
    /// The ID as it appears in element IDs of the portal.
    pub fn key(self) -> String {
        match self {
            ActivityId::Operation(id) => format!("op-{id}"),
            ActivityId::Rollout(id) => format!("ro-{id}"),
        }
    }

    /// Its page in the portal.
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

/// The title of an operation or rollout that the region has.
pub fn find_title(region: &Region, id: ActivityId) -> String {
    let title = match id {
        ActivityId::Operation(id) => region.operation(id).map(|operation| name_operation(region, operation)),
        ActivityId::Rollout(id) => region.rollout(id).map(|rollout| title_of_rollout(region, rollout)),
    };
    title.unwrap_or_else(|| "an operation that has ended".into())
}

pub fn title_of_rollout(region: &Region, rollout: &Rollout) -> String {
    format!("Rollout: {}", name_rollout(region, rollout))
}
