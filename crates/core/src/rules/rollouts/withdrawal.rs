//! Windows of a rollout, and events that it takes back: when a window closes, when they are blocked, or when the rollout is
//! paused with `now`.

use crate::ids::*;
use crate::model::*;
use crate::rollout::*;
use crate::step::Step;
use crate::time::Timestamp;
use crate::window::current_or_next;

/// The name under which a rollout cancels events that it announces again.
const WITHDRAWN_BY: &str = "rollout";

impl Step {
    /// The reason why a drain may not create events now: its rollout is paused, or no window is open.
    pub fn closed_window(&self, operation: &Operation) -> Option<Wait> {
        let rollout = self.region.rollouts.get(&operation.rollout?)?;
        if rollout.state == RolloutState::Paused {
            return Some(Wait::Paused);
        }
        self.find_closed_window(&rollout.plan).map(|closed| Wait::Window { opens: closed.opens })
    }

    /// Whether the event belongs to a rollout none of whose windows is open.
    pub fn is_outside_windows(&self, event: &Event) -> bool {
        let operations = event.operations.iter().filter_map(|id| self.region.operations.get(id));
        let mut rollouts = operations.filter_map(|operation| self.region.rollouts.get(&operation.rollout?));
        rollouts.any(|rollout| {
            current_or_next(&rollout.plan.windows, self.now).is_some_and(|span| !span.contains(self.now))
        })
    }

    /// Events are announced only while a window is open, and only if their notice ends within it.
    pub(super) fn find_closed_window(&self, plan: &RolloutPlan) -> Option<ClosedWindow> {
        let span = current_or_next(&plan.windows, self.now)?;
        if !span.contains(self.now) {
            return Some(ClosedWindow { opens: span.start, is_outside: true });
        }
        if self.after(self.notice_of(plan)) < span.end {
            return None;
        }
        let next = current_or_next(&plan.windows, span.end)?;
        Some(ClosedWindow { opens: next.start, is_outside: false })
    }

    /// Takes back the Scheduled events of all steps.
    pub(super) fn withdraw_all(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for number in 0..rollout.steps.len() {
            self.withdraw_step(&rollout, number);
        }
        self.collect_results(id);
    }

    fn withdraw_step(&mut self, rollout: &Rollout, number: usize) {
        let step = &rollout.steps[number];
        let operation = step.operation.and_then(|id| self.region.operations.get(&id).cloned());
        let Some(operation) = operation.filter(|_| step.state == StepState::InProgress) else { return };
        if self.scheduled_events(&operation).is_empty() {
            return;
        }
        if operation.drain.is_none() {
            self.edit_rollout(rollout.id, |rollout| rollout.steps[number].withdrawn = true);
        }
        self.withdraw_scheduled(&operation, &WITHDRAWN_BY.into());
        self.conclude_now(operation.id);
    }

    /// Takes back the events of steps that have been ready, but could not start, for as long as their notice.
    pub(super) fn withdraw_blocked(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for number in 0..rollout.steps.len() {
            if self.blocked_until(&rollout, number).is_some_and(|until| until <= self.now) {
                self.withdraw_step(&rollout, number);
            }
        }
        self.collect_results(id);
    }

    /// When the events of a step have been ready for as long as their notice. None: they are not all ready, or belong to an
    /// operation that lasts for longer than the step: like those of any request, they stay announced however long they wait.
    pub(super) fn blocked_until(&self, rollout: &Rollout, number: usize) -> Option<Timestamp> {
        if rollout.operation.is_some() {
            return None;
        }
        let step = &rollout.steps[number];
        let operation = self.region.operations.get(&step.operation?).filter(|_| step.state == StepState::InProgress)?;
        let scheduled = self.scheduled_events(operation);
        let ready = scheduled.iter().map(|event| event.ready_since()).collect::<Option<Vec<_>>>()?;
        ready.into_iter().max().map(|since| since + self.notice_of(&rollout.plan))
    }
}

/// A time at which no step may start.
pub(super) struct ClosedWindow {
    pub(super) opens: Timestamp,
    /// Whether no window is open at all. Otherwise one is open, but would close before the notice ends.
    pub(super) is_outside: bool,
}
