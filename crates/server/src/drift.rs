//! Compares the domains of a host with the region: changes that were made outside Forewarn update the power state of
//! machines. They never create events. Machines with an order in progress are left alone, because the order changes them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use forewarn_api::HealthProblems;
use forewarn_core::{Command, Machine, MachineId, Name, Power, Region, Status};
use forewarn_drivers::{FoundDomain, MachineObserver, MachineWatch, Pending};
use forewarn_engine::Engine;
use tokio::time::sleep;

use crate::order_metrics::OrderMetrics;

/// The shortest pause between two searches for machines that wait for their host, which read all machines.
const INTEREST_PAUSE: Duration = Duration::from_millis(200);

/// Updates the region for the domains of a host that this server drives.
pub struct DriftObserver {
    pub engine: Engine,
    pub host: Name,
    /// The problem to report while the hypervisor cannot be reached.
    pub problem: String,
    pub problems: HealthProblems,
    pub metrics: OrderMetrics,
    /// The machines without a host that were to be started at the last look.
    pub awaiting: HashSet<MachineId>,
}

impl MachineObserver for DriftObserver {
    fn set_connected(&mut self, is_connected: bool) {
        self.metrics.set_connected(&self.host, is_connected);
        match is_connected {
            true => self.problems.resolve(&self.problem),
            false => self.problems.report_once(&self.problem),
        }
    }

    /// Nothing to do: the follower logs the failure.
    fn note_removed_record(&mut self, _machine: String) {}

    fn observe<'o>(&'o mut self, watch: &'o mut dyn MachineWatch) -> Pending<'o, Result<(), String>> {
        Box::pin(async move {
            let before = self.engine.snapshot();
            let domains = watch.list().await?;
            let after = self.engine.snapshot();
            let is_unchanged = |machine: &Arc<Machine>| is_same(&before.region, machine);
            let drift = find_drift(&after.region, &self.host, &domains, is_unchanged);
            record_drift(&self.engine, &self.host, drift).await;
            Ok(())
        })
    }

    /// A machine that is to be started and has no host starts once the host that has its domain is known.
    fn wait_for_interest(&mut self) -> Pending<'_, ()> {
        Box::pin(async move {
            let mut revisions = self.engine.subscribe();
            while !note_awaiting(&self.engine.snapshot().region, &mut self.awaiting) {
                if revisions.changed().await.is_err() {
                    return std::future::pending().await;
                }
                sleep(INTEREST_PAUSE).await;
            }
        })
    }
}

/// Notes the machines that wait for the host that has them. Returns whether one of them is new.
fn note_awaiting(region: &Region, known: &mut HashSet<MachineId>) -> bool {
    let awaiting = region.machines().filter(|machine| machine.awaits_host()).map(|machine| machine.id).collect();
    let before = std::mem::replace(known, awaiting);
    !known.is_subset(&before)
}

/// Records changes that were made outside Forewarn.
pub async fn record_drift(engine: &Engine, host: &Name, drift: Vec<Command>) {
    for command in drift {
        tracing::info!(%host, ?command, "a machine was changed outside Forewarn");
        if let Err(error) = engine.submit(command, None).await {
            tracing::warn!(%host, %error, "cannot record a change");
        }
    }
}

/// Whether a machine is the same as in an earlier region, and had no order then.
fn is_same(before: &Region, machine: &Arc<Machine>) -> bool {
    let same = before.machine(machine.id).is_some_and(|old| Arc::ptr_eq(old, machine));
    same && !has_order(before, machine)
}

/// The differences between the domains of a host and the region. `is_unchanged`: whether a machine is the same as when the
/// domains were listed.
pub fn find_drift(
    region: &Region,
    host: &Name,
    domains: &[FoundDomain],
    mut is_unchanged: impl FnMut(&Arc<Machine>) -> bool,
) -> Vec<Command> {
    let mut is_settled = |machine: &Arc<Machine>| is_unchanged(machine) && !has_order(region, machine);
    let mut commands = Vec::new();
    for domain in domains {
        let Some(machine) = region.machine_by_vm_id(domain.vm_id).and_then(|id| region.machine(id)) else { continue };
        if machine.awaits_host() {
            // The host that has the machine gets the order to start it.
            commands.push(Command::ClaimMachine { machine: machine.id, host: host.clone(), present: true });
        } else if is_settled(machine) {
            commands.extend(compare(machine, host, domain.is_active));
        }
    }
    for machine in region.machines_on(host) {
        if !domains.iter().any(|domain| domain.vm_id == machine.vm_id) && is_settled(machine) {
            commands.extend(compare(machine, host, false));
        }
    }
    commands
}

fn compare(machine: &Machine, host: &Name, is_active: bool) -> Option<Command> {
    let is_placed = machine.placed_on() == Some(host);
    let claims = machine.claims().contains(host);
    let claim = |present| Some(Command::ClaimMachine { machine: machine.id, host: host.clone(), present });
    match (is_placed, is_active) {
        (false, true) if !claims => claim(true),
        (false, false) if claims => claim(false),
        (true, false) if machine.claims().len() == 1 => claim(false),
        (true, true) if machine.power != Power::Running => {
            Some(Command::SetPower { machine: machine.id, power: Power::Running })
        }
        (true, false) if machine.power == Power::Running => {
            Some(Command::SetPower { machine: machine.id, power: Power::Stopped })
        }
        (true | false, true | false) => None,
    }
}

