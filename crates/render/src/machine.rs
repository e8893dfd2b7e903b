//! Machines as the API shows them.

use forewarn_api_types::{Machine, PowerChange};
use forewarn_core as core;
use forewarn_core::{Membership, Region};

use crate::convert::{Convert, render_addresses, render_details};

pub fn render_machine(region: &Region, machine: &core::Machine) -> Machine {
    let scope = region.scope(machine.scope);
    let membership = |wanted: fn(&Membership) -> bool| {
        let group = machine.membership.group().filter(|_| wanted(&machine.membership))?;
        region.group(group).map(|group| group.name.to_string())
    };
    let (details, tags) = render_details(&machine.details);
    Machine {
        id: machine.id.0,
        vm_id: machine.vm_id.convert(),
        name: machine.name.to_string(),
        subscription: machine.home.subscription.to_string(),
        resource_group: machine.home.resource_group.to_string(),
        event_group: machine.scope.0,
        handler_connected: region.is_on(machine.scope),
        handler: None,
        incarnation: scope.map_or(0, |scope| scope.incarnation),
        availability_set: membership(|membership| matches!(membership, Membership::AvailabilitySet(_))),
        cloud_service: membership(|membership| matches!(membership, Membership::RoleInstance { .. })),
        role: match &machine.membership {
            Membership::RoleInstance { role, .. } => Some(role.to_string()),
            Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => None,
        },
        scale_set: membership(|membership| matches!(membership, Membership::Instance { .. })),
        instance_id: match machine.membership {
            Membership::Instance { number, .. } => number,
            Membership::Standalone | Membership::AvailabilitySet(_) | Membership::RoleInstance { .. } => None,
        },
        latest_model_applied: latest_model_applied(region, machine),
        host: machine.host.as_deref().map(str::to_owned),
        update_domain: machine.update_domain,
        fault_domain: machine.fault_domain,
        zone: machine.zone.as_deref().map(str::to_owned),
        priority: machine.priority.convert(),
        eviction_policy: machine.eviction.convert(),
        power: machine.power.convert(),
        power_change: machine.power_change().map(|change| render_power_change(region, machine, change)),
        addresses: render_addresses(&machine.addresses),
        terminate_notification: machine.terminate.as_deref().map(Convert::convert),
        protected: machine.protected,
        memory_mib: machine.memory_mib.into(),
        live_migratable: machine.live_migratable,
        problem: describe_problem(machine),
        policy: machine.policy.as_ref().map(Convert::convert),
        details,
        tags,
    }
}

fn render_power_change(region: &Region, machine: &core::Machine, change: &core::PowerChange) -> PowerChange {
    let failure = change.failure.as_deref().map(str::to_owned);
    let waiting_for = if failure.is_some() { None } else { find_obstacle(region, machine) };
    PowerChange { to: change.to.convert(), waiting_for, failure }
}

/// The reason why no host can carry out the requested power state yet.
fn find_obstacle(region: &Region, machine: &core::Machine) -> Option<String> {
    let Some(host) = machine.placed_on() else { return Some("a host that has the machine".into()) };
    if region.host(host).is_some_and(|host| host.is_unreachable()) {
        return Some(format!("host '{host}', which is unreachable"));
    }
    if !machine.claims().is_empty() {
        return Some("one host to have the machine".into());
    }
    region.has_event_order(machine).then(|| "the order in progress on the machine".into())
}

/// Two hosts that claim one machine.
fn describe_problem(machine: &core::Machine) -> Option<String> {
    let (claims, host) = (machine.claims(), machine.placed_on()?);
    let others = claims.iter().map(|host| format!("'{host}'")).collect::<Vec<_>>().join(", ");
    let first = claims.first()?;
    Some(format!(
        "The machine is on host '{host}', but it also runs on {others}. Its events wait. Stop it on one of the hosts, or set \
         its host to '{first}'."
    ))
}

fn latest_model_applied(region: &Region, machine: &core::Machine) -> Option<bool> {
    let Membership::Instance { set, .. } = machine.membership else { return None };
    match &region.group(set)?.kind {
        core::GroupKind::ScaleSet(set) => Some(machine.model == set.model_version),
        core::GroupKind::AvailabilitySet | core::GroupKind::CloudService => None,
    }
}
