//! Repetitions of failed steps. A repetition is a further step with the same target: the failed step stays as it was, its failures
//! keep counting, and the repetition has its turn, limits, windows and pause like any other step.

use std::collections::BTreeMap;

use super::FIRST_OPERATION;
use crate::ids::*;
use crate::rejection::Rejection;
use crate::rollout::*;
use crate::settings::ROLLOUT_STEPS_MAX;
use crate::step::Step;
use crate::transition::*;

impl Step {
    pub fn retry_steps(
        &mut self,
        id: RolloutId,
        operation: OperationId,
        targets: &[StepTarget],
    ) -> Result<Answer, Rejection> {
        let known = self.region.rollouts.get(&id).cloned().ok_or(Rejection::UnknownRollout(id))?;
        if self.is_known_retry(&known, operation, targets)? {
            return Ok(Answer::Rollout(id));
        }
        let rollout = self.live_rollout(id)?;
        let repeated = self.find_steps_to_retry(&rollout, targets)?;
        if rollout.steps.len() + repeated.len() > ROLLOUT_STEPS_MAX {
            return Err(Rejection::TooManySteps);
        }
        for (index, failed) in repeated.into_iter().enumerate() {
            let step = RolloutStep {
                operation: Some(operation_of_repetition(operation, index)),
                handled: machines_left_out(&rollout.steps[failed]),
                ..RolloutStep::new(rollout.steps[failed].target.clone())
            };
            let number = rollout.steps.len() + index;
            self.change_rollout(id, RolloutChange::StepRepeated { step: number }, |rollout| rollout.steps.push(step));
        }
        self.replan = true;
        Ok(Answer::Rollout(id))
    }

    /// Whether the request was accepted before. The ID of another request is refused.
    fn is_known_retry(
        &self,
        rollout: &Rollout,
        operation: OperationId,
        targets: &[StepTarget],
    ) -> Result<bool, Rejection> {
        if let Some(step) = rollout.steps.iter().find(|step| step.operation == Some(operation)) {
            let is_same = targets.first().is_none_or(|target| *target == step.target);
            return if is_same { Ok(true) } else { Err(Rejection::IdTaken(operation)) };
        }
        // A step that was announced again has another operation, but the first one is remembered for a while.
        match self.region.operations.get(&operation) {
            Some(known) if known.rollout == Some(rollout.id) => Ok(true),
            Some(_) => Err(Rejection::IdTaken(operation)),
            None => Ok(false),
        }
    }

    /// The numbers of the failed steps with these targets; all of them, if there are no targets.
    fn find_steps_to_retry(&self, rollout: &Rollout, targets: &[StepTarget]) -> Result<Vec<usize>, Rejection> {
        if targets.is_empty() {
            let failed: Vec<usize> = rollout.open_failures().map(|(number, _)| number).collect();
            return if failed.is_empty() { Err(Rejection::NoFailedSteps(rollout.id)) } else { Ok(failed) };
        }
        let numbered = rollout.steps.iter().enumerate();
        let latest: BTreeMap<&StepTarget, usize> = numbered.map(|(number, step)| (&step.target, number)).collect();
        let mut found = Vec::new();
        for target in targets {
            let name = || self.name_of_target(target);
            let number =
                *latest.get(target).ok_or_else(|| Rejection::NotAStep { step: name(), rollout: rollout.id })?;
            let state = rollout.steps[number].state;
            if state != StepState::Failed {
                return Err(Rejection::StepNotFailed { step: name(), state });
            }
            if found.contains(&number) {
                return Err(Rejection::DuplicateTarget);
            }
            found.push(number);
        }
        Ok(found)
    }
}

/// The ID of the operation of a repetition. One request can repeat several steps.
fn operation_of_repetition(operation: OperationId, index: usize) -> OperationId {
    if index == 0 { operation } else { operation.derive(FIRST_OPERATION + index as u64) }
}

/// The machines that went through the step although it failed. The machines of a host go through a step together, so none of
/// them is left out.
fn machines_left_out(failed: &RolloutStep) -> Vec<MachineId> {
    match failed.target {
        StepTarget::Host(_) => Vec::new(),
        StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. } => failed.handled.clone(),
    }
}
