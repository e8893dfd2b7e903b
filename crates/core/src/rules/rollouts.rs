//! Rollouts: maintenance in steps over hosts, or over the update domains of groups.
//!
//! A step is carried out by an ordinary operation. The rollout decides when to request it, takes its events back
//! when a window closes, and counts failures.
//!
//! ```text
//!  Pending ──request──▶ InProgress ──operation ends──▶ Succeeded, Failed, Skipped or Canceled
//!     ▲                     │
//!     └─────withdraw────────┘  the window closed, the events were blocked, or the rollout was paused at once
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::command::NewRollout;
use crate::entity::{Entity, Key};
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rollout::*;
use crate::settings::ROLLOUTS_MAX;
use crate::step::Step;
use crate::time::Timestamp;
use crate::transition::*;
use crate::window::{Span, current_or_next};

/// The name under which a rollout cancels events that it announces again.
const WITHDRAWN_BY: &str = "rollout";

/// The operations of a rollout have IDs that are derived from its own, starting at this index.
const FIRST_OPERATION: u64 = 1 << 32;

impl RolloutAction {
    /// The event type of a step. None: a drain chooses it for each machine.
    pub fn kind(&self) -> Option<EventKind> {
        match self {
            RolloutAction::Freeze => Some(EventKind::Freeze),
            RolloutAction::Reboot => Some(EventKind::Reboot),
            RolloutAction::Redeploy => Some(EventKind::Redeploy),
            RolloutAction::Drain { .. } => None,
        }
    }
}

impl Step {
    // --- commands ----------------------------------------------------------------------------------

    pub fn start_rollout(&mut self, new: &NewRollout) -> Result<Answer, Rejection> {
        if let Some(known) = self.region.rollouts.get(&new.id) {
            return if known.plan == new.plan { Ok(Answer::Rollout(new.id)) } else { Err(Rejection::IdTaken(new.id)) };
        }
        self.check_rollout_plan(&new.plan)?;
        let targets = self.find_step_targets(new)?;
        self.check_owners(&targets)?;
        self.check_step_sizes(&targets, &new.plan)?;
        if self.region.index.live_rollouts.len() >= ROLLOUTS_MAX {
            return Err(Rejection::TooManyRollouts);
        }
        let steps = targets.into_iter().map(|target| RolloutStep {
            target,
            state: StepState::Pending,
            operation: None,
            started: None,
            ended: None,
            withdrawn: false,
            handled: Vec::new(),
        });
        let rollout = Arc::new(Rollout {
            id: new.id,
            seq: self.allocate_seq(),
            by: new.by.clone(),
            created: self.now,
            plan: new.plan.clone(),
            state: RolloutState::Planned,
            steps: steps.collect(),
            waits_for: None,
            failures: 0,
            paused_until: None,
            wake: None,
            requested: 0,
        });
        self.put(Entity::Rollout(rollout.clone()));
        self.record_fact(What::RolloutChanged { rollout, change: RolloutChange::Started });
        self.replan = true;
        Ok(Answer::Rollout(new.id))
    }

    pub fn pause_rollout(&mut self, id: RolloutId, now: bool) -> Result<Answer, Rejection> {
        let rollout = self.live_rollout(id)?;
        if rollout.state == RolloutState::Paused {
            return Ok(Answer::Rollout(id));
        }
        self.change_rollout(id, RolloutChange::Paused, |rollout| {
            rollout.state = RolloutState::Paused;
            rollout.waits_for = None;
            rollout.wake = None;
        });
        if now {
            self.withdraw_all(id);
        }
        self.replan = true;
        Ok(Answer::Rollout(id))
    }

    pub fn resume_rollout(&mut self, id: RolloutId) -> Result<Answer, Rejection> {
        let rollout = self.live_rollout(id)?;
        if rollout.state == RolloutState::Paused {
            self.change_rollout(id, RolloutChange::Resumed, |rollout| rollout.state = RolloutState::Running);
            self.replan = true;
        }
        Ok(Answer::Rollout(id))
    }

