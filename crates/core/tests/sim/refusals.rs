//! The second half of the model: which commands must be rejected, the effect of commands on the fleet, and the
//! comparison of a region with the model. Where the specification leaves a choice open (numbers, places, which
//! instances are scaled in), the model adopts the region's choice after checking that it is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forewarn_core::settings::*;
use forewarn_core::*;

use crate::model::{Model, Work, is_by_domain, notice, scaled};

impl Model {
    /// Whether the rules must reject the command, after everything due has been handled.
    pub fn refuses(&self, command: &Command) -> bool {
        match command {
            Command::RegisterMachine(new) => self.refuses_machine(new),
            Command::ChangeMachine { machine, change } => match self.machine(*machine) {
                Some(machine) => self.refuses_change(machine, change),
                None => true,
            },
            Command::CreateGroup(new) => self.refuses_new_group(new),
            Command::ChangeGroup { group, change, .. } => match self.group(*group) {
                Some(group) => self.refuses_group_change(group, change),
                None => true,
            },
            Command::UpgradeInstances { group, machines } => match self.group(*group) {
                Some(of) => scale_set(of).is_none() || machines.iter().any(|id| !self.is_member(*id, *group)),
                None => true,
            },
            Command::RegisterHost { name } => bad_name(name),
            Command::RemoveHost { name } => {
                let comes = |event: &Work| {
                    event.live() && event.moves.iter().any(|(id, to)| to == name && self.machine(*id).is_some())
                };
                !self.hosts.contains(name)
                    || self.machines.iter().any(|machine| machine.host.as_ref() == Some(name))
                    || self.events.iter().any(comes)
            }
            Command::SetPower { machine, .. } | Command::ChangePower { machine, .. } => {
                self.machine(*machine).is_none()
            }
            Command::Request { operation, request, event, .. } => {
                let taken = |id: EventId| self.events.iter().any(|event| event.id == Some(id));
                match self.operations.iter().find(|asked| asked.id == *operation) {
                    Some(asked) => !is_retry(&asked.request, request),
                    None => {
                        let has_rollout = self.rollouts.iter().any(|(id, _)| id == operation);
                        event.is_some_and(taken)
                            || self.refuses_request(request)
                            || has_rollout && is_by_domain(request)
                    }
                }
            }
            Command::Cancel { operation, .. } => self.refuses_cancel(*operation),
            Command::CancelEvent { event, .. } => match self.events.iter().find(|it| it.id == Some(*event)) {
                Some(it) => {
                    let siblings = self.events.iter().filter(|other| other.waits() && other.of == it.of).count();
                    !it.waits()
                        || (it.host.is_some() && siblings > 1)
                        || it.of.iter().any(|id| self.refuses_cancel(*id))
                }
                None => true,
            },
            Command::Approve { by, within, events } => self.refuses_approval(by, within, events),
            Command::Seen { machine } => self.machine(*machine).is_none(),
            Command::Report { event, .. } => {
                !self.events.iter().any(|known| known.id == Some(*event) && known.started())
            }
            Command::Resume | Command::Tick => false,
            Command::ChangeHost { .. }
            | Command::ActivateHost { .. }
            | Command::FenceHost { .. }
            | Command::ConfirmHost { .. }
            | Command::LoseHost { .. }
            | Command::ReportMachine { .. }
            | Command::ClaimMachine { .. }
            | Command::StartRollout(_)
            | Command::PauseRollout { .. }
            | Command::ResumeRollout { .. }
            | Command::StopRollout { .. }
            | Command::RetrySteps { .. } => unreachable!("the plans simulation covers these"),
        }
    }

    fn refuses_cancel(&self, id: OperationId) -> bool {
        let Some(asked) = self.operations.iter().find(|asked| asked.id == id) else { return true };
        let nothing_waits = !self.events.iter().any(|event| event.waits() && event.of.contains(&id));
        asked.state != OperationState::Running
            || asked.canceled.is_some()
            || matches!(asked.request, Request::Delete { .. })
            || (nothing_waits && asked.rollout.is_none())
    }

