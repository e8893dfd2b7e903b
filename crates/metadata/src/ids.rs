//! Resource IDs of the region's machines and groups.

use forewarn_core::{Group, GroupId, GroupKind, Machine, Membership, Region};
use forewarn_wire::arm::compute::ComputeResource;

pub fn machine_resource_id(region: &Region, machine: &Machine) -> String {
    let name_of = |id: GroupId| region.group(id).map_or("", |group| &*group.name);
    let resource = match &machine.membership {
        Membership::Instance { set, number: Some(number) } => {
            ComputeResource::ScaleSetInstance { set: name_of(*set), number: u64::from(*number) }
        }
        Membership::RoleInstance { service, .. } => {
            ComputeResource::RoleInstance { service: name_of(*service), name: &machine.name }
        }
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { number: None, .. } => {
            ComputeResource::VirtualMachine(&machine.name)
        }
    };
    resource.id(&machine.home.subscription, &machine.home.resource_group)
}

pub fn group_resource_id(group: &Group) -> String {
    let name = &*group.name;
    let resource = match group.kind {
        GroupKind::AvailabilitySet => ComputeResource::AvailabilitySet(name),
        GroupKind::ScaleSet(_) => ComputeResource::ScaleSet(name),
        GroupKind::CloudService => ComputeResource::CloudService(name),
    };
    resource.id(&group.home.subscription, &group.home.resource_group)
}
