//! Simulated hosts that take orders, carry them out and report, and the invariants of orders.
//!
//! The hosts know only what they were asked to do. They remember their orders through restarts of the server, as the
//! journal of a real driver does.

use std::collections::BTreeMap;

use forewarn_core::*;

use super::PlanRun;
use super::checks::{PlanMemory, ensure, is_started, newly_started};
use crate::invariants::Step;

/// The hosts, as they really are.
#[derive(Default)]
pub struct Hypervisors {
    /// The order in progress on each machine.
    running: BTreeMap<MachineId, Running>,
    /// Orders that were in progress on hosts when these were fenced. If such a host was only cut off, it still works on them, even
    /// if it was removed meanwhile and is registered again.
    stranded: Vec<(MachineId, Running)>,
}

#[derive(Clone, Debug)]
struct Running {
    event: EventId,
    host: Name,
    epoch: u64,
    kind: OrderKind,
    target: Option<Name>,
}

impl Hypervisors {
    /// Accepts an order. The machine must have no other.
    fn accept(&mut self, region: &Region, host: &Name, order: &PendingOrder) -> Result<(), String> {
        let machine = region.machine(order.machine).ok_or("an order for a machine that does not exist")?;
        ensure(machine.claims().is_empty(), || format!("an order for {}, which two hosts claim", machine.name))?;
        let event = region.event(order.event);
        let target = event.and_then(|event| event.target_of(order.machine)).cloned();
        let epoch = epoch_of(region, host);
        let order_kept = Running { event: order.event, host: host.clone(), epoch, kind: order.kind, target };
        let known = self.running.entry(order.machine).or_insert_with(|| order_kept.clone());
        ensure(known.event == order.event && known.host == *host, || {
            format!("{} has two orders: {known:?} and {order_kept:?}", machine.name)
        })
    }

    /// Forgets orders that ended because of something other than a report.
    pub fn follow(&mut self, command: &Command, region: &Region) {
        match command {
            Command::FenceHost { name } => {
                let is_there = |running: &Running| running.host == *name;
                let stranded = self.running.iter().filter(|(_, running)| is_there(running));
                self.stranded.extend(stranded.map(|(id, running)| (*id, running.clone())));
                self.running.retain(|_, running| !is_there(running));
            }
            Command::ChangeMachine { machine, change } if change.host.is_some() => drop(self.running.remove(machine)),
            Command::ClaimMachine { machine, host, present: false } => {
                self.running.retain(|id, running| id != machine || running.host != *host);
            }
            _ => {}
        }
        self.running.retain(|id, _| region.machine(*id).is_some_and(|machine| machine.placed_on().is_some()));
    }

    /// Whatever is in progress on a machine is known to the region: as a started event, as withdrawn, or as a change of
    /// its power state. A host that was fenced meanwhile learns this once it gets orders again.
    pub fn check(&self, region: &Region) -> Result<(), String> {
        for (_, running) in self.stranded.iter().filter(|(_, running)| gets_orders(region, &running.host)) {
            ensure(running.epoch != epoch_of(region, &running.host), || {
                format!("{} goes on with an order from before its fence: {running:?}", running.host)
            })?;
        }
        for (id, running) in &self.running {
            let Some(machine) = region.machine(*id) else { continue };
            let is_wanted = region
                .event(running.event)
                .is_some_and(|event| is_started(event) && event.progress.iter().all(|it| it.machine != *id));
            let is_power = machine.pending_power().is_some_and(|change| change.order == running.event);
            ensure(is_wanted || is_power || machine.withdrawn() == Some(running.event), || {
                format!("nothing is known of {running:?} on {}", machine.name)
            })?;
        }
        Ok(())
    }
}

impl PlanRun {
    /// A host takes an order, or reports on one; sometimes the wrong host reports.
    pub(super) fn work_on_orders(&mut self) -> Result<(), String> {
        let host = self.host();
        let orders = self.region.pending_orders(&host);
        if let Some(order) = self.rng.pick(&orders) {
            if order.kind != OrderKind::Withdraw {
                self.hypervisors.accept(&self.region, &host, &order)?;
            } else {
                return self.end_withdrawn(&host, &order);
            }
        }
        self.report_from_fenced_hosts()?;
        self.report_from_earlier_epochs()?;
        self.reverse_power_change()?;
        let running: Vec<MachineId> = self.hypervisors.running.keys().copied().collect();
        let Some(machine) = self.rng.pick(&running).filter(|_| self.rng.percent(70)) else { return Ok(()) };
        if self.rng.percent(10) {
            return self.report_from_elsewhere(machine);
        }
        let succeeds = self.rng.percent(85);
        self.finish(machine, succeeds)
    }

