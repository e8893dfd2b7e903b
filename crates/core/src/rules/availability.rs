//! How many machines of a group may be unavailable at a time. Drains and rollouts reserve capacity by creating
//! events: a machine with an event that has not ended counts as unavailable, so an early approval cannot empty a
//! group. Events without impact do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::*;
use crate::model::*;
use crate::region::Region;
use crate::rollout::{AvailabilityLimit, LimitOwner, RolloutTargets, UNLIMITED};
use crate::step::Step;

impl Step {
    /// Why these machines cannot become unavailable together, for the first group whose limit they exceed.
    /// `own_max` is the limit of the requesting operation.
    pub fn find_availability_limit(&self, machines: &[Arc<Machine>], own_max: Option<u32>) -> Option<Wait> {
        let mut groups: BTreeMap<GroupKey, BTreeSet<MachineId>> = BTreeMap::new();
        for machine in machines.iter().filter(|machine| machine.power == Power::Running) {
            groups.entry(GroupKey::of(machine)).or_default().insert(machine.id);
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

    /// The first group whose limit these machines exceed on their own, with that limit.
    pub fn exceeds_limit_alone(&self, machines: &[Arc<Machine>], own_max: Option<u32>) -> Option<(Name, u32)> {
        let mut groups: BTreeMap<GroupKey, u32> = BTreeMap::new();
        for machine in machines.iter().filter(|machine| machine.power == Power::Running) {
            *groups.entry(GroupKey::of(machine)).or_default() += 1;
        }
        groups.into_iter().find_map(|(group, hit)| {
            let max = own_max.unwrap_or_else(|| self.region.default_unavailable_max(group));
            (hit > max).then(|| (self.name_of_group(group), max))
        })
    }

    /// The strictest limit of all operations in progress on this group.
    fn unavailable_max(&self, group: GroupKey, own_max: Option<u32>) -> u32 {
        let in_progress = self.region.list_limits(group).into_iter().map(|limit| limit.max);
        let own_max = own_max.unwrap_or_else(|| self.region.default_unavailable_max(group));
        in_progress.chain([own_max]).min().unwrap_or(own_max)
    }

    /// Machines that have an event that has not ended, or whose host has failed or is unreachable. Machines that
    /// were stopped on request and events without impact do not count.
    fn unavailable(&self, group: GroupKey) -> BTreeSet<MachineId> {
        let down = |machine: &&Arc<Machine>| {
            let host = machine.placed_on().and_then(|host| self.region.hosts.get(host));
            let is_lost = host.is_some_and(|host| host.is_unreachable() || host.state == HostState::Failed);
            is_lost
                || machine.power == Power::Running
                    && self.region.events_of(machine.id).any(|event| event.kind.has_impact())
        };
        self.region.members_of(group).filter(down).map(|machine| machine.id).collect()
    }

    /// The groups of a rollout with these targets. Hosts have machines of several groups, which do not belong to the rollout.
    pub fn groups_of_targets(&self, targets: &RolloutTargets) -> BTreeSet<GroupKey> {
        match targets {
            RolloutTargets::Hosts(_) => BTreeSet::new(),
            RolloutTargets::Groups(groups) => groups.iter().copied().map(GroupKey::Group).collect(),
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().filter_map(|id| self.region.group_of_machine(*id)).collect()
            }
        }
    }

    pub fn name_of_group(&self, group: GroupKey) -> Name {
        match group {
            GroupKey::Group(id) => self.region.groups.get(&id).map(|group| group.name.clone()),
            GroupKey::Machine(id) => self.region.machines.get(&id).map(|machine| machine.name.clone()),
        }
        .unwrap_or_default()
    }
}

impl Region {
    /// The strictest limit that a drain or rollout in progress sets for the unavailable machines of a group. `None` if none of them
    /// limits it.
    pub fn find_strictest_limit(&self, group: GroupKey) -> Option<AvailabilityLimit> {
        let limits = self.list_limits(group).into_iter();
        limits.filter(|limit| limit.max != UNLIMITED).min_by_key(|limit| limit.max)
    }