    fn refuses_machine(&self, new: &NewMachine) -> bool {
        let group = match &new.place {
            NewMembership::Standalone => None,
            NewMembership::AvailabilitySet(id)
            | NewMembership::FlexibleSet(id)
            | NewMembership::CloudService { service: id, .. } => Some(*id),
        };
        let placed = match group {
            None => true,
            Some(id) => self.group(id).is_some_and(|group| {
                let fits = match &new.place {
                    NewMembership::Standalone => false,
                    NewMembership::AvailabilitySet(_) => group.kind == GroupKind::AvailabilitySet,
                    NewMembership::CloudService { .. } => group.kind == GroupKind::CloudService,
                    NewMembership::FlexibleSet(_) => is_flexible(group),
                };
                fits && !group.leaving
                    && new.policy.is_none()
                    && new.update_domain.is_none_or(|domain| domain < group.update_domains)
            }),
        };
        let service = group.filter(|_| matches!(new.place, NewMembership::CloudService { .. }));
        !placed
            || bad_name(&new.name)
            || self.machines.iter().any(|other| other.vm_id == new.vm_id || same_name(other, new, service))
            || bad_terminate(new.priority, new.terminate.as_deref())
            || match &new.addresses {
                AddressRequest::Given(given) => given.iter().any(|address| self.has_address(address)),
                AddressRequest::None | AddressRequest::FromPool => false,
            }
    }

    fn has_address(&self, address: &Address) -> bool {
        self.machines.iter().any(|machine| machine.addresses.contains(address))
    }

    fn refuses_change(&self, machine: &Machine, change: &MachineChange) -> bool {
        let group = machine.membership.group().and_then(|id| self.group(id));
        let busy = self.live_of(machine.id).next().is_some();
        let domain_bad = change.update_domain.is_some_and(|domain| {
            (busy && domain != machine.update_domain) || group.is_some_and(|group| domain >= group.update_domains)
        });
        let terminate = change.terminate.as_ref().and_then(Option::as_deref);
        let taken = |address: &Address| {
            self.machines.iter().any(|other| other.id != machine.id && other.addresses.contains(address))
        };
        domain_bad
            || (group.is_some() && matches!(change.policy, Some(Some(_))))
            || bad_terminate(machine.priority, terminate)
            || change.addresses.iter().flatten().any(taken)
    }

    fn refuses_new_group(&self, new: &NewGroup) -> bool {
        let model_bad = match &new.kind {
            NewGroupKind::ScaleSet { model, .. } => bad_terminate(model.priority, model.terminate.as_deref()),
            NewGroupKind::AvailabilitySet | NewGroupKind::CloudService => false,
        };
        let domains_bad = |n: Option<u32>| n.is_some_and(|n| n == 0 || n > DOMAINS_MAX);
        let is_same = |group: &&Arc<Group>| {
            *group.home == new.home
                && group.name.eq_ignore_ascii_case(&new.name)
                && GroupType::of(group) == new.kind.group_type()
        };
        bad_name(&new.name)
            || self.groups.iter().any(|group| is_same(&group))
            || domains_bad(new.update_domains)
            || domains_bad(new.fault_domains)
            || model_bad
    }

    fn refuses_group_change(&self, group: &Group, change: &GroupChange) -> bool {
        let for_sets = change.upgrade_mode.is_some() || change.model.is_some() || change.capacity.is_some();
        let taken = |id: OperationId| self.operations.iter().any(|asked| asked.id == id);
        group.leaving
            || (for_sets && scale_set(group).is_none())
            || change.model.as_ref().is_some_and(|model| bad_terminate(model.priority, model.terminate.as_deref()))
            || change
                .capacity
                .as_ref()
                .is_some_and(|scale| taken(scale.operation) && self.shrinks(group.id, scale.capacity))
    }

    /// Whether this capacity requires the deletion of instances.
    fn shrinks(&self, group: GroupId, capacity: u32) -> bool {
        let staying: Vec<_> = self.members(group).filter(|machine| !self.deleted(machine.id)).collect();
        staying.len() > capacity as usize && staying.iter().any(|machine| !machine.protected)
    }

