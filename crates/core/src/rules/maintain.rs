//! Maintenance of machines, of a host (all its machines together), or of a group (one update domain at a time).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
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
    ByDomain,
}

impl Target {
    fn pace(&self) -> Pace {
        match self {
            Target::Machines(machines) if machines.len() == 1 => Pace::Single,
            Target::Host(_) => Pace::Together,
            Target::Machines(_) | Target::Group(_) => Pace::ByDomain,
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
            Pace::ByDomain => {
                self.edit_operation(id, |operation| {
                    operation.domains = Some(DomainProgress { next_domain: 0, resume: None })
                });
                self.start_domain(id, event);
            }
        }
        Ok(())
    }

    /// Checks that the documents have room. The events of a host are created together, those of a group one
    /// domain at a time.
    fn check_room_for_plan(&self, target: &Target, machines: &[Arc<Machine>]) -> Result<(), Rejection> {
        let domain = |machine: &Machine| match target.pace() {
            Pace::Single | Pace::Together => machine.update_domain,
            Pace::ByDomain => 0,
        };
        let parts: BTreeSet<_> = machines.iter().map(|machine| (machine.scope, domain(machine))).collect();
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

    // --- one update domain at a time --------------------------------------------------------------

    /// Continues with the next update domain after the pause.
    pub fn resume_domains(&mut self, id: OperationId) {
        self.edit_operation(id, |operation| {
            if let Some(domains) = &mut operation.domains {
                domains.resume = None;
            }
        });
        self.start_domain(id, None);
        self.unconcluded.insert(id);
    }

    /// Creates the events of the next update domain that has machines.
    fn start_domain(&mut self, id: OperationId, event: Option<EventId>) {
        let Some(operation) = self.region.operations.get(&id).cloned() else { return };
        let Request::Maintain { plan, .. } = &operation.request else { return };
        let Some((domain, machines)) = self.find_next_domain(&operation) else {
            self.edit_operation(id, |operation| operation.domains = None);
            return;
        };
        self.edit_operation(id, |operation| {
            operation.domains = Some(DomainProgress { next_domain: domain + 1, resume: None })
        });
        self.create_events(id, plan, machines, None, event);
    }

    fn find_next_domain(&self, operation: &Operation) -> Option<(u32, Vec<Arc<Machine>>)> {
        let next = operation.domains.as_ref()?.next_domain;
        let Request::Maintain { target, .. } = &operation.request else { return None };
        let mut machines = match target {
            Target::Machines(machines) => self.find_existing(machines),
            Target::Host(_) | Target::Group(_) => self.find_target_machines(target).ok()?,
        };
        let domain = machines.iter().map(|machine| machine.update_domain).filter(|domain| *domain >= next).min()?;
        machines.retain(|machine| machine.update_domain == domain);
        Some((domain, machines))
    }

    fn find_existing(&self, ids: &[MachineId]) -> Vec<Arc<Machine>> {
        let ids: BTreeSet<_> = ids.iter().collect();
        ids.into_iter().filter_map(|id| self.region.machines.get(id).cloned()).collect()
    }

    /// Pauses after the last event of a domain. Returns false if no domain is left.
    pub fn pause_domains(&mut self, operation: &Operation) -> bool {
        if self.find_next_domain(operation).is_none() {
            return false;
        }
        let resume = self.now + self.region.settings.scaled(self.region.settings.update_domain_pause);
        self.edit_operation(operation.id, |operation| {
            if let Some(domains) = &mut operation.domains {
                domains.resume = Some(resume);
            }
        });
        true
    }
}
