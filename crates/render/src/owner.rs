//! Rollouts that own the host or group of a machine. A user operation on such a machine stays possible; every preview of one names
//! the rollout.

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_api_types::RolloutOwner;
use forewarn_core::{Machine, MachineId, Region, Rollout, RolloutStep, StepTarget};

use super::rollout::render_step_state;
use super::titles::{name_group, name_rollout};
use crate::convert::Convert;

/// The running rollout that owns the host or group of a machine, with its step.
pub fn find_owner<'r>(region: &'r Region, machine: &Machine) -> Option<(&'r Arc<Rollout>, &'r RolloutStep)> {
    let is_of_machine = |step: &&RolloutStep| match &step.target {
        StepTarget::Host(host) => machine.host.as_ref() == Some(host),
        StepTarget::Domain { group, domain } => {
            machine.membership.group() == Some(*group) && machine.update_domain == *domain
        }
        StepTarget::Machine(id) => machine.id == *id,
        StepTarget::Machines { machines, .. } => machines.contains(&machine.id),
    };
    region.live_rollouts().find_map(|rollout| Some((rollout, rollout.steps.iter().rev().find(is_of_machine)?)))
}

pub fn render_owner(region: &Region, machine: &Machine) -> Option<RolloutOwner> {
    let (rollout, step) = find_owner(region, machine)?;
    let (host, group, name) = match &step.target {
        StepTarget::Host(host) => (Some(host.to_string()), None, None),
        StepTarget::Domain { group, .. } => (None, Some(name_group(region, *group)), None),
        StepTarget::Machine(_) | StepTarget::Machines { .. } => (None, None, Some(machine.name.to_string())),
    };
    Some(RolloutOwner {
        rollout: rollout.id.convert(),
        title: name_rollout(region, rollout),
        host,
        group,
        machine: name,
        state: render_step_state(step.state),
    })
}

/// The owners of these machines, each once.
pub fn render_owners(region: &Region, machines: impl IntoIterator<Item = MachineId>) -> Vec<RolloutOwner> {
    let machines: BTreeSet<MachineId> = machines.into_iter().collect();
    let mut owners: Vec<RolloutOwner> = Vec::new();
    for owner in machines.into_iter().filter_map(|id| render_owner(region, region.machine(id)?)) {
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    owners.truncate(RolloutOwner::LISTED_MAX);
    owners
}
