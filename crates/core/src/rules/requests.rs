//! Requests. Each becomes an operation that creates events or joins existing ones. In a scope that is off, the
//! event is hidden and due immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::entity::Entity;
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rules::lifecycle::EventDraft;
use crate::settings::JOINED_MAX;
use crate::step::Step;
use crate::transition::Answer;

impl Step {
    pub fn request(
        &mut self,
        id: OperationId,
        by: &Name,
        request: &Request,
        event: Option<EventId>,
    ) -> Result<Answer, Rejection> {
        if let Some(operation) = self.region.operations.get(&id) {
            return if operation.request.is_repeated_by(request) {
                Ok(Answer::Operation(id))
            } else {
                Err(Rejection::IdTaken(id))
            };
        }
        if let Some(event) = event.filter(|event| self.region.events.contains_key(event)) {
            return Err(Rejection::IdTaken(event));
        }
        match request {
            Request::Restart { machines } => {
                self.request_by_user(id, by, request, machines, Cause::UserRestart, event)?
            }
            Request::Redeploy { machines } => {
                self.request_by_user(id, by, request, machines, Cause::UserRedeploy, event)?
            }
            Request::PerformMaintenance { machines } => {
                self.request_by_user(id, by, request, machines, Cause::SelfServiceMaintenance, event)?;
            }
            Request::Evict { machine } => {
                self.request_for_spot(id, by, request, *machine, EventKind::Preempt, Cause::Eviction, event)?;
            }
            Request::RecommendRebalance { machine } => {
                let kind = EventKind::SpotRebalanceRecommendation;
                self.request_for_spot(id, by, request, *machine, kind, Cause::RebalanceRecommendation, event)?;
            }
            Request::Delete { machines, group } => self.request_deletion(id, by, machines, *group, event)?,
            Request::Maintain { target, plan } => self.maintain(id, by, target, plan, event)?,
            Request::Drain(plan) => self.start_drain(id, by, plan)?,
            Request::Fail { target, kind } => self.fail(id, by, target, *kind, event)?,
        }
        self.unconcluded.insert(id);
        Ok(Answer::Operation(id))
    }

    pub fn open_operation(&mut self, id: OperationId, by: &Name, subscription: &Name, request: Request) {
        self.put(Entity::Operation(Arc::new(Operation {
            id,
            requested_by: by.clone(),
            subscription: subscription.clone(),
            request,
            requested_at: self.now,
            state: OperationState::Running,
            parts: Vec::new(),
            drain: None,
            rollout: None,
            canceled: None,
        })));
    }

    // --- restart and redeploy --------------------------------------------------------------------

    /// Creates an operation for all of the machines, or for none.
    fn request_by_user(
        &mut self,
        id: OperationId,
        by: &Name,
        request: &Request,
        machines: &[MachineId],
        cause: Cause,
        mut event: Option<EventId>,
    ) -> Result<(), Rejection> {
        let machines = self.find_distinct(machines)?;
        let first = machines.first().ok_or(Rejection::TargetHasNoMachines)?;
        if let Some(off) = machines.iter().find(|machine| machine.power != Power::Running) {
            return Err(Rejection::NotRunning(off.name.clone()));
        }
        self.open_operation(id, by, &first.home.subscription, request.clone());
        for machine in machines {
            self.join_or_create(id, machine, cause, &mut event)?;
        }
        Ok(())
    }

