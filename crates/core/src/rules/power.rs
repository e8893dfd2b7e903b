//! Starts, stops and deallocations that an operator requests. Where hosts take orders per machine, the host of the machine
//! carries them out; otherwise only the record changes.
//!
//! ```text
//!  request ──▶ pending ──Done──▶ the machine has the power state
//!                 ├──Failed──▶ failed, until the power state changes
//!                 └──another request, urgent event──▶ withdrawn
//! ```
//!
//! The order waits for the orders of events that have started, and other events wait for it.

use std::sync::Arc;

use crate::command::MachineReport;
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::step::Step;
use crate::transition::Answer;

impl Step {
    /// Starts, stops or deallocates a machine, with an order if hosts take them. A machine that is to be started counts
    /// as running at once; one that is to be stopped runs until its host reports otherwise.
    pub fn change_power(&mut self, id: MachineId, power: Power, order: EventId) -> Result<Answer, Rejection> {
        let machine = self.machine(id)?;
        let pending = machine.pending_power().map(|change| change.to);
        if !self.region.settings.machine_orders {
            return self.set_power(id, power);
        }
        if pending == Some(power) {
            return Ok(Answer::Machine(id));
        }
        match power {
            Power::Running if machine.power == Power::Running && pending.is_none() => self.set_power(id, power),
            Power::Running => {
                self.check_start(&machine)?;
                self.request_power(&machine, power, order);
                self.set_power(id, power)
            }
            Power::Stopped | Power::Deallocated if self.is_off(&machine) => {
                self.edit_transfer(id, |transfer| transfer.power_change = None);
                self.set_power(id, power)
            }
            Power::Stopped | Power::Deallocated => {
                self.request_power(&machine, power, order);
                self.unsettle_machine(id);
                self.replan = true;
                Ok(Answer::Machine(id))
            }
        }
    }

    fn check_start(&self, machine: &Machine) -> Result<(), Rejection> {
        let is_busy = self.region.has_event_order(machine) || machine.arriving().is_some();
        if is_busy && machine.power != Power::Running {
            return Err(Rejection::OrderInProgress(machine.name.clone()));
        }
        if let Some(host) = machine.claims().first() {
            return Err(Rejection::MachineClaimed { machine: machine.name.clone(), host: host.clone() });
        }
        machine.host.as_ref().map_or(Ok(()), |host| self.check_reporter(host))
    }

    /// Whether a machine can be stopped without an order to a host.
    fn is_off(&self, machine: &Machine) -> bool {
        let host = machine.placed_on().and_then(|host| self.region.hosts.get(host));
        let is_asked = host.is_some_and(|host| host.state != HostState::Failed);
        let is_settled = machine.pending_power().is_none() && !self.region.has_event_order(machine);
        !is_asked || machine.power != Power::Running && is_settled
    }

    /// Requests a power state, in place of the one requested before.
    fn request_power(&mut self, machine: &Machine, to: Power, order: EventId) {
        let was_waiting = machine.pending_power().is_some() && self.region.has_event_order(machine);
        self.withdraw_power_change(machine.id);
        // A stop that the host has not received leaves nothing to start.
        if to != Power::Running || machine.power != Power::Running || !was_waiting {
            let change = PowerChange { order, to, failure: None };
            self.edit_transfer(machine.id, |transfer| transfer.power_change = Some(change));
        }
    }

    /// Ends a change of the power state that is replaced by an urgent event or by another change. If the host may be
    /// carrying it out, its order is withdrawn.
    pub fn withdraw_power_change(&mut self, id: MachineId) {
        let Some(machine) = self.region.machines.get(&id).cloned() else { return };
        let Some(change) = machine.pending_power() else { return };
        let is_given = machine.placed_on().is_some() && !self.region.has_event_order(&machine);
        self.edit_transfer(id, |transfer| {
            transfer.power_change = None;
            if is_given {
                transfer.withdrawn = Some(change.order);
            }
        });
    }

    pub fn forget_power_failure(&mut self, id: MachineId) {
        let has_failed = self.region.machines.get(&id).and_then(|machine| machine.power_change());
        if has_failed.is_some_and(|change| change.failure.is_some()) {
            self.edit_transfer(id, |transfer| transfer.power_change = None);
        }
    }

    /// Machines that were to be deallocated by this host.
    pub fn machines_to_deallocate(&self, host: &Name) -> Vec<MachineId> {
        let is_deallocated = |machine: &&Arc<Machine>| {
            machine.placed_on() == Some(host)
                && machine.pending_power().is_some_and(|change| change.to == Power::Deallocated)
        };
        self.region.machines_in_transfer().filter(is_deallocated).map(|machine| machine.id).collect()
    }

    /// The host reports on a change of the power state.
    pub fn end_power_change(
        &mut self,
        machine: &Arc<Machine>,
        change: &PowerChange,
        host: &Name,
        report: &MachineReport,
    ) -> Result<Answer, Rejection> {
        if self.region.has_event_order(machine) {
            return Err(Rejection::NotOrdered { machine: machine.name.clone(), event: change.order });
        }
        let (power, failure) = match (change.to, report) {
            (_, MachineReport::Moved { to }) => {
                return Err(Rejection::UnplannedMove { machine: machine.name.clone(), to: to.clone() });
            }
            (Power::Running, MachineReport::Done) => (Power::Running, None),
            (Power::Running, MachineReport::Failed(reason)) => (Power::Stopped, Some(reason.clone())),
            (Power::Running, MachineReport::Gone) => {
                (Power::Stopped, Some(format!("the machine is not on host '{host}'").into()))
            }
            (Power::Stopped | Power::Deallocated, MachineReport::Done | MachineReport::Gone) => (change.to, None),
            (Power::Stopped | Power::Deallocated, MachineReport::Failed(reason)) => {
                (machine.power, Some(reason.clone()))
            }
        };
        self.edit_transfer(machine.id, |transfer| {
            transfer.power_change = failure.map(|reason| PowerChange { failure: Some(reason), ..change.clone() });
        });
        match power {
            Power::Deallocated => self.deallocate(machine.id),
            Power::Running | Power::Stopped => self.edit_machine(machine.id, |machine| machine.power = power),
        }
        self.unsettled.insert(machine.scope);
        self.unsettle_machine(machine.id);
        self.replan = true;
        Ok(Answer::Done)
    }
}
