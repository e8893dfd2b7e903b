//! Orders and the reports of hosts about single machines.
//!
//! ```text
//!  order ──Done, Failed, Gone──▶ result of the machine ──all machines──▶ end of the event
//!    └──Moved──▶ arriving ──report of the new host──▶ result of the machine, which is on the new host
//! ```
//!
//! If an event ends while a host may still be carrying it out, its order is withdrawn. The machine gets no other
//! order until the host has confirmed the end of that one. Orders that start and stop machines are in `power`.

use std::sync::Arc;

use crate::command::MachineReport;
use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::rules::hosts::HOST_FAILED;
use crate::step::Step;
use crate::transition::Answer;

impl Step {
    pub fn report_machine(
        &mut self,
        id: EventId,
        machine: MachineId,
        host: &Name,
        epoch: Option<u64>,
        report: &MachineReport,
    ) -> Result<Answer, Rejection> {
        self.check_reporter(host)?;
        self.check_epoch(host, epoch)?;
        let machine = self.machine(machine)?;
        if machine.placed_on() != Some(host) {
            return Err(Rejection::NotOnHost { machine: machine.name.clone(), host: host.clone() });
        }
        if machine.withdrawn() == Some(id) {
            return self.confirm_withdrawn(&machine, host, report);
        }
        if let Some(change) = machine.pending_power().filter(|change| change.order == id) {
            return self.end_power_change(&machine, change, host, report);
        }
        let event = self.region.events.get(&id).cloned().ok_or(Rejection::UnknownEvent(id))?;
        match event.status {
            Status::Ended { .. } => return Err(Rejection::EventEnded(id)),
            Status::Scheduled => return Err(Rejection::NotStarted(id)),
            Status::Started { .. } => {}
        }
        let is_listed = event.resources.iter().any(|resource| resource.machine == machine.id);
        if !is_listed || machine.withdrawn().is_some() {
            return Err(Rejection::NotOrdered { machine: machine.name.clone(), event: id });
        }
        if event.result_of(machine.id).is_none() {
            self.take_report(&event, &machine, host, report)?;
        }
        Ok(Answer::Done)
    }

    pub fn check_reporter(&self, host: &Name) -> Result<(), Rejection> {
        let host = self.host(host)?;
        match host.state {
            HostState::Failed => Err(Rejection::HostNotActive { host: host.name.clone(), state: host.state }),
            HostState::Active | HostState::Draining | HostState::Drained => Ok(()),
        }
    }

    /// Refuses the result of an order that the host got before it was fenced.
    fn check_epoch(&self, host: &Name, epoch: Option<u64>) -> Result<(), Rejection> {
        let current = self.host(host)?.epoch;
        match epoch {
            Some(epoch) if epoch != current => Err(Rejection::OtherEpoch { host: host.clone(), epoch, current }),
            Some(_) | None => Ok(()),
        }
    }

    /// Applies the report of the host on which the machine is.
    fn take_report(
        &mut self,
        event: &Event,
        machine: &Arc<Machine>,
        host: &Name,
        report: &MachineReport,
    ) -> Result<(), Rejection> {
        if machine.arriving().is_some() {
            self.arrive(machine.id, host);
        }
        if let MachineReport::Moved { to } = report {
            if to == host || event.target_of(machine.id) != Some(to) {
                return Err(Rejection::UnplannedMove { machine: machine.name.clone(), to: to.clone() });
            }
            self.depart(machine, to);
            let event = self.region.events.get(&event.id).cloned();
            let open = event.filter(|event| event.result_of(machine.id).is_none());
            if let Some(event) = open.filter(|_| machine.power != Power::Running) {
                // There is nothing to start, and so nothing for the new host to report.
                self.arrive(machine.id, to);
                self.set_result(&event, machine, MachineResult::Done);
            }
            return Ok(());
        }
        let result = self.result_of_report(event, machine, host, report);
        let is_at_target = event.target_of(machine.id) == Some(host);
        if is_at_target && result != MachineResult::Done {
            self.edit_machine(machine.id, |machine| machine.power = Power::Stopped);
        }
        self.set_result(event, machine, result);
        Ok(())
    }

    fn result_of_report(&self, event: &Event, machine: &Machine, host: &Name, report: &MachineReport) -> MachineResult {
        let removes = matches!(event.kind, EventKind::Terminate | EventKind::Preempt);
        let stayed = event.target_of(machine.id).is_some_and(|to| to != host);
        match report {
            MachineReport::Failed(reason) => MachineResult::Failed(reason.clone()),
            MachineReport::Gone if !removes => {
                MachineResult::Failed(format!("the machine is not on host '{host}'").into())
            }
            MachineReport::Done if stayed => {
                MachineResult::Failed(format!("the machine is still on host '{host}'").into())
            }
            MachineReport::Done | MachineReport::Gone | MachineReport::Moved { .. } => MachineResult::Done,
        }
    }