    /// Joins the machine's Scheduled event with this cause, or creates one.
    fn join_or_create(
        &mut self,
        operation: OperationId,
        machine: Arc<Machine>,
        cause: Cause,
        event: &mut Option<EventId>,
    ) -> Result<(), Rejection> {
        let same =
            self.region.events_of(machine.id).find(|event| event.cause == cause && event.status == Status::Scheduled);
        if let Some(same) = same.map(|event| event.id) {
            return self.join(same, operation);
        }
        let policy = self.region.policy_of(&machine);
        let (kind, automatic) = match cause {
            Cause::UserRestart => (EventKind::Reboot, policy.approve_user_reboot),
            Cause::UserRedeploy => (EventKind::Redeploy, policy.approve_user_redeploy),
            Cause::SelfServiceMaintenance
            | Cause::HostMaintenance
            | Cause::LiveMigration
            | Cause::HardwareFailure
            | Cause::Eviction
            | Cause::RebalanceRecommendation
            | Cause::Deletion => (EventKind::Redeploy, false),
        };
        let notice = self.region.settings.notice_min(kind);
        let approval = automatic.then_some(Approval { by: Approver::Policy, at: self.now });
        self.schedule_event(operation, event.take(), kind, cause, &[machine], notice, approval)
    }

    /// Checks the limit of user operations. Called after settling, because only events that are then still
    /// Scheduled count.
    pub fn check_user_operations(&self, id: OperationId) -> Result<(), Rejection> {
        let max = self.region.settings.user_operations_max;
        let Some(operation) = self.region.operations.get(&id).filter(|_| max > 0) else { return Ok(()) };
        let is_one_more = operation.parts.iter().filter_map(|part| self.region.events.get(&part.event)).any(|event| {
            let waiting = || self.region.index.user_operations.get(&event.subscription).copied().unwrap_or(0);
            event.cause.is_limited()
                && event.status == Status::Scheduled
                && event.is_shown()
                && event.operations.first() == Some(&id)
                && waiting() > max
        });
        if is_one_more { Err(Rejection::UserOperationsFull { max }) } else { Ok(()) }
    }

    fn join(&mut self, event: EventId, operation: OperationId) -> Result<(), Rejection> {
        let joined = self.region.events.get(&event).map_or(0, |event| event.operations.len());
        if joined >= JOINED_MAX {
            return Err(Rejection::TooManyJoined);
        }
        self.edit_event(event, |event| event.operations.push(operation));
        self.edit_operation(operation, |operation| operation.parts.push(OperationEvent { event, outcome: None }));
        Ok(())
    }

    /// Creates an event for machines of one scope. It is shown and has a notice period if the scope is on;
    /// otherwise it is hidden and due immediately.
    #[allow(clippy::too_many_arguments, reason = "a struct would only repeat the names")]
    fn schedule_event(
        &mut self,
        operation: OperationId,
        id: Option<EventId>,
        kind: EventKind,
        cause: Cause,
        machines: &[Arc<Machine>],
        notice: Duration,
        approval: Option<Approval>,
    ) -> Result<(), Rejection> {
        let Some(scope) = machines.first().map(|machine| machine.scope) else {
            return Err(Rejection::TargetHasNoMachines);
        };
        self.check_room(scope, 1)?;
        let on = self.region.is_on(scope);
        let notice = if on { notice } else { Duration::ZERO };
        self.create_event(EventDraft {
            operation,
            id,
            kind,
            cause,
            scope,
            machines: machines.iter().map(|machine| machine.id).collect(),
            visibility: if on { Visibility::Shown } else { Visibility::Hidden },
            not_before: if notice.is_zero() { self.now } else { self.after(notice) },
            notice,
            approval,
            description: None,
            duration_secs: None,
            cohort: None,
            moves: Vec::new(),
        });
        Ok(())
    }

    // --- Spot machines ---------------------------------------------------------------------------

    /// Evicts a Spot machine, or recommends moving work away from it.
    #[allow(clippy::too_many_arguments, reason = "a struct would only repeat the names")]
    fn request_for_spot(
        &mut self,
        id: OperationId,
        by: &Name,
        request: &Request,
        machine: MachineId,
        kind: EventKind,
        cause: Cause,
        event: Option<EventId>,
    ) -> Result<(), Rejection> {
        let machine = self.machine(machine)?;
        if machine.priority != Priority::Spot {
            return Err(Rejection::NotSpot(machine.name.clone()));
        }
        if machine.power != Power::Running {
            return Err(Rejection::NotRunning(machine.name.clone()));
        }
        self.open_operation(id, by, &machine.home.subscription, request.clone());
        if let Some(same) = self.find_pending(machine.id, kind) {
            return self.join(same, id);
        }
        let notice = self.region.settings.notice_min(kind);
        self.schedule_event(id, event, kind, cause, &[machine], notice, None)
    }