    fn deleted(&self, id: MachineId) -> bool {
        self.live_of(id).any(|event| event.kind == EventKind::Terminate)
    }

    fn is_member(&self, id: MachineId, group: GroupId) -> bool {
        self.machine(id).is_some_and(|machine| machine.membership.group() == Some(group))
    }

    fn refuses_request(&self, request: &Request) -> bool {
        match request {
            Request::Restart { machines } => self.refuses_users(machines, Cause::UserRestart),
            Request::Redeploy { machines } => self.refuses_users(machines, Cause::UserRedeploy),
            Request::PerformMaintenance { machines } => self.refuses_users(machines, Cause::SelfServiceMaintenance),
            Request::Evict { machine } => self.refuses_spot(*machine, EventKind::Preempt),
            Request::RecommendRebalance { machine } => {
                self.refuses_spot(*machine, EventKind::SpotRebalanceRecommendation)
            }
            Request::Delete { machines, group } => self.refuses_delete(machines, *group),
            Request::Maintain { target, plan } => {
                self.refuses_target(target, false) || self.refuses_plan(plan) || self.has_owner(request)
            }
            Request::Drain(_) => false,
            Request::Fail { target, kind } => {
                self.refuses_target(target, true) || !matches!(kind, EventKind::Reboot | EventKind::Redeploy)
            }
        }
    }

    fn has_owner(&self, request: &Request) -> bool {
        let wanted = self.owned(request);
        let owners = self.operations.iter().filter(|asked| asked.rollout.is_some());
        owners.flat_map(|asked| self.owned(&asked.request)).any(|group| wanted.contains(&group))
    }

    fn refuses_spot(&self, machine: MachineId, kind: EventKind) -> bool {
        self.machine(machine).is_none_or(|it| {
            it.priority != Priority::Spot
                || it.power != Power::Running
                || self.live_of(machine).any(|event| event.kind == kind && full(event))
        })
    }

    fn refuses_users(&self, machines: &[MachineId], cause: Cause) -> bool {
        machines.is_empty() || machines.iter().any(|machine| self.refuses_user(*machine, cause))
    }

    fn refuses_user(&self, machine: MachineId, cause: Cause) -> bool {
        let Some(it) = self.machine(machine) else { return true };
        let same = |event: &&Work| event.cause == cause && event.waits();
        it.power != Power::Running || self.live_of(machine).find(same).is_some_and(full)
    }

    /// Whether this request, which has already been applied, exceeds the limit of its subscription.
    pub fn is_one_too_many(&self, command: &Command) -> bool {
        let Command::Request { operation, .. } = command else { return false };
        let counts = |event: &&Work| event.cause.is_limited() && event.waits() && event.shown;
        let subscription = |event: &Work| self.machine(event.who[0]).map(|it| it.home.subscription.clone());
        self.events.iter().filter(counts).filter(|event| event.of[0] == *operation).any(|own| {
            let same = self.events.iter().filter(counts).filter(|event| subscription(event) == subscription(own));
            let waiting: BTreeSet<OperationId> = same.flat_map(|event| event.of.iter().copied()).collect();
            self.set.user_operations_max > 0 && waiting.len() > self.set.user_operations_max as usize
        })
    }

    fn refuses_delete(&self, machines: &[MachineId], group: Option<GroupId>) -> bool {
        let full_one =
            |id: &MachineId| self.live_of(*id).any(|event| event.kind == EventKind::Terminate && full(event));
        match group {
            Some(id) => self.group(id).is_none() || self.members(id).any(|machine| full_one(&machine.id)),
            None => machines.is_empty() || machines.iter().any(|id| self.machine(*id).is_none() || full_one(id)),
        }
    }