    pub fn stop_rollout(&mut self, id: RolloutId, by: &Name) -> Result<Answer, Rejection> {
        self.live_rollout(id)?;
        let state = RolloutState::Stopped { at: self.now, by: by.clone() };
        self.end_rollout(id, state, RolloutChange::Stopped, by);
        Ok(Answer::Rollout(id))
    }

    fn live_rollout(&self, id: RolloutId) -> Result<Arc<Rollout>, Rejection> {
        let rollout = self.region.rollouts.get(&id).cloned().ok_or(Rejection::UnknownRollout(id))?;
        if rollout.is_live() { Ok(rollout) } else { Err(Rejection::RolloutOver(id)) }
    }

    // --- progress ------------------------------------------------------------------------------------

    /// Lets every drain and rollout go on as far as it can, in order of creation.
    pub fn advance_plans(&mut self) {
        let rollouts: Vec<RolloutId> = self.region.index.live_rollouts.iter().map(|(_, id)| *id).collect();
        for id in rollouts {
            self.advance_rollout(id);
        }
        let drains: Vec<OperationId> = self.region.index.drains.values().copied().collect();
        for id in drains {
            self.advance_drain(id);
        }
        self.finish_steps_of_ended_rollouts();
    }

    fn advance_rollout(&mut self, id: RolloutId) {
        self.take_results(id);
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        if rollout.failures > rollout.plan.failures_max {
            let state = RolloutState::Failed { at: self.now };
            return self.end_rollout(id, state, RolloutChange::Failed, &"failed rollout".into());
        }
        if self.finish_if_over(id) {
            return;
        }
        if self.find_closed_window(&rollout.plan).is_some_and(|closed| closed.is_outside) {
            self.withdraw_all(id);
        }
        self.withdraw_blocked(id);
        if rollout.state == RolloutState::Paused {
            return self.plan_wake_of_paused(id);
        }
        let obstacle = self.start_steps(id);
        if !self.finish_if_over(id) {
            self.describe_progress(id, obstacle);
        }
    }

