//! IDs of compute resources, and the values shown where a machine has none of its own.

/// The location of machines without one. Agents expect a value.
pub const LOCATION_DEFAULT: &str = "local";

/// The size of machines without one.
pub const SIZE_DEFAULT: &str = "Standard_D2s_v3";

/// The prefix of the IDs of compute resources in a resource group.
pub fn provider_id(subscription: &str, resource_group: &str) -> String {
    format!("/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Compute")
}

/// A compute resource below its resource group.
#[derive(Clone, Copy, Debug)]
pub enum ComputeResource<'a> {
    VirtualMachine(&'a str),
    AvailabilitySet(&'a str),
    ScaleSet(&'a str),
    ScaleSetInstance { set: &'a str, number: u64 },
    CloudService(&'a str),
    RoleInstance { service: &'a str, name: &'a str },
}

impl ComputeResource<'_> {
    pub fn id(self, subscription: &str, resource_group: &str) -> String {
        let provider = provider_id(subscription, resource_group);
        match self {
            ComputeResource::VirtualMachine(name) => format!("{provider}/virtualMachines/{name}"),
            ComputeResource::AvailabilitySet(name) => format!("{provider}/availabilitySets/{name}"),
            ComputeResource::ScaleSet(name) => format!("{provider}/virtualMachineScaleSets/{name}"),
            ComputeResource::ScaleSetInstance { set, number } => {
                format!("{provider}/virtualMachineScaleSets/{set}/virtualMachines/{number}")
            }
            ComputeResource::CloudService(name) => format!("{provider}/cloudServices/{name}"),
            ComputeResource::RoleInstance { service, name } => {
                format!("{provider}/cloudServices/{service}/roleInstances/{name}")
            }
        }
    }
}

/// The MAC address of a machine without one: Azure's prefix, then the last digits of the VM ID.
pub fn mac_address(vm_id: u128) -> String {
    format!("000D3A{:06X}", vm_id & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_the_type_of_the_resource() {
        for (resource, end) in [
            (ComputeResource::VirtualMachine("a"), "virtualMachines/a"),
            (ComputeResource::AvailabilitySet("a"), "availabilitySets/a"),
            (ComputeResource::ScaleSet("a"), "virtualMachineScaleSets/a"),
            (ComputeResource::ScaleSetInstance { set: "a", number: 7 }, "virtualMachineScaleSets/a/virtualMachines/7"),
            (ComputeResource::CloudService("a"), "cloudServices/a"),
            (ComputeResource::RoleInstance { service: "a", name: "b" }, "cloudServices/a/roleInstances/b"),
        ] {
            let expected = format!("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/{end}");
            assert_eq!(resource.id("s", "g"), expected);
        }
    }
}