    fn refuses_target(&self, target: &Target, failure: bool) -> bool {
        match target {
            Target::Machines(ids) => {
                ids.iter().any(|id| self.machine(*id).is_none())
                    || !ids.iter().any(|id| !(failure && self.leaving(*id)))
            }
            Target::Host(name) => {
                let there = |machine: &&Arc<Machine>| machine.host.as_ref() == Some(name);
                !self.hosts.contains(name)
                    || !self.machines.iter().filter(there).any(|machine| !(failure && self.leaving(machine.id)))
            }
            Target::Group(id) => match self.group(*id) {
                Some(_) => !self.members(*id).any(|machine| !(failure && self.leaving(machine.id))),
                None => true,
            },
        }
    }

    fn refuses_plan(&self, plan: &Plan) -> bool {
        !matches!(plan.kind, EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy)
            || !matches!(plan.cause, Cause::HostMaintenance | Cause::LiveMigration)
            || plan.notice.is_some_and(|length| scaled(&self.set, length) < notice(&self.set, plan.kind))
            || plan.at.is_some_and(|at| at < self.now || at > self.now + PLAN_AHEAD_MAX)
            || plan.duration_secs.is_some_and(|secs| !(-1..=86_400).contains(&secs))
            || plan.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX)
    }

    fn refuses_approval(&self, by: &Approver, within: &ApprovalScope, events: &[EventId]) -> bool {
        let scopes: Option<Vec<ScopeId>> = match within {
            ApprovalScope::ScopeOf(machine) => match self.machine(*machine) {
                Some(machine) => Some(vec![machine.scope]),
                None => return true,
            },
            ApprovalScope::Group(group) => match self.group(*group) {
                Some(group) => Some(group.scopes.clone()),
                None => return true,
            },
            ApprovalScope::Region => None,
        };
        let inside = |event: &&Work| scopes.as_ref().is_none_or(|scopes| scopes.contains(&event.scope));
        let known = |id: &EventId| self.events.iter().filter(inside).any(|event| event.id == Some(*id) && event.shown);
        let over = |event: &Work| !event.live() && event.id.is_some_and(|id| events.contains(&id));
        let is_ended = matches!(by, Approver::Management(_)) && self.events.iter().any(over);
        events.len() > APPROVALS_MAX || !events.iter().all(known) || is_ended
    }

    // --- commands --------------------------------------------------------------------------------

    /// Applies an accepted command.
    pub fn follow(&mut self, command: &Command, transition: &Transition) -> Result<(), String> {
        let region = &transition.region;
        match command {
            Command::RegisterMachine(_) | Command::CreateGroup(_) => self.adopt(region),
            Command::ChangeMachine { machine, change } => {
                let it = self.machines.iter_mut().find(|it| it.id == *machine).expect("known");
                let before = it.host.clone();
                change_machine(Arc::make_mut(it), change);
                if it.host.is_some() && it.host != before {
                    let events = self.events.iter_mut().filter(|event| event.who.contains(machine));
                    events.for_each(|event| event.moved_at = self.now);
                }
                if let Some(Some(host)) = &change.host {
                    self.add_host(host);
                }
                self.settle();
            }
            Command::ChangeGroup { group, change, .. } => {
                let at = self.groups.iter().position(|it| it.id == *group).expect("known");
                let it = Arc::make_mut(&mut self.groups[at]);
                if let Some(policy) = &change.policy {
                    it.policy = policy.clone();
                }
                self.groups[at] = region.group(*group).cloned().ok_or("a changed group is gone")?;
                if change.policy.as_ref().is_some_and(|policy| self.groups[at].policy != *policy) {
                    return Err("the policy is not the one that was set".into());
                }
                self.adopt(region);
                if let Some(scale) = &change.capacity {
                    let removing = self.check_scale(*group, scale, &transition.answer)?;
                    if !removing.is_empty() {
                        self.ask(scale.operation, &Request::Delete { machines: removing, group: None });
                    }
                }
                self.settle();
            }
            Command::UpgradeInstances { .. } => {}
            Command::RegisterHost { name } => self.add_host(name),
            Command::RemoveHost { name } => self.hosts.retain(|host| host != name),
            Command::SetPower { machine, power } | Command::ChangePower { machine, power, .. } => {
                let it = self.machines.iter_mut().find(|it| it.id == *machine).expect("known");
                let it = Arc::make_mut(it);
                it.power = *power;
                if *power == Power::Deallocated {
                    it.host = None;
                }
                self.settle();
            }
            Command::Request { operation, request, .. } => {
                if !self.operations.iter().any(|asked| asked.id == *operation) {
                    self.ask(*operation, &in_order(request.clone()));
                }
            }
            Command::Cancel { operation, by } => self.cancel(*operation, by),
            Command::CancelEvent { event, by } => {
                let of = self.events.iter().find(|it| it.id == Some(*event)).map(|it| it.of.clone());
                for operation in of.into_iter().flatten() {
                    self.cancel(operation, by);
                }
            }
            Command::Approve { by, events, .. } => {
                if let Approver::Guest { machine, .. } = by
                    && self.machine(*machine).is_some_and(|it| self.is_on(it.scope))
                {
                    self.seen(*machine);
                }
                for event in self.events.iter_mut().filter(|event| event.waits()) {
                    event.approved |= event.id.is_some_and(|id| events.contains(&id));
                }
                self.settle();
            }
            Command::Seen { machine } => self.seen(*machine),
            Command::Report { event, report } => self.report(*event, report),
            Command::Resume | Command::Tick => {}
            Command::ChangeHost { .. }
            | Command::ActivateHost { .. }
            | Command::FenceHost { .. }
            | Command::ConfirmHost { .. }
            | Command::LoseHost { .. }
            | Command::ReportMachine { .. }
            | Command::ClaimMachine { .. }
            | Command::StartRollout(_)
            | Command::PauseRollout { .. }
            | Command::ResumeRollout { .. }
            | Command::StopRollout { .. }
            | Command::RetrySteps { .. } => unreachable!("the plans simulation covers these"),
        }
        self.learn_models(region)
    }

    fn add_host(&mut self, host: &Name) {
        if !self.hosts.contains(host) {
            self.hosts.push(host.clone());
        }
    }

    /// Adopts new machines, groups and hosts.
    fn adopt(&mut self, region: &Region) {
        for machine in region.machines() {
            if self.machine(machine.id).is_none() {
                self.machines.push(machine.clone());
                if let Some(host) = &machine.host {
                    self.add_host(host);
                }
            }
        }
        for group in region.groups() {
            match self.groups.iter_mut().find(|known| known.id == group.id) {
                Some(known) => Arc::make_mut(known).scopes = group.scopes.clone(),
                None => self.groups.push(group.clone()),
            }
        }
    }

    /// Adopts the model versions of instances, after checking that they are allowed.
    pub fn learn_models(&mut self, region: &Region) -> Result<(), String> {
        for group in &mut self.groups {
            if let Some(now) = region.group(group.id) {
                Arc::make_mut(group).kind = now.kind.clone();
            }
        }
        for at in 0..self.machines.len() {
            let Some(now) = region.machine(self.machines[at].id) else { continue };
            let set = now.membership.group().and_then(|id| self.group(id)).and_then(|group| scale_set(group));
            let Some(latest) = set.map(|set| (set.model.terminate.clone(), set.model_version)) else { continue };
            let machine = &self.machines[at];
            if now.model != machine.model {
                let expected = latest.0.filter(|_| now.priority == Priority::Regular);
                // A batch that was due may have applied the model that this command replaces.
                if now.model > latest.1 || (now.model == latest.1 && now.terminate != expected) {
                    return Err(format!("{} was brought to a model that is not the latest", now.name));
                }
                let machine = Arc::make_mut(&mut self.machines[at]);
                (machine.terminate, machine.model) = (now.terminate.clone(), now.model);
            }
        }
        Ok(())
    }

    /// Scale-in deletes the newest unprotected instances; instances that are being deleted do not count.
    fn check_scale(&self, group: GroupId, scale: &Scale, answer: &Answer) -> Result<Vec<MachineId>, String> {
        let Answer::Scaled { added, removing } = answer else {
            return Err("a change of capacity has no numbers".into());
        };
        let staying: Vec<_> = self.members(group).filter(|machine| !self.deleted(machine.id)).collect();
        let count = staying.len() - added.len();
        let free: Vec<_> =
            staying.iter().filter(|machine| !machine.protected && !added.contains(&machine.id)).collect();
        let excess = count.saturating_sub(scale.capacity as usize).min(free.len());
        let missing = (scale.capacity as usize).saturating_sub(count);
        if (added.len(), removing.len()) != (missing, excess) {
            let (came, go) = (added.len(), removing.len());
            return Err(format!("{count} to {}: {came} came and {go} go, not {missing} and {excess}", scale.capacity));
        }
        for gone in removing {
            let Some(it) = free.iter().find(|machine| machine.id == *gone) else {
                return Err("scale-in takes one that is protected or on its way out".into());
            };
            let newer = |other: &&&&Arc<Machine>| other.zone == it.zone && other.id > it.id;
            if free.iter().filter(newer).any(|other| !removing.contains(&other.id)) {
                return Err("scale-in leaves one that is newer".into());
            }
            let left = |zone: &Option<SharedName>| {
                staying.iter().filter(|other| other.zone == *zone && !removing.contains(&other.id)).count()
            };
            let fuller = |other: &&&Arc<Machine>| left(&other.zone) > left(&it.zone) + 1;
            if free.iter().filter(|other| !removing.contains(&other.id)).any(fuller) {
                return Err("scale-in does not balance over zones".into());
            }
        }
        Ok(removing.clone())
    }

    // --- comparison ------------------------------------------------------------------------------

    /// Adopts the IDs of new events.
    pub fn learn(&mut self, region: &Region) -> Result<(), String> {
        for at in 0..self.events.len() {
            if self.events[at].id.is_some() {
                continue;
            }
            let it = &self.events[at];
            let known = |id: EventId| self.events.iter().any(|other| other.id == Some(id));
            let same = |event: &&Arc<Event>| {
                event.operations.first() == it.of.first()
                    && event.scope == it.scope
                    && event.kind == it.kind
                    && event.resources.iter().map(|resource| resource.machine).eq(it.who.iter().copied())
                    && !known(event.id)
            };
            let Some(event) = region.events().find(same) else {
                return Err(format!("the model has an event that the region has not: {it:?}"));
            };
            self.events[at].id = Some(event.id);
        }
        Ok(())
    }

    pub fn agrees(&self, region: &Region) -> Result<(), String> {
        let machines = |it: &Arc<Machine>| (it.id, (it.power, it.host.clone(), it.update_domain, it.terminate.clone()));
        differ("machines", self.machines.iter().map(machines), region.machines().map(machines))?;
        differ(
            "groups",
            self.groups.iter().map(|it| (it.id, it.leaving)),
            region.groups().map(|it| (it.id, it.leaving)),
        )?;
        differ("hosts", self.hosts.iter().map(|it| (it.clone(), ())), region.hosts().map(|it| (it.name.clone(), ())))?;
        let own = |scope: &&Arc<Scope>| region.events_state_owner(scope.id) == scope.id && region.is_on(scope.id);
        let switches = region.scopes().filter(own).map(|scope| scope.id);
        differ("scopes that are on", self.on.iter().map(|(key, _)| (*key, ())), switches.map(|key| (key, ())))?;
        differ(
            "events",
            self.events.iter().map(|it| (it.id.unwrap_or(Guid(0)), shape_of(it))),
            region.events().map(|it| (it.id, shape(it))),
        )?;
        differ(
            "operations",
            self.operations.iter().map(|it| (it.id, it.state.clone())),
            region.operations().map(|it| (it.id, it.state.clone())),
        )
    }
}

