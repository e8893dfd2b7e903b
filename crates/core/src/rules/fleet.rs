//! Machines: registration, changes and removal.

use std::sync::Arc;

use crate::command::*;
use crate::entity::{Entity, Key};
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::settings::*;
use crate::step::Step;
use crate::transition::*;

impl Step {
    pub fn register_machine(&mut self, new: &NewMachine) -> Result<Answer, Rejection> {
        check_name("name", &new.name)?;
        check_resource_group(&new.home)?;
        check_plain("zone", new.zone.as_deref().unwrap_or_default())?;
        if let NewMembership::CloudService { role, .. } = &new.place {
            check_plain("role", role)?;
        }
        let membership = match &new.place {
            NewMembership::Standalone => Membership::Standalone,
            NewMembership::AvailabilitySet(group) => Membership::AvailabilitySet(*group),
            NewMembership::FlexibleSet(set) => Membership::Instance { set: *set, number: None },
            NewMembership::CloudService { service, role } => {
                Membership::RoleInstance { service: *service, role: role.clone() }
            }
        };
        let group = membership.group().map(|id| self.group(id)).transpose()?;
        check_kind(&membership, group.as_deref())?;
        self.check_machine_limits(group.as_deref(), 1)?;
        if group.is_some() && new.policy.is_some() {
            return Err(Rejection::PolicyOnMember(new.name.clone()));
        }
        let id = MachineId(self.allocate_id());
        let scope = match &group {
            Some(group) => group.scopes[0],
            None => self.create_scope(ScopeOwner::Machine(id)),
        };
        let turn = group.as_ref().map_or(0, |group| group.seats_given);
        let (updates, faults) = group.as_ref().map_or((1, 1), |group| (group.update_domains, group.fault_domains));
        let fault_domain = new.fault_domain.unwrap_or(turn % faults);
        let (model, update_domain) = match group.as_ref().map(|group| &group.kind) {
            // The machine's own properties apply until the model of the set changes.
            Some(GroupKind::ScaleSet(set)) => (set.model_version, fault_domain),
            Some(GroupKind::AvailabilitySet | GroupKind::CloudService) | None => (0, turn % updates),
        };
        let machine = Machine {
            id,
            vm_id: new.vm_id,
            name: new.name.clone(),
            home: shared_home(&new.home, group.as_deref()),
            scope,
            membership,
            host: new.host.clone(),
            update_domain: new.update_domain.unwrap_or(update_domain),
            fault_domain,
            zone: new.zone.clone(),
            priority: new.priority,
            eviction: new.eviction,
            power: Power::Running,
            addresses: self.resolve_addresses(&new.addresses)?.into(),
            terminate: new.terminate.clone(),
            model,
            protected: false,
            memory_mib: new.memory_mib,
            live_migratable: new.live_migratable,
            policy: new.policy.clone(),
            details: new.details.clone(),
            transfer: None,
        };
        self.change_capacity(&machine, |capacity| capacity + 1);
        self.add_machine(machine)?;
        Ok(Answer::Machine(id))
    }

    /// Adds a machine to the region. Used for registered machines and for instances of scale sets.
    pub fn add_machine(&mut self, machine: Machine) -> Result<(), Rejection> {
        let group = machine.membership.group().map(|id| self.group(id)).transpose()?;
        self.check_machine(&machine, group.as_deref())?;
        if self.region.is_name_taken(&machine) {
            return Err(Rejection::NameTaken(machine.name));
        }
        if self.region.machine_by_vm_id(machine.vm_id).is_some() {
            return Err(Rejection::VmIdTaken);
        }
        if let Some(group) = group {
            self.edit_group(group.id, |group| group.seats_given += 1);
        }
        if let Some(host) = &machine.host {
            self.register_host(host)?;
        }
        self.unsettled.insert(machine.scope);
        self.replan = true;
        let machine = Arc::new(machine);
        self.put(Entity::Machine(machine.clone()));
        self.record_fact(FactKind::MachineAdded(machine));
        Ok(())
    }

