//! Conflicts of an operation: a rollout that owns the host or group of a machine, other operations on the same machines, and
//! operations that take a group below its floor together with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_api_types::OperationConflict;
use forewarn_core::{Event, Machine, Region, RolloutStep, StepState};

use super::cause::{ActivityId, find_cause, find_title};
use super::group_dip::GroupDip;
use super::owner::find_owner;
use crate::convert::Convert;

/// The other causes that affect the machines of these events, or their groups, at the same time.
pub fn find_conflicts(
    region: &Region,
    own: ActivityId,
    events: &[&Arc<Event>],
    dips: &[GroupDip],
) -> BTreeSet<ActivityId> {
    let below = dips.iter().filter(|dip| dip.is_below());
    let mut causes: BTreeSet<ActivityId> = below.flat_map(|dip| dip.others.iter().copied()).collect();
    let live = events.iter().filter(|event| event.is_live());
    let machines: Vec<&Arc<Machine>> =
        live.flat_map(|event| &*event.resources).filter_map(|resource| region.machine(resource.machine)).collect();
    let others = machines.iter().flat_map(|machine| region.events_of(machine.id));
    causes.extend(others.flat_map(|event| event.operations.iter().map(|one| find_cause(region, *one))));
    causes.extend(machines.iter().filter_map(|machine| {
        let (rollout, step) = find_owner(region, machine)?;
        is_open(step).then_some(ActivityId::Rollout(rollout.id))
    }));
    causes.remove(&own);
    causes
}

pub fn render_conflicts(region: &Region, causes: &BTreeSet<ActivityId>) -> Vec<OperationConflict> {
    let render = |id: &ActivityId| {
        let (operation, rollout) = match id {
            ActivityId::Operation(id) => (Some(id.convert()), None),
            ActivityId::Rollout(id) => (None, Some(id.convert())),
        };
        OperationConflict { operation, rollout, title: find_title(region, *id) }
    };
    causes.iter().map(render).collect()
}

fn is_open(step: &RolloutStep) -> bool {
    match step.state {
        StepState::Pending | StepState::InProgress => true,
        StepState::Succeeded | StepState::Failed | StepState::Skipped | StepState::Canceled => false,
    }
}
