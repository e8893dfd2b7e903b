//! The lifecycle of an event.
//!
//! ```text
//!  (absent) ──appear──▶ Scheduled ──start──▶ Started ──end──▶ Ended (absent from the document)
//!                           └──────────────end──────────────▶
//! ```
//!
//! An event without impact, such as a recommendation, ends where others start.
//!
//! Events start only in `settle`. A rule that makes a change after which an event may be able to start adds the
//! scope to `unsettled`.

use std::sync::Arc;
use std::time::Duration;

use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::settings::EVENTS_PER_SCOPE_MAX;
use crate::step::Step;
use crate::time::Timestamp;
use crate::transition::*;

/// The properties of an event to create.
pub(crate) struct EventDraft {
    pub operation: OperationId,
    /// None: derived from the operation ID.
    pub id: Option<EventId>,
    pub kind: EventKind,
    pub cause: Cause,
    pub scope: ScopeId,
    pub machines: Vec<MachineId>,
    pub visibility: Visibility,
    pub not_before: Timestamp,
    /// The minimum time for which the machines must see the event before it can start without approval.
    pub notice: Duration,
    pub approval: Option<Approval>,
    pub description: Option<Name>,
    pub duration_secs: Option<i64>,
    pub cohort: Option<OperationId>,
    pub moves: Vec<Move>,
}

impl Step {
    // --- creation --------------------------------------------------------------------------------

    pub fn create_event(&mut self, draft: EventDraft) -> EventId {
        let id = draft.id.unwrap_or_else(|| self.derive_event_id(draft.operation));
        let resources: Arc<[Resource]> = draft.machines.iter().filter_map(|id| self.resource(*id)).collect();
        let first = draft.machines.first().and_then(|id| self.region.machines.get(id));
        let subscription = first.map_or_else(Name::default, |machine| machine.home.subscription.clone());
        let notice_end = self.now + draft.notice;
        let unseen = draft.visibility == Visibility::Shown
            && !draft.notice.is_zero()
            && draft.machines.iter().any(|machine| self.has_agent(*machine));
        let event = Arc::new(Event {
            id,
            seq: self.allocate_seq(),
            subscription,
            scope: draft.scope,
            kind: draft.kind,
            cause: draft.cause,
            visibility: draft.visibility,
            status: Status::Scheduled,
            resources,
            appeared: self.now,
            not_before: draft.not_before,
            notice_end,
            notice: draft.notice,
            unseen,
            revision: self.region.meta.revision,
            attended: self.now,
            due: !unseen && draft.not_before.max(notice_end) <= self.now,
            approval: draft.approval,
            description: draft.description.unwrap_or_else(|| draft.cause.description().into()),
            duration_secs: draft.duration_secs.unwrap_or(default_duration_secs(draft.kind, draft.cause)),
            operations: vec![draft.operation],
            cohort: draft.cohort,
            moves: draft.moves,
            notice_scale: self.region.settings.notice_scale,
            progress: Vec::new(),
        });
        self.add_event(event.clone());
        self.edit_scope(event.scope, |scope| scope.live.push(id));
        self.edit_operation(draft.operation, |op| op.parts.push(OperationEvent { event: id, outcome: None }));
        self.unsettle(&event);
        if event.is_shown() {
            self.record_fact(FactKind::Appeared(event.clone()));
        }
        if let Some(approval) = &event.approval {
            self.record_fact(FactKind::Approved { event: event.clone(), by: approval.by.clone() });
        }
        id
    }

    fn derive_event_id(&self, operation: OperationId) -> EventId {
        let made = self.region.operations.get(&operation).map_or(0, |op| op.parts.len() as u64);
        let mut ids = (made..).map(|n| operation.derive(n));
        ids.find(|id| !self.region.events.contains_key(id)).expect("there are more indexes than events")
    }

