//! Invariants of retried steps. That they obey limits, windows, pauses and order follows from the invariants of all steps.

use std::collections::BTreeMap;

use forewarn_core::*;

use super::checks::{PlanMemory, ensure, new_events, operation_of};
use crate::invariants::Step;

/// The number of steps with each target.
fn count_targets(rollout: &Rollout) -> BTreeMap<&StepTarget, usize> {
    let mut counts = BTreeMap::new();
    rollout.steps.iter().for_each(|step| *counts.entry(&step.target).or_default() += 1);
    counts
}

/// The latest step with this target.
fn find_latest<'a>(rollout: &'a Rollout, target: &StepTarget) -> Option<&'a RolloutStep> {
    rollout.steps.iter().rev().find(|step| step.target == *target)
}

pub fn retried_on_request(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for after in step.after.rollouts() {
        let Some(before) = step.before.rollout(after.id) else { continue };
        let known = count_targets(before);
        for (target, count) in count_targets(after) {
            let earlier = known.get(target).copied().unwrap_or(0);
            if earlier == 0 || count == earlier {
                continue;
            }
            let is_requested = match step.command {
                Command::RetrySteps { rollout, steps, .. } => {
                    *rollout == after.id && (steps.is_empty() || steps.contains(target))
                }
                _ => false,
            };
            let has_failed = find_latest(before, target).is_some_and(|it| it.state == StepState::Failed);
            let is_right = is_requested && has_failed && before.is_live() && count == earlier + 1;
            ensure(is_right, || format!("{} retries {target:?} without reason", after.id))?;
        }
    }
    Ok(())
}

/// A retry is dropped only with its rollout.
pub fn retries_stay(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for after in step.after.rollouts() {
        let Some(before) = step.before.rollout(after.id) else { continue };
        let counts = count_targets(after);
        for (target, count) in count_targets(before).into_iter().filter(|(_, count)| *count > 1) {
            ensure(counts.get(target) >= Some(&count), || format!("{} lost a retry of {target:?}", after.id))?;
        }
    }
    Ok(())
}

/// In steps over update domains or machines. The machines of a host go through its steps together.
pub fn done_machines_stay_out(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in new_events(step) {
        let Some(rollout) = operation_of(step.after, event).and_then(|operation| operation.rollout) else { continue };
        // A new rollout can have the ID of one that was forgotten.
        let Some(completed) = memory.completed.get(&rollout).filter(|_| step.before.rollout(rollout).is_some()) else {
            continue;
        };
        let done = event.resources.iter().find(|resource| completed.contains(&resource.machine));
        ensure(done.is_none(), || format!("{rollout} announces {done:?} again"))?;
    }
    Ok(())
}

pub fn failed_machines_are_not_left_out(memory: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::RetrySteps { rollout, operation, .. } = step.command else { return Ok(()) };
    let Some(failed) = memory.failed.get(rollout) else { return Ok(()) };
    for added in step.after.rollout(*rollout).iter().flat_map(|it| &it.steps).filter(|it| it.retry == Some(*operation))
    {
        let is_new = !step.before.rollout(*rollout).is_some_and(|before| before.steps.contains(added));
        let left_out = added.handled.iter().find(|machine| is_new && failed.contains(machine));
        ensure(left_out.is_none(), || format!("{rollout} leaves out {left_out:?}, which failed"))?;
    }
    Ok(())
}

pub fn earlier_steps_stay(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::RetrySteps { rollout, .. } = step.command else { return Ok(()) };
    let (Some(before), Some(after)) = (step.before.rollout(*rollout), step.after.rollout(*rollout)) else {
        return Ok(());
    };
    for ended in before.steps.iter().filter(|it| it.ended.is_some()) {
        ensure(after.steps.contains(ended), || format!("{rollout} changed a step that had ended: {ended:?}"))?;
    }
    Ok(())
}

pub fn failures_keep_counting(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for after in step.after.rollouts() {
        let Some(before) = step.before.rollout(after.id) else { continue };
        let (now, then) = (after.failures, before.failures);
        ensure(now >= then, || format!("{} has {now} failures, after {then}", after.id))?;
    }
    Ok(())
}
