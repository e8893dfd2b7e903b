//! Hosts: registration, state, contact with their agents, and placement of machines.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::collections::IdSet;
use crate::command::HostChange;
use crate::entity::{Entity, Key};
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rules::fleet::check_name;
use crate::settings::{LABEL_BYTES_MAX, LABELS_PER_HOST_MAX};
use crate::step::Step;
use crate::transition::Answer;

/// The reason with which started events end when their host is fenced.
pub(crate) const HOST_FAILED: &str = "HostFailed";

impl Step {
    pub fn register_host(&mut self, name: &Name) -> Result<Answer, Rejection> {
        check_name("host", name)?;
        if !self.region.hosts.contains_key(name) {
            // Higher than the epochs of an earlier host with this name, because each of them began with a revision.
            let epoch = self.region.meta.revision;
            self.put(Entity::Host(Arc::new(Host { epoch, ..Host::new(name.clone()) })));
            self.replan = true;
        }
        Ok(Answer::Done)
    }

    pub fn change_host(&mut self, name: &Name, change: &HostChange) -> Result<Answer, Rejection> {
        self.host(name)?;
        if let Some(pool) = &change.pool {
            check_name("pool", pool)?;
        }
        if let Some(labels) = &change.labels {
            if labels.len() > LABELS_PER_HOST_MAX {
                return Err(Rejection::TooManyLabels);
            }
            for (key, value) in labels {
                let is_named = check_name("label", key).is_ok();
                if !is_named || value.len() > LABEL_BYTES_MAX || value.chars().any(char::is_control) {
                    return Err(Rejection::BadLabel(key.clone()));
                }
            }
        }
        self.edit_host(name, |host| {
            if let Some(pool) = &change.pool {
                host.pool = pool.clone();
            }
            if let Some(labels) = &change.labels {
                host.labels = labels.clone();
            }
            if let Some(memory) = change.memory_mib {
                host.memory_mib = memory;
            }
        });
        self.replan = true;
        Ok(Answer::Done)
    }

    pub fn remove_host(&mut self, name: &Name) -> Result<Answer, Rejection> {
        self.host(name)?;
        let is_arriving = self.region.machines_in_transfer().any(|machine| machine.arriving() == Some(name));
        if is_arriving || self.inbound(name).next().is_some() || self.region.machines_on(name).next().is_some() {
            return Err(Rejection::HostInUse(name.clone()));
        }
        if let Some(rollout) = self.region.rollout_of_host(name) {
            return Err(Rejection::HostOwned { host: name.clone(), rollout: rollout.id });
        }
        if let Some(operation) = self.region.index.drains.get(name).copied() {
            self.cancel(operation, &"removal of the host".into())?;
        }
        self.delete(Key::Host(name.clone()));
        Ok(Answer::Done)
    }

    pub fn activate_host(&mut self, name: &Name, by: &Name) -> Result<Answer, Rejection> {
        self.host(name)?;
        if let Some(operation) = self.region.index.drains.get(name).copied() {
            self.cancel(operation, by)?;
        }
        let was_fenced = self.host(name)?.state == HostState::Failed;
        self.edit_host(name, |host| {
            host.state = HostState::Active;
            host.epoch += u64::from(was_fenced);
        });
        if was_fenced {
            self.hide_unconfirmed(name);
        }
        self.unsettle_host(name);
        self.replan = true;
        Ok(Answer::Done)
    }

    /// Ends everything on a host that is certainly off. Machines that were to be deleted or evicted are gone.
    pub fn fence_host(&mut self, name: &Name) -> Result<Answer, Rejection> {
        self.host(name)?;
        self.abort_drain(name)?;
        self.edit_host(name, |host| host.state = HostState::Failed);
        let deallocated = self.machines_to_deallocate(name);
        self.settle_transfer(name);
        let machines: Vec<Arc<Machine>> = self.region.machines_on(name).cloned().collect();
        for machine in machines.iter().filter(|machine| machine.placed_on() == Some(name)) {
            let events: Vec<Arc<Event>> = self.region.events_of(machine.id).cloned().collect();
            if machine.power == Power::Running {
                self.edit_machine(machine.id, |machine| machine.power = Power::Stopped);
            }
            for event in events.iter().filter(|event| matches!(event.status, Status::Started { .. })) {
                match event.kind {
                    // It was started on another host, which gets the order.
                    EventKind::Terminate | EventKind::Preempt if !self.is_gone(machine.id) => {}
                    EventKind::Terminate | EventKind::Preempt => self.complete(event),
                    EventKind::Freeze
                    | EventKind::Reboot
                    | EventKind::Redeploy
                    | EventKind::SpotRebalanceRecommendation => {
                        self.withdraw_orders(event.id);
                        self.end(event.id, Outcome::Failed(HOST_FAILED.into()));
                    }
                }
            }
            self.unsettled.insert(machine.scope);
        }
        for machine in deallocated {
            self.deallocate(machine);
        }
        self.fail_announced_events(name);
        for machine in machines {
            self.accept_claim(machine.id);
        }
        for event in self.live_events_on(name) {
            self.refresh_visibility(&event);
        }
        self.replan = true;
        Ok(Answer::Done)
    }