/// The model's view of an event.
#[derive(Debug, PartialEq)]
struct Shape {
    kind: EventKind,
    cause: Cause,
    shown: bool,
    status: Status,
    not_before: Timestamp,
    approved: bool,
    who: Vec<MachineId>,
    of: Vec<OperationId>,
}

fn shape_of(it: &Work) -> Shape {
    Shape {
        kind: it.kind,
        cause: it.cause,
        shown: it.shown,
        status: without_author(&it.status),
        not_before: it.not_before,
        approved: it.approved && it.shown && it.live(),
        who: it.who.clone(),
        of: it.of.clone(),
    }
}

fn shape(it: &Event) -> Shape {
    Shape {
        kind: it.kind,
        cause: it.cause,
        shown: it.is_shown(),
        status: without_author(&it.status),
        not_before: it.not_before,
        approved: it.approval.is_some() && it.is_shown() && it.is_live(),
        who: it.resources.iter().map(|resource| resource.machine).collect(),
        of: it.operations.clone(),
    }
}

/// If an event was canceled without a request, the specification does not define who canceled it.
fn without_author(status: &Status) -> Status {
    match status {
        Status::Ended { at, outcome: Outcome::Canceled { .. } } => {
            Status::Ended { at: *at, outcome: Outcome::Canceled { by: "".into() } }
        }
        other => other.clone(),
    }
}

