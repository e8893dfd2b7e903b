//! Groups: availability sets, cloud services, and scale sets with their models and instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::command::*;
use crate::entity::{Entity, Key};
use crate::ids::*;
use crate::model::*;
use crate::names::NameKey;
use crate::rejection::Rejection;
use crate::rules::fleet::{check_name, check_resource_group, check_terminate};
use crate::settings::*;
use crate::step::Step;
use crate::transition::*;

/// Pause between two batches of a rolling upgrade.
const BATCH_PAUSE: Duration = Duration::from_secs(60);

/// Number of batches of a rolling upgrade: each upgrades a fifth of the instances.
const BATCHES: usize = 5;

impl Step {
    pub fn create_group(&mut self, new: &NewGroup) -> Result<Answer, Rejection> {
        check_name("name", &new.name)?;
        check_resource_group(&new.home)?;
        let key = NameKey::new(&new.name, &new.home, new.kind.group_type());
        if self.region.index.groups_by_name.contains_key(&key) {
            return Err(Rejection::NameTaken(new.name.clone()));
        }
        let (updates, faults) = new.kind.default_domains();
        let fault_domains = new.fault_domains.unwrap_or(faults);
        let update_domains = if new.kind.is_flexible() { fault_domains } else { new.update_domains.unwrap_or(updates) };
        check_domains("update domains", new.update_domains.unwrap_or(update_domains))?;
        check_domains("update domains", update_domains)?;
        check_domains("fault domains", fault_domains)?;
        let (kind, capacity) = build_group_kind(&new.kind)?;
        let id = GroupId(self.allocate_id());
        let scope = self.create_scope(ScopeOwner::Group { group: id, part: 0 });
        self.put(Entity::Group(Arc::new(Group {
            id,
            name: new.name.clone(),
            home: Arc::new(new.home.clone()),
            kind,
            policy: new.policy.clone(),
            scopes: vec![scope],
            update_domains,
            fault_domains,
            seats_given: 0,
            leaving: false,
        })));
        let machines = self.add_instances(id, capacity, new.salt)?;
        Ok(Answer::Group { group: id, machines })
    }

    pub fn remove_group(&mut self, group: &Group) {
        for scope in &group.scopes {
            self.delete(Key::Scope(*scope));
        }
        self.delete(Key::Group(group.id));
    }

    pub fn change_group(&mut self, id: GroupId, change: &GroupChange, salt: Guid) -> Result<Answer, Rejection> {
        let group = self.group(id)?;
        if group.leaving {
            return Err(Rejection::GroupBeingDeleted(group.name.clone()));
        }
        if let Some(policy) = &change.policy {
            self.edit_group(id, |group| group.policy = policy.clone());
            self.unsettled.extend(group.scopes.iter().copied());
        }
        if change.upgrade_mode.is_none() && change.model.is_none() && change.capacity.is_none() {
            return Ok(Answer::Done);
        }
        self.scale_set(id)?;
        if let Some(mode) = change.upgrade_mode {
            self.edit_set(id, |set| set.upgrade_mode = mode);
        }
        if let Some(model) = &change.model {
            self.change_model(id, model)?;
        }
        match &change.capacity {
            Some(scale) => self.scale(id, scale, salt),
            None => Ok(Answer::Done),
        }
    }

    pub fn scale_set(&self, id: GroupId) -> Result<(Arc<Group>, ScaleSet), Rejection> {
        let group = self.group(id)?;
        match &group.kind {
            GroupKind::ScaleSet(set) => Ok((group.clone(), (**set).clone())),
            GroupKind::AvailabilitySet | GroupKind::CloudService => Err(Rejection::NotAScaleSet(group.name.clone())),
        }
    }

    // --- scale set model -------------------------------------------------------------------------

    fn change_model(&mut self, id: GroupId, model: &SetModel) -> Result<(), Rejection> {
        check_terminate(model.terminate.as_deref(), model.priority)?;
        let (_, set) = self.scale_set(id)?;
        if set.model == *model {
            return Ok(());
        }
        self.edit_set(id, |set| {
            set.model = model.clone();
            set.model_version = set.model_version.wrapping_add(1);
        });
        match set.upgrade_mode {
            UpgradeMode::Manual => {}
            UpgradeMode::Automatic => drop(self.upgrade_instances(id, &[])?),
            UpgradeMode::Rolling => self.upgrade_next_batch(id),
        }
        Ok(())
    }

    pub fn upgrade_instances(&mut self, id: GroupId, machines: &[MachineId]) -> Result<Answer, Rejection> {
        let (group, set) = self.scale_set(id)?;
        let members = self.region.group_members(&group).map(|machine| machine.id).collect::<BTreeSet<_>>();
        if let Some(machine) = machines.iter().find(|machine| !members.contains(machine)) {
            return Err(Rejection::NotAMember(self.machine(*machine)?.name.clone()));
        }
        let chosen = if machines.is_empty() { members.into_iter().collect() } else { machines.to_vec() };
        for machine in chosen {
            self.upgrade(machine, &set);
        }
        Ok(Answer::Done)
    }

