//! Titles of operations, rollouts and steps: their effect and their target. Every page and every preview uses the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_api_types::{RolloutType, join_names};
use forewarn_core::{
    GroupId, Machine, MachineId, Operation, Region, Request, Rollout, RolloutTargets, StepTarget, Target,
};

use super::convert::Convert;

/// The description of a rollout, or its effect and its target.
pub fn name_rollout(region: &Region, rollout: &Rollout) -> String {
    if let Some(description) = rollout.plan.description.as_deref().filter(|text| !text.is_empty()) {
        return description.to_owned();
    }
    let kind = Convert::<RolloutType>::convert(&rollout.plan.action).as_str();
    let several = |names: BTreeSet<String>| format!("{kind} of {}", join_names(names));
    match &rollout.targets {
        RolloutTargets::Hosts(hosts) => match &hosts[..] {
            [host] => format!("{kind} of host {host}"),
            _ => format!("{kind} of {} hosts", hosts.len()),
        },
        RolloutTargets::Groups(groups) => several(groups.iter().map(|group| name_group(region, *group)).collect()),
        RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
            several(machines.iter().map(|machine| name_machine(region, *machine)).collect())
        }
    }
}

pub fn name_step(region: &Region, target: &StepTarget) -> String {
    match target {
        StepTarget::Host(host) => host.to_string(),
        StepTarget::Domain { group, domain } => format!("{}, update domain {domain}", name_group(region, *group)),
        StepTarget::Machine(id) => name_machine(region, *id),
        StepTarget::Machines { domain, .. } => format!("update domain {domain}"),
    }
}

fn name_machine(region: &Region, id: MachineId) -> String {
    region.machine(id).map_or_else(|| "a deleted machine".into(), |machine| machine.name.to_string())
}

pub fn name_group(region: &Region, id: GroupId) -> String {
    region.group(id).map_or_else(|| "a deleted group".into(), |group| group.name.to_string())
}

/// A title that names the cause: `Hardware failure on host r02-n06`, `Restart of 6 machines in api`.
pub fn name_operation(region: &Region, operation: &Operation) -> String {
    let machines = |verb: &str, ids: &[MachineId]| format!("{verb} of {}", name_targets(region, operation, ids));
    match &operation.request {
        Request::Restart { machines: ids } => machines("Restart", ids),
        Request::Redeploy { machines: ids } => machines("Redeploy", ids),
        Request::PerformMaintenance { machines: ids } => machines("Self-service maintenance", ids),
        Request::Evict { machine } => machines("Eviction", &[*machine]),
        Request::RecommendRebalance { machine } => machines("Rebalance recommendation", &[*machine]),
        Request::Delete { group: Some(group), .. } => format!("Deletion of {}", name_group(region, *group)),
        Request::Delete { machines: ids, group: None } => machines("Deletion", ids),
        Request::Maintain { target, plan } => {
            format!("{} of {}", plan.kind.as_str(), name_target(region, operation, target))
        }
        Request::Drain(plan) => format!("Drain of host {}", plan.host),
        Request::Fail { target: target @ (Target::Host(_) | Target::Group(_)), .. } => {
            format!("Hardware failure on {}", name_target(region, operation, target))
        }
        Request::Fail { target, .. } => format!("Hardware failure of {}", name_target(region, operation, target)),
    }
}

fn name_target(region: &Region, operation: &Operation, target: &Target) -> String {
    match target {
        Target::Machines(ids) => name_targets(region, operation, ids),
        Target::Host(host) => format!("host {host}"),
        Target::Group(id) => name_group(region, *id),
    }
}

/// The names of a few machines, or the number of machines in a group.
fn name_targets(region: &Region, operation: &Operation, ids: &[MachineId]) -> String {
    let known: Vec<&Arc<Machine>> = ids.iter().filter_map(|id| region.machine(*id)).collect();
    if known.is_empty() {
        // Deleted machines keep their names in the events.
        let events = operation.parts.iter().filter_map(|part| region.event(part.event));
        let names: Vec<String> =
            events.flat_map(|event| event.resources.iter().map(|one| one.name.to_string())).collect();
        return if names.is_empty() { "deleted machines".into() } else { join_names(names) };
    }
    let groups: BTreeSet<_> = known.iter().map(|machine| machine.membership.group()).collect();
    match groups.iter().next() {
        Some(Some(group)) if known.len() > 2 && groups.len() == 1 => {
            format!("{} machines in {}", known.len(), name_group(region, *group))
        }
        _ => join_names(known.iter().map(|machine| &machine.name)),
    }
}
