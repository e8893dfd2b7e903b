//! Rollouts: maintenance in steps over hosts, update domains, or single machines.
//!
//! A step is carried out by an ordinary operation. The rollout decides when to request it, takes its events back
//! when a window closes, and counts failures. All steps of maintenance by update domain share its operation, which ends with
//! the rollout.
//!
//! ```text
//!  Pending ──request──▶ InProgress ──operation ends──▶ Succeeded, Failed, Skipped or Canceled
//!     ▲                     │
//!     └─────withdraw────────┘  the window closed, the events were blocked, or the rollout was paused with `now`
//! ```
//!
//! A step that failed can be retried, as a further step.

mod progress;
mod results;
mod retry;
mod withdrawal;

use std::sync::Arc;

use crate::command::NewRollout;
use crate::entity::Entity;
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rollout::*;
use crate::settings::ROLLOUTS_MAX;
use crate::step::Step;
use crate::transition::*;

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
        self.check_targets(new)?;
        self.check_owners(&new.targets)?;
        let rollout = self.draft_rollout(new)?;
        self.check_step_sizes(&rollout)?;
        self.open_rollout(rollout);
        Ok(Answer::Rollout(new.id))
    }

    /// A rollout that has not begun.
    pub fn draft_rollout(&mut self, new: &NewRollout) -> Result<Rollout, Rejection> {
        if self.region.index.live_rollouts.len() >= ROLLOUTS_MAX {
            return Err(Rejection::TooManyRollouts);
        }
        Ok(Rollout {
            id: new.id,
            seq: self.allocate_seq(),
            requested_by: new.by.clone(),
            created: self.now,
            targets: new.targets.clone(),
            plan: new.plan.clone(),
            operation: None,
            first_event: None,
            state: RolloutState::Planned,
            steps: self.derive_steps(&new.targets).into_iter().map(RolloutStep::new).collect(),
            waits_for: None,
            failures: 0,
            paused_until: self.first_announcement(&new.plan),
            wake: None,
            requested: 0,
        })
    }

    /// Stores a new rollout. Its first steps start when the command settles.
    pub fn open_rollout(&mut self, rollout: Rollout) {
        let rollout = Arc::new(rollout);
        self.put(Entity::Rollout(rollout.clone()));
        self.record_fact(FactKind::RolloutChanged { rollout, change: RolloutChange::Started });
        self.replan = true;
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
        if rollout.is_live() { Ok(rollout) } else { Err(Rejection::RolloutEnded(id)) }
    }

    // --- progress ------------------------------------------------------------------------------------

    /// Advances every drain and rollout as far as possible, in order of creation.
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
        self.collect_results(id);
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

    /// Ends a rollout whose steps have all ended, unless there are further ones now.
    fn finish_if_over(&mut self, id: RolloutId) -> bool {
        let has_ended =
            |step: &Self| step.region.rollouts.get(&id).is_none_or(|it| it.steps.iter().all(RolloutStep::is_over));
        if !has_ended(self) {
            return false;
        }
        self.update_steps(id);
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return true };
        let is_over = has_ended(self);
        if is_over {
            let state = RolloutState::Finished { at: self.now };
            self.end_rollout(id, state, RolloutChange::Finished, &rollout.requested_by);
        }
        is_over
    }

    /// Starts as many steps as the limits allow. Returns why the next one cannot start.
    fn start_steps(&mut self, id: RolloutId) -> Option<Wait> {
        loop {
            let rollout = self.region.rollouts.get(&id).cloned()?;
            if !rollout.steps.iter().any(|step| step.state == StepState::Pending) {
                return None;
            }
            let in_progress = rollout.steps.iter().filter(|step| step.state == StepState::InProgress).count();
            if in_progress >= rollout.plan.parallel as usize {
                return None;
            }
            if let Some(until) = rollout.paused_until.filter(|until| *until > self.now) {
                let has_begun = rollout.steps.iter().any(|step| step.started.is_some());
                return Some(if has_begun { Wait::Pause { until } } else { Wait::Start { until } });
            }
            if let Some(closed) = self.find_closed_window(&rollout.plan) {
                return Some(Wait::Window { opens: closed.opens });
            }
            self.update_steps(id);
            let rollout = self.region.rollouts.get(&id).cloned()?;
            let next = rollout.steps.iter().position(|step| step.state == StepState::Pending)?;
            if let Some(wait) = self.start_step(&rollout, next) {
                return Some(wait);
            }
        }
    }

    /// Update domains are determined when their turn comes: replaces those that have not begun by those that have machines now.
    pub(super) fn update_steps(&mut self, id: RolloutId) {
        let Some(rollout) = self.region.rollouts.get(&id).cloned() else { return };
        match rollout.targets {
            RolloutTargets::Groups(_) | RolloutTargets::MachinesByDomain(_) => {}
            RolloutTargets::Hosts(_) | RolloutTargets::Machines(_) => return,
        }
        let mut steps: Vec<RolloutStep> = rollout.steps.iter().filter(|step| step.has_begun()).cloned().collect();
        let mut ahead = self.derive_steps(&rollout.targets);
        ahead.retain(|target| !steps.iter().any(|step| target.is_visited_with(&step.target)));
        steps.extend(ahead.into_iter().map(RolloutStep::new));
        let retries = rollout.retries().into_keys().map(|number| &rollout.steps[number]);
        steps.extend(retries.filter(|step| !step.has_begun()).cloned());
        if steps != rollout.steps {
            self.edit_rollout(id, |rollout| rollout.steps = steps);
        }
    }

    /// Starts or skips one step. Returns why it cannot start.
    fn start_step(&mut self, rollout: &Rollout, number: usize) -> Option<Wait> {
        let step = &rollout.steps[number];
        if let Some(wait) = self.find_host_obstacle(rollout, &step.target) {
            return Some(wait);
        }
        let id = rollout.operation.unwrap_or_else(|| self.derive_operation_id(rollout));
        let first_part = self.region.operations.get(&id).map_or(0, |operation| operation.parts.len());
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
            rollout.first_event = None;
            rollout.state = RolloutState::Running;
            let step = &mut rollout.steps[number];
            step.state = StepState::InProgress;
            step.operation = Some(id);
            step.first_part = first_part;
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
            StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. } => {
                Target::Machines(machines.iter().map(|machine| machine.id).collect())
            }
        };
        let shared =
            rollout.operation.and_then(|id| self.region.operations.get(&id)).map(|operation| &operation.request);
        let plan =
            if let Some(Request::Maintain { plan, .. }) = shared { plan.clone() } else { maintenance_plan(plan, kind) };
        Ok(Some(Request::Maintain { target, plan }))
    }

    fn request_step(&mut self, id: OperationId, rollout: &Rollout, request: Request) -> Result<(), Wait> {
        match &request {
            Request::Drain(plan) => {
                let host = plan.host.clone();
                self.start_drain(id, &rollout.requested_by, plan).map_err(|_| Wait::Host(host))?;
            }
            Request::Maintain { target, plan } => {
                let machines = self.find_target_machines(target).unwrap_or_default();
                if let Some(machine) = machines.first().filter(|_| self.check_room_for(&machines).is_err()) {
                    return Err(Wait::Capacity { machine: machine.name.clone() });
                }
                let cohort = matches!(target, Target::Host(_)).then_some(id);
                if rollout.operation.is_none() {
                    let subscription = machines.first().map(|it| it.home.subscription.clone()).unwrap_or_default();
                    self.open_operation(id, &rollout.requested_by, &subscription, request.clone());
                }
                let event = rollout.first_event.filter(|event| !self.region.events.contains_key(event));
                self.create_events(id, plan, machines, cohort, event);
            }
            Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
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

    fn change_rollout(&mut self, id: RolloutId, change: RolloutChange, edit: impl FnOnce(&mut Rollout)) {
        if let Some(rollout) = self.edit_rollout(id, edit) {
            self.record_fact(FactKind::RolloutChanged { rollout, change });
        }
    }
}

pub(super) fn maintenance_plan(plan: &RolloutPlan, kind: EventKind) -> Plan {
    Plan {
        kind,
        cause: Cause::HostMaintenance,
        at: plan.at,
        notice: plan.notice,
        duration_secs: plan.duration_secs,
        description: plan.description.clone(),
    }
}

impl StepTarget {
    /// Whether a step over this update domain has its turn no later than a step that has begun.
    fn is_visited_with(&self, begun: &StepTarget) -> bool {
        match (self, begun) {
            (StepTarget::Domain { group, domain }, StepTarget::Domain { group: of, domain: last }) => {
                group == of && domain <= last
            }
            (StepTarget::Machines { domain, .. }, StepTarget::Machines { domain: last, .. }) => domain <= last,
            (
                StepTarget::Host(_) | StepTarget::Domain { .. } | StepTarget::Machine(_) | StepTarget::Machines { .. },
                _,
            ) => false,
        }
    }
}

impl RolloutStep {
    pub(crate) fn is_over(&self) -> bool {
        match self.state {
            StepState::Pending | StepState::InProgress => false,
            StepState::Succeeded | StepState::Failed | StepState::Skipped | StepState::Canceled => true,
        }
    }
}