    fn resource(&self, id: MachineId) -> Option<Resource> {
        let machine = self.region.machines.get(&id)?;
        let role_instance = matches!(machine.membership, Membership::RoleInstance { .. });
        Some(Resource { machine: id, name: machine.name.clone(), role_instance })
    }

    /// Checks that the scope has room for this many more events.
    pub fn check_room(&self, scope: ScopeId, more: usize) -> Result<(), Rejection> {
        let live = self.region.scopes.get(&scope).map_or(0, |scope| scope.live.len());
        if live + more > EVENTS_PER_SCOPE_MAX { Err(Rejection::TooManyEvents) } else { Ok(()) }
    }

    /// Marks the scopes in which this change of an event may let an event start.
    pub fn unsettle(&mut self, event: &Event) {
        self.unsettled.insert(event.scope);
        if event.cohort.is_some() {
            let scopes = self.region.cohort(event).map(|member| member.scope).collect::<Vec<_>>();
            self.unsettled.extend(scopes);
        }
    }

    /// Lets the rollout of an event notice that the event is ready, because it may not stay blocked forever.
    pub fn mark_rollout_unsettled(&mut self, event: &Event) {
        self.replan |= self.is_of_rollout(event);
    }

    pub fn is_of_rollout(&self, event: &Event) -> bool {
        let mut operations = event.operations.iter().filter_map(|id| self.region.operations.get(id));
        operations.any(|operation| operation.rollout.is_some())
    }

    // --- start -----------------------------------------------------------------------------------

    /// Starts all events that can start, then ends the operations that are finished. Operations come last
    /// because their results depend on changes that the events make to machines.
    ///
    /// Drains and rollouts go on after that, which may create further events.
    pub fn settle(&mut self) {
        loop {
            self.settle_scopes();
            while let Some(operation) = self.unconcluded.pop_first() {
                self.conclude(operation);
            }
            if !std::mem::take(&mut self.replan) {
                return;
            }
            self.advance_plans();
        }
    }

    fn settle_scopes(&mut self) {
        while let Some(scope) = self.unsettled.pop_first() {
            self.approve_if_all_down(scope);
            let live = self.region.scopes.get(&scope).map_or_else(Vec::new, |scope| scope.live.clone());
            for id in live {
                self.settle_event(id);
            }
        }
    }

    fn settle_event(&mut self, id: EventId) {
        let Some(event) = self.region.events.get(&id).filter(|event| event.is_live()) else { return };
        if !self.has_machines(event) {
            self.end(id, Outcome::ResourceGone);
        } else if !event.kind.has_impact() && event.is_ready() {
            self.end(id, Outcome::Completed);
        } else if event.status == Status::Scheduled && self.may_start(event) {
            let together: Vec<Arc<Event>> = self.region.cohort(event).cloned().collect();
            if !together.iter().any(|member| self.is_blocked(member)) {
                for member in together {
                    self.start(&member);
                }
            }
        }
    }

    fn may_start(&self, event: &Event) -> bool {
        if event.cohort.is_some() {
            let planned = event.operations.iter().any(|id| self.is_planned(*id));
            let all = self.region.cohort(event).all(|member| member.is_ready() || !member.is_shown());
            return all && (!planned || self.region.cohort(event).any(|member| member.is_ready()));
        }
        match event.kind {
            EventKind::Terminate => event.due || event.approval.is_some() && !self.has_deletion_to_approve(event.scope),
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt => event.is_ready(),
            EventKind::SpotRebalanceRecommendation => false,
        }
    }

    fn is_planned(&self, operation: OperationId) -> bool {
        let request = self.region.operations.get(&operation).map(|operation| &operation.request);
        matches!(request, Some(Request::Maintain { plan, .. }) if plan.at.is_some())
    }

    /// Within a scope, approved deletions wait until all shown deletions are approved or due.
    fn has_deletion_to_approve(&self, scope: ScopeId) -> bool {
        self.region
            .document(scope)
            .any(|event| event.kind == EventKind::Terminate && event.status == Status::Scheduled && !event.is_ready())
    }