fn has_order(region: &Region, machine: &Machine) -> bool {
    machine.withdrawn().is_some()
        || machine.arriving().is_some()
        || machine.pending_power().is_some()
        || region.events_of(machine.id).any(|event| matches!(event.status, Status::Started { .. }))
}

#[cfg(test)]
mod tests {
    use forewarn_core::{Guid, MachineReport, NewMachine, Request, ResourceGroupRef, Settings, Timestamp};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn apply(region: &Region, command: Command) -> Region {
        region.apply(&command, NOW).unwrap().region
    }

    /// A machine that runs on host a.
    fn region() -> Region {
        let region = Region::new(Settings { machine_orders: true, ..Settings::default() });
        let home = ResourceGroupRef { subscription: "s".into(), resource_group: "r".into() };
        let machine = NewMachine { host: Some("a".into()), ..NewMachine::plain(Guid(7), "web1", home) };
        let region = apply(&region, Command::RegisterHost { name: "b".into() });
        apply(&region, Command::RegisterMachine(Box::new(machine)))
    }

    fn drift(region: &Region, host: &str, is_active: bool) -> Vec<Command> {
        let domain = FoundDomain { vm_id: Guid(7), name: "web1".into(), is_active, memory_mib: 0 };
        find_drift(region, &host.into(), &[domain], |machine| is_same(region, machine))
    }

    #[test]
    fn power_follows_the_domain() {
        let region = region();
        let machine = region.machines().next().unwrap().id;
        assert_eq!(drift(&region, "a", true), []);
        let [command] = &drift(&region, "a", false)[..] else { panic!() };
        assert_eq!(*command, Command::SetPower { machine, power: Power::Stopped });
        let stopped = apply(&region, command.clone());
        assert_eq!(drift(&stopped, "a", false), []);
        assert_eq!(drift(&stopped, "a", true), [Command::SetPower { machine, power: Power::Running }]);
        assert_eq!(find_drift(&region, &"a".into(), &[], |_| true).len(), 1, "a domain that is gone does not run");
    }

    #[test]
    fn a_machine_on_two_hosts_is_claimed_until_one_gives_way() {
        let region = region();
        let [claim] = &drift(&region, "b", true)[..] else { panic!() };
        let claimed = apply(&region, claim.clone());
        assert_eq!(drift(&claimed, "b", true), []);
        let [gone] = &drift(&claimed, "a", false)[..] else { panic!() };
        let moved = apply(&claimed, gone.clone());
        assert_eq!(moved.machines().next().unwrap().host.as_deref(), Some("b"));
    }

    #[test]
    fn a_machine_that_was_restarted_elsewhere_leaves_its_fenced_host() {
        let fenced = apply(&region(), Command::FenceHost { name: "a".into() });
        assert_eq!(drift(&fenced, "b", false), [], "a copy that does not run is no claim");
        let [claim] = &drift(&fenced, "b", true)[..] else { panic!() };
        let moved = apply(&fenced, claim.clone());
        let machine = moved.machines().next().unwrap();
        assert_eq!((machine.host.as_deref(), machine.power), (Some("b"), Power::Running));
    }

    #[test]
    fn a_deallocated_machine_that_is_started_is_claimed_by_the_host_that_has_it() {
        let region = region();
        let machine = region.machines().next().unwrap().id;
        let off = apply(&region, Command::SetPower { machine, power: Power::Deallocated });
        assert_eq!(drift(&off, "b", false), []);
        let started = apply(&off, Command::ChangePower { machine, power: Power::Running, order: Guid(3) });
        let claim = Command::ClaimMachine { machine, host: "b".into(), present: true };
        assert_eq!(drift(&started, "b", false), std::slice::from_ref(&claim));
        let claimed = apply(&started, claim);
        assert_eq!(drift(&claimed, "b", false), [], "the order decides");
        assert_eq!(claimed.pending_orders("b").len(), 1);
    }

    #[test]
    fn a_machine_that_awaits_its_host_is_a_reason_to_look_once() {
        let (region, mut known) = (region(), HashSet::new());
        let machine = region.machines().next().unwrap().id;
        let off = apply(&region, Command::SetPower { machine, power: Power::Deallocated });
        assert!(!note_awaiting(&off, &mut known));
        let started = apply(&off, Command::ChangePower { machine, power: Power::Running, order: Guid(3) });
        assert!(note_awaiting(&started, &mut known));
        assert!(!note_awaiting(&started, &mut known), "no host has it");
        assert!(!note_awaiting(&off, &mut known));
        assert!(note_awaiting(&started, &mut known), "another start");
    }

    #[test]
    fn a_machine_that_is_being_stopped_is_left_alone() {
        let region = region();
        let machine = region.machines().next().unwrap().id;
        let stopping = apply(&region, Command::ChangePower { machine, power: Power::Stopped, order: Guid(3) });
        assert_eq!((drift(&stopping, "a", false), drift(&stopping, "a", true)), (vec![], vec![]));
        let (host, report) = ("a".into(), MachineReport::Done);
        let stopped = apply(&stopping, Command::ReportMachine { event: Guid(3), machine, host, epoch: None, report });
        assert_eq!(drift(&stopped, "a", false), []);
        assert_eq!(drift(&stopped, "a", true), [Command::SetPower { machine, power: Power::Running }]);
    }

    #[test]
    fn machines_with_an_order_are_left_alone() {
        let region = region();
        let machines = vec![region.machines().next().unwrap().id];
        let request = Request::Restart { machines };
        let started = apply(&region, Command::Request { operation: Guid(9), by: "me".into(), request, event: None });
        assert_eq!(drift(&started, "a", false), []);
    }
}