    /// Applies the model of the set, unless the machine already has it. Spot machines take no terminate
    /// notification from the model.
    fn upgrade(&mut self, machine: MachineId, set: &ScaleSet) {
        if self.region.machines.get(&machine).is_none_or(|machine| machine.model == set.model_version) {
            return;
        }
        self.edit_machine(machine, |machine| {
            machine.model = set.model_version;
            machine.terminate = set.model.terminate.clone().filter(|_| machine.priority == Priority::Regular);
            machine.details = Arc::new(Details { mac: machine.details.mac.clone(), ..(*set.model.details).clone() });
        });
    }

    /// Upgrades one batch of a rolling upgrade, in order of update domains, and schedules the next.
    pub fn upgrade_next_batch(&mut self, id: GroupId) {
        let Ok((group, set)) = self.scale_set(id) else { return };
        let mut members: Vec<_> = self.region.group_members(&group).cloned().collect();
        let size = members.len().div_ceil(BATCHES);
        members.retain(|machine| machine.model != set.model_version);
        members.sort_by_key(|machine| (machine.update_domain, machine.id));
        let more = members.len() > size;
        for machine in members.iter().take(size) {
            self.upgrade(machine.id, &set);
        }
        let next = more.then(|| self.now + self.region.settings.scaled(BATCH_PAUSE));
        self.edit_set(id, |set| set.next_batch = next);
    }

    // --- scale set instances ---------------------------------------------------------------------

    fn scale(&mut self, id: GroupId, scale: &Scale, salt: Guid) -> Result<Answer, Rejection> {
        let (group, _) = self.scale_set(id)?;
        let active = self.active_instances(&group);
        self.edit_set(id, |set| set.capacity = active.len() as u32);
        let missing = scale.capacity.saturating_sub(active.len() as u32);
        let added = self.add_instances(id, missing, salt)?;
        let surplus = active.len().saturating_sub(scale.capacity as usize);
        let leaving = choose_surplus(active, surplus);
        let removing = leaving.iter().map(|machine| machine.id).collect::<Vec<_>>();
        if !leaving.is_empty() {
            self.check_operation_id(scale.operation)?;
            let request = Request::Delete { machines: removing.clone(), group: None };
            self.open_operation(scale.operation, &scale.by, &group.home.subscription, request);
            self.delete_machines(scale.operation, &leaving, None)?;
        }
        Ok(Answer::Scaled { added, removing })
    }

    fn check_operation_id(&self, id: OperationId) -> Result<(), Rejection> {
        if self.region.operations.contains_key(&id) { Err(Rejection::IdTaken(id)) } else { Ok(()) }
    }

    /// Instances that are not being deleted.
    fn active_instances(&self, group: &Group) -> Vec<Arc<Machine>> {
        let members = self.region.group_members(group);
        members.filter(|machine| self.find_pending(machine.id, EventKind::Terminate).is_none()).cloned().collect()
    }

    fn add_instances(&mut self, id: GroupId, count: u32, salt: Guid) -> Result<Vec<MachineId>, Rejection> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (group, set) = self.scale_set(id)?;
        self.check_machine_limits(Some(&group), count as usize)?;
        let mut free = FreeSeats::count(self, &group, &set);
        let mut made = Vec::new();
        for n in 0..count {
            let scope = free.take_scope(self, &group, &set);
            let zone = free.take_zone();
            made.push(self.add_instance(&group, &set, scope, zone, salt.derive(u64::from(n)))?);
        }
        self.edit_set(id, |set| set.capacity += count);
        Ok(made)
    }

    fn add_instance(
        &mut self,
        group: &Group,
        set: &ScaleSet,
        scope: ScopeId,
        zone: Option<SharedName>,
        vm_id: Guid,
    ) -> Result<MachineId, Rejection> {
        let id = MachineId(self.allocate_id());
        let turn = self.group(group.id)?.seats_given;
        let fault_domain = turn % group.fault_domains;
        let (name, number, update_domain) = match set.orchestration {
            Orchestration::Uniform => (format!("{}_{turn}", group.name), Some(turn), turn % group.update_domains),
            Orchestration::Flexible => (format!("{}_{:08x}", group.name, (vm_id.0 >> 96) as u32), None, fault_domain),
        };
        let addresses = self.resolve_addresses(&AddressRequest::FromPool)?;
        self.add_machine(Machine {
            id,
            vm_id,
            name: name.into(),
            home: group.home.clone(),
            scope,
            membership: Membership::Instance { set: group.id, number },
            host: None,
            update_domain,
            fault_domain,
            zone,
            priority: set.model.priority,
            eviction: set.model.eviction,
            power: Power::Running,
            addresses: addresses.into(),
            terminate: set.model.terminate.clone(),
            model: set.model_version,
            protected: false,
            memory_mib: 0,
            live_migratable: true,
            policy: None,
            details: set.model.details.clone(),
            transfer: None,
        })?;
        Ok(id)
    }
}