    /// The machine's event of this kind that has not ended.
    pub fn find_pending(&self, machine: MachineId, kind: EventKind) -> Option<EventId> {
        self.region.events_of(machine).find(|event| event.kind == kind).map(|event| event.id)
    }

    // --- deletion --------------------------------------------------------------------------------

    fn request_deletion(
        &mut self,
        id: OperationId,
        by: &Name,
        machines: &[MachineId],
        group: Option<GroupId>,
        event: Option<EventId>,
    ) -> Result<(), Rejection> {
        let (machines, subscription) = match group {
            Some(group) => {
                let group = self.group(group)?;
                let members = self.region.group_members(&group).cloned().collect::<Vec<_>>();
                (members, group.home.subscription.clone())
            }
            None => {
                let machines = self.find_distinct(machines)?;
                let first = machines.first().ok_or(Rejection::TargetHasNoMachines)?;
                let subscription = first.home.subscription.clone();
                (machines, subscription)
            }
        };
        let ids = machines.iter().map(|machine| machine.id).collect();
        self.open_operation(id, by, &subscription, Request::Delete { machines: ids, group });
        if let Some(group) = group {
            self.edit_group(group, |group| group.leaving = true);
        }
        self.delete_machines(id, &machines, event)
    }

    fn find_distinct(&self, ids: &[MachineId]) -> Result<Vec<Arc<Machine>>, Rejection> {
        let mut machines = BTreeMap::new();
        for id in ids {
            machines.insert(*id, self.machine(*id)?);
        }
        Ok(machines.into_values().collect())
    }

    /// Creates a Terminate event for each machine, or joins the one that exists.
    pub fn delete_machines(
        &mut self,
        operation: OperationId,
        machines: &[Arc<Machine>],
        mut event: Option<EventId>,
    ) -> Result<(), Rejection> {
        for machine in machines {
            if let Some(same) = self.find_pending(machine.id, EventKind::Terminate) {
                self.join(same, operation)?;
                continue;
            }
            self.check_room(machine.scope, 1)?;
            let profile = machine.terminate.as_ref().filter(|_| self.region.is_on(machine.scope));
            let notice = profile.map_or(Duration::ZERO, |profile| self.region.settings.scaled(profile.timeout));
            self.create_event(EventDraft {
                operation,
                id: event.take(),
                kind: EventKind::Terminate,
                cause: Cause::Deletion,
                scope: machine.scope,
                machines: vec![machine.id],
                visibility: if profile.is_some() { Visibility::Shown } else { Visibility::Hidden },
                not_before: if profile.is_some() { self.after(notice) } else { self.now },
                notice,
                approval: None,
                description: None,
                duration_secs: None,
                cohort: None,
                moves: Vec::new(),
            });
            self.change_capacity(machine, |capacity| capacity.saturating_sub(1));
        }
        Ok(())
    }

    /// Increases the capacity again after a deletion that did not take place.
    pub fn restore_capacity(&mut self, event: &Event) {
        for machine in self.machines_of(event) {
            self.change_capacity(&machine, |capacity| capacity + 1);
        }
    }

    pub fn change_capacity(&mut self, machine: &Machine, change: fn(u32) -> u32) {
        if let Membership::Instance { set, .. } = machine.membership {
            self.edit_set(set, |set| set.capacity = change(set.capacity));
        }
    }

