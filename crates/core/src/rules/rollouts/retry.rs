//! Retries of failed steps. A retry is a further step with the same target: the failed step stays as it was, its failures
//! keep counting, and the retry has its turn, limits, windows and pause like any other step.

use std::collections::{BTreeMap, BTreeSet};

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
        let retried = self.find_steps_to_retry(&rollout, targets)?;
        if rollout.steps.len() + retried.len() > ROLLOUT_STEPS_MAX {
            return Err(Rejection::TooManySteps);
        }
        let first = rollout.steps.len();
        let added: Vec<RolloutStep> =
            retried.into_iter().map(|failed| rollout.steps[failed].retry_by(operation)).collect();
        let numbers = first..first + added.len();
        if let Some(rollout) = self.edit_rollout(id, |rollout| rollout.steps.extend(added)) {
            for step in numbers {
                let change = RolloutChange::StepRetried { step };
                self.record_fact(FactKind::RolloutChanged { rollout: rollout.clone(), change });
            }
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
        let added = rollout.steps.iter().filter(|step| step.retry == Some(operation));
        let added: BTreeSet<&StepTarget> = added.map(|step| &step.target).collect();
        let is_same = targets.is_empty() || added == targets.iter().collect();
        let is_taken = self.region.operations.contains_key(&operation)
            || rollout.steps.iter().any(|step| step.operation == Some(operation));
        match (added.is_empty(), is_same) {
            (true, _) if is_taken => Err(Rejection::IdTaken(operation)),
            (true, _) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => Err(Rejection::IdTaken(operation)),
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

impl RolloutStep {
    /// A step that retries this one, which has failed. It leaves out the machines that went through this step. Those of a host go
    /// through a step together, so none of them is left out.
    fn retry_by(&self, request: OperationId) -> RolloutStep {
        let is_done = |machine: &&MachineId| !self.failed.contains(machine);
        let handled = match self.target {
            StepTarget::Host(_) => Vec::new(),
            StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. } => {
                self.handled.iter().filter(is_done).copied().collect()
            }
        };
        RolloutStep { retry: Some(request), handled, ..RolloutStep::new(self.target.clone()) }
    }
}
