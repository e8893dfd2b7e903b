//! Draining a host: moving its machines away, a few at a time.
//!
//! A drain creates the event of a machine only when the number of parallel moves, memory at the target and the
//! availability of the machine's group allow it. The event itself is the reservation of all three.

use std::sync::Arc;
use std::time::Duration;

use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rules::fleet::check_name;
use crate::rules::lifecycle::EventDraft;
use crate::settings::{DRAIN_PARALLEL_MAX, Settings};
use crate::step::Step;

/// The name under which the drain of a host that has failed is canceled.
const HOST_FAILURE: &str = "host failure";

/// The move of one machine.
struct MoveDraft {
    kind: EventKind,
    cause: Cause,
    to: Option<Name>,
}

impl Step {
    pub fn start_drain(&mut self, id: OperationId, by: &Name, plan: &DrainPlan) -> Result<(), Rejection> {
        let host = self.host(&plan.host)?;
        if host.state == HostState::Failed {
            return Err(Rejection::HostNotActive { host: host.name.clone(), state: host.state });
        }
        if self.region.index.drains.contains_key(&plan.host) {
            return Err(Rejection::AlreadyDraining(plan.host.clone()));
        }
        if !(1..=DRAIN_PARALLEL_MAX).contains(&plan.parallel) {
            return Err(Rejection::ParallelRange { max: DRAIN_PARALLEL_MAX });
        }
        if plan.unavailable_max == Some(0) {
            return Err(Rejection::UnavailableRange);
        }
        if let Some(pool) = &plan.to {
            check_name("pool", pool)?;
        }
        self.check_description(plan.description.as_ref())?;
        let least = Settings::default().notice_min(EventKind::Freeze);
        if plan.notice.is_some_and(|notice| notice < least) {
            return Err(Rejection::NoticeTooShort { secs_min: least.as_secs() });
        }
        let first = self.region.machines_on(&plan.host).next();
        let subscription = first.map_or_else(Name::default, |machine| machine.home.subscription.clone());
        self.open_operation(id, by, &subscription, Request::Drain(plan.clone()));
        self.edit_operation(id, |operation| operation.drain = Some(DrainProgress::default()));
        self.edit_host(&plan.host, |host| host.state = HostState::Draining);
        self.replan = true;
        Ok(())
    }

    /// Creates the events that the limits now allow, and ends the drain when nothing is left to move.
    pub fn advance_drain(&mut self, id: OperationId) {
        let Some(operation) = self.region.operations.get(&id).cloned() else { return };
        let (Request::Drain(plan), Some(progress)) = (&operation.request, &operation.drain) else { return };
        let waiting: Vec<Arc<Machine>> = self
            .region
            .machines_on(&plan.host)
            .filter(|machine| !progress.settled.contains(&machine.id))
            .cloned()
            .collect();
        if waiting.is_empty() {
            self.conclude_drain(&operation, plan);
            return;
        }
        let waits_for = self.move_some(&operation, plan, waiting);
        if waits_for != progress.waits_for {
            self.edit_operation(id, |operation| {
                if let Some(drain) = &mut operation.drain {
                    drain.waits_for = waits_for;
                }
            });
        }
    }

    /// Creates the events of as many machines as the limits allow. Returns the first obstacle, if nothing moves.
    fn move_some(&mut self, operation: &Operation, plan: &DrainPlan, waiting: Vec<Arc<Machine>>) -> Option<Wait> {
        if let Some(wait) = self.closed_window(operation) {
            return Some(wait);
        }
        let mut moving = self.count_moving(operation);
        let mut obstacle = None;
        for machine in waiting {
            if moving >= plan.parallel {
                return None;
            }
            // A machine that has left is on the host until the new host reports it.
            let has_left = machine.placed_on() != Some(&plan.host);
            if has_left || self.is_moving(operation, machine.id) || self.is_removed_soon(machine.id) {
                continue;
            }
            match self.draft_move(&machine, plan) {
                Ok(draft) => {
                    self.create_move(operation.id, plan, &machine, draft);
                    moving += 1;
                }
                Err(wait) => obstacle = obstacle.or(Some(wait)),
            }
        }
        if moving == 0 { obstacle } else { None }
    }

    fn count_moving(&self, operation: &Operation) -> u32 {
        operation.parts.iter().filter(|part| part.outcome.is_none()).count() as u32
    }

    fn is_moving(&self, operation: &Operation, machine: MachineId) -> bool {
        self.region.events_of(machine).any(|event| event.operations.contains(&operation.id))
    }

    /// A machine that is being deleted or evicted leaves the host by itself.
    fn is_removed_soon(&self, machine: MachineId) -> bool {
        self.find_pending(machine, EventKind::Terminate).is_some()
            || self.find_pending(machine, EventKind::Preempt).is_some()
    }

