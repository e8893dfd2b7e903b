//! Follows the domains of a host: changes that were made outside Forewarn update the power state of machines. They
//! never create events. Machines with an order in progress are left alone, because the order changes them.

use std::sync::Arc;
use std::time::Duration;

use forewarn_api::HealthProblems;
use forewarn_core::{Command, Machine, Name, Power, Region, Status};
use forewarn_drivers::libvirt::{DomainWatch, FoundDomain, LibvirtDriver};
use forewarn_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::libvirt_metrics::LibvirtMetrics;

/// The pause before libvirtd is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The interval between two comparisons without a change: an order that has just ended may have hidden one.
const COMPARE_EVERY: Duration = Duration::from_secs(10);

pub struct DomainFollower {
    pub engine: Engine,
    pub host: Name,
    pub driver: Arc<LibvirtDriver>,
    pub problems: HealthProblems,
    pub metrics: LibvirtMetrics,
}

impl DomainFollower {
    /// Runs until stopped, through restarts of libvirtd.
    pub async fn run(self, stop: CancellationToken) {
        let problem = format!("libvirtd of host '{}' does not answer; its orders wait", self.host);
        while !stop.is_cancelled() {
            match self.driver.watch().await {
                Ok(watch) => {
                    self.problems.resolve(&problem);
                    self.metrics.set_connected(&self.host, true);
                    self.remove_strays().await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.follow(watch) => {}
                    }
                }
                Err(error) => tracing::warn!(host = %self.host, %error, "cannot connect to libvirtd"),
            }
            self.metrics.set_connected(&self.host, false);
            self.problems.report_once(&problem);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn remove_strays(&self) {
        match self.driver.remove_strays().await {
            Ok(strays) => {
                for stray in strays {
                    tracing::warn!(host = %self.host, domain = stray.domain, "removed the record of an unknown order");
                }
            }
            Err(error) => tracing::warn!(host = %self.host, %error, "cannot look for records of unknown orders"),
        }
    }

    /// Compares after every change, until the connection ends.
    async fn follow(&self, mut watch: DomainWatch) {
        loop {
            let before = self.engine.snapshot();
            let Ok(domains) = watch.list().await else { return };
            let after = self.engine.snapshot();
            for command in find_drift(&before.region, &after.region, &self.host, &domains) {
                tracing::info!(host = %self.host, ?command, "a machine was changed outside Forewarn");
                if let Err(error) = self.engine.submit(command, None).await {
                    tracing::warn!(host = %self.host, %error, "cannot record a change");
                }
            }
            tokio::select! {
                exists = watch.changed() => if !exists { return },
                () = tokio::time::sleep(COMPARE_EVERY) => {}
            }
        }
    }
}

/// The differences between the domains of a host and the region, for machines that have not changed since `before`,
/// which is older than the list of domains.
fn find_drift(before: &Region, region: &Region, host: &Name, domains: &[FoundDomain]) -> Vec<Command> {
    let settled = |machine: &Arc<Machine>| {
        let same = before.machine(machine.id).is_some_and(|old| Arc::ptr_eq(old, machine));
        same && !has_order(before, machine) && !has_order(region, machine)
    };
    let mut commands = Vec::new();
    for domain in domains {
        let Some(machine) = region.machine_by_vm_id(domain.vm_id).and_then(|id| region.machine(id)) else { continue };
        if settled(machine) {
            commands.extend(compare(machine, host, domain.is_active));
        }
    }
    for machine in region.machines_on(host).filter(|machine| settled(machine)) {
        if !domains.iter().any(|domain| domain.vm_id == machine.vm_id) {
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
        || region.events_of(machine.id).any(|event| matches!(event.status, Status::Started { .. }))
}

#[cfg(test)]
mod tests {
    use forewarn_core::{Guid, Home, NewMachine, Request, Settings, Timestamp};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn apply(region: &Region, command: Command) -> Region {
        region.apply(&command, NOW).unwrap().region
    }

    /// A machine that runs on host a.
    fn region() -> Region {
        let region = Region::new(Settings { machine_orders: true, ..Settings::default() });
        let home = Home { subscription: "s".into(), resource_group: "r".into() };
        let machine = NewMachine { host: Some("a".into()), ..NewMachine::plain(Guid(7), "web1", home) };
        let region = apply(&region, Command::RegisterHost { name: "b".into() });
        apply(&region, Command::RegisterMachine(Box::new(machine)))
    }

    fn drift(region: &Region, host: &str, is_active: bool) -> Vec<Command> {
        let domain = FoundDomain { vm_id: Guid(7), name: "web1".into(), is_active, memory_mib: 0 };
        find_drift(region, region, &host.into(), &[domain])
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
        assert_eq!(find_drift(&region, &region, &"a".into(), &[]).len(), 1, "a domain that is gone does not run");
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
    fn machines_with_an_order_are_left_alone() {
        let region = region();
        let machines = vec![region.machines().next().unwrap().id];
        let request = Request::Restart { machines };
        let started = apply(&region, Command::Request { operation: Guid(9), by: "me".into(), request, event: None });
        assert_eq!(drift(&started, "a", false), []);
    }
}