    /// Checks the limits on the number of machines.
    pub fn check_machine_limits(&self, group: Option<&Group>, more: usize) -> Result<(), Rejection> {
        let in_group = group.map_or(0, |group| self.region.group_members(group).count());
        if in_group + more > MACHINES_PER_GROUP_MAX || self.region.machines.len() + more > MACHINES_MAX {
            return Err(Rejection::TooManyMachines);
        }
        Ok(())
    }

    fn check_machine(&self, machine: &Machine, group: Option<&Group>) -> Result<(), Rejection> {
        if let Some(group) = group.filter(|group| group.leaving) {
            return Err(Rejection::GroupBeingDeleted(group.name.clone()));
        }
        check_terminate(machine.terminate.as_deref(), machine.priority)?;
        let (updates, faults) =
            group.map_or((DOMAINS_MAX, DOMAINS_MAX), |group| (group.update_domains, group.fault_domains));
        if machine.update_domain >= updates {
            return Err(Rejection::DomainRange { what: "update domain", max: updates - 1 });
        }
        if machine.fault_domain >= faults {
            return Err(Rejection::DomainRange { what: "fault domain", max: faults - 1 });
        }
        for (n, address) in machine.addresses.iter().enumerate() {
            if let Some(owner) = self.region.machine_by_address(address).filter(|owner| owner.id != machine.id) {
                return Err(Rejection::AddressTaken { address: address.clone(), by: owner.name.clone() });
            }
            if machine.addresses[..n].contains(address) {
                return Err(Rejection::AddressTaken { address: address.clone(), by: machine.name.clone() });
            }
        }
        Ok(())
    }

    pub fn resolve_addresses(&mut self, wish: &AddressRequest) -> Result<Vec<Address>, Rejection> {
        match wish {
            AddressRequest::None => Ok(Vec::new()),
            AddressRequest::Given(addresses) => Ok(addresses.clone()),
            AddressRequest::FromPool => Ok(vec![self.take_pool_address()?]),
        }
    }

    /// Takes the next free address of the pool. Addresses of deleted machines are reused only after the whole
    /// pool has been assigned once.
    fn take_pool_address(&mut self) -> Result<Address, Rejection> {
        let pool = self.region.settings.pool.clone();
        let given = self.region.meta.pool_given;
        for n in 0..pool.count {
            let turn = given.wrapping_add(n) % pool.count;
            let ip = u32::from(pool.first).wrapping_add(turn);
            let address = Address { network: pool.network.clone(), ip: std::net::Ipv4Addr::from(ip).into() };
            if self.region.machine_by_address(&address).is_none() {
                self.edit_meta(|meta| meta.pool_given = turn + 1);
                return Ok(address);
            }
        }
        Err(Rejection::PoolEmpty)
    }

    pub fn create_scope(&mut self, owner: ScopeOwner) -> ScopeId {
        let id = ScopeId(self.allocate_id());
        self.put(Entity::Scope(Arc::new(Scope {
            id,
            owner,
            switch: EventsState::Off,
            incarnation: 0,
            live: Vec::new(),
        })));
        id
    }

    pub fn change_machine(&mut self, id: MachineId, change: &MachineChange) -> Result<Answer, Rejection> {
        let before = self.machine(id)?;
        let mut machine = (*before).clone();
        if let Some(host) = &change.host {
            machine.host = host.clone();
            // A change by an operator overrides the reports of hosts.
            machine.transfer = None;
        }
        machine.update_domain = change.update_domain.unwrap_or(machine.update_domain);
        machine.fault_domain = change.fault_domain.unwrap_or(machine.fault_domain);
        if let Some(zone) = &change.zone {
            machine.zone = zone.clone();
        }
        if let Some(addresses) = &change.addresses {
            machine.addresses = addresses.clone().into();
        }
        machine.protected = change.protected.unwrap_or(machine.protected);
        machine.memory_mib = change.memory_mib.unwrap_or(machine.memory_mib);
        machine.live_migratable = change.live_migratable.unwrap_or(machine.live_migratable);
        if let Some(terminate) = &change.terminate {
            machine.terminate = terminate.clone();
        }
        if let Some(policy) = &change.policy {
            machine.policy = policy.clone();
        }
        if let Some(details) = &change.details {
            machine.details = details.clone();
        }
        self.check_change(&before, &machine)?;
        self.put(Entity::Machine(Arc::new(machine.clone())));
        self.unsettled.insert(machine.scope);
        if before.placed_on() != machine.placed_on() {
            if let Some(host) = &machine.host {
                self.register_host(host)?;
            }
            self.apply_host_change(id);
        }
        self.replan = true;
        Ok(Answer::Machine(id))
    }

