//! Responses to events: approvals by guests and operators, cancellations, and driver reports.

use std::sync::Arc;

use crate::command::{ApprovalScope, Report};
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::settings::APPROVALS_MAX;
use crate::step::Step;
use crate::transition::Answer;

impl Step {
    /// Approves all of the events, or none if one of them is unknown.
    pub fn approve(&mut self, by: &Approver, within: &ApprovalScope, ids: &[EventId]) -> Result<Answer, Rejection> {
        if ids.len() > APPROVALS_MAX {
            return Err(Rejection::TooManyApprovals);
        }
        let scopes = self.scopes_within(within)?;
        let known = |id: &EventId| {
            let event = self.region.events.get(id).filter(|event| event.is_shown());
            event.is_some_and(|event| scopes.as_ref().is_none_or(|scopes| scopes.contains(&event.scope)))
        };
        let unknown: Vec<EventId> = ids.iter().copied().filter(|id| !known(id)).collect();
        if !unknown.is_empty() {
            return Err(Rejection::UnknownEvents(unknown));
        }
        for id in ids {
            self.approve_known(*id, by)?;
        }
        if let Approver::Guest { machine, .. } = by {
            let machine = self.machine(*machine)?;
            self.extend_activation(&machine);
        }
        Ok(Answer::Done)
    }

    /// Approves one event. Approving it again, or after it has started, changes nothing. A user of the
    /// management API gets an error for an event that has ended; a guest does not, because it may just be late.
    fn approve_known(&mut self, id: EventId, by: &Approver) -> Result<(), Rejection> {
        let Some(event) = self.region.events.get(&id).cloned() else { return Ok(()) };
        match (&event.status, by) {
            (Status::Scheduled, _) if event.approval.is_none() => self.approve_event(id, by.clone()),
            (Status::Ended { .. }, Approver::Management(_)) => return Err(Rejection::EventEnded(id)),
            (Status::Scheduled | Status::Started { .. } | Status::Ended { .. }, _) => {}
        }
        Ok(())
    }

    fn scopes_within(&self, within: &ApprovalScope) -> Result<Option<Vec<ScopeId>>, Rejection> {
        Ok(match within {
            ApprovalScope::ScopeOf(machine) => Some(vec![self.machine(*machine)?.scope]),
            ApprovalScope::Group(group) => Some(self.group(*group)?.scopes.clone()),
            ApprovalScope::Region => None,
        })
    }

    // --- cancellation ----------------------------------------------------------------------------

    /// Cancels an operation. Scheduled events are removed, started events finish. A host that was draining is active again.
    /// The rollout that carries out maintenance by update domain stops.
    pub fn cancel(&mut self, id: OperationId, by: &Name) -> Result<Answer, Rejection> {
        let operation = self.region.operations.get(&id).cloned().ok_or(Rejection::UnknownOperation(id))?;
        if operation.state != OperationState::Running || operation.canceled.is_some() {
            return Err(Rejection::OperationEnded(id));
        }
        let scheduled = self.scheduled_events(&operation);
        match &operation.request {
            Request::Delete { .. } => return Err(Rejection::NotCancellable("A deletion")),
            Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
            | Request::Maintain { .. }
            | Request::Drain(_)
            | Request::Fail { .. } => {}
        }
        let rollout = self.region.rollout_of_maintenance(&operation).filter(|rollout| rollout.is_live());
        if let Some(rollout) = rollout.map(|rollout| rollout.id) {
            self.stop_rollout(rollout, by)?;
            return Ok(Answer::Operation(id));
        }
        if scheduled.is_empty() && operation.drain.is_none() {
            return Err(Rejection::NotCancellable("An event that has started"));
        }
        self.edit_operation(id, |operation| {
            operation.canceled = Some(by.clone());
            operation.drain = None;
        });
        if let Request::Drain(plan) = &operation.request {
            self.edit_host(&plan.host, |host| host.state = HostState::Active);
            self.replan = true;
        }
        self.withdraw_scheduled(&operation, by);
        self.unconcluded.insert(id);
        Ok(Answer::Operation(id))
    }

    /// Withdraws the Scheduled events of an operation.
    pub fn withdraw_scheduled(&mut self, operation: &Operation, by: &Name) {
        for event in self.scheduled_events(operation) {
            self.withdraw_operation(&event, operation.id, by);
        }
    }

    pub fn cancel_event(&mut self, id: EventId, by: &Name) -> Result<Answer, Rejection> {
        let event = self.region.events.get(&id).cloned().ok_or(Rejection::UnknownEvent(id))?;
        match event.status {
            Status::Ended { .. } => return Err(Rejection::EventEnded(id)),
            Status::Started { .. } => return Err(Rejection::NotCancellable("An event that has started")),
            Status::Scheduled => {}
        }
        for operation in &event.operations {
            let siblings =
                self.region.operations.get(operation).map_or(0, |operation| self.scheduled_events(operation).len());
            if event.cohort.is_some() && siblings > 1 {
                return Err(Rejection::PartOfHostOperation(id));
            }
            self.cancel(*operation, by)?;
        }
        Ok(Answer::Done)
    }

    /// Removes an operation from an event. The event ends with its last operation.
    fn withdraw_operation(&mut self, event: &Event, operation: OperationId, by: &Name) {
        let outcome = Outcome::Canceled { by: by.clone() };
        if event.operations.len() > 1 {
            self.edit_event(event.id, |event| event.operations.retain(|id| *id != operation));
            self.end_part(operation, event.id, &outcome);
        } else {
            self.end(event.id, outcome);
        }
    }

    pub fn scheduled_events(&self, operation: &Operation) -> Vec<Arc<Event>> {
        let events = operation.parts.iter().filter_map(|part| self.region.events.get(&part.event));
        events.filter(|event| event.status == Status::Scheduled).cloned().collect()
    }

    // --- driver reports --------------------------------------------------------------------------

    pub fn report(&mut self, id: EventId, report: &Report) -> Result<Answer, Rejection> {
        let event = self.region.events.get(&id).cloned().ok_or(Rejection::UnknownEvent(id))?;
        match event.status {
            Status::Ended { .. } => return Err(Rejection::EventEnded(id)),
            Status::Scheduled => return Err(Rejection::NotStarted(id)),
            Status::Started { .. } => {}
        }
        match report {
            Report::Done => self.complete(&event),
            Report::Failed(reason) => self.end(id, Outcome::Failed(reason.clone())),
        }
        Ok(Answer::Done)
    }
}
