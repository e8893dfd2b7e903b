//! Results of a rollout: the end of its steps, the failures it counts, and its own end.

use std::sync::Arc;
use std::time::Duration;

use crate::entity::Key;
use crate::ids::*;
use crate::model::*;
use crate::region::Region;
use crate::rollout::*;
use crate::rules::hosts::HOST_FAILED;
use crate::step::Step;
use crate::transition::*;

impl Step {
    /// Ends the steps whose operations have ended.
    pub(super) fn collect_results(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for (number, step) in rollout.steps.iter().enumerate().filter(|(_, it)| it.state == StepState::InProgress) {
            let operation = step.operation.and_then(|id| self.region.operations.get(&id).cloned());
            if operation.as_ref().is_some_and(|operation| rollout.is_step_running(step, operation)) {
                continue;
            }
            match (&rollout.plan.action, &step.target, operation) {
                (RolloutAction::Drain { .. }, StepTarget::Host(host), operation) => {
                    self.take_drain_result(id, number, step, host, operation.as_deref());
                }
                (_, _, Some(operation)) => self.take_result(id, number, step, &operation),
                (_, _, None) => self.finish_step(id, number, StepState::Canceled),
            }
        }
    }

    fn take_result(&mut self, id: RolloutId, number: usize, step: &RolloutStep, operation: &Operation) {
        let rollout = self.region.rollouts.get(&id);
        let parts = rollout.map_or(&[][..], |rollout| rollout.parts_of(step, operation));
        let StepResults { failed, handled } = self.collect_machines(parts);
        let canceled = parts.iter().any(|part| matches!(part.outcome, Some(Outcome::Canceled { .. })));
        if step.withdrawn && canceled {
            self.edit_rollout(id, |rollout| {
                rollout.failures += failed.len() as u32;
                let step = &mut rollout.steps[number];
                step.state = StepState::Pending;
                step.handled.extend(handled);
                step.failed.extend(failed);
            });
            return;
        }
        let has_failures = has_failures(parts) || !step.failed.is_empty();
        let is_failure = |part: &OperationEvent| part.outcome.as_ref().is_some_and(Outcome::is_failure);
        let canceled = canceled && !parts.iter().any(is_failure);
        let end = StepEnd { failed: failed.len() as u32, has_failures, canceled };
        if has_failures {
            self.edit_rollout(id, |rollout| {
                let step = &mut rollout.steps[number];
                step.handled.extend(handled);
                step.failed.extend(failed);
            });
        }
        self.finish_step_with(id, number, end);
    }

    /// Forgets an event some time after its end. A step can last longer than that, so the result of the event is counted
    /// now.
    pub fn forget_event(&mut self, id: EventId) {
        let operations = self.region.events.get(&id).map_or_else(Vec::new, |event| event.operations.clone());
        for operation in operations {
            self.keep_result(operation, id);
        }
        self.delete(Key::Event(id));
    }

    fn keep_result(&mut self, operation: OperationId, event: EventId) {
        let Some(operation) = self.region.operations.get(&operation).cloned() else { return };
        let is_drain = matches!(operation.request, Request::Drain(_));
        let Some(rollout) = operation.rollout.filter(|_| operation.state == OperationState::Running && !is_drain)
        else {
            return;
        };
        // The results of the events of earlier steps were counted when those ended.
        let Some(known) = self.region.rollouts.get(&rollout) else { return };
        let is_of = |step: &RolloutStep| {
            let has_event = || known.parts_of(step, &operation).iter().any(|part| part.event == event);
            step.operation == Some(operation.id) && step.state == StepState::InProgress && has_event()
        };
        let Some(number) = known.steps.iter().position(is_of) else { return };
        let parts: Vec<OperationEvent> = operation.parts.iter().filter(|part| part.event == event).cloned().collect();
        let StepResults { failed, handled } = self.collect_machines(&parts);
        self.edit_rollout(rollout, |rollout| {
            rollout.failures += failed.len() as u32;
            let step = &mut rollout.steps[number];
            step.handled.extend(handled);
            step.failed.extend(failed);
        });
        self.replan = true;
    }

    /// Ends the step of a drain once its host is active again, or has failed with machines that could not be moved. The operation may
    /// have been forgotten by then.
    fn take_drain_result(
        &mut self,
        id: RolloutId,
        number: usize,
        step: &RolloutStep,
        host: &Name,
        operation: Option<&Operation>,
    ) {
        let is_over = |host: &Arc<Host>| match host.state {
            HostState::Active => true,
            HostState::Failed => !step.failed.is_empty(),
            HostState::Draining | HostState::Drained => false,
        };
        if self.region.hosts.get(host).is_none_or(is_over) {
            let canceled = operation.is_some_and(Operation::result_is_canceled);
            let failed = step.failed.len() as u32;
            self.finish_step_with(id, number, StepEnd { failed, has_failures: failed > 0, canceled });
        }
    }

    fn finish_step_with(&mut self, id: RolloutId, number: usize, end: StepEnd) {
        let StepEnd { failed, has_failures, canceled } = end;
        let state = match (has_failures, canceled) {
            (false, true) => StepState::Canceled,
            (false, false) => StepState::Succeeded,
            (true, true | false) => StepState::Failed,
        };
        self.edit_rollout(id, |rollout| rollout.failures += failed);
        self.finish_step(id, number, state);
    }

