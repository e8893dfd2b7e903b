//! Maintenance of a machine, of a host (all its machines together), or of several machines or a group, which a rollout carries
//! out one update domain at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::command::NewRollout;
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rollout::{Rollout, RolloutPlan, RolloutTargets};
use crate::rules::fleet::check_plain;
use crate::rules::lifecycle::EventDraft;
use crate::rules::requests::split_by_domain;
use crate::settings::{DESCRIPTION_BYTES_MAX, PLAN_AHEAD_MAX, Settings};
use crate::step::Step;
use crate::time::Timestamp;

/// Maximum duration of the impact that a plan may announce: one day.
const DURATION_SECS_MAX: i64 = 86_400;

/// The order in which maintenance reaches its machines.
enum Pace {
    Single,
    Together,
    ByDomain(RolloutTargets),
}

impl Target {
    fn pace(&self) -> Pace {
        match self {
            Target::Machines(machines) if machines.len() == 1 => Pace::Single,
            Target::Host(_) => Pace::Together,
            Target::Machines(machines) => Pace::ByDomain(RolloutTargets::MachinesByDomain(machines.clone())),
            Target::Group(group) => Pace::ByDomain(RolloutTargets::Groups(vec![*group])),
        }
    }
}

impl Step {
    pub fn maintain(
        &mut self,
        id: OperationId,
        by: &Name,
        target: &Target,
        plan: &Plan,
        event: Option<EventId>,
    ) -> Result<(), Rejection> {
        self.check_plan(plan)?;
        let machines = self.find_target_machines(target)?;
        let subscription = machines[0].home.subscription.clone();
        self.check_room_for_plan(target, &machines)?;
        self.open_operation(id, by, &subscription, Request::Maintain { target: target.clone(), plan: plan.clone() });
        match target.pace() {
            Pace::Single => self.create_events(id, plan, machines, None, event),
            Pace::Together => self.create_events(id, plan, machines, Some(id), event),
            Pace::ByDomain(targets) => self.maintain_by_domain(id, by, targets, plan, event)?,
        }
        Ok(())
    }

    /// Starts the rollout that carries out the operation. It has the same ID, and its first step is announced at once.
    fn maintain_by_domain(
        &mut self,
        id: OperationId,
        by: &Name,
        targets: RolloutTargets,
        plan: &Plan,
        event: Option<EventId>,
    ) -> Result<(), Rejection> {
        if self.region.rollouts.contains_key(&id) {
            return Err(Rejection::IdTaken(id));
        }
        let pause = self.region.settings.update_domain_pause;
        let plan = RolloutPlan::of_maintenance(plan, pause).ok_or(Rejection::MaintenanceKind)?;
        self.check_owners(&targets)?;
        let rollout = self.draft_rollout(&NewRollout { id, by: by.clone(), targets, plan })?;
        self.edit_operation(id, |operation| operation.rollout = Some(id));
        self.open_rollout(Rollout { operation: Some(id), first_event: event, paused_until: None, ..rollout });
        Ok(())
    }

    /// Checks that the documents have room. The events of a host are created together, those of a group one
    /// domain at a time.
    fn check_room_for_plan(&self, target: &Target, machines: &[Arc<Machine>]) -> Result<(), Rejection> {
        let first = match target.pace() {
            Pace::Single | Pace::Together => return self.check_room_for(machines),
            Pace::ByDomain(_) => machines.iter().map(|machine| machine.update_domain).min(),
        };
        let first_domain = machines.iter().filter(|machine| Some(machine.update_domain) == first);
        self.check_room_for(&first_domain.cloned().collect::<Vec<_>>())
    }

    /// Checks that the documents have room for events of these machines, one per scope and update domain.
    pub fn check_room_for(&self, machines: &[Arc<Machine>]) -> Result<(), Rejection> {
        let parts: BTreeSet<_> = machines.iter().map(|machine| (machine.scope, machine.update_domain)).collect();
        let mut made: BTreeMap<ScopeId, usize> = BTreeMap::new();
        for (scope, _) in parts {
            *made.entry(scope).or_default() += 1;
        }
        made.into_iter().try_for_each(|(scope, more)| self.check_room(scope, more))
    }

    pub fn check_plan(&self, plan: &Plan) -> Result<(), Rejection> {
        let kinds = matches!(plan.kind, EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy);
        if !kinds || !matches!(plan.cause, Cause::HostMaintenance | Cause::LiveMigration) {
            return Err(Rejection::MaintenanceKind);
        }
        let least = Settings::default().notice_min(plan.kind);
        if plan.notice.is_some_and(|notice| notice < least) {
            return Err(Rejection::NoticeTooShort { secs_min: least.as_secs() });
        }
        let latest = self.now + PLAN_AHEAD_MAX;
        if plan.at.is_some_and(|at| at > latest) || plan.notice.is_some_and(|notice| notice > PLAN_AHEAD_MAX) {
            return Err(Rejection::PlanTooFar);
        }
        if plan.at.is_some_and(|at| at < self.now) {
            return Err(Rejection::PlanPast);
        }
        if plan.duration_secs.is_some_and(|secs| !(-1..=DURATION_SECS_MAX).contains(&secs)) {
            return Err(Rejection::DurationRange);
        }
        self.check_description(plan.description.as_ref())
    }

    pub fn check_description(&self, description: Option<&Name>) -> Result<(), Rejection> {
        if description.is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
            return Err(Rejection::DescriptionTooLong);
        }
        check_plain("description", description.map_or("", |text| text))
    }

    /// Creates one event per scope and update domain, all with the same `NotBefore`.
    pub fn create_events(
        &mut self,
        operation: OperationId,
        plan: &Plan,
        machines: Vec<Arc<Machine>>,
        cohort: Option<OperationId>,
        event: Option<EventId>,
    ) {
        let parts = split_by_domain(machines);
        let any_scope_on = parts.iter().any(|machines| self.region.is_on(machines[0].scope));
        let notice = plan
            .notice
            .map_or_else(|| self.region.settings.notice_min(plan.kind), |notice| self.region.settings.scaled(notice));
        let earliest = if any_scope_on { self.after(notice) } else { self.now };
        let not_before = plan.at.map_or(earliest, |at| at.round_up_to_second().max(earliest));
        let mut event = event;
        for machines in parts {
            let scope = machines[0].scope;
            let on = self.region.is_on(scope);
            // A hidden event only waits for the others if they start together.
            let not_before = if on || cohort.is_some() {
                not_before
            } else {
                plan.at.map_or(self.now, Timestamp::round_up_to_second)
            };
            self.create_event(EventDraft {
                operation,
                id: event.take(),
                kind: plan.kind,
                cause: plan.cause,
                scope,
                machines: machines.iter().map(|machine| machine.id).collect(),
                visibility: if on { Visibility::Shown } else { Visibility::Hidden },
                not_before,
                notice: if on { self.region.settings.notice_min(plan.kind) } else { Duration::ZERO },
                approval: None,
                description: plan.description.clone(),
                duration_secs: plan.duration_secs,
                cohort,
                moves: Vec::new(),
            });
        }
    }
}