/// Number of instances per placement group and zone, used to place new instances.
struct FreeSeats {
    scopes: Vec<(ScopeId, u32)>,
    zones: BTreeMap<SharedName, u32>,
}

impl FreeSeats {
    fn count(step: &Step, group: &Group, set: &ScaleSet) -> FreeSeats {
        let count = |scope: &ScopeId| (*scope, step.region.members(*scope).count() as u32);
        let mut zones: BTreeMap<SharedName, u32> = set.zones.iter().map(|zone| (zone.clone(), 0)).collect();
        for machine in step.active_instances(group) {
            if let Some(count) = machine.zone.as_ref().and_then(|zone| zones.get_mut(zone)) {
                *count += 1;
            }
        }
        FreeSeats { scopes: group.scopes.iter().map(count).collect(), zones }
    }

    /// Takes a seat in the first placement group with room, or in a new one. A new one is on if the set is on.
    fn take_scope(&mut self, step: &mut Step, group: &Group, set: &ScaleSet) -> ScopeId {
        let max = match set.orchestration {
            Orchestration::Uniform => set.placement_group_max.unwrap_or(u32::MAX),
            Orchestration::Flexible => u32::MAX,
        };
        if let Some((scope, count)) = self.scopes.iter_mut().find(|(_, count)| *count < max) {
            *count += 1;
            return *scope;
        }
        let scope = step.create_scope(ScopeOwner::Group { group: group.id, part: self.scopes.len() as u32 });
        step.edit_group(group.id, |group| group.scopes.push(scope));
        if step.region.is_on(scope) {
            step.set_first_incarnation(scope);
        }
        self.scopes.push((scope, 1));
        scope
    }

    fn take_zone(&mut self) -> Option<SharedName> {
        let (zone, count) = self.zones.iter_mut().min_by_key(|(_, count)| **count)?;
        *count += 1;
        Some(zone.clone())
    }
}

/// Chooses the instances to delete: unprotected ones, newest first, each from the zone with the most instances.
fn choose_surplus(mut active: Vec<Arc<Machine>>, surplus: usize) -> Vec<Arc<Machine>> {
    active.sort_by_key(|machine| machine.id);
    let mut counts: BTreeMap<Option<SharedName>, usize> = BTreeMap::new();
    let mut unprotected: BTreeMap<Option<SharedName>, Vec<Arc<Machine>>> = BTreeMap::new();
    for machine in active {
        *counts.entry(machine.zone.clone()).or_default() += 1;
        if !machine.protected {
            unprotected.entry(machine.zone.clone()).or_default().push(machine);
        }
    }
    let mut leaving = Vec::new();
    while leaving.len() < surplus {
        let newest = |zone: &Option<SharedName>| unprotected[zone].last().map(|machine| (counts[zone], machine.id));
        let fullest = unprotected.keys().filter_map(|zone| Some((newest(zone)?, zone.clone()))).max();
        let Some((_, zone)) = fullest else { break };
        *counts.entry(zone.clone()).or_default() -= 1;
        leaving.extend(unprotected.get_mut(&zone).and_then(Vec::pop));
    }
    leaving
}

fn build_group_kind(new: &NewGroupKind) -> Result<(GroupKind, u32), Rejection> {
    match new {
        NewGroupKind::AvailabilitySet => Ok((GroupKind::AvailabilitySet, 0)),
        NewGroupKind::CloudService => Ok((GroupKind::CloudService, 0)),
        NewGroupKind::ScaleSet { orchestration, upgrade_mode, capacity, placement_group_max, zones, model } => {
            check_terminate(model.terminate.as_deref(), model.priority)?;
            if *placement_group_max == Some(0) {
                return Err(Rejection::DomainsRange { what: "instances in a placement group" });
            }
            let set = ScaleSet {
                orchestration: *orchestration,
                upgrade_mode: *upgrade_mode,
                capacity: 0,
                placement_group_max: *placement_group_max,
                zones: zones.clone(),
                model: model.clone(),
                model_version: 1,
                next_batch: None,
            };
            Ok((GroupKind::ScaleSet(Box::new(set)), *capacity))
        }
    }
}

fn check_domains(what: &'static str, count: u32) -> Result<(), Rejection> {
    if (1..=DOMAINS_MAX).contains(&count) { Ok(()) } else { Err(Rejection::DomainsRange { what }) }
}

impl NewGroupKind {
    /// In a Flexible scale set, update domains are the fault domains.
    fn is_flexible(&self) -> bool {
        matches!(self, NewGroupKind::ScaleSet { orchestration: Orchestration::Flexible, .. })
    }

    /// Default numbers of update domains and fault domains.
    fn default_domains(&self) -> (u32, u32) {
        match self {
            NewGroupKind::AvailabilitySet | NewGroupKind::CloudService => (5, 2),
            NewGroupKind::ScaleSet { orchestration: Orchestration::Uniform, .. } => (5, 5),
            NewGroupKind::ScaleSet { orchestration: Orchestration::Flexible, .. } => (1, 1),
        }
    }
}