    /// Fails the announced events of rollouts whose machines are all on hosts that are certainly off. They would end without effect,
    /// and their steps would count as succeeded.
    fn fail_announced_events(&mut self, name: &Name) {
        for event in self.live_events_on(name) {
            let is_announced = event.status == Status::Scheduled && self.is_of_rollout(&event);
            if is_announced && self.is_on_fenced_hosts(&event) {
                self.end(event.id, Outcome::Failed(HOST_FAILED.into()));
            }
        }
    }

    fn is_on_fenced_hosts(&self, event: &Event) -> bool {
        self.machines_of(event).iter().all(|machine| self.is_on_fenced_host(machine.id))
    }

    pub fn is_on_fenced_host(&self, machine: MachineId) -> bool {
        self.host_of_machine(machine).is_some_and(|host| host.state == HostState::Failed)
    }

    /// Whether a deletion or eviction has nothing left to do, because its machines are on hosts that are certainly off.
    /// Such a host gets no orders, so nothing would report the end.
    pub fn is_removal_by_fence(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Terminate | EventKind::Preempt => {
                self.machines_of(event).iter().all(|machine| self.is_gone(machine.id))
            }
            EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::SpotRebalanceRecommendation => {
                false
            }
        }
    }

    /// Whether the machine is on a host that is certainly off, and no other host has it.
    pub fn is_gone(&self, machine: MachineId) -> bool {
        let claims = self.region.machines.get(&machine).map_or(&[][..], |machine| machine.claims());
        claims.is_empty() && self.is_on_fenced_host(machine)
    }

    // --- contact -----------------------------------------------------------------------------------

    pub fn confirm_host(&mut self, name: &Name, revision: u64) -> Result<Answer, Rejection> {
        let host = self.host(name)?;
        let was_lost = host.is_unreachable();
        let before = match host.contact {
            Contact::None => 0,
            Contact::Confirmed { revision } | Contact::Lost { revision, .. } => revision,
        };
        if revision > self.region.meta.revision {
            return Err(Rejection::RevisionAhead(name.clone()));
        }
        self.edit_host(name, |host| host.contact = Contact::Confirmed { revision: revision.max(before) });
        for event in self.live_events_on(name) {
            self.refresh_visibility(&event);
            if was_lost && matches!(event.status, Status::Started { .. }) {
                let now = self.now;
                self.edit_event(event.id, |event| event.attended = now);
            }
        }
        if was_lost {
            self.unsettle_host(name);
            self.replan = true;
        }
        Ok(Answer::Done)
    }

    pub fn mark_host_unreachable(&mut self, name: &Name) -> Result<Answer, Rejection> {
        let host = self.host(name)?;
        if let Contact::Confirmed { revision } = host.contact {
            let since = self.now;
            self.edit_host(name, |host| host.contact = Contact::Lost { since, revision });
            self.replan = true;
        }
        Ok(Answer::Done)
    }

    /// Starts the notice of an event once the agents of all hosts that it concerns have confirmed it.
    pub fn refresh_visibility(&mut self, event: &Event) {
        if !event.unseen || event.status != Status::Scheduled {
            return;
        }
        let now = self.now;
        if self.is_confirmed(event) {
            let confirmed = self.edit_event(event.id, |event| {
                event.unseen = false;
                event.notice_end = now + event.notice;
                event.due = event.not_before.max(event.notice_end) <= now;
            });
            if let Some(event) = confirmed.filter(|event| event.due) {
                self.unsettle(&event);
                self.mark_rollout_unsettled(&event);
            }
        }
    }

    /// Stops the notice of events that the agent of a host has not confirmed, because nothing could see them while the
    /// host was fenced.
    fn hide_unconfirmed(&mut self, name: &Name) {
        for event in self.live_events_on(name) {
            if event.is_shown() && event.status == Status::Scheduled && !self.is_confirmed(&event) {
                self.edit_event(event.id, |event| {
                    event.unseen = true;
                    event.due = false;
                });
            }
        }
    }

    /// Whether every agent of the event's hosts has confirmed a copy that shows the event. Nothing runs on a host that
    /// was fenced, so its agent does not count.
    fn is_confirmed(&self, event: &Event) -> bool {
        let hosts = self.machines_of(event).into_iter().filter_map(|machine| machine.placed_on().cloned());
        let hosts = hosts.filter_map(|host| self.region.hosts.get(&host));
        hosts.filter(|host| host.state != HostState::Failed).all(|host| match host.contact {
            Contact::None => true,
            Contact::Confirmed { revision } | Contact::Lost { revision, .. } => revision >= event.revision,
        })
    }

    /// Whether a machine is on a host whose agent shows its documents.
    pub fn has_agent(&self, machine: MachineId) -> bool {
        let host = self.host_of_machine(machine);
        host.is_some_and(|host| host.contact != Contact::None && host.state != HostState::Failed)
    }

    /// Whether the event waits for one of its hosts. A host that was fenced is certainly off, so nothing waits for it.
    pub fn is_held_up(&self, event: &Event) -> bool {
        let mut hosts = event.resources.iter().filter_map(|resource| self.host_of_machine(resource.machine));
        hosts.any(|host| host.holds_up_events())
    }

    pub fn host_of_machine(&self, machine: MachineId) -> Option<&Arc<Host>> {
        self.region.hosts.get(self.region.machines.get(&machine)?.placed_on()?)
    }

    fn live_events_on(&self, name: &Name) -> Vec<Arc<Event>> {
        let arriving = self.region.machines_in_transfer().filter(|machine| machine.arriving() == Some(name));
        let machines = self.region.machines_on(name).chain(arriving);
        machines.flat_map(|machine| self.region.events_of(machine.id)).cloned().collect()
    }

    fn unsettle_host(&mut self, name: &Name) {
        let events = self.live_events_on(name);
        for event in events {
            self.unsettle(&event);
        }
    }

    // --- placement -----------------------------------------------------------------------------------

    /// The host to which a machine moves: active and reachable, in the given pool or its own, with room for it,
    /// where possible without machines of its group in other fault domains, and then the one with the most free
    /// memory. Hosts without a known capacity count as the emptiest; among equals, the one with fewer machines.
    pub fn place(&self, machine: &Machine, pool: Option<&Name>) -> Option<Name> {
        let here = machine.placed_on()?;
        let pool = pool.or_else(|| self.region.hosts.get(here).map(|host| &host.pool))?;
        let fits = |host: &&Arc<Host>| {
            host.name != *here
                && host.pool == *pool
                && host.state == HostState::Active
                && !host.is_unreachable()
                && self.free_memory(host).is_none_or(|free| free >= i64::from(machine.memory_mib))
        };
        let rank = |host: &&Arc<Host>| {
            let free = self.free_memory(host).unwrap_or(i64::MAX);
            (self.mixes_fault_domains(host, machine), Reverse(free), self.load(&host.name), host.name.clone())
        };
        self.region.hosts.values().filter(fits).min_by_key(rank).map(|host| host.name.clone())
    }

    /// Free memory after reservations, in MiB. None: unlimited.
    fn free_memory(&self, host: &Host) -> Option<i64> {
        let used: u64 = self.region.machines_on(&host.name).map(|machine| u64::from(machine.memory_mib)).sum();
        let reserved: u64 = self.inbound(&host.name).map(|machine| u64::from(machine.memory_mib)).sum();
        Some(host.memory_mib? as i64 - (used + reserved) as i64)
    }

    fn load(&self, host: &Name) -> u32 {
        (self.region.index.on_host.get(host).map_or(0, IdSet::len) + self.inbound(host).count()) as u32
    }

    /// Machines that are moving to this host.
    fn inbound<'a>(&'a self, host: &Name) -> impl Iterator<Item = &'a Arc<Machine>> {
        let last = (host.clone(), MachineId(u64::MAX), Guid(u128::MAX));
        let inbound = self.region.index.inbound.range((host.clone(), MachineId(0), Guid(0))..=last);
        inbound.filter_map(|(_, id, _)| self.region.machines.get(id))
    }

    fn mixes_fault_domains(&self, host: &Host, machine: &Machine) -> bool {
        let Some(group) = machine.membership.group() else { return false };
        let there = self.region.machines_on(&host.name).chain(self.inbound(&host.name));
        there.into_iter().any(|other| {
            other.id != machine.id
                && other.membership.group() == Some(group)
                && other.fault_domain != machine.fault_domain
        })
    }

    pub fn host(&self, name: &Name) -> Result<Arc<Host>, Rejection> {
        self.region.hosts.get(name).cloned().ok_or_else(|| Rejection::UnknownHost(name.clone()))
    }
}