    /// Removes the group of a finished delete operation if it has no machines left.
    pub fn remove_group_of(&mut self, operation: &Operation) {
        let Request::Delete { group: Some(id), .. } = operation.request else { return };
        let Some(group) = self.region.groups.get(&id).cloned() else { return };
        if self.region.group_members(&group).next().is_some() {
            self.edit_group(id, |group| group.leaving = false);
        } else {
            self.remove_group(&group);
        }
    }

    // --- hardware failure ------------------------------------------------------------------------

    /// Creates events without notice, which start in the same step.
    fn fail(
        &mut self,
        id: OperationId,
        by: &Name,
        target: &Target,
        kind: EventKind,
        event: Option<EventId>,
    ) -> Result<(), Rejection> {
        if !matches!(kind, EventKind::Reboot | EventKind::Redeploy) {
            return Err(Rejection::FailureKind);
        }
        let all = self.find_target_machines(target)?;
        let hit: Vec<_> = all.iter().filter(|machine| !self.is_leaving(machine.id)).cloned().collect();
        let Some(first) = hit.first() else {
            return Err(all.first().map_or(Rejection::TargetHasNoMachines, |machine| {
                Rejection::MachineBeingDeleted(machine.name.clone())
            }));
        };
        self.open_operation(id, by, &first.home.subscription, Request::Fail { target: target.clone(), kind });
        let mut event = event;
        for machines in split_by_domain(hit) {
            self.schedule_event(id, event.take(), kind, Cause::HardwareFailure, &machines, Duration::ZERO, None)?;
        }
        Ok(())
    }

    /// Whether a deletion or eviction of the machine has started.
    fn is_leaving(&self, machine: MachineId) -> bool {
        self.region
            .events_of(machine)
            .any(|event| event.precedence() > 1 && matches!(event.status, Status::Started { .. }))
    }

    pub fn find_target_machines(&self, target: &Target) -> Result<Vec<Arc<Machine>>, Rejection> {
        let machines: Vec<_> = match target {
            Target::Machines(machines) => self.find_distinct(machines)?,
            Target::Host(host) => {
                self.region.hosts.get(host).ok_or_else(|| Rejection::UnknownHost(host.clone()))?;
                self.region.machines_on(host).cloned().collect()
            }
            Target::Group(group) => self.region.group_members(&*self.group(*group)?).cloned().collect(),
        };
        if machines.is_empty() { Err(Rejection::TargetHasNoMachines) } else { Ok(machines) }
    }
}

/// Splits machines by scope and update domain. An event covers machines of one such part.
pub(crate) fn split_by_domain(machines: Vec<Arc<Machine>>) -> Vec<Vec<Arc<Machine>>> {
    let mut parts: BTreeMap<(ScopeId, u32), Vec<Arc<Machine>>> = BTreeMap::new();
    for machine in machines {
        parts.entry((machine.scope, machine.update_domain)).or_default().push(machine);
    }
    parts.into_values().collect()
}

impl Request {
    /// Whether a second request with the same operation ID asks for the same, so that it is a retry.
    fn is_repeated_by(&self, other: &Request) -> bool {
        match (self, other) {
            (Request::Delete { group: Some(one), .. }, Request::Delete { group: Some(two), .. }) => one == two,
            (Request::Restart { machines: one }, Request::Restart { machines: two })
            | (Request::Redeploy { machines: one }, Request::Redeploy { machines: two })
            | (Request::PerformMaintenance { machines: one }, Request::PerformMaintenance { machines: two })
            | (Request::Delete { machines: one, group: None }, Request::Delete { machines: two, group: None }) => {
                one.iter().collect::<BTreeSet<_>>() == two.iter().collect::<BTreeSet<_>>()
            }
            (
                Request::Restart { .. }
                | Request::Redeploy { .. }
                | Request::PerformMaintenance { .. }
                | Request::Evict { .. }
                | Request::RecommendRebalance { .. }
                | Request::Delete { .. }
                | Request::Maintain { .. }
                | Request::Drain(_)
                | Request::Fail { .. },
                _,
            ) => self == other,
        }
    }
}