    /// A host with an order in progress is fenced, its machines are moved away, and it is removed and registered again. Without
    /// choices of its own, so that the rest of the run stays the same.
    pub(super) fn replace_host(&mut self) -> Result<(), String> {
        let Some(name) = self.hypervisors.running.values().next().map(|running| running.host.clone()) else {
            return Ok(());
        };
        let Some(other) = self.region.hosts().map(|host| host.name.clone()).find(|host| *host != name) else {
            return Ok(());
        };
        self.step(&Command::FenceHost { name: name.clone() })?;
        let machines: Vec<MachineId> = self.region.machines_on(&name).map(|machine| machine.id).collect();
        for machine in machines {
            let change = Box::new(MachineChange { host: Some(Some(other.clone())), ..MachineChange::default() });
            self.step(&Command::ChangeMachine { machine, change })?;
        }
        // A rollout may own the host, or another machine may be moving to it.
        let removed = self.step(&Command::RemoveHost { name: name.clone() })?;
        let command = if removed { Command::RegisterHost { name } } else { Command::Tick };
        self.step(&command).map(drop)
    }

    /// An operator requests another power state while a host may be carrying out the first one.
    fn reverse_power_change(&mut self) -> Result<(), String> {
        let changing = self.region.machines_in_transfer().filter(|machine| machine.pending_power().is_some());
        let changing: Vec<MachineId> = changing.map(|machine| machine.id).collect();
        let Some(machine) = self.rng.pick(&changing).filter(|_| self.rng.percent(10)) else { return Ok(()) };
        let power = self.rng.one(&[Power::Running, Power::Stopped, Power::Deallocated]);
        let order = self.rng.guid();
        self.step(&Command::ChangePower { machine, power, order }).map(drop)
    }

    fn end_withdrawn(&mut self, host: &Name, order: &PendingOrder) -> Result<(), String> {
        match self.hypervisors.running.get(&order.machine) {
            Some(running) => {
                ensure(running.event == order.event && running.host == *host, || {
                    format!("{running:?} is not {order:?}")
                })?;
                let succeeds = self.rng.percent(40);
                self.finish(order.machine, succeeds)
            }
            None => {
                let report = MachineReport::Failed("it had not begun".into());
                self.send(order.event, order.machine, host.clone(), report)
            }
        }
    }

    /// The order of a machine ends, and its host reports.
    fn finish(&mut self, machine: MachineId, succeeds: bool) -> Result<(), String> {
        let Some(running) = self.hypervisors.running.get(&machine).cloned() else { return Ok(()) };
        let report = match (&running.target, running.kind) {
            (Some(to), OrderKind::Perform) if succeeds && self.region.host(to).is_some() => {
                MachineReport::Moved { to: to.clone() }
            }
            (None, _) | (_, OrderKind::Start) if succeeds => {
                self.rng.one(&[MachineReport::Done, MachineReport::Done, MachineReport::Gone])
            }
            _ => MachineReport::Failed("it broke".into()),
        };
        self.hypervisors.running.remove(&machine);
        self.send(running.event, machine, running.host, report)
    }

    /// A host that was fenced and activated again reports how an order from before its fence has ended, or such a report
    /// arrives late.
    fn report_from_earlier_epochs(&mut self) -> Result<(), String> {
        let returned = |(_, running): &(MachineId, Running)| gets_orders(&self.region, &running.host);
        let stranded: Vec<_> = self.hypervisors.stranded.extract_if(.., |it| returned(it)).collect();
        let running = self.hypervisors.running.iter().filter(|(_, running)| running.epoch > 0);
        let late = running.map(|(id, running)| (*id, Running { epoch: running.epoch - 1, ..running.clone() }));
        for (machine, Running { event, host, epoch, .. }) in late.chain(stranded).collect::<Vec<_>>() {
            let command =
                Command::ReportMachine { event, machine, host, epoch: Some(epoch), report: MachineReport::Done };
            let accepted = self.step(&command)?;
            ensure(!accepted, || format!("accepted from an earlier epoch: {command:?}"))?;
        }
        Ok(())
    }