    /// Remembers the machines whose move failed for the step of a drain, because their events and even the operation
    /// may be forgotten before the host is active again.
    pub fn remember_failed_moves(&mut self, operation: &Operation, machines: &[MachineId]) {
        let Some(rollout) = operation.rollout.filter(|_| matches!(operation.request, Request::Drain(_))) else {
            return;
        };
        self.edit_rollout(rollout, |rollout| {
            let step = rollout.steps.iter_mut().find(|step| step.operation == Some(operation.id));
            if let Some(step) = step {
                let new = machines.iter().filter(|machine| !step.failed.contains(machine));
                let new: Vec<MachineId> = new.copied().collect();
                step.failed.extend(new);
            }
        });
    }

    fn collect_machines(&self, parts: &[OperationEvent]) -> StepResults {
        let mut results = StepResults::default();
        for part in parts {
            let event = self.region.events.get(&part.event);
            let machines = event.into_iter().flat_map(|event| event.resources.iter()).map(|resource| resource.machine);
            match part.outcome {
                Some(Outcome::Failed(_) | Outcome::TimedOut) => {
                    let is_done = |machine: &MachineId| event.is_some_and(|event| event.is_done(*machine));
                    results.failed.extend(machines.clone().filter(|machine| !is_done(machine)));
                }
                Some(Outcome::Canceled { .. }) | None => continue,
                Some(Outcome::Completed | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone) => {}
            }
            results.handled.extend(machines);
        }
        results
    }

    pub(super) fn finish_step(&mut self, id: RolloutId, number: usize, state: StepState) {
        let now = self.now;
        let pause = self.region.rollouts.get(&id).map_or(Duration::ZERO, |rollout| rollout.plan.pause);
        let resume = now + self.region.settings.scaled(pause);
        let rollout = self.edit_rollout(id, |rollout| {
            let step = &mut rollout.steps[number];
            step.state = state;
            step.ended = Some(now);
            if state != StepState::Skipped {
                rollout.paused_until = Some(resume);
            }
        });
        if let Some(rollout) = rollout {
            let failure = self.region.failure_of_step(&rollout, &rollout.steps[number]);
            let change = RolloutChange::StepEnded { step: number, failure };
            self.record_fact(FactKind::RolloutChanged { rollout, change });
        }
        if self.region.rollouts.get(&id).is_some_and(|rollout| rollout.is_live()) {
            self.update_steps(id);
        }
    }

    pub(super) fn end_rollout(&mut self, id: RolloutId, state: RolloutState, change: RolloutChange, by: &Name) {
        let is_stopped = matches!(state, RolloutState::Stopped { .. });
        let rollout = self.edit_rollout(id, |rollout| {
            rollout.state = state;
            rollout.waits_for = None;
            rollout.wake = None;
            for step in rollout.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
                step.state = StepState::Canceled;
            }
        });
        let Some(rollout) = rollout else { return };
        if let Some(operation) = rollout.operation {
            if is_stopped {
                self.edit_operation(operation, |operation| operation.canceled = Some(by.clone()));
            }
            self.unconcluded.insert(operation);
        }
        for step in rollout.steps.iter().filter(|step| step.state == StepState::InProgress) {
            let Some(operation) = step.operation.and_then(|id| self.region.operations.get(&id).cloned()) else {
                continue;
            };
            if operation.drain.is_some() {
                let _ = self.cancel(operation.id, by);
            } else {
                self.withdraw_scheduled(&operation, by);
            }
        }
        self.replan = true;
        self.record_fact(FactKind::RolloutChanged { rollout, change });
    }

    /// Steps that were in progress when their rollout was stopped or failed end with their operation.
    pub(super) fn finish_steps_of_ended_rollouts(&mut self) {
        let ended = self.region.rollouts.values().filter(|rollout| {
            !rollout.is_live() && rollout.steps.iter().any(|step| step.state == StepState::InProgress)
        });
        for id in ended.map(|rollout| rollout.id).collect::<Vec<_>>() {
            self.collect_results(id);
        }
    }
}

impl Region {
    /// The reason why a step failed: the outcome of its first event that did. None: the step has not failed, or its operation has
    /// been forgotten.
    pub fn failure_of_step(&self, rollout: &Rollout, step: &RolloutStep) -> Option<Outcome> {
        let operation = self.operation(step.operation.filter(|_| step.state == StepState::Failed)?)?;
        let outcomes = rollout.parts_of(step, operation).iter().filter_map(|part| part.outcome.as_ref());
        let failure = outcomes.into_iter().find(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::TimedOut));
        // A drain can fail before it has announced a move, if its host fails.
        let is_drain = matches!(operation.request, Request::Drain(_));
        failure.cloned().or_else(|| is_drain.then(|| Outcome::Failed(HOST_FAILED.into())))
    }
}

/// The machines of events that have ended.
#[derive(Default)]
struct StepResults {
    /// Machines whose events failed or timed out.
    failed: Vec<MachineId>,
    /// Machines whose events were not canceled, including those that failed.
    handled: Vec<MachineId>,
}

/// How a step ended.
struct StepEnd {
    /// Machines whose failure has not been counted yet.
    failed: u32,
    has_failures: bool,
    canceled: bool,
}

/// Whether an event failed or timed out, remembered or not.
fn has_failures(parts: &[OperationEvent]) -> bool {
    parts.iter().any(|part| matches!(part.outcome, Some(Outcome::Failed(_) | Outcome::TimedOut)))
}

impl Rollout {
    /// Whether the operation of a step has not ended yet. A shared operation continues with the next step.
    fn is_step_running(&self, step: &RolloutStep, operation: &Operation) -> bool {
        match self.operation {
            Some(_) => self.parts_of(step, operation).iter().any(|part| part.outcome.is_none()),
            None => operation.state == OperationState::Running,
        }
    }
}

impl Operation {
    fn result_is_canceled(&self) -> bool {
        matches!(self.state, OperationState::Ended { result: OperationResult::Canceled { .. }, .. })
    }
}