    fn check_change(&self, before: &Machine, machine: &Machine) -> Result<(), Rejection> {
        let group = machine.membership.group().map(|id| self.group(id)).transpose()?;
        if before.update_domain != machine.update_domain && self.region.events_of(machine.id).next().is_some() {
            return Err(Rejection::MachineBusy(machine.name.clone()));
        }
        if group.is_some() && machine.policy.is_some() {
            return Err(Rejection::PolicyOnMember(machine.name.clone()));
        }
        // A group that is being deleted accepts no new machines, but existing ones may still change.
        let group = group.map(|group| Group { leaving: false, ..(*group).clone() });
        self.check_machine(machine, group.as_ref())
    }

    pub fn set_power(&mut self, id: MachineId, power: Power) -> Result<Answer, Rejection> {
        let machine = self.machine(id)?;
        match power {
            Power::Deallocated => self.deallocate(id),
            Power::Running | Power::Stopped => self.edit_machine(id, |machine| machine.power = power),
        }
        self.forget_power_failure(id);
        self.unsettled.insert(machine.scope);
        self.replan = true;
        Ok(Answer::Machine(id))
    }

    /// Powers a machine off and removes it from its host.
    pub fn deallocate(&mut self, id: MachineId) {
        self.edit_machine(id, |machine| {
            machine.power = Power::Deallocated;
            machine.host = None;
            machine.transfer = None;
        });
        self.apply_host_change(id);
    }

    /// Removes a machine from the region and ends the events that concern no other machine.
    pub fn remove_machine(&mut self, machine: &Arc<Machine>) {
        let events: Vec<Arc<Event>> = self.region.events_of(machine.id).cloned().collect();
        self.delete(Key::Machine(machine.id));
        self.replan = true;
        self.record_fact(FactKind::MachineRemoved(machine.clone()));
        for event in events {
            if !self.has_machines(&event) {
                self.end(event.id, Outcome::ResourceGone);
            } else {
                self.cancel_if_stale(&event);
            }
        }
        self.unsettled.insert(machine.scope);
        if machine.membership == Membership::Standalone {
            self.delete(Key::Scope(machine.scope));
        }
    }

    // --- hosts -----------------------------------------------------------------------------------

    /// Puts a machine on another host, where it has moved.
    pub fn move_machine(&mut self, machine: MachineId, host: &Name) {
        self.place_machine(machine, host);
        self.apply_host_change(machine);
    }

    /// Only records the host; `apply_host_change` must follow. The new host gets the order for a requested power state.
    pub fn place_machine(&mut self, machine: MachineId, host: &Name) {
        self.edit_machine(machine, |machine| {
            machine.host = Some(host.clone());
            let power_change = machine.transfer.take().and_then(|transfer| transfer.power_change);
            machine.transfer = power_change
                .map(|change| Box::new(MachineTransfer { power_change: Some(change), ..MachineTransfer::default() }));
        });
    }

    /// Applies what follows from a change of a machine's host. The new host gets the full time for events in progress.
    pub fn apply_host_change(&mut self, machine: MachineId) {
        self.cancel_stale_host_events(machine);
        let now = self.now;
        let is_placed = self.region.machine(machine).is_some_and(|machine| machine.placed_on().is_some());
        for event in self.region.events_of(machine).cloned().collect::<Vec<_>>() {
            self.refresh_visibility(&event);
            if is_placed && matches!(event.status, Status::Started { .. }) {
                self.edit_event(event.id, |event| event.attended = now);
                self.take_fenced_results(event.id);
            }
        }
        self.replan = true;
    }

    fn cancel_stale_host_events(&mut self, machine: MachineId) {
        for event in self.region.events_of(machine).cloned().collect::<Vec<_>>() {
            self.cancel_if_stale(&event);
        }
    }