    /// A report on an order in progress must be accepted.
    fn send(&mut self, event: EventId, machine: MachineId, host: Name, report: MachineReport) -> Result<(), String> {
        // Some agents are of an earlier version, which does not know epochs.
        let epoch = (!machine.0.is_multiple_of(5)).then(|| epoch_of(&self.region, &host));
        let command = Command::ReportMachine { event, machine, host, epoch, report };
        // The passage of time may end the event or remove the machine first.
        let due = self.region.next_deadline().is_some_and(|at| at <= self.clock);
        let accepted = self.step(&command)?;
        ensure(accepted || due, || format!("refused: {command:?}"))
    }

    fn report_from_elsewhere(&mut self, machine: MachineId) -> Result<(), String> {
        let Some(running) = self.hypervisors.running.get(&machine).cloned() else { return Ok(()) };
        let host = self.host();
        if host == running.host {
            return Ok(());
        }
        let report = MachineReport::Done;
        let command = Command::ReportMachine { event: running.event, machine, host, epoch: None, report };
        let accepted = self.step(&command)?;
        ensure(!accepted, || format!("accepted from the wrong host: {command:?}"))
    }

    /// A fenced host that comes back knows nothing of the fence.
    fn report_from_fenced_hosts(&mut self) -> Result<(), String> {
        let started = self.region.wanted_effects().flat_map(|event| {
            let machines = event.resources.iter().filter_map(|it| self.region.machine(it.machine));
            machines.filter_map(move |machine| Some((event.id, machine.id, machine.placed_on()?.clone())))
        });
        let reports: Vec<_> = started.filter(|(_, _, host)| is_fenced(&self.region, host)).collect();
        for (event, machine, host) in reports {
            let command = Command::ReportMachine { event, machine, host, epoch: None, report: MachineReport::Done };
            let accepted = self.step(&command)?;
            ensure(!accepted, || format!("accepted from a fenced host: {command:?}"))?;
        }
        Ok(())
    }

    pub(super) fn claim_machine(&mut self) -> Command {
        Command::ClaimMachine { machine: self.machine(), host: self.host(), present: self.rng.percent(60) }
    }

    /// Machines that were started without a host are found on one.
    fn find_hosts_of_starts(&mut self) -> Result<(), String> {
        let waiting: Vec<MachineId> = self
            .region
            .machines_in_transfer()
            .filter(|machine| machine.awaits_host())
            .map(|machine| machine.id)
            .collect();
        let working = self.region.hosts().find(|host| host.state != HostState::Failed).map(|host| host.name.clone());
        for machine in waiting {
            self.step(&match &working {
                Some(host) => Command::ClaimMachine { machine, host: host.clone(), present: true },
                None => Command::ChangePower { machine, power: Power::Stopped, order: Guid(1) },
            })?;
        }
        Ok(())
    }

    /// Hosts give up their claims and carry out all orders.
    pub(super) fn finish_orders(&mut self) -> Result<(), String> {
        let claims: Vec<(MachineId, Name)> = self
            .region
            .machines_in_transfer()
            .flat_map(|machine| machine.claims().iter().map(|host| (machine.id, host.clone())))
            .collect();
        for (machine, host) in claims {
            self.step(&Command::ClaimMachine { machine, host, present: false })?;
        }
        self.find_hosts_of_starts()?;
        let hosts: Vec<Name> = self.region.hosts().map(|host| host.name.clone()).collect();
        for host in hosts {
            for order in self.region.pending_orders(&host) {
                if order.kind == OrderKind::Withdraw {
                    self.end_withdrawn(&host, &order)?;
                } else if self.region.pending_orders(&host).contains(&order) {
                    self.hypervisors.accept(&self.region, &host, &order)?;
                    self.finish(order.machine, true)?;
                }
            }
        }
        Ok(())
    }
}

