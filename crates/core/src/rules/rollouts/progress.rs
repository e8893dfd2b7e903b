//! The state of a rollout as users see it: running or waiting, for what, and when it must be looked at again.

use std::sync::Arc;

use crate::ids::*;
use crate::model::*;
use crate::rollout::*;
use crate::step::Step;
use crate::time::Timestamp;
use crate::transition::*;
use crate::window::{Span, current_or_next};

impl Step {
    /// Sets state, reason and next wake-up after everything that can happen now has happened.
    pub(super) fn describe_progress(&mut self, id: RolloutId, obstacle: Option<Wait>) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        let active = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
        let operations: Vec<Arc<Operation>> =
            active.filter_map(|step| self.region.operations.get(&step.operation?).cloned()).collect();
        let (state, waits_for) = self.describe_state(&rollout, &operations, obstacle);
        let wake = self.next_wake(&rollout, waits_for.as_ref(), !operations.is_empty());
        if (&rollout.state, &rollout.waits_for, rollout.wake) == (&state, &waits_for, wake) {
            return;
        }
        let reason = |wait: &Option<Wait>| wait.as_ref().map(Wait::as_str);
        let is_planned = matches!(waits_for, None | Some(Wait::Start { .. } | Wait::Pause { .. }));
        let is_news = !is_planned && reason(&waits_for) != reason(&rollout.waits_for);
        let edit = |rollout: &mut Rollout| {
            rollout.state = state;
            rollout.waits_for = waits_for;
            rollout.wake = wake;
        };
        if is_news {
            self.change_rollout(id, RolloutChange::Waiting, edit);
        } else {
            self.edit_rollout(id, edit);
        }
    }

    fn describe_state(
        &self,
        rollout: &Rollout,
        operations: &[Arc<Operation>],
        obstacle: Option<Wait>,
    ) -> (RolloutState, Option<Wait>) {
        let begun = rollout.steps.iter().any(|step| step.started.is_some());
        if operations.is_empty() {
            let state = if begun { RolloutState::Waiting } else { RolloutState::Planned };
            return (state, obstacle);
        }
        let started = |operation: &Arc<Operation>| self.has_started_event(operation);
        if operations.iter().any(started) {
            return (RolloutState::Running, obstacle);
        }
        let drain = operations.iter().find_map(|operation| operation.drain.as_ref()?.waits_for.clone());
        let scheduled = operations.iter().any(|operation| !self.scheduled_events(operation).is_empty());
        let drained = operations.iter().find_map(|operation| operation.request.drain_plan());
        let back = drained.map(|plan| Wait::Host(plan.host.clone()));
        let approvals = scheduled.then_some(Wait::Approvals);
        (RolloutState::Waiting, approvals.or(drain).or(back).or(obstacle))
    }

    fn has_started_event(&self, operation: &Operation) -> bool {
        let events = operation.parts.iter().filter_map(|part| self.region.events.get(&part.event));
        events.into_iter().any(|event| matches!(event.status, Status::Started { .. }))
    }

    fn next_wake(&self, rollout: &Rollout, waits_for: Option<&Wait>, is_active: bool) -> Option<Timestamp> {
        let pause = rollout.paused_until.filter(|until| *until > self.now);
        let pause = pause.filter(|_| rollout.steps.iter().any(|step| step.state == StepState::Pending));
        let opens = waits_for.and_then(Wait::window_start);
        let closes = current_or_next(&rollout.plan.windows, self.now).filter(|_| is_active);
        let closes = closes.map(|span: Span| if span.contains(self.now) { span.end } else { span.start });
        let blocked = (0..rollout.steps.len()).filter_map(|number| self.blocked_until(rollout, number)).min();
        [pause, opens, closes, blocked].into_iter().flatten().filter(|at| *at > self.now).min()
    }

    /// A paused rollout still takes events back when their window closes.
    pub(super) fn plan_wake_of_paused(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        let is_active = rollout.steps.iter().any(|step| step.state == StepState::InProgress);
        let wake = self.next_wake(&rollout, None, is_active).filter(|_| is_active);
        if wake != rollout.wake {
            self.edit_rollout(id, |rollout| rollout.wake = wake);
        }
    }
}