    /// Records the result of a machine. The event ends with the result of its last machine.
    fn set_result(&mut self, event: &Event, machine: &Arc<Machine>, result: MachineResult) {
        let is_done = result == MachineResult::Done;
        let progress = MachineProgress { machine: machine.id, result };
        let Some(event) = self.edit_event(event.id, |event| event.progress.push(progress)) else { return };
        self.end_if_reported(&event);
        if is_done {
            self.remove_if_deleted(&event, machine);
        }
        self.unsettled.insert(event.scope);
    }

    /// Ends an event for which all machines that still exist have a result.
    fn end_if_reported(&mut self, event: &Event) {
        if self.machines_of(event).iter().any(|machine| event.result_of(machine.id).is_none()) {
            return;
        }
        let failed = event.progress.iter().find_map(|progress| match &progress.result {
            MachineResult::Failed(reason) => Some(reason.clone()),
            MachineResult::Done => None,
        });
        self.end(event.id, failed.map_or(Outcome::Completed, Outcome::Failed));
    }

    /// Records results for machines on fenced hosts, which get no orders and report nothing.
    pub fn take_fenced_results(&mut self, event: EventId) {
        let Some(event) = self.region.events.get(&event).cloned() else { return };
        if !self.region.settings.machine_orders || !matches!(event.status, Status::Started { .. }) {
            return;
        }
        for machine in self.machines_of(&event) {
            let result = result_by_fence(event.kind);
            let is_known = result != MachineResult::Done || self.is_gone(machine.id);
            if event.result_of(machine.id).is_none() && self.is_on_fenced_host(machine.id) && is_known {
                self.set_result(&event, &machine, result);
            }
        }
    }

    // --- withdrawn orders --------------------------------------------------------------------------

    /// Withdraws the orders of a started event that is about to end without the reports of all its machines.
    pub fn withdraw_orders(&mut self, id: EventId) {
        let Some(event) = self.region.events.get(&id).cloned() else { return };
        if !self.region.settings.machine_orders {
            return;
        }
        for machine in self.machines_of(&event) {
            let host = machine.placed_on().and_then(|host| self.region.hosts.get(host));
            let is_asked = host.is_some_and(|host| host.state != HostState::Failed);
            // A machine with a withdrawn order has not got the order of this event yet.
            if is_asked && machine.withdrawn().is_none() && event.result_of(machine.id).is_none() {
                self.edit_transfer(machine.id, |transfer| transfer.withdrawn = Some(id));
            }
        }
    }

    /// The order of an event that has ended has ended too. The machine may have moved meanwhile.
    fn confirm_withdrawn(
        &mut self,
        machine: &Arc<Machine>,
        host: &Name,
        report: &MachineReport,
    ) -> Result<Answer, Rejection> {
        if machine.arriving().is_some() {
            self.arrive(machine.id, host);
        }
        match report {
            // The order stays withdrawn until the new host has reported the machine.
            MachineReport::Moved { to } => {
                if to == host || self.host(to).is_err() {
                    return Err(Rejection::UnplannedMove { machine: machine.name.clone(), to: to.clone() });
                }
                self.depart(machine, to);
            }
            MachineReport::Done | MachineReport::Gone | MachineReport::Failed(_) => {
                self.edit_transfer(machine.id, |transfer| transfer.withdrawn = None);
                if machine.arriving().is_some() && *report != MachineReport::Done {
                    self.edit_machine(machine.id, |machine| machine.power = Power::Stopped);
                }
                if !matches!(report, MachineReport::Failed(_)) {
                    self.finish_withdrawn_deletion(machine);
                }
            }
        }
        self.unsettle_machine(machine.id);
        self.replan = true;
        Ok(Answer::Done)
    }

    /// Removes a machine whose deletion or eviction was completed after its event had ended. A deletion that is in
    /// progress finds out by itself.
    fn finish_withdrawn_deletion(&mut self, machine: &Arc<Machine>) {
        let withdrawn = machine.withdrawn().and_then(|id| self.region.events.get(&id)).map(|event| event.kind);
        let is_deleting = self
            .region
            .events_of(machine.id)
            .any(|event| event.kind == EventKind::Terminate && matches!(event.status, Status::Started { .. }));
        match (withdrawn, machine.eviction) {
            (Some(EventKind::Terminate), _) | (Some(EventKind::Preempt), EvictionPolicy::Delete) if !is_deleting => {
                self.remove_evicted(machine);
            }
            (Some(EventKind::Preempt), EvictionPolicy::Deallocate) if !is_deleting => self.deallocate(machine.id),
            (Some(_) | None, _) => {}
        }
    }

    /// Whether the event waits because the host of one of its machines has not confirmed the end of the previous
    /// order, because the machine is being started or stopped, or because another host claims it. Urgent events start
    /// anyway; only their order waits.
    pub fn waits_for_order(&self, event: &Event) -> bool {
        event.precedence() == 0
            && self.machines_of(event).iter().any(|machine| {
                machine.withdrawn().is_some() || machine.pending_power().is_some() || !machine.claims().is_empty()
            })
    }