fn differ<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    model: impl Iterator<Item = (K, V)>,
    region: impl Iterator<Item = (K, V)>,
) -> Result<(), String> {
    let mut model: BTreeMap<K, V> = model.collect();
    for (key, value) in region {
        match model.remove(&key) {
            Some(expected) if expected == value => {}
            Some(expected) => return Err(format!("{what}: {key:?}\n  model  {expected:?}\n  region {value:?}")),
            None => return Err(format!("{what}: {key:?} is only in the region: {value:?}")),
        }
    }
    match model.pop_first() {
        Some((key, value)) => Err(format!("{what}: {key:?} is only in the model: {value:?}")),
        None => Ok(()),
    }
}

fn change_machine(machine: &mut Machine, change: &MachineChange) {
    if let Some(host) = &change.host {
        machine.host = host.clone();
    }
    if let Some(domain) = change.update_domain {
        machine.update_domain = domain;
    }
    if let Some(addresses) = &change.addresses {
        machine.addresses = addresses.clone().into();
    }
    if let Some(protected) = change.protected {
        machine.protected = protected;
    }
    if let Some(terminate) = &change.terminate {
        machine.terminate = terminate.clone();
    }
    if let Some(policy) = &change.policy {
        machine.policy = policy.clone();
    }
}

fn full(event: &Work) -> bool {
    event.of.len() >= JOINED_MAX
}

