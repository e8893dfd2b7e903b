//! Machines as the API shows them.

use forewarn_api_types::Machine;
use forewarn_core as core;
use forewarn_core::{Region, Seat};

use crate::convert::{Convert, render_addresses, render_details};

pub fn render_machine(region: &Region, machine: &core::Machine) -> Machine {
    let scope = region.scope(machine.scope);
    let seat = |wanted: fn(&Seat) -> bool| {
        let group = machine.seat.group().filter(|_| wanted(&machine.seat))?;
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
        availability_set: seat(|seat| matches!(seat, Seat::AvailabilitySet(_))),
        cloud_service: seat(|seat| matches!(seat, Seat::RoleInstance { .. })),
        role: match &machine.seat {
            Seat::RoleInstance { role, .. } => Some(role.to_string()),
            Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => None,
        },
        scale_set: seat(|seat| matches!(seat, Seat::Instance { .. })),
        instance_id: match machine.seat {
            Seat::Instance { number, .. } => number,
            Seat::Standalone | Seat::AvailabilitySet(_) | Seat::RoleInstance { .. } => None,
        },
        latest_model_applied: latest_model_applied(region, machine),
        host: machine.host.as_deref().map(str::to_owned),
        update_domain: machine.update_domain,
        fault_domain: machine.fault_domain,
        zone: machine.zone.as_deref().map(str::to_owned),
        priority: machine.priority.convert(),
        eviction_policy: machine.eviction.convert(),
        power: machine.power.convert(),
        addresses: render_addresses(&machine.addresses),
        terminate_notification: machine.terminate.as_ref().map(Convert::convert),
        protected: machine.protected,
        memory_mib: machine.memory_mib,
        live_migratable: machine.live_migratable,
        problem: describe_problem(machine),
        policy: machine.policy.as_ref().map(Convert::convert),
        details,
        tags,
    }
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
    let Seat::Instance { set, .. } = machine.seat else { return None };
    match &region.group(set)?.kind {
        core::GroupKind::ScaleSet(set) => Some(machine.model == set.model_version),
        core::GroupKind::AvailabilitySet | core::GroupKind::CloudService => None,
    }
}
