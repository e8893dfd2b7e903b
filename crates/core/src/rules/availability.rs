//! How many machines of a group may be unavailable at a time. Drains and rollouts reserve capacity by creating
//! events: a machine with an event that has not ended counts as unavailable, so an early approval cannot empty a
//! group. Events without impact do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::*;
use crate::model::*;
use crate::rollout::RolloutTargets;
use crate::step::Step;

/// A named group, or a standalone machine, which is a group of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AvailabilityGroup {
    Group(GroupId),
    Machine(MachineId),
}

impl Machine {
    pub(crate) fn availability_group(&self) -> AvailabilityGroup {
        self.membership.group().map_or(AvailabilityGroup::Machine(self.id), AvailabilityGroup::Group)
    }
}

impl Step {
    /// Why these machines cannot become unavailable together, for the first group whose limit they exceed.
    /// `own_max` is the limit of the requesting operation.
    pub fn find_availability_limit(&self, machines: &[Arc<Machine>], own_max: Option<u32>) -> Option<Wait> {
        let mut groups: BTreeMap<AvailabilityGroup, BTreeSet<MachineId>> = BTreeMap::new();
        for machine in machines.iter().filter(|machine| machine.power == Power::Running) {
            groups.entry(machine.availability_group()).or_default().insert(machine.id);
        }
        groups.into_iter().find_map(|(group, hit)| {
            let max = self.unavailable_max(group, own_max);
            let mut down = self.unavailable(group);
            let unavailable = down.len() as u32;
            down.extend(hit);
            let name = self.name_of_group(group);
            (down.len() as u32 > max).then_some(Wait::Availability { group: name, unavailable, max })
        })
    }

    /// The size of the part of a group that these machines are, if it alone exceeds the limit.
    pub fn exceeds_limit_alone(&self, machines: &[Arc<Machine>], own_max: Option<u32>) -> Option<(Name, u32)> {
        let mut groups: BTreeMap<AvailabilityGroup, u32> = BTreeMap::new();
        for machine in machines.iter().filter(|machine| machine.power == Power::Running) {
            *groups.entry(machine.availability_group()).or_default() += 1;
        }
        groups.into_iter().find_map(|(group, hit)| {
            let max = own_max.unwrap_or_else(|| self.default_max(group));
            (hit > max).then(|| (self.name_of_group(group), max))
        })
    }

    /// The strictest limit of all operations in progress on this group.
    fn unavailable_max(&self, group: AvailabilityGroup, own_max: Option<u32>) -> u32 {
        // Rollouts can have thousands of hosts, so they are compared with those of the group and not the other way round.
        let members = self.members_of(group);
        let hosts: BTreeSet<&Name> = members.iter().filter_map(|machine| machine.host.as_ref()).collect();
        let drains = self.region.index.drains.values().filter_map(|id| self.region.operations.get(id));
        let by_drains = drains.filter_map(|operation| match &operation.request {
            Request::Drain(plan) if hosts.contains(&plan.host) => Some(plan.unavailable_max),
            _ => None,
        });
        let rollouts = self.region.live_rollouts().filter(|rollout| match &rollout.targets {
            RolloutTargets::Hosts(targets) => targets.iter().any(|host| hosts.contains(host)),
            targets => self.owns_group(targets, group),
        });
        let by_rollouts = rollouts.map(|rollout| rollout.plan.unavailable_max);
        let default = self.default_max(group);
        let limits = by_drains.chain(by_rollouts).chain([own_max]);
        limits.map(|max| max.unwrap_or(default)).min().unwrap_or(default)
    }

    /// One update domain.
    fn default_max(&self, group: AvailabilityGroup) -> u32 {
        let mut domains: BTreeMap<u32, u32> = BTreeMap::new();
        for machine in self.members_of(group) {
            *domains.entry(machine.update_domain).or_default() += 1;
        }
        domains.into_values().max().unwrap_or(1)
    }

    /// Machines that have an event that has not ended, or whose host has failed or is unreachable. Machines that
    /// were stopped on request and events without impact do not count.
    fn unavailable(&self, group: AvailabilityGroup) -> BTreeSet<MachineId> {
        let down = |machine: &&Arc<Machine>| {
            let host = machine.placed_on().and_then(|host| self.region.hosts.get(host));
            let is_lost = host.is_some_and(|host| host.is_unreachable() || host.state == HostState::Failed);
            is_lost
                || machine.power == Power::Running
                    && self.region.events_of(machine.id).any(|event| event.kind.has_impact())
        };
        self.members_of(group).iter().filter(down).map(|machine| machine.id).collect()
    }

    fn members_of(&self, group: AvailabilityGroup) -> Vec<Arc<Machine>> {
        match group {
            AvailabilityGroup::Group(id) => self
                .region
                .groups
                .get(&id)
                .map_or_else(Vec::new, |group| self.region.group_members(group).cloned().collect()),
            AvailabilityGroup::Machine(id) => self.region.machines.get(&id).cloned().into_iter().collect(),
        }
    }

    /// The groups of a rollout with these targets. Hosts have machines of several groups, which do not belong to the rollout.
    pub fn groups_of_targets(&self, targets: &RolloutTargets) -> BTreeSet<AvailabilityGroup> {
        match targets {
            RolloutTargets::Hosts(_) => BTreeSet::new(),
            RolloutTargets::Groups(groups) => groups.iter().copied().map(AvailabilityGroup::Group).collect(),
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().filter_map(|id| self.group_of_machine(*id)).collect()
            }
        }
    }

    /// Whether the group is one of [`Step::groups_of_targets`].
    pub fn owns_group(&self, targets: &RolloutTargets, group: AvailabilityGroup) -> bool {
        match targets {
            RolloutTargets::Hosts(_) => false,
            RolloutTargets::Groups(groups) => groups.iter().any(|id| AvailabilityGroup::Group(*id) == group),
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().any(|id| self.group_of_machine(*id) == Some(group))
            }
        }
    }

    /// None: the machine is gone.
    fn group_of_machine(&self, machine: MachineId) -> Option<AvailabilityGroup> {
        self.region.machines.get(&machine).map(|machine| machine.availability_group())
    }

    pub fn name_of_group(&self, group: AvailabilityGroup) -> Name {
        match group {
            AvailabilityGroup::Group(id) => self.region.groups.get(&id).map(|group| group.name.clone()),
            AvailabilityGroup::Machine(id) => self.region.machines.get(&id).map(|machine| machine.name.clone()),
        }
        .unwrap_or_default()
    }
}
