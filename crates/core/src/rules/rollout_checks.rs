//! Checks of a new rollout: its plan, its targets and their owners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::command::NewRollout;
use crate::ids::MachineId;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rollout::*;
use crate::rules::rollouts::maintenance_plan;
use crate::settings::{PLAN_AHEAD_MAX, ROLLOUT_STEPS_MAX, WINDOWS_MAX};
use crate::step::Step;
use crate::time::Timestamp;
use crate::window::Window;

impl RolloutTargets {
    /// Whether rollouts over these targets can be in progress in the same group: their steps are single machines, and none of them is
    /// the same.
    fn can_share_groups(&self, other: &RolloutTargets) -> bool {
        let (RolloutTargets::Machines(own), RolloutTargets::Machines(others)) = (self, other) else { return false };
        let own: BTreeSet<&MachineId> = own.iter().collect();
        !others.iter().any(|machine| own.contains(machine))
    }
}

impl Step {
    pub fn check_rollout_plan(&self, plan: &RolloutPlan) -> Result<(), Rejection> {
        let steps_max = u32::try_from(ROLLOUT_STEPS_MAX).unwrap_or(u32::MAX);
        if !(1..=steps_max).contains(&plan.parallel) {
            return Err(Rejection::ParallelRange { max: steps_max });
        }
        if plan.unavailable_max == Some(0) {
            return Err(Rejection::UnavailableRange);
        }
        if plan.pause > PLAN_AHEAD_MAX || plan.notice.is_some_and(|notice| notice > PLAN_AHEAD_MAX) {
            return Err(Rejection::PlanTooFar);
        }
        let kind = plan.action.kind().unwrap_or(EventKind::Freeze);
        self.check_plan(&maintenance_plan(plan, kind))?;
        self.check_windows(&plan.windows, self.notice_of(plan))
    }

    fn check_windows(&self, windows: &[Window], notice: Duration) -> Result<(), Rejection> {
        if windows.len() > WINDOWS_MAX {
            return Err(Rejection::TooManyWindows);
        }
        let minutes = |window: &Window| window.start_minute < 24 * 60 && window.end_minute < 24 * 60;
        if windows.iter().any(|window| window.days.is_empty() || !minutes(window)) {
            return Err(Rejection::BadWindow);
        }
        if windows.iter().any(|window| window.length() <= notice) {
            return Err(Rejection::WindowTooShort { secs_min: notice.as_secs() });
        }
        Ok(())
    }

