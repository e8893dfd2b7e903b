//! The data model: machines, groups, scopes, hosts, events and operations. Plain data; the `rules` modules
//! decide when it changes.
//!
//! ```text
//!  Group ──has──▶ Scope ──has──▶ Machine ──may be on──▶ Host
//!                   │ shows          ▲
//!                   ▼                │ is about
//!                 Event ─────────────┘ ◀──owns── Operation
//! ```

mod addresses;
mod event;
mod operation;
mod shared_name;

pub use addresses::Addresses;
pub use event::*;
pub use operation::*;
pub use shared_name::SharedName;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{EventId, GroupId, Guid, MachineId, ScopeId};
use crate::time::Timestamp;

/// A text that is cheap to clone: up to 15 bytes are in the value itself, and a longer text is shared.
pub type Name = ecow::EcoString;

// --- machines ------------------------------------------------------------------------------------

/// The order matters: with a million machines, a poll finds its machine outside the cache, and reads only the first fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Machine {
    pub id: MachineId,
    pub scope: ScopeId,
    pub power: Power,
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    /// Protected from scale-in.
    pub protected: bool,
    /// Whether the machine can move to another host while it runs.
    pub live_migratable: bool,
    /// The machine's own policy. Always None for members of a group, where the group's policy applies.
    pub policy: Option<EventsPolicy>,
    pub name: Name,
    pub addresses: Addresses,
    pub membership: Membership,
    pub host: Option<Name>,
    pub home: Arc<ResourceGroupRef>,
    pub vm_id: Guid,
    pub zone: Option<SharedName>,
    pub update_domain: u32,
    pub fault_domain: u32,
    /// The terminate notification applied to this machine. None: the machine is deleted without notice.
    pub terminate: Option<Arc<TerminateProfile>>,
    /// The version of the scale set model that was last applied.
    pub model: u32,
    /// Memory that the machine needs on its host, in MiB. 0: unknown.
    pub memory_mib: u32,
    pub details: Arc<Details>,
    /// None for almost all machines.
    pub transfer: Option<Box<MachineTransfer>>,
}

/// There can be a million of them.
const _: () = assert!(size_of::<Machine>() <= 192);

impl Machine {
    /// The host that gets the orders for this machine and reports on it.
    pub fn placed_on(&self) -> Option<&Name> {
        self.arriving().or(self.host.as_ref())
    }

    /// The host that the machine has moved to, until that host reports it.
    pub fn arriving(&self) -> Option<&Name> {
        self.transfer.as_ref()?.arriving.as_ref()
    }

    /// The event that has ended although its order for this machine may still be in progress.
    pub fn withdrawn(&self) -> Option<EventId> {
        self.transfer.as_ref()?.withdrawn
    }

    /// The latest change of the power state that an operator requested, if it is in progress or has failed.
    pub fn power_change(&self) -> Option<&PowerChange> {
        self.transfer.as_ref()?.power_change.as_ref()
    }

    /// The change of the power state that the host has yet to report.
    pub fn pending_power(&self) -> Option<&PowerChange> {
        self.power_change().filter(|change| change.failure.is_none())
    }

    /// Whether the machine is to be started by the host that has it, and no host has reported it yet.
    pub fn awaits_host(&self) -> bool {
        self.pending_power().is_some_and(|change| change.to == Power::Running) && self.placed_on().is_none()
    }

    /// Hosts that claim the machine although it is on another.
    pub fn claims(&self) -> &[Name] {
        self.transfer.as_ref().map_or(&[], |transfer| &transfer.claims)
    }
}

/// A machine that is between two hosts, two orders or two power states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTransfer {
    /// The event that has ended, or the change of the power state that was replaced, although its order for this machine
    /// may still be in progress. Until the host confirms the end of the order, the machine gets no other.
    pub withdrawn: Option<EventId>,
    /// The host that the machine has moved to according to its old host. It has yet to report the machine.
    pub arriving: Option<Name>,
    pub power_change: Option<PowerChange>,
    /// Hosts that claim the machine although it is on another.
    pub claims: Vec<Name>,
}

/// A change of the power state that an operator requested. The host of the machine carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerChange {
    /// ID of the order.
    pub order: EventId,
    pub to: Power,
    /// The reason why the host could not carry it out. None: the host has not reported yet.
    pub failure: Option<Name>,
}

/// The subscription and resource group that contain a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceGroupRef {
    pub subscription: Name,
    pub resource_group: Name,
}

/// A machine's membership in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    Standalone,
    AvailabilitySet(GroupId),
    RoleInstance {
        service: GroupId,
        role: SharedName,
    },
    /// An instance of a scale set. `number` is its instance ID in a Uniform scale set.
    Instance {
        set: GroupId,
        number: Option<u32>,
    },
}

impl Membership {
    pub fn group(&self) -> Option<GroupId> {
        match self {
            Membership::Standalone => None,
            Membership::AvailabilitySet(group) => Some(*group),
            Membership::RoleInstance { service, .. } => Some(*service),
            Membership::Instance { set, .. } => Some(*set),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Regular,
    Spot,
}

/// The effect of an eviction on a Spot machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionPolicy {
    Deallocate,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    /// Powered off, still on its host.
    Stopped,
    /// Powered off and no longer assigned to a host.
    Deallocated,
}

/// An address on one of the networks that metadata listeners serve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub network: SharedName,
    pub ip: IpAddr,
}