    /// Cancels a Scheduled host event if none of its machines is still on the host.
    fn cancel_if_stale(&mut self, event: &Event) {
        let Some(host) = self.host_of(event) else { return };
        let left = self.machines_of(event).iter().all(|machine| machine.host.as_ref() != Some(&host));
        if left && event.status == Status::Scheduled {
            self.end(event.id, Outcome::Canceled { by: "move to another host".into() });
        }
    }

    /// The host of a host operation or drain.
    fn host_of(&self, event: &Event) -> Option<Name> {
        let requests = event.operations.iter().filter_map(|id| Some(&self.region.operations.get(id)?.request));
        let mut hosts = requests.filter(|request| !matches!(request, Request::Fail { .. })).filter_map(Request::host);
        hosts.next().cloned()
    }
}

fn check_kind(membership: &Membership, group: Option<&Group>) -> Result<(), Rejection> {
    let Some(group) = group else { return Ok(()) };
    match (membership, &group.kind) {
        (Membership::AvailabilitySet(_), GroupKind::AvailabilitySet)
        | (Membership::RoleInstance { .. }, GroupKind::CloudService) => Ok(()),
        (Membership::Instance { .. }, GroupKind::ScaleSet(set)) if set.orchestration == Orchestration::Flexible => {
            Ok(())
        }
        (Membership::Instance { .. }, _) => Err(Rejection::NotAFlexibleSet(group.name.clone())),
        (Membership::RoleInstance { .. }, _) => Err(Rejection::NotACloudService(group.name.clone())),
        (Membership::Standalone | Membership::AvailabilitySet(_), _) => {
            Err(Rejection::NotAnAvailabilitySet(group.name.clone()))
        }
    }
}

pub(crate) fn check_terminate(profile: Option<&TerminateProfile>, priority: Priority) -> Result<(), Rejection> {
    let Some(profile) = profile else { return Ok(()) };
    if priority == Priority::Spot {
        return Err(Rejection::TerminateOnSpot);
    }
    let range = TERMINATE_SECS_MIN..=TERMINATE_SECS_MAX;
    let whole = profile.timeout.subsec_nanos() == 0;
    if !whole || !range.contains(&profile.timeout.as_secs()) { Err(Rejection::TerminateRange) } else { Ok(()) }
}

/// Refuses control characters, which do harm in headers, environments and logs.
pub(crate) fn check_plain(what: &'static str, text: &str) -> Result<(), Rejection> {
    let problem = "must not contain control characters";
    if text.contains(char::is_control) { Err(Rejection::BadName { what, problem }) } else { Ok(()) }
}

/// Shares the group's resource group reference if it is equal, which is the usual case.
fn shared_home(home: &ResourceGroupRef, group: Option<&Group>) -> Arc<ResourceGroupRef> {
    let of_group = group.map(|group| &group.home).filter(|of_group| ***of_group == *home);
    of_group.cloned().unwrap_or_else(|| Arc::new(home.clone()))
}

pub(crate) fn check_resource_group(home: &ResourceGroupRef) -> Result<(), Rejection> {
    check_plain("subscription", &home.subscription)?;
    check_plain("resource group", &home.resource_group)
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), Rejection> {
    let problem = if name.is_empty() {
        "must not be empty"
    } else if name.len() > NAME_BYTES_MAX {
        "must not be longer than 128 bytes"
    } else if name.chars().any(|c| c.is_control() || c == '/' || c == '\\' || c.is_whitespace()) {
        "must not contain spaces, slashes or control characters"
    } else {
        return Ok(());
    };
    Err(Rejection::BadName { what, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_contain_no_control_characters() {
        for text in ["a\0b", "a\nb", "\u{7f}", "\u{85}"] {
            assert!(check_plain("zone", text).is_err() && check_name("name", text).is_err(), "{text:?}");
            let home = ResourceGroupRef { subscription: "s".into(), resource_group: text.into() };
            assert!(check_resource_group(&home).is_err(), "{text:?}");
        }
        assert!(check_plain("zone", "").is_ok() && check_plain("zone", "größe 1").is_ok());
    }
}