    /// Checks that the targets exist, once each, and can have this action.
    pub fn check_targets(&self, new: &NewRollout) -> Result<(), Rejection> {
        let is_drain = matches!(new.plan.action, RolloutAction::Drain { .. });
        match &new.targets {
            RolloutTargets::Groups(_) | RolloutTargets::Machines(_) | RolloutTargets::MachinesByDomain(_)
                if is_drain =>
            {
                return Err(Rejection::DrainNeedsHosts);
            }
            RolloutTargets::Hosts(hosts) => hosts.iter().try_for_each(|host| self.host(host).map(drop))?,
            RolloutTargets::Groups(groups) => groups.iter().try_for_each(|id| self.group(*id).map(drop))?,
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
                machines.iter().try_for_each(|id| self.machine(*id).map(drop))?;
            }
        }
        let targets = self.derive_steps(&new.targets);
        let distinct: BTreeSet<_> = targets.iter().collect();
        if targets.is_empty() {
            return Err(Rejection::TargetHasNoMachines);
        }
        if distinct.len() != targets.len() {
            return Err(Rejection::DuplicateTarget);
        }
        if targets.len() > ROLLOUT_STEPS_MAX {
            return Err(Rejection::TooManySteps);
        }
        Ok(())
    }

    /// The steps over these targets, as the fleet is now.
    pub fn derive_steps(&self, targets: &RolloutTargets) -> Vec<StepTarget> {
        match targets {
            RolloutTargets::Hosts(hosts) => hosts.iter().cloned().map(StepTarget::Host).collect(),
            RolloutTargets::Groups(groups) => {
                let groups = groups.iter().filter_map(|id| self.region.groups.get(id));
                groups.flat_map(|group| self.find_domains(group)).collect()
            }
            RolloutTargets::Machines(machines) => machines.iter().copied().map(StepTarget::Machine).collect(),
            RolloutTargets::MachinesByDomain(machines) => self.split_by_domain(machines),
        }
    }

    fn find_domains(&self, group: &Group) -> Vec<StepTarget> {
        let domains: BTreeSet<u32> = self.region.group_members(group).map(|machine| machine.update_domain).collect();
        domains.into_iter().map(|domain| StepTarget::Domain { group: group.id, domain }).collect()
    }

    fn split_by_domain(&self, machines: &[MachineId]) -> Vec<StepTarget> {
        let mut domains: BTreeMap<u32, BTreeSet<MachineId>> = BTreeMap::new();
        for machine in machines.iter().filter_map(|id| self.region.machines.get(id)) {
            domains.entry(machine.update_domain).or_default().insert(machine.id);
        }
        let step = |(domain, machines): (u32, BTreeSet<MachineId>)| StepTarget::Machines {
            domain,
            machines: machines.into_iter().collect(),
        };
        domains.into_iter().map(step).collect()
    }

    /// A host, group or machine belongs to at most one rollout that has not ended. A rollout over machines owns their groups,
    /// together with rollouts over other machines: each of them counts the machines that the others make unavailable.
    pub fn check_owners(&self, targets: &RolloutTargets) -> Result<(), Rejection> {
        if let RolloutTargets::Hosts(hosts) = targets {
            let owned = hosts.iter().find_map(|host| Some((host, self.region.rollout_of_host(host)?)));
            return owned
                .map_or(Ok(()), |(host, owner)| Err(Rejection::HostOwned { host: host.clone(), rollout: owner.id }));
        }
        let others = self.region.live_rollouts().filter(|it| !targets.can_share_groups(&it.targets));
        let others: Vec<&Arc<Rollout>> = others.collect();
        for group in self.groups_of_targets(targets) {
            if let Some(owner) = others.iter().find(|it| self.region.owns_group(&it.targets, group)) {
                return Err(Rejection::GroupOwned { group: self.name_of_group(group), rollout: owner.id });
            }
        }
        Ok(())
    }

    /// A step that exceeds a limit by itself could never start. A drain moves machines one after the other.
    pub fn check_step_sizes(&self, rollout: &Rollout) -> Result<(), Rejection> {
        if matches!(rollout.plan.action, RolloutAction::Drain { .. }) {
            return Ok(());
        }
        for RolloutStep { target, .. } in &rollout.steps {
            let machines = self.machines_of_step(target);
            if let Some((group, max)) = self.exceeds_limit_alone(&machines, rollout.plan.unavailable_max) {
                return Err(Rejection::StepTooLarge { step: self.name_of_target(target), group, max });
            }
        }
        Ok(())
    }

    pub fn name_of_target(&self, target: &StepTarget) -> Name {
        match target {
            StepTarget::Host(host) => host.clone(),
            StepTarget::Domain { group, domain } => {
                let name = self.region.groups.get(group).map(|group| group.name.clone()).unwrap_or_default();
                format!("{name} update domain {domain}").into()
            }
            StepTarget::Machine(id) => {
                self.region.machines.get(id).map(|machine| machine.name.clone()).unwrap_or_default()
            }
            StepTarget::Machines { domain, .. } => format!("update domain {domain}").into(),
        }
    }

    pub fn machines_of_step(&self, target: &StepTarget) -> Vec<Arc<Machine>> {
        match target {
            StepTarget::Host(host) => self.region.machines_on(host).cloned().collect(),
            StepTarget::Domain { group, domain } => self.region.groups.get(group).map_or_else(Vec::new, |group| {
                let members = self.region.group_members(group);
                members.filter(|machine| machine.update_domain == *domain).cloned().collect()
            }),
            StepTarget::Machine(id) => self.region.machines.get(id).cloned().into_iter().collect(),
            StepTarget::Machines { machines, .. } => {
                machines.iter().filter_map(|id| self.region.machines.get(id).cloned()).collect()
            }
        }
    }

    /// When the first step is announced, so that its notice ends at the start that the plan asks for. A drain has no common
    /// notice: it begins at that time.
    pub fn first_announcement(&self, plan: &RolloutPlan) -> Option<Timestamp> {
        let notice = plan.action.kind().map_or(Duration::ZERO, |_| self.notice_of(plan));
        plan.at.map(|at| at - notice)
    }

    /// The notice that the events of a rollout get.
    pub fn notice_of(&self, plan: &RolloutPlan) -> Duration {
        let least = self.region.settings.notice_min(plan.action.kind().unwrap_or(EventKind::Freeze));
        plan.notice.map_or(least, |notice| self.region.settings.scaled(notice)).max(least)
    }
}