    /// Ends a rollout whose steps have all ended.
    fn finish_if_over(&mut self, id: RolloutId) -> bool {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return true };
        let is_over = rollout.steps.iter().all(RolloutStep::is_over);
        if is_over {
            let state = RolloutState::Finished { at: self.now };
            self.end_rollout(id, state, RolloutChange::Finished, &rollout.by);
        }
        is_over
    }

    /// Starts as many steps as the limits allow. Returns why the next one cannot start.
    fn start_steps(&mut self, id: RolloutId) -> Option<Wait> {
        loop {
            let rollout = self.region.rollouts.get(&id).cloned()?;
            let next = rollout.steps.iter().position(|step| step.state == StepState::Pending)?;
            let in_progress = rollout.steps.iter().filter(|step| step.state == StepState::InProgress).count();
            if in_progress >= rollout.plan.parallel as usize {
                return None;
            }
            if let Some(until) = rollout.paused_until.filter(|until| *until > self.now) {
                return Some(Wait::Pause { until });
            }
            if let Some(closed) = self.find_closed_window(&rollout.plan) {
                return Some(Wait::Window { opens: closed.opens });
            }
            if let Some(wait) = self.start_step(&rollout, next) {
                return Some(wait);
            }
        }
    }

    /// Starts or skips one step. Returns why it cannot start.
    fn start_step(&mut self, rollout: &Rollout, number: usize) -> Option<Wait> {
        let step = &rollout.steps[number];
        if let Some(wait) = self.find_host_obstacle(rollout, &step.target) {
            return Some(wait);
        }
        let id = self.derive_operation_id(rollout);
        let request = match self.request_of_step(rollout, step) {
            Ok(Some(request)) => request,
            Ok(None) => {
                self.finish_step(rollout.id, number, StepState::Skipped);
                return None;
            }
            Err(wait) => return Some(wait),
        };
        if let Err(wait) = self.request_step(id, rollout, request) {
            return Some(wait);
        }
        let (now, requested) = (self.now, rollout.requested + 1);
        self.change_rollout(rollout.id, RolloutChange::StepStarted { step: number }, |rollout| {
            rollout.requested = requested;
            rollout.state = RolloutState::Running;
            let step = &mut rollout.steps[number];
            step.state = StepState::InProgress;
            step.operation = Some(id);
            step.withdrawn = false;
            step.started = step.started.or(Some(now));
        });
        None
    }

    fn find_host_obstacle(&self, rollout: &Rollout, target: &StepTarget) -> Option<Wait> {
        let StepTarget::Host(name) = target else { return None };
        let host = self.region.hosts.get(name)?;
        let is_drain = matches!(rollout.plan.action, RolloutAction::Drain { .. });
        let blocked =
            host.is_unreachable() || host.state == HostState::Failed || is_drain && host.state != HostState::Active;
        blocked.then(|| Wait::Host(name.clone()))
    }

    /// The request that carries out a step. None: the step has no machines.
    fn request_of_step(&self, rollout: &Rollout, step: &RolloutStep) -> Result<Option<Request>, Wait> {
        let plan = &rollout.plan;
        if let (RolloutAction::Drain { to, machines_parallel, in_place }, StepTarget::Host(host)) =
            (&plan.action, &step.target)
        {
            return Ok(Some(Request::Drain(DrainPlan {
                host: host.clone(),
                to: to.clone(),
                parallel: *machines_parallel,
                unavailable_max: plan.unavailable_max,
                notice: plan.notice,
                in_place: *in_place,
                description: plan.description.clone(),
            })));
        }
        let Some(kind) = plan.action.kind() else { return Ok(None) };
        let mut machines = self.machines_of_step(&step.target);
        machines.retain(|machine| !step.handled.contains(&machine.id));
        if machines.is_empty() {
            return Ok(None);
        }
        if let Some(wait) = self.find_availability_limit(&machines, plan.unavailable_max) {
            return Err(wait);
        }
        let target = match &step.target {
            StepTarget::Host(host) => Target::Host(host.clone()),
            StepTarget::Domain { .. } => Target::Machines(machines.iter().map(|machine| machine.id).collect()),
        };
        Ok(Some(Request::Maintain { target, plan: maintenance_plan(plan, kind) }))
    }

    fn request_step(&mut self, id: OperationId, rollout: &Rollout, request: Request) -> Result<(), Wait> {
        match &request {
            Request::Drain(plan) => {
                let host = plan.host.clone();
                self.start_drain(id, &rollout.by, plan).map_err(|_| Wait::Host(host))?;
            }
            Request::Maintain { target, plan } => {
                let machines = self.find_target_machines(target).unwrap_or_default();
                let full = machines.iter().find(|machine| self.check_room(machine.scope, machines.len()).is_err());
                if let Some(machine) = full {
                    return Err(Wait::Capacity { machine: machine.name.clone() });
                }
                let cohort = matches!(target, Target::Host(_)).then_some(id);
                let subscription = machines.first().map(|it| it.home.subscription.clone()).unwrap_or_default();
                self.open_operation(id, &rollout.by, &subscription, request.clone());
                self.create_events(id, plan, machines, cohort, None);
            }
            Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::Delete { .. }
            | Request::Fail { .. } => {}
        }
        self.edit_operation(id, |operation| operation.rollout = Some(rollout.id));
        self.unconcluded.insert(id);
        Ok(())
    }

    fn derive_operation_id(&self, rollout: &Rollout) -> OperationId {
        let mut ids = (FIRST_OPERATION + rollout.requested..).map(|n| rollout.id.derive(n));
        ids.find(|id| !self.region.operations.contains_key(id)).expect("there are more indexes than operations")
    }

    // --- results ---------------------------------------------------------------------------------------

    /// Ends the steps whose operations have ended.
    fn take_results(&mut self, id: RolloutId) {
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

    fn finish_step(&mut self, id: RolloutId, number: usize, state: StepState) {
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

    fn end_rollout(&mut self, id: RolloutId, state: RolloutState, change: RolloutChange, by: &Name) {
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
        self.record_fact(What::RolloutChanged { rollout, change });
    }

    /// Steps that were in progress when their rollout was stopped or failed end with their operation.
    fn finish_steps_of_ended_rollouts(&mut self) {
        let ended = self.region.rollouts.values().filter(|rollout| {
            !rollout.is_live() && rollout.steps.iter().any(|step| step.state == StepState::InProgress)
        });
        for id in ended.map(|rollout| rollout.id).collect::<Vec<_>>() {
            self.take_results(id);
        }
    }

    // --- windows and blocked events --------------------------------------------------------------------

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
    fn find_closed_window(&self, plan: &RolloutPlan) -> Option<ClosedWindow> {
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
    fn withdraw_all(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for number in 0..rollout.steps.len() {
            self.withdraw_step(&rollout, number);
        }
        self.take_results(id);
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
    fn withdraw_blocked(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        for number in 0..rollout.steps.len() {
            if self.blocked_until(&rollout, number).is_some_and(|until| until <= self.now) {
                self.withdraw_step(&rollout, number);
            }
        }
        self.take_results(id);
    }

    /// When the events of a step have been ready for as long as their notice. None: they are not all ready.
    fn blocked_until(&self, rollout: &Rollout, number: usize) -> Option<Timestamp> {
        let step = &rollout.steps[number];
        let operation = self.region.operations.get(&step.operation?).filter(|_| step.state == StepState::InProgress)?;
        let scheduled = self.scheduled_events(operation);
        let ready = scheduled.iter().map(|event| event.ready_since()).collect::<Option<Vec<_>>>()?;
        ready.into_iter().max().map(|since| since + self.notice_of(&rollout.plan))
    }

    // --- what users see ----------------------------------------------------------------------------------

    /// Sets state, reason and next wake-up after everything that can happen now has happened.
    fn describe_progress(&mut self, id: RolloutId, obstacle: Option<Wait>) {
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
        let is_news = reason(&waits_for).is_some_and(|now| now != "pause" && Some(now) != reason(&rollout.waits_for));
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
        let back = operations.iter().find_map(|operation| match &operation.request {
            Request::Drain(plan) => Some(Wait::Host(plan.host.clone())),
            _ => None,
        });
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
        let opens = match waits_for {
            Some(Wait::Window { opens }) => Some(*opens),
            _ => None,
        };
        let closes = current_or_next(&rollout.plan.windows, self.now).filter(|_| is_active);
        let closes = closes.map(|span: Span| if span.contains(self.now) { span.end } else { span.start });
        let blocked = (0..rollout.steps.len()).filter_map(|number| self.blocked_until(rollout, number)).min();
        [pause, opens, closes, blocked].into_iter().flatten().filter(|at| *at > self.now).min()
    }

    /// A paused rollout still takes events back when their window closes.
    fn plan_wake_of_paused(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        let is_active = rollout.steps.iter().any(|step| step.state == StepState::InProgress);
        let wake = self.next_wake(&rollout, None, is_active).filter(|_| is_active);
        if wake != rollout.wake {
            self.edit_rollout(id, |rollout| rollout.wake = wake);
        }
    }

    fn change_rollout(&mut self, id: RolloutId, change: RolloutChange, edit: impl FnOnce(&mut Rollout)) {
        if let Some(rollout) = self.edit_rollout(id, edit) {
            self.record_fact(What::RolloutChanged { rollout, change });
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

/// A time at which no step may start.
struct ClosedWindow {
    opens: Timestamp,
    /// Whether no window is open at all. Otherwise one is open, but would close before the notice ends.
    is_outside: bool,
}

pub(super) fn maintenance_plan(plan: &RolloutPlan, kind: EventKind) -> Plan {
    Plan {
        kind,
        cause: Cause::HostMaintenance,
        at: None,
        notice: plan.notice,
        duration_secs: plan.duration_secs,
        description: plan.description.clone(),
    }
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

impl RolloutStep {
    fn is_over(&self) -> bool {
        match self.state {
            StepState::Pending | StepState::InProgress => false,
            StepState::Succeeded | StepState::Failed | StepState::Skipped | StepState::Canceled => true,
        }
    }
}