    fn is_blocked(&self, event: &Event) -> bool {
        self.started_with(event).iter().any(|started| !event.supersedes(started))
            || self.waits_for_host(event)
            || self.waits_for_order(event)
            || self.is_outside_windows(event)
    }

    /// Whether the event waits for an unreachable host. Deletions and evictions do not wait for it once their notice is
    /// over; only their effect does.
    fn waits_for_host(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Terminate | EventKind::Preempt if event.due => false,
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => {
                self.is_held_up(event)
            }
            EventKind::SpotRebalanceRecommendation => false,
        }
    }

    /// Other started events on the same machines.
    fn started_with(&self, event: &Event) -> Vec<Arc<Event>> {
        let others = event.resources.iter().flat_map(|resource| self.region.events_of(resource.machine));
        let started = others.filter(|other| other.id != event.id && matches!(other.status, Status::Started { .. }));
        started.cloned().collect()
    }

    fn start(&mut self, event: &Event) {
        let machines = self.machines_of(event);
        let is_off = machines.iter().all(|machine| machine.power != Power::Running);
        let is_removal_by_fence = self.is_removal_by_fence(event);
        if is_off && event.kind != EventKind::Terminate && event.moves.is_empty() && !is_removal_by_fence {
            self.end(event.id, Outcome::NoEffect);
            return;
        }
        for started in self.started_with(event) {
            self.withdraw_orders(started.id);
            self.end(started.id, Outcome::Superseded);
        }
        for machine in &machines {
            self.withdraw_power_change(machine.id);
        }
        let now = self.now;
        let moves = self.choose_moves(event, &machines);
        self.replan = true;
        let event = self.edit_event(event.id, |event| {
            event.status = Status::Started { at: now };
            event.attended = now;
            event.moves = moves;
        });
        if let Some(event) = event {
            self.record_fact(FactKind::Started(event.clone()));
            self.emit_effect(Effect::Begin(event.clone()));
            if is_removal_by_fence {
                self.complete(&event);
            } else {
                self.take_fenced_results(event.id);
            }
        }
    }

    /// The hosts to which machines move: as reserved, or chosen now for a Redeploy without reservation.
    fn choose_moves(&mut self, event: &Event, machines: &[Arc<Machine>]) -> Vec<Move> {
        if event.kind != EventKind::Redeploy || !event.moves.is_empty() {
            return event.moves.clone();
        }
        let mut moves = Vec::new();
        for machine in machines {
            if let Some(to) = self.place(machine, None) {
                moves.push(Move { machine: machine.id, to });
                // Each choice is a reservation that the next one takes into account.
                let reserved = moves.clone();
                self.edit_event(event.id, |event| event.moves = reserved);
            }
        }
        moves
    }

    /// `allInstancesDown`: approves events automatically if no machine in the scope is running.
    fn approve_if_all_down(&mut self, scope: ScopeId) {
        let Some(first) = self.region.members(scope).next() else { return };
        let wanted = self.region.policy_of(first).approve_all_instances_down;
        if !wanted || self.region.members(scope).any(|machine| machine.power == Power::Running) {
            return;
        }
        let asked = |event: &&Arc<Event>| event.status == Status::Scheduled && event.approval.is_none();
        for id in self.region.document(scope).filter(asked).map(|event| event.id).collect::<Vec<_>>() {
            self.approve_event(id, Approver::Policy);
        }
    }

    pub fn approve_event(&mut self, id: EventId, by: Approver) {
        let approval = Approval { by: by.clone(), at: self.now };
        if let Some(event) = self.edit_event(id, |event| event.approval = Some(approval)) {
            self.unsettle(&event);
            self.mark_rollout_unsettled(&event);
            self.record_fact(FactKind::Approved { event, by });
        }
    }

    // --- end -------------------------------------------------------------------------------------

    /// Ends an event that its driver has completed, and applies its effect to the machines.
    pub fn complete(&mut self, event: &Event) {
        let machines = self.machines_of(event);
        self.end(event.id, Outcome::Completed);
        self.finish_moves(event, &machines);
        for machine in machines {
            self.remove_if_deleted(event, &machine);
        }
        self.unsettled.insert(event.scope);
    }

    /// Applies the end of a deletion or eviction to its machine.
    pub fn remove_if_deleted(&mut self, event: &Event, machine: &Arc<Machine>) {
        match event.kind {
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::SpotRebalanceRecommendation => {}
            EventKind::Terminate => self.remove_machine(machine),
            EventKind::Preempt => match machine.eviction {
                EvictionPolicy::Delete => self.remove_evicted(machine),
                EvictionPolicy::Deallocate => self.deallocate(machine.id),
            },
        }
    }

    /// Moves all machines before the events of their old hosts are judged: one machine can arrive where another leaves.
    fn finish_moves(&mut self, event: &Event, machines: &[Arc<Machine>]) {
        let moved = machines.iter().filter_map(|machine| Some((machine.id, event.target_of(machine.id)?)));
        let moved: Vec<(MachineId, &Name)> = moved.collect();
        for (machine, to) in &moved {
            self.place_machine(*machine, to);
        }
        for (machine, _) in moved {
            self.apply_host_change(machine);
        }
    }

    /// Removes an evicted instance. It is not replaced: the capacity of its set decreases, unless the instance
    /// was already being deleted.
    pub fn remove_evicted(&mut self, machine: &Arc<Machine>) {
        if self.find_pending(machine.id, EventKind::Terminate).is_none() {
            self.change_capacity(machine, |capacity| capacity.saturating_sub(1));
        }
        self.remove_machine(machine);
    }

    pub fn end(&mut self, id: EventId, outcome: Outcome) {
        let Some(before) = self.region.events.get(&id).cloned().filter(|event| event.is_live()) else { return };
        let status = Status::Ended { at: self.now, outcome: outcome.clone() };
        let Some(event) = self.edit_event(id, |event| event.status = status) else { return };
        self.edit_scope(event.scope, |scope| scope.live.retain(|live| *live != id));
        if matches!(before.status, Status::Started { .. }) {
            self.emit_effect(Effect::Stop(id));
        }
        self.unsettle(&before);
        self.record_fact(FactKind::Ended(event.clone()));
        self.settle_drained_machine(&event, &outcome);
        self.replan = true;
        if event.kind == EventKind::Terminate && outcome != Outcome::Completed {
            self.restore_capacity(&event);
        }
        for operation in &event.operations {
            self.end_part(*operation, id, &outcome);
        }
    }

    pub fn end_part(&mut self, operation: OperationId, event: EventId, outcome: &Outcome) {
        self.edit_operation(operation, |operation| {
            for part in operation.parts.iter_mut().filter(|part| part.event == event) {
                part.outcome = Some(outcome.clone());
            }
        });
        self.unconcluded.insert(operation);
    }

    /// Ends an operation at once if its events have all ended.
    pub fn conclude_now(&mut self, id: OperationId) {
        self.unconcluded.remove(&id);
        self.conclude(id);
    }

    /// Ends an operation whose events have all ended. A drain ends when its host is empty, and maintenance by update domain
    /// with its rollout.
    fn conclude(&mut self, id: OperationId) {
        let Some(operation) = self.region.operations.get(&id).cloned() else { return };
        if operation.state != OperationState::Running || operation.parts.iter().any(|part| part.outcome.is_none()) {
            return;
        }
        let rollout = self.region.rollout_of_maintenance(&operation);
        if operation.drain.is_some() || rollout.is_some_and(|rollout| rollout.is_live()) {
            return;
        }
        let result = if rollout.is_some() { operation.without_withdrawn().result() } else { operation.result() };
        let state = OperationState::Ended { at: self.now, result };
        self.edit_operation(id, |operation| operation.state = state);
        if let Some(operation) = self.region.operations.get(&id).cloned() {
            self.remove_group_of(&operation);
            self.record_fact(FactKind::OperationEnded(operation));
        }
    }

    /// Whether a machine of the event still exists.
    pub fn has_machines(&self, event: &Event) -> bool {
        event.resources.iter().any(|resource| self.region.machines.contains_key(&resource.machine))
    }

    /// The machines of an event that still exist.
    pub fn machines_of(&self, event: &Event) -> Vec<Arc<Machine>> {
        event.resources.iter().filter_map(|resource| self.region.machines.get(&resource.machine).cloned()).collect()
    }
}