    fn draft_move(&self, machine: &Arc<Machine>, plan: &DrainPlan) -> Result<MoveDraft, Wait> {
        if let Some(host) = self.host_of_machine(machine.id).filter(|host| host.is_unreachable()) {
            return Err(Wait::Host(host.name.clone()));
        }
        if let Some(wait) = self.find_availability_limit(std::slice::from_ref(machine), plan.unavailable_max) {
            return Err(wait);
        }
        let is_running = machine.power == Power::Running;
        if is_running && !machine.live_migratable && plan.in_place {
            return Ok(MoveDraft { kind: EventKind::Reboot, cause: Cause::HostMaintenance, to: None });
        }
        let to = self.place(machine, plan.to.as_ref());
        let to = Some(to.ok_or_else(|| Wait::Capacity { machine: machine.name.clone() })?);
        if is_running && machine.live_migratable {
            Ok(MoveDraft { kind: EventKind::Freeze, cause: Cause::LiveMigration, to })
        } else {
            Ok(MoveDraft { kind: EventKind::Redeploy, cause: Cause::HostMaintenance, to })
        }
    }

    fn create_move(&mut self, operation: OperationId, plan: &DrainPlan, machine: &Machine, draft: MoveDraft) {
        if self.check_room(machine.scope, 1).is_err() {
            return;
        }
        let on = self.region.is_on(machine.scope);
        let least = self.region.settings.notice_min(draft.kind);
        let notice = plan.notice.map_or(least, |notice| self.region.settings.scaled(notice)).max(least);
        self.create_event(EventDraft {
            operation,
            id: None,
            kind: draft.kind,
            cause: draft.cause,
            scope: machine.scope,
            machines: vec![machine.id],
            visibility: if on { Visibility::Shown } else { Visibility::Hidden },
            not_before: if on { self.after(notice) } else { self.now },
            notice: if on { least } else { Duration::ZERO },
            approval: None,
            description: plan.description.clone(),
            duration_secs: None,
            cohort: None,
            moves: draft.to.into_iter().map(|to| Move { machine: machine.id, to }).collect(),
        });
    }

    /// Remembers a machine whose event has ended while it is still on the host, so that the drain does not try it
    /// again. A machine whose event was canceled or superseded is tried again.
    pub fn settle_drained_machine(&mut self, event: &Event, outcome: &Outcome) {
        let is_settled = match outcome {
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::NoEffect => true,
            Outcome::Completed => event.moves.is_empty(),
            Outcome::Canceled { .. } | Outcome::Superseded | Outcome::ResourceGone => false,
        };
        if !is_settled {
            return;
        }
        for id in &event.operations {
            let machines: Vec<MachineId> = event.resources.iter().map(|resource| resource.machine).collect();
            let Some(operation) = self.region.operations.get(id).cloned() else { continue };
            if matches!(outcome, Outcome::Failed(_) | Outcome::TimedOut) {
                self.remember_failed_moves(&operation, &machines);
            }
            if operation.drain.is_some() {
                self.edit_operation(*id, |operation| {
                    if let Some(drain) = &mut operation.drain {
                        drain.settled.extend(machines);
                    }
                });
            }
        }
    }

    /// Ends the drain of a failed host. If machines were still to be moved, the drain is canceled and they count as failed in its
    /// rollout. Otherwise it ends with the results of its moves.
    pub fn abort_drain(&mut self, host: &Name) -> Result<(), Rejection> {
        let Some(operation) = self.region.drain_of(host).cloned() else { return Ok(()) };
        let settled = operation.drain.as_ref().map_or(&[][..], |drain| &drain.settled);
        let here = self.region.machines_on(host).filter(|machine| machine.placed_on() == Some(host));
        let left = here.map(|machine| machine.id).filter(|id| !settled.contains(id) && !self.is_removed_soon(*id));
        let left: Vec<MachineId> = left.collect();
        if left.is_empty() {
            // Those of machines that are removed before they would move.
            self.withdraw_scheduled(&operation, &HOST_FAILURE.into());
            self.end_drain(operation.id);
            return Ok(());
        }
        self.remember_failed_moves(&operation, &left);
        self.cancel(operation.id, &HOST_FAILURE.into())?;
        Ok(())
    }

    /// Ends a drain after its last event. The host is drained unless a machine could not be moved.
    fn conclude_drain(&mut self, operation: &Operation, plan: &DrainPlan) {
        if operation.parts.iter().any(|part| part.outcome.is_none()) {
            return;
        }
        let failed = operation.parts.iter().any(|part| part.outcome.as_ref().is_some_and(Outcome::is_failure));
        let is_empty = self.region.machines_on(&plan.host).next().is_none();
        if is_empty || !failed {
            self.edit_host(&plan.host, |host| host.state = HostState::Drained);
        }
        self.end_drain(operation.id);
    }

    /// Stops draining. The operation ends with its last event.
    fn end_drain(&mut self, id: OperationId) {
        self.edit_operation(id, |operation| operation.drain = None);
        self.unconcluded.insert(id);
    }
}
