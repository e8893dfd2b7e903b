//! Orders: what the host of a machine is to do for an event, or for an operator who changes the power state of the machine.
//! Orders are not stored. They follow from the started events, the requested power states, the results that hosts have
//! reported, and the hosts of the machines.

use std::sync::Arc;

use crate::ids::{EventId, MachineId};
use crate::model::*;
use crate::region::Region;
use crate::time::Timestamp;

/// An order that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingOrder {
    /// ID of the order: that of its event, or one of its own for a change of the power state.
    pub event: EventId,
    pub machine: MachineId,
    pub kind: OrderKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Carry the event out.
    Perform,
    /// Start a machine that has arrived from another host or that an operator starts, or report that it runs.
    Start,
    /// Shut a machine down that an operator stops or deallocates, or report that it does not run.
    Stop,
    /// End this order, if it was begun, and report how it ended. Its event has ended, or its machine is to get another
    /// power state.
    Withdraw,
}

impl Region {
    /// The orders for the machines of a host, at most one per machine. A host that was fenced gets none.
    pub fn pending_orders(&self, host: &str) -> Vec<PendingOrder> {
        if !self.host(host).is_some_and(|host| host.state != HostState::Failed) {
            return Vec::new();
        }
        let here = |machine: &Machine| machine.placed_on().is_some_and(|placed| **placed == *host);
        let withdrawn = self.machines_in_transfer().filter(|machine| here(machine)).filter_map(|machine| {
            let kind = self.withdrawn_kind(machine);
            Some(PendingOrder { event: machine.withdrawn()?, machine: machine.id, kind })
        });
        let started = self.wanted_effects().flat_map(|event| {
            let machines = event.resources.iter().filter_map(|resource| self.machine(resource.machine));
            machines.map(move |machine| (event, machine))
        });
        let started = started.filter(|(_, machine)| here(machine));
        let started = started.filter_map(|(event, machine)| pending_order(event, machine));
        let power = self.machines_in_transfer().filter(|machine| here(machine));
        withdrawn.chain(started).chain(power.filter_map(|machine| self.power_order(machine))).collect()
    }

    /// The order that changes the power state of a machine, once no other order is in progress on it.
    fn power_order(&self, machine: &Machine) -> Option<PendingOrder> {
        let change = machine.pending_power().filter(|_| !self.has_event_order(machine))?;
        let kind = match (change.to, machine.claims()) {
            (Power::Running, []) => OrderKind::Start,
            // It may run on the other host already.
            (Power::Running, _) => OrderKind::Withdraw,
            (Power::Stopped | Power::Deallocated, []) => OrderKind::Stop,
            (Power::Stopped | Power::Deallocated, _) => return None,
        };
        Some(PendingOrder { event: change.order, machine: machine.id, kind })
    }

    /// Whether an order other than that of its power state may be in progress on a machine.
    pub fn has_event_order(&self, machine: &Machine) -> bool {
        let is_open = |event: &Arc<Event>| {
            matches!(event.status, Status::Started { .. }) && event.result_of(machine.id).is_none()
        };
        machine.withdrawn().is_some() || self.events_of(machine.id).any(is_open)
    }

    /// A machine that has moved for an event that has ended is started at its new host, unless it is to be removed or
    /// stopped.
    fn withdrawn_kind(&self, machine: &Machine) -> OrderKind {
        let is_removed = self.events_of(machine.id).any(|event| {
            matches!(event.kind, EventKind::Terminate | EventKind::Preempt)
                && matches!(event.status, Status::Started { .. })
        });
        let is_stopped = machine.pending_power().is_some_and(|change| change.to != Power::Running);
        let is_startable = machine.power == Power::Running && machine.claims().is_empty() && !is_stopped;
        if machine.arriving().is_some() && is_startable && !is_removed { OrderKind::Start } else { OrderKind::Withdraw }
    }

    /// Machines between two hosts, two orders or two power states.
    pub fn machines_in_transfer(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.index.in_transfer.iter().filter_map(|id| self.machines.get(id))
    }

    /// When a started event fails because its hosts have not reported.
    pub fn report_deadline(&self, event: &Event) -> Timestamp {
        self.timeout_at(event.attended)
    }
}

fn pending_order(event: &Event, machine: &Machine) -> Option<PendingOrder> {
    let is_ordered =
        event.result_of(machine.id).is_none() && machine.withdrawn().is_none() && machine.claims().is_empty();
    let is_at_target = event.target_of(machine.id).is_some_and(|to| machine.placed_on() == Some(to));
    let kind = if is_at_target { OrderKind::Start } else { OrderKind::Perform };
    is_ordered.then_some(PendingOrder { event: event.id, machine: machine.id, kind })
}