impl Event {
    /// Whether the event is approved or due.
    pub fn is_ready(&self) -> bool {
        self.due || self.approval.is_some()
    }

    /// Since when the event is approved or due. None: it is neither.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        let due = self.due.then_some(self.not_before.max(self.notice_end));
        [self.approval.as_ref().map(|approval| approval.at), due].into_iter().flatten().min()
    }

    /// Whether the event ends a started event on its machines instead of waiting for it. An event that removes
    /// a machine is never superseded by one that does not.
    fn supersedes(&self, started: &Event) -> bool {
        self.precedence() > started.precedence()
            || self.cause == Cause::HardwareFailure && started.precedence() == self.precedence()
    }

    pub(crate) fn precedence(&self) -> u8 {
        match (self.kind, self.cause) {
            (EventKind::Terminate, _) => 3,
            (EventKind::Preempt, _) => 2,
            (EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy, Cause::HardwareFailure) => 1,
            (EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy, _)
            | (EventKind::SpotRebalanceRecommendation, _) => 0,
        }
    }
}

impl Operation {
    /// The operation without the events that its rollout took back and announced again.
    fn without_withdrawn(&self) -> Operation {
        let stays = |part: &&OperationEvent| !matches!(part.outcome, Some(Outcome::Canceled { .. }));
        Operation { parts: self.parts.iter().filter(stays).cloned().collect(), ..self.clone() }
    }