/// Properties that instance metadata shows. No rule reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub computer_name: Name,
    pub mac: Name,
    /// The properties that most machines have in common with others.
    pub shared: Arc<SharedDetails>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedDetails {
    pub location: Name,
    pub size: Name,
    pub os_type: Name,
    pub publisher: Name,
    pub offer: Name,
    pub sku: Name,
    pub image_version: Name,
    pub tags: Tags,
}

impl Deref for Details {
    type Target = SharedDetails;

    fn deref(&self) -> &SharedDetails {
        &self.shared
    }
}

/// Keys and values, in the order given.
pub type Tags = Arc<[(Name, Name)]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminateProfile {
    pub timeout: Duration,
    /// The duration as the client wrote it, returned unchanged.
    pub text: Name,
}

/// `scheduledEventsPolicy`: the events that are approved automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsPolicy {
    pub approve_user_reboot: bool,
    pub approve_user_redeploy: bool,
    pub approve_all_instances_down: bool,
}

impl Default for EventsPolicy {
    fn default() -> Self {
        EventsPolicy { approve_user_reboot: false, approve_user_redeploy: false, approve_all_instances_down: true }
    }
}

// --- groups and scopes ---------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub id: GroupId,
    pub name: Name,
    pub home: Arc<ResourceGroupRef>,
    pub kind: GroupKind,
    pub policy: EventsPolicy,
    /// The scopes of its machines: one, or one for each placement group of a Uniform scale set.
    pub scopes: Vec<ScopeId>,
    pub update_domains: u32,
    pub fault_domains: u32,
    /// Number of machines ever added. Determines the domains of the next one, in round-robin order.
    pub seats_given: u32,
    /// Whether the group and all its machines are being deleted.
    pub leaving: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKind {
    AvailabilitySet,
    CloudService,
    ScaleSet(Box<ScaleSet>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleSet {
    pub orchestration: Orchestration,
    pub upgrade_mode: UpgradeMode,
    /// The desired number of instances. Instances that are being deleted do not count.
    pub capacity: u32,
    /// Maximum number of instances in one placement group of a Uniform scale set. None: no limit.
    pub placement_group_max: Option<u32>,
    pub zones: Vec<SharedName>,
    pub model: SetModel,
    /// Incremented by every change of the model.
    pub model_version: u32,
    /// When the next batch of a rolling upgrade starts.
    pub next_batch: Option<Timestamp>,
}

/// The configuration that new instances get and existing instances are upgraded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetModel {
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    pub terminate: Option<Arc<TerminateProfile>>,
    pub details: Arc<Details>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orchestration {
    Uniform,
    Flexible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeMode {
    Automatic,
    Manual,
    Rolling,
}

/// The machines that share one document, called an event group in the user documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub id: ScopeId,
    pub owner: ScopeOwner,
    /// Whether events are shown. Placement groups of a scale set share the switch of the first one.
    pub switch: EventsState,
    /// The document's incarnation; 0 until the scope is turned on for the first time.
    pub incarnation: u64,
    /// Events that have not ended, in order of appearance, including hidden ones.
    pub live: Vec<EventId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeOwner {
    Machine(MachineId),
    /// The scope of a group. `part` is the index of the placement group.
    Group {
        group: GroupId,
        part: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsState {
    Off,
    /// `seen` is the time of the latest recorded request, in running time: the clock that stops while the
    /// server is down.
    On {
        seen: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: Name,
    /// Machines move only between hosts of one pool, unless a drain names another.
    pub pool: Name,
    pub labels: BTreeMap<Name, Name>,
    /// Memory for machines, in MiB. None: unlimited.
    pub memory_mib: Option<u64>,
    pub state: HostState,
    pub contact: Contact,
    /// The revision of the region in which the host was registered, plus one for each time that it was activated after it was
    /// fenced; so it also differs from those of an earlier host with this name. Orders of another epoch are no longer wanted:
    /// their machines may run elsewhere.
    pub epoch: u64,
}

impl Host {
    /// The pool of hosts that name none.
    pub const POOL_DEFAULT: &str = "default";

    pub fn new(name: Name) -> Host {
        Host {
            name,
            pool: Host::POOL_DEFAULT.into(),
            labels: BTreeMap::new(),
            memory_mib: None,
            state: HostState::Active,
            contact: Contact::None,
            epoch: 0,
        }
    }

    pub fn is_unreachable(&self) -> bool {
        matches!(self.contact, Contact::Lost { .. })
    }

    /// Whether events wait for the host: it is unreachable, and may be running.
    pub fn holds_up_events(&self) -> bool {
        self.is_unreachable() && self.state != HostState::Failed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    Active,
    /// Machines are moving away, and none are placed here.
    Draining,
    /// Nothing is left on the host.
    Drained,
    /// The host is off, as an operator or a fencing agent has stated.
    Failed,
}

impl HostState {
    pub fn as_str(self) -> &'static str {
        match self {
            HostState::Active => "Active",
            HostState::Draining => "Draining",
            HostState::Drained => "Drained",
            HostState::Failed => "Failed",
        }
    }
}

/// Contact with the agent of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The host has no agent.
    None,
    /// The agent's copy of the documents contains everything up to this revision of the region.
    Confirmed { revision: u64 },
    /// The agent has not been heard from. Its copy contained everything up to this revision.
    Lost { since: Timestamp, revision: u64 },
}

/// A named group, or a standalone machine, which is a group of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    Group(GroupId),
    Machine(MachineId),
}

impl GroupKey {
    pub fn of(machine: &Machine) -> GroupKey {
        machine.membership.group().map_or(GroupKey::Machine(machine.id), GroupKey::Group)
    }
}