    // --- the host of a machine -----------------------------------------------------------------------

    /// The old host no longer has the machine. If the new one has been fenced in the meantime, the machine is off.
    fn depart(&mut self, machine: &Machine, to: &Name) {
        self.edit_transfer(machine.id, |transfer| transfer.arriving = Some(to.clone()));
        if self.is_on_fenced_host(machine.id) {
            let is_deallocated = machine.pending_power().is_some_and(|change| change.to == Power::Deallocated);
            self.edit_transfer(machine.id, |transfer| {
                transfer.withdrawn = None;
                transfer.power_change = None;
            });
            self.edit_machine(machine.id, |machine| machine.power = Power::Stopped);
            self.arrive(machine.id, to);
            if is_deallocated {
                self.deallocate(machine.id);
            }
        }
        self.apply_host_change(machine.id);
        self.unsettle_machine(machine.id);
    }

    /// The new host has the machine.
    fn arrive(&mut self, machine: MachineId, host: &Name) {
        self.edit_transfer(machine, |transfer| transfer.arriving = None);
        self.edit_machine(machine, |machine| machine.host = Some(host.clone()));
        self.apply_host_change(machine);
    }

    /// A host reports that it has, or no longer has, a machine. Two hosts that have the same machine are a problem
    /// that stops its events until one of them gives way.
    pub fn claim_machine(&mut self, id: MachineId, host: &Name, present: bool) -> Result<Answer, Rejection> {
        self.check_reporter(host)?;
        let machine = self.machine(id)?;
        let is_placed = machine.placed_on() == Some(host);
        match (present, is_placed) {
            (true, true) => {}
            (true, false) if machine.placed_on().is_none() => self.move_machine(id, host),
            (true, false) if self.is_expected_at(&machine, host) => {}
            (true, false) => self.edit_transfer(id, |transfer| {
                transfer.claims.retain(|other| other != host);
                transfer.claims.push(host.clone());
            }),
            (false, true) => {
                if let [only] = machine.claims() {
                    self.move_machine(id, &only.clone());
                }
            }
            (false, false) => self.edit_transfer(id, |transfer| transfer.claims.retain(|other| other != host)),
        }
        self.accept_claim(id);
        self.unsettle_machine(id);
        self.replan = true;
        Ok(Answer::Done)
    }

    /// Moves a machine from its fenced host to the only host that claims it. Hosts claim only running machines.
    pub fn accept_claim(&mut self, id: MachineId) {
        let Some(machine) = self.region.machines.get(&id).cloned().filter(|_| self.is_on_fenced_host(id)) else {
            return;
        };
        if let [only] = machine.claims() {
            self.edit_machine(id, |machine| machine.power = Power::Running);
            self.move_machine(id, only);
        }
    }

    /// Whether the machine may appear on this host before its old host reports the move.
    fn is_expected_at(&self, machine: &Machine, host: &Name) -> bool {
        let withdrawn = machine.withdrawn().and_then(|id| self.region.events.get(&id));
        let mut events = self.region.events_of(machine.id).chain(withdrawn);
        events.any(|event| event.status != Status::Scheduled && event.target_of(machine.id) == Some(host))
    }

    /// Settles pending transfers of machines on a fenced host.
    pub fn settle_transfer(&mut self, host: &Name) {
        let machines: Vec<Arc<Machine>> = self.region.machines_in_transfer().cloned().collect();
        for machine in machines {
            let is_placed = machine.placed_on() == Some(host);
            if machine.arriving() == Some(host) {
                self.arrive(machine.id, host);
            }
            self.edit_transfer(machine.id, |transfer| {
                transfer.claims.retain(|other| other != host);
                if is_placed {
                    transfer.withdrawn = None;
                    transfer.power_change = None;
                }
            });
            self.unsettle_machine(machine.id);
        }
    }

    pub fn edit_transfer(&mut self, machine: MachineId, edit: impl FnOnce(&mut MachineTransfer)) {
        self.edit_machine(machine, |machine| {
            let mut transfer = machine.transfer.take().map_or_else(MachineTransfer::default, |transfer| *transfer);
            edit(&mut transfer);
            machine.transfer = (transfer != MachineTransfer::default()).then(|| Box::new(transfer));
        });
    }

    pub fn unsettle_machine(&mut self, machine: MachineId) {
        for event in self.region.events_of(machine).cloned().collect::<Vec<_>>() {
            self.unsettle(&event);
        }
    }
}

/// A removal is done, because the machine is gone. Any other event fails.
fn result_by_fence(kind: EventKind) -> MachineResult {
    match kind {
        EventKind::Terminate | EventKind::Preempt => MachineResult::Done,
        EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::SpotRebalanceRecommendation => {
            MachineResult::Failed(HOST_FAILED.into())
        }
    }
}