    fn result(&self) -> OperationResult {
        if let Some(by) = &self.canceled {
            return OperationResult::Canceled { by: by.clone() };
        }
        let outcomes = || self.parts.iter().filter_map(|part| part.outcome.as_ref());
        if let Some(failure) = outcomes().find(|outcome| outcome.is_failure()) {
            return OperationResult::Failed(failure.clone());
        }
        match outcomes().find_map(Outcome::canceled_by) {
            Some(by) => OperationResult::Canceled { by: by.clone() },
            None => OperationResult::Succeeded,
        }
    }
}

impl Outcome {
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Superseded | Outcome::ResourceGone => true,
            Outcome::Completed | Outcome::NoEffect | Outcome::Canceled { .. } => false,
        }
    }
}

impl Cause {
    fn description(self) -> &'static str {
        match self {
            Cause::HostMaintenance | Cause::SelfServiceMaintenance => "Host server is undergoing maintenance.",
            Cause::LiveMigration => {
                "Virtual machine is being paused because of a memory-preserving Live Migration operation."
            }
            Cause::UserRestart => "Virtual machine is going to be restarted as requested by authorized user.",
            Cause::UserRedeploy => "Virtual machine is going to be redeployed as requested by authorized user.",
            Cause::HardwareFailure => "Virtual machine has encountered a failure.",
            Cause::Eviction | Cause::RebalanceRecommendation | Cause::Deletion => "",
        }
    }
}

/// Expected duration of the impact, as shown in the document. -1: unknown.
fn default_duration_secs(kind: EventKind, cause: Cause) -> i64 {
    match (kind, cause) {
        (EventKind::Freeze, Cause::LiveMigration) => 5,
        (EventKind::Freeze, _) => 9,
        (EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate, _)
        | (EventKind::SpotRebalanceRecommendation, _) => -1,
    }
}
