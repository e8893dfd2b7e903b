//! Orders: what the host of a machine is to do for an event. Orders are not stored. They follow from the started
//! events, the results that hosts have reported, and the hosts of the machines.

use std::sync::Arc;

use crate::ids::{EventId, MachineId};
use crate::model::*;
use crate::region::Region;
use crate::time::Timestamp;

/// An order that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingOrder {
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
    /// End the order of this event, if it was begun, and report how it ended. The event itself has ended.
    Withdraw,
}

impl Region {
    /// The orders for the machines of a host, at most one per machine. A host that was fenced gets none.
    pub fn pending_orders(&self, host: &str) -> Vec<PendingOrder> {
        if !self.host(host).is_some_and(|host| host.state != HostState::Failed) {
            return Vec::new();
        }
        let here = |machine: &Machine| machine.placed_on().is_some_and(|placed| **placed == *host);
        let withdrawn = self.machines_in_transit().filter(|machine| here(machine)).filter_map(|machine| {
            let kind = self.withdrawn_kind(machine);
            Some(PendingOrder { event: machine.withdrawn()?, machine: machine.id, kind })
        });
        let started = self.wanted_effects().flat_map(|event| {
            let machines = event.resources.iter().filter_map(|resource| self.machine(resource.machine));
            machines.map(move |machine| (event, machine))
        });
        let started = started.filter(|(_, machine)| here(machine));
        withdrawn.chain(started.filter_map(|(event, machine)| pending_order(event, machine))).collect()
    }

    /// A machine that has moved for an event that has ended is started at its new host, and one that an operator starts
    /// at its host, unless it is to be removed.
    fn withdrawn_kind(&self, machine: &Machine) -> OrderKind {
        let is_removed = self.events_of(machine.id).any(|event| {
            matches!(event.kind, EventKind::Terminate | EventKind::Preempt)
                && matches!(event.status, Status::Started { .. })
        });
        let is_startable = machine.power == Power::Running && machine.claims().is_empty();
        if machine.arriving().is_some() && is_startable && !is_removed { OrderKind::Start } else { OrderKind::Withdraw }
    }

    /// Machines between two hosts or two orders.
    pub fn machines_in_transit(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.index.in_transit.iter().filter_map(|id| self.machines.get(id))
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