/// A machine that an operator starts or stops gets an order, now or after the one in progress. Its power state becomes
/// that of a machine which is off only when a host reports it.
pub fn power_changes_are_ordered(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::ChangePower { machine: id, power, order } = step.command else { return Ok(()) };
    let (Some(before), Some(machine)) = (step.before.machine(*id), step.after.machine(*id)) else { return Ok(()) };
    let requested = before.transfer.as_ref().and_then(|transfer| transfer.power_change.as_ref());
    let requested = requested.filter(|change| change.failure.is_none()).map(|change| change.to);
    let is_same = requested.unwrap_or(before.power) == *power;
    if is_same || !step.after.settings().machine_orders {
        return Ok(());
    }
    let name = &machine.name;
    let host = machine.placed_on().and_then(|host| step.after.host(host));
    let Some(host) = host.filter(|host| host.state != HostState::Failed) else {
        let is_set = machine.power == *power;
        return ensure(is_set && (*power != Power::Running || machine.awaits_host()), || {
            format!("{name} without a host is not {power:?}")
        });
    };
    if *power != Power::Running && before.power == Power::Running {
        ensure(machine.power == Power::Running, || {
            format!("{name} is {:?} before its host reports it", machine.power)
        })?;
    }
    let is_waiting = step.after.has_event_order(machine);
    // The start of a machine whose stop no host has received, or the stop of one that is off.
    let is_nothing_left = if *power == Power::Running {
        before.power == Power::Running && step.before.has_event_order(before)
    } else {
        before.power != Power::Running && requested.is_none() && !step.before.has_event_order(before)
    };
    let kind = if *power == Power::Running { OrderKind::Start } else { OrderKind::Stop };
    let wanted = PendingOrder { event: *order, machine: *id, kind };
    let is_ordered = step.after.pending_orders(&host.name).contains(&wanted);
    let is_kept = machine.pending_power().is_some_and(|change| change.order == *order);
    let may_wait = is_kept && (is_waiting || !machine.claims().is_empty());
    ensure(is_ordered || may_wait || is_nothing_left, || format!("{name} gets no order for {power:?}"))
}

/// A machine is found off, or its host reports that it is.
pub fn machines_stop_by_report(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    if !step.after.settings().machine_orders {
        return Ok(());
    }
    for machine in step.after.machines().filter(|machine| machine.power != Power::Running) {
        let before = step.before.machine(machine.id).filter(|before| before.power == Power::Running);
        let Some(host) = before.and_then(|before| before.placed_on()).and_then(|host| step.before.host(host)) else {
            continue;
        };
        let is_stated = match step.command {
            Command::ReportMachine { machine: id, .. } | Command::SetPower { machine: id, .. } => *id == machine.id,
            Command::FenceHost { name } => *name == host.name,
            _ => host.state == HostState::Failed,
        };
        ensure(is_stated, || format!("{} is {:?} without a report", machine.name, machine.power))?;
    }
    Ok(())
}

pub fn hosts_change_by_report(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    if !step.after.settings().machine_orders {
        return Ok(());
    }
    for machine in step.after.machines() {
        let Some(before) = step.before.machine(machine.id).filter(|before| before.host != machine.host) else {
            continue;
        };
        let arriving = before.transfer.as_ref().and_then(|transfer| transfer.arriving.as_ref());
        let is_stated = match step.command {
            Command::ReportMachine { machine: id, host, report, .. } if *id == machine.id => match report {
                MachineReport::Moved { to } if before.power != Power::Running || is_fenced(step.before, to) => {
                    machine.host.as_ref() == Some(to)
                }
                _ => {
                    arriving == Some(host) && machine.host.as_ref() == Some(host) || machine.power == Power::Deallocated
                }
            },
            Command::ChangeMachine { machine: id, .. } | Command::ClaimMachine { machine: id, .. } => *id == machine.id,
            Command::FenceHost { name } => {
                let is_claimed = machine.host.as_ref().is_some_and(|host| before.claims() == [host.clone()]);
                arriving == Some(name) || is_claimed || machine.power == Power::Deallocated
            }
            Command::ChangePower { machine: id, power: Power::Deallocated, .. } if *id == machine.id => {
                before.power != Power::Running || machine.power == Power::Deallocated
            }
            _ => {
                let was_fenced = before.host.as_ref().is_some_and(|host| is_fenced(step.before, host));
                was_fenced && machine.power == Power::Deallocated
            }
        };
        ensure(is_stated, || format!("{} moved from {:?} to {:?}", machine.name, before.host, machine.host))?;
    }
    Ok(())
}

