//! Results of a rollout: the end of its steps, the failures it counts, and its own end.

use std::time::Duration;

use crate::entity::Key;
use crate::ids::*;
use crate::model::*;
use crate::rollout::*;
use crate::step::Step;
use crate::transition::*;

impl Step {
    /// Ends the steps whose operations have ended.
    pub(super) fn take_results(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for (number, step) in rollout.steps.iter().enumerate().filter(|(_, it)| it.state == StepState::InProgress) {
            let operation = step.operation.and_then(|id| self.region.operations.get(&id).cloned());
            if operation.as_ref().is_some_and(|operation| operation.state == OperationState::Running) {
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
        let (failed, handled) = self.count_failed(operation);
        let canceled = operation.parts.iter().any(|part| matches!(part.outcome, Some(Outcome::Canceled { .. })));
        if step.withdrawn && canceled {
            self.edit_rollout(id, |rollout| {
                rollout.failures += failed;
                let step = &mut rollout.steps[number];
                step.state = StepState::Pending;
                step.handled.extend(handled);
            });
            return;
        }
        let end = StepEnd { failed, has_failures: operation.has_failures(), canceled: operation.result_is_canceled() };
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
        let parts = operation.parts.iter().filter(|part| part.event == event).cloned().collect();
        let (failed, handled) = self.count_failed(&Operation { parts, ..(*operation).clone() });
        self.edit_rollout(rollout, |rollout| {
            rollout.failures += failed;
            if let Some(step) = rollout.steps.iter_mut().find(|step| step.operation == Some(operation.id)) {
                step.handled.extend(handled);
            }
        });
        self.replan = true;
    }

    /// Ends the step of a drain once its host is active again. The operation may have been forgotten by then.
    fn take_drain_result(
        &mut self,
        id: RolloutId,
        number: usize,
        step: &RolloutStep,
        host: &Name,
        operation: Option<&Operation>,
    ) {
        if self.region.hosts.get(host).is_none_or(|host| host.state == HostState::Active) {
            let canceled = operation.is_some_and(Operation::result_is_canceled);
            let failed = step.handled.len() as u32;
            self.finish_step_with(id, number, StepEnd { failed, has_failures: failed > 0, canceled });
        }
    }

    fn finish_step_with(&mut self, id: RolloutId, number: usize, end: StepEnd) {
        let StepEnd { failed, has_failures, canceled } = end;
        let state = match (has_failures, canceled) {
            (false, true) => StepState::Canceled,
            (false, false) => StepState::Succeeded,
            _ => StepState::Failed,
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
                step.handled.extend(machines);
            }
        });
    }

    /// The number of machines whose events failed or timed out, and the machines whose events were not canceled.
    fn count_failed(&self, operation: &Operation) -> (u32, Vec<MachineId>) {
        let (mut failed, mut handled) = (0, Vec::new());
        for part in &operation.parts {
            let event = self.region.events.get(&part.event);
            let machines = event.map_or(&[][..], |event| &event.resources[..]);
            match part.outcome {
                Some(Outcome::Failed(_) | Outcome::TimedOut) => {
                    let done = |it: &&Resource| event.is_some_and(|event| event.is_done(it.machine));
                    failed += (machines.len() - machines.iter().filter(done).count()) as u32;
                }
                Some(Outcome::Canceled { .. }) | None => continue,
                Some(Outcome::Completed | Outcome::Superseded | Outcome::NoEffect | Outcome::ResourceGone) => {}
            }
            handled.extend(machines.iter().map(|resource| resource.machine));
        }
        (failed, handled)
    }

    pub(super) fn finish_step(&mut self, id: RolloutId, number: usize, state: StepState) {
        let now = self.now;
        let pause = self.region.rollouts.get(&id).map_or(Duration::ZERO, |rollout| rollout.plan.pause);
        let resume = now + self.region.settings.scaled(pause);
        self.change_rollout(id, RolloutChange::StepEnded { step: number }, |rollout| {
            let step = &mut rollout.steps[number];
            step.state = state;
            step.ended = Some(now);
            if state != StepState::Skipped {
                rollout.paused_until = Some(resume);
            }
        });
    }

    pub(super) fn end_rollout(&mut self, id: RolloutId, state: RolloutState, change: RolloutChange, by: &Name) {
        let rollout = self.edit_rollout(id, |rollout| {
            rollout.state = state;
            rollout.waits_for = None;
            rollout.wake = None;
            for step in rollout.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
                step.state = StepState::Canceled;
            }
        });
        let Some(rollout) = rollout else { return };
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
            self.take_results(id);
        }
    }
}

/// How a step ended.
struct StepEnd {
    /// Machines whose failure has not been counted yet.
    failed: u32,
    has_failures: bool,
    canceled: bool,
}

impl Operation {
    /// Whether an event failed or timed out, remembered or not.
    fn has_failures(&self) -> bool {
        let failed = |part: &Part| matches!(part.outcome, Some(Outcome::Failed(_) | Outcome::TimedOut));
        self.parts.iter().any(failed)
    }

    fn result_is_canceled(&self) -> bool {
        matches!(self.state, OperationState::Ended { result: OperationResult::Canceled { .. }, .. })
    }
}