    /// The limits of all drains and rollouts in progress on this group.
    fn list_limits(&self, group: GroupKey) -> Vec<AvailabilityLimit> {
        if self.index.drains.is_empty() && self.index.live_rollouts.is_empty() {
            return Vec::new();
        }
        // Rollouts can have thousands of hosts, so they are compared with those of the group and not the other way round.
        let hosts: BTreeSet<&Name> = self.members_of(group).filter_map(|machine| machine.host.as_ref()).collect();
        let rollouts = self.live_rollouts().filter(|rollout| match &rollout.targets {
            RolloutTargets::Hosts(targets) => targets.iter().any(|host| hosts.contains(host)),
            targets => self.owns_group(targets, group),
        });
        let by_rollouts = rollouts.map(|rollout| (LimitOwner::Rollout(rollout.id), rollout.plan.unavailable_max));
        let drains = self.index.drains.values().filter_map(|id| self.operations.get(id));
        let by_drains = drains.filter_map(|operation| {
            let plan = operation.request.drain_plan().filter(|plan| hosts.contains(&plan.host))?;
            Some((LimitOwner::Drain(operation.id), plan.unavailable_max))
        });
        let default = self.default_unavailable_max(group);
        let limit = |(owner, max): (LimitOwner, Option<u32>)| AvailabilityLimit { max: max.unwrap_or(default), owner };
        by_rollouts.chain(by_drains).map(limit).collect()
    }

    /// The number of machines of a group that must stay up: all but those that the strictest drain or rollout in progress may take
    /// down, or else all but one update domain. Machines that do not stay in the group do not count.
    pub fn find_floor(&self, group: GroupKey, stays: impl Fn(&Machine) -> bool) -> u32 {
        let members = self.members_of(group).filter(|machine| stays(machine));
        let (count, domain_max) = measure_domains(members);
        count.saturating_sub(self.find_strictest_limit(group).map_or(domain_max, |limit| limit.max))
    }

    /// One update domain.
    pub fn default_unavailable_max(&self, group: GroupKey) -> u32 {
        measure_domains(self.members_of(group)).1.max(1)
    }

    /// Whether a machine runs and no event in progress affects it.
    pub fn is_available(&self, machine: &Machine) -> bool {
        let affects = |event: &Arc<Event>| event.kind.has_impact() && matches!(event.status, Status::Started { .. });
        machine.power == Power::Running && !self.events_of(machine.id).any(affects)
    }

    fn members_of(&self, group: GroupKey) -> impl Iterator<Item = &Arc<Machine>> {
        let (group, machine) = match group {
            GroupKey::Group(id) => (self.groups.get(&id), None),
            GroupKey::Machine(id) => (None, self.machines.get(&id)),
        };
        group.into_iter().flat_map(|group| self.group_members(group)).chain(machine)
    }

    /// Whether the group is one of [`Step::groups_of_targets`].
    pub(crate) fn owns_group(&self, targets: &RolloutTargets, group: GroupKey) -> bool {
        match targets {
            RolloutTargets::Hosts(_) => false,
            RolloutTargets::Groups(groups) => groups.iter().any(|id| GroupKey::Group(*id) == group),
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().any(|id| self.group_of_machine(*id) == Some(group))
            }
        }
    }

    /// None: the machine is gone.
    fn group_of_machine(&self, machine: MachineId) -> Option<GroupKey> {
        self.machines.get(&machine).map(|machine| GroupKey::of(machine))
    }
}

/// The number of these machines, and the size of their largest update domain.
fn measure_domains<'a>(machines: impl Iterator<Item = &'a Arc<Machine>>) -> (u32, u32) {
    let mut domains: BTreeMap<u32, u32> = BTreeMap::new();
    for machine in machines {
        *domains.entry(machine.update_domain).or_default() += 1;
    }
    (domains.values().sum(), domains.into_values().max().unwrap_or(0))
}