pub fn scale_set(group: &Group) -> Option<&ScaleSet> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Some(set),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

/// Machines are handled in order of registration, each once, regardless of the order in the request.
pub fn in_order(mut request: Request) -> Request {
    match &mut request {
        Request::Restart { machines }
        | Request::Redeploy { machines }
        | Request::PerformMaintenance { machines }
        | Request::Delete { machines, .. } => {
            machines.sort();
            machines.dedup();
        }
        Request::Evict { .. }
        | Request::RecommendRebalance { .. }
        | Request::Maintain { .. }
        | Request::Drain(_)
        | Request::Fail { .. } => {}
    }
    request
}

/// Whether the request repeats one that was accepted.
fn is_retry(accepted: &Request, request: &Request) -> bool {
    match (accepted, request) {
        (Request::Delete { group: Some(one), .. }, Request::Delete { group: Some(two), .. }) => one == two,
        _ => in_order(accepted.clone()) == in_order(request.clone()),
    }
}

pub fn is_flexible(group: &Group) -> bool {
    scale_set(group).is_some_and(|set| set.orchestration == Orchestration::Flexible)
}

fn same_name(other: &Machine, new: &NewMachine, service: Option<GroupId>) -> bool {
    let others = if let Membership::RoleInstance { service, .. } = other.membership { Some(service) } else { None };
    other.name.eq_ignore_ascii_case(&new.name) && *other.home == new.home && others == service
}

fn bad_name(name: &str) -> bool {
    name.is_empty() || name.len() > NAME_BYTES_MAX
}

fn bad_terminate(priority: Priority, terminate: Option<&TerminateProfile>) -> bool {
    terminate.is_some_and(|profile| {
        let secs = profile.timeout.as_secs();
        priority == Priority::Spot || !(300..=900).contains(&secs)
    })
}