fn epoch_of(region: &Region, host: &Name) -> u64 {
    region.host(host).map_or(0, |host| host.epoch)
}

fn gets_orders(region: &Region, host: &Name) -> bool {
    region.host(host).is_some_and(|host| host.state != HostState::Failed)
}

fn is_fenced(region: &Region, host: &Name) -> bool {
    region.host(host).is_some_and(|host| host.state == HostState::Failed)
}

pub fn events_end_by_machine(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::ReportMachine { event, .. } = step.command else { return Ok(()) };
    let (Some(before), Some(after)) = (step.before.event(*event), step.after.event(*event)) else { return Ok(()) };
    if !is_started(before) {
        return Ok(());
    }
    let machines = before.resources.iter().filter(|resource| step.before.machine(resource.machine).is_some());
    let is_reported = |id: MachineId| after.progress.iter().any(|progress| progress.machine == id);
    let open = machines.into_iter().filter(|resource| !is_reported(resource.machine)).count();
    let failed = after.progress.iter().any(|progress| progress.result != MachineResult::Done);
    match &after.status {
        Status::Started { .. } => ensure(open > 0, || format!("{event} goes on after the last report")),
        Status::Ended { outcome: Outcome::Completed, .. } => {
            ensure(open == 0 && !failed, || format!("{event} completed with {open} open, {:?}", after.progress))
        }
        Status::Ended { outcome: Outcome::Failed(_), .. } => {
            ensure(open == 0 && failed, || format!("{event} failed with {open} open, {:?}", after.progress))
        }
        // The machine may have left an unreachable host, for which a deletion had waited.
        Status::Ended { outcome: Outcome::Superseded, .. } => Ok(()),
        other => Err(format!("{event} is {other:?} after a report")),
    }
}

pub fn reports_come_from_the_host(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let Command::ReportMachine { machine, host, .. } = step.command else { return Ok(()) };
    let Some(machine) = step.before.machine(*machine) else { return Err("a report on nothing".into()) };
    let arriving = machine.transfer.as_ref().and_then(|transfer| transfer.arriving.clone());
    let placed = arriving.or_else(|| machine.host.clone());
    ensure(placed.as_ref() == Some(host), || format!("{host} reported on {}, which is on {placed:?}", machine.name))?;
    let fenced = step.before.host(host).is_some_and(|host| host.state == HostState::Failed);
    ensure(!fenced, || format!("{host} is fenced, but its report was accepted"))
}

pub fn nothing_starts_meanwhile(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for event in newly_started(step) {
        let urgent =
            matches!(event.kind, EventKind::Terminate | EventKind::Preempt) || event.cause == Cause::HardwareFailure;
        for resource in event.resources.iter().filter(|_| !urgent) {
            let Some(transfer) = step.after.machine(resource.machine).and_then(|machine| machine.transfer.as_ref())
            else {
                continue;
            };
            ensure(transfer.withdrawn.is_none(), || format!("{} started before the last order ended", event.id))?;
            let is_changing = transfer.power_change.as_ref().is_some_and(|change| change.failure.is_none());
            ensure(!is_changing, || format!("{} started while a machine is started or stopped", event.id))?;
            ensure(transfer.claims.is_empty(), || format!("{} started although two hosts claim a machine", event.id))?;
        }
    }
    Ok(())
}

pub fn terms_rise_at_starts(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    let (before, after) = (step.before.meta().term, step.after.meta().term);
    let expected = before + u64::from(*step.command == Command::Resume);
    ensure(after == expected, || format!("the term is {after} after {before}"))
}

pub fn results_stay(_: &PlanMemory, step: &Step<'_>) -> Result<(), String> {
    for before in step.before.events() {
        let Some(after) = step.after.event(before.id) else { continue };
        ensure(after.progress.starts_with(&before.progress), || format!("{} forgot results", before.id))?;
    }
    Ok(())
}
