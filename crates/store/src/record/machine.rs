//! Record body of a machine, and the parts that it shares with groups.

use std::net::IpAddr;
use std::sync::Arc;

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::intern::Interner;
use super::tag::{GuidText, Millis, Tag, Text};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineBody<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    vm_id: GuidText,
    #[serde(borrow)]
    subscription: Text<'a>,
    #[serde(borrow)]
    resource_group: Text<'a>,
    scope: u64,
    #[serde(borrow)]
    // The stored name, which never changes.
    #[serde(rename = "seat")]
    membership: MembershipBody<'a>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    host: Option<Text<'a>>,
    update_domain: u32,
    fault_domain: u32,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    zone: Option<Text<'a>>,
    priority: Tag<Priority>,
    eviction: Tag<EvictionPolicy>,
    power: Tag<Power>,
    #[serde(borrow)]
    addresses: Vec<AddressBody<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    terminate: Option<TerminateBody<'a>>,
    model: u32,
    protected: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    memory_mib: u64,
    /// Omitted if the machine can move while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fixed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyBody>,
    #[serde(borrow)]
    details: DetailsBody<'a>,
    /// The ID of an order that was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    withdrawn: Option<GuidText>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    arriving: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    claims: Vec<Text<'a>>,
    /// Added in format 8.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    power_change: Option<PowerChangeBody<'a>>,
}

fn is_zero(memory_mib: &u64) -> bool {
    *memory_mib == 0
}

impl<'a> From<&'a Machine> for MachineBody<'a> {
    fn from(machine: &'a Machine) -> Self {
        MachineBody {
            name: (&machine.name).into(),
            vm_id: GuidText(machine.vm_id),
            subscription: (&machine.home.subscription).into(),
            resource_group: (&machine.home.resource_group).into(),
            scope: machine.scope.0,
            membership: (&machine.membership).into(),
            host: machine.host.as_ref().map(Text::from),
            update_domain: machine.update_domain,
            fault_domain: machine.fault_domain,
            zone: machine.zone.as_ref().map(Text::from),
            priority: Tag(machine.priority),
            eviction: Tag(machine.eviction),
            power: Tag(machine.power),
            addresses: machine.addresses.iter().map(AddressBody::from).collect(),
            terminate: machine.terminate.as_deref().map(TerminateBody::from),
            model: machine.model,
            protected: machine.protected,
            memory_mib: machine.memory_mib.into(),
            fixed: !machine.live_migratable,
            policy: machine.policy.as_ref().map(PolicyBody::from),
            details: (&*machine.details).into(),
            withdrawn: machine.withdrawn().map(GuidText),
            arriving: machine.arriving().map(Text::from),
            claims: machine.claims().iter().map(Text::from).collect(),
            power_change: machine.power_change().map(PowerChangeBody::from),
        }
    }
}

impl MachineBody<'_> {
    pub fn into_machine(self, id: MachineId, interner: &mut Interner) -> Machine {
        let name = Name::from(&*self.name.0);
        let host = self.host.map(|host| interner.name(host));
        let transfer = MachineTransfer {
            withdrawn: self.withdrawn.map(|id| id.0),
            arriving: self.arriving.map(|host| interner.name(host)),
            claims: self.claims.into_iter().map(|host| interner.name(host)).collect(),
            power_change: self.power_change.map(|change| change.into_change(interner)),
        };
        let transfer = convert_start(transfer, host.as_ref());
        Machine {
            id,
            vm_id: self.vm_id.0,
            home: home(self.subscription, self.resource_group, interner),
            scope: ScopeId(self.scope),
            membership: self.membership.into_membership(interner),
            host,
            update_domain: self.update_domain,
            fault_domain: self.fault_domain,
            zone: self.zone.map(|zone| interner.shared_name(zone)),
            priority: self.priority.0,
            eviction: self.eviction.0,
            power: self.power.0,
            addresses: self.addresses.into_iter().map(|address| address.into_address(interner)).collect(),
            terminate: self.terminate.map(|terminate| terminate.into_profile(interner)),
            model: self.model,
            protected: self.protected,
            // Earlier versions accepted any number. This one is 4 PiB, more than any host has.
            memory_mib: self.memory_mib.try_into().unwrap_or(u32::MAX),
            live_migratable: !self.fixed,
            policy: self.policy.map(EventsPolicy::from),
            details: self.details.into_details(Some(&name), interner),
            transfer: (transfer != MachineTransfer::default()).then(|| Box::new(transfer)),
            name,
        }
    }
}

/// Before format 8, a machine that an operator starts was stored like one that arrives at its own host.
fn convert_start(transfer: MachineTransfer, host: Option<&Name>) -> MachineTransfer {
    match transfer.withdrawn {
        Some(order) if host.is_none() || transfer.arriving.as_ref() == host => {
            let start = PowerChange { order, to: Power::Running, failure: None };
            MachineTransfer { withdrawn: None, arriving: None, power_change: Some(start), ..transfer }
        }
        Some(_) | None => transfer,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerChangeBody<'a> {
    order: GuidText,
    to: Tag<Power>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    failure: Option<Text<'a>>,
}

impl<'a> From<&'a PowerChange> for PowerChangeBody<'a> {
    fn from(change: &'a PowerChange) -> Self {
        PowerChangeBody {
            order: GuidText(change.order),
            to: Tag(change.to),
            failure: change.failure.as_ref().map(Text::from),
        }
    }
}

impl PowerChangeBody<'_> {
    fn into_change(self, interner: &mut Interner) -> PowerChange {
        PowerChange { order: self.order.0, to: self.to.0, failure: self.failure.map(|reason| interner.name(reason)) }
    }
}

pub(super) fn home(subscription: Text<'_>, resource_group: Text<'_>, interner: &mut Interner) -> Arc<ResourceGroupRef> {
    let home =
        ResourceGroupRef { subscription: interner.name(subscription), resource_group: interner.name(resource_group) };
    interner.home(home)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum MembershipBody<'a> {
    #[serde(rename = "standalone")]
    Standalone,
    #[serde(rename = "availability-set")]
    AvailabilitySet(u64),
    #[serde(rename = "role-instance")]
    RoleInstance {
        service: u64,
        #[serde(borrow)]
        role: Text<'a>,
    },
    #[serde(rename = "instance")]
    Instance { set: u64, number: Option<u32> },
}

impl<'a> From<&'a Membership> for MembershipBody<'a> {
    fn from(membership: &'a Membership) -> Self {
        match membership {
            Membership::Standalone => MembershipBody::Standalone,
            Membership::AvailabilitySet(group) => MembershipBody::AvailabilitySet(group.0),
            Membership::RoleInstance { service, role } => {
                MembershipBody::RoleInstance { service: service.0, role: role.into() }
            }
            Membership::Instance { set, number } => MembershipBody::Instance { set: set.0, number: *number },
        }
    }
}

impl MembershipBody<'_> {
    fn into_membership(self, interner: &mut Interner) -> Membership {
        match self {
            MembershipBody::Standalone => Membership::Standalone,
            MembershipBody::AvailabilitySet(group) => Membership::AvailabilitySet(GroupId(group)),
            MembershipBody::RoleInstance { service, role } => {
                Membership::RoleInstance { service: GroupId(service), role: interner.shared_name(role) }
            }
            MembershipBody::Instance { set, number } => Membership::Instance { set: GroupId(set), number },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressBody<'a> {
    #[serde(borrow)]
    network: Text<'a>,
    ip: IpAddr,
}

impl<'a> From<&'a Address> for AddressBody<'a> {
    fn from(address: &'a Address) -> Self {
        AddressBody { network: (&address.network).into(), ip: address.ip }
    }
}

impl AddressBody<'_> {
    fn into_address(self, interner: &mut Interner) -> Address {
        Address { network: interner.shared_name(self.network), ip: self.ip }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminateBody<'a> {
    timeout_ms: Millis,
    #[serde(borrow)]
    text: Text<'a>,
}

impl<'a> From<&'a TerminateProfile> for TerminateBody<'a> {
    fn from(profile: &'a TerminateProfile) -> Self {
        TerminateBody { timeout_ms: profile.timeout.into(), text: (&profile.text).into() }
    }
}

impl TerminateBody<'_> {
    pub fn into_profile(self, interner: &mut Interner) -> Arc<TerminateProfile> {
        Arc::new(TerminateProfile { timeout: self.timeout_ms.into(), text: interner.name(self.text) })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyBody {
    approve_user_reboot: bool,
    approve_user_redeploy: bool,
    approve_all_instances_down: bool,
}

impl From<&EventsPolicy> for PolicyBody {
    fn from(policy: &EventsPolicy) -> Self {
        PolicyBody {
            approve_user_reboot: policy.approve_user_reboot,
            approve_user_redeploy: policy.approve_user_redeploy,
            approve_all_instances_down: policy.approve_all_instances_down,
        }
    }
}

impl From<PolicyBody> for EventsPolicy {
    fn from(body: PolicyBody) -> Self {
        EventsPolicy {
            approve_user_reboot: body.approve_user_reboot,
            approve_user_redeploy: body.approve_user_redeploy,
            approve_all_instances_down: body.approve_all_instances_down,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DetailsBody<'a> {
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    location: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    size: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    os_type: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    computer_name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    publisher: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    offer: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    sku: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    image_version: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    mac: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<(Text<'a>, Text<'a>)>,
}

impl<'a> From<&'a Details> for DetailsBody<'a> {
    fn from(details: &'a Details) -> Self {
        DetailsBody {
            location: (&details.location).into(),
            size: (&details.size).into(),
            os_type: (&details.os_type).into(),
            computer_name: (&details.computer_name).into(),
            publisher: (&details.publisher).into(),
            offer: (&details.offer).into(),
            sku: (&details.sku).into(),
            image_version: (&details.image_version).into(),
            mac: (&details.mac).into(),
            tags: details.tags.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        }
    }
}

impl DetailsBody<'_> {
    /// `machine`: the name of the machine that the details belong to, which is often its computer name.
    pub fn into_details(self, machine: Option<&Name>, interner: &mut Interner) -> Arc<Details> {
        let computer_name = match machine {
            Some(name) if **name == *self.computer_name.0 => name.clone(),
            Some(_) | None => Name::from(&*self.computer_name.0),
        };
        let tags = self.tags.into_iter().map(|(key, value)| (interner.name(key), interner.name(value))).collect();
        let shared = SharedDetails {
            location: interner.name(self.location),
            size: interner.name(self.size),
            os_type: interner.name(self.os_type),
            publisher: interner.name(self.publisher),
            offer: interner.name(self.offer),
            sku: interner.name(self.sku),
            image_version: interner.name(self.image_version),
            tags,
        };
        interner.details(computer_name, Name::from(&*self.mac.0), shared)
    }
}
