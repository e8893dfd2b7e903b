//! The one alphabet in which operators, guests, drivers and the passing of time speak to the rules.

use std::sync::Arc;

use crate::ids::{EventId, GroupId, Guid, MachineId, OperationId};
use crate::model::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    // The fleet.
    RegisterMachine(Box<NewMachine>),
    ChangeMachine {
        machine: MachineId,
        change: Box<MachineChange>,
    },
    CreateGroup(Box<NewGroup>),
    ChangeGroup {
        group: GroupId,
        change: Box<GroupChange>,
        salt: Guid,
    },
    /// Brings these instances (all of the set when empty) to the set's latest model.
    UpgradeInstances {
        group: GroupId,
        machines: Vec<MachineId>,
    },
    RegisterHost {
        name: Name,
    },
    RemoveHost {
        name: Name,
    },
    SetPower {
        machine: MachineId,
        power: Power,
    },

    // What is asked for. `event` names the (first) event that comes of it.
    Request {
        operation: OperationId,
        by: Name,
        request: Request,
        event: Option<EventId>,
    },
    Cancel {
        operation: OperationId,
        by: Name,
    },
    /// Cancels the operations that this event comes from.
    CancelEvent {
        event: EventId,
        by: Name,
    },
    Approve {
        by: Approver,
        within: Within,
        events: Vec<EventId>,
    },

    // Guests and drivers.
    /// A machine asked for its document.
    Seen {
        machine: MachineId,
    },
    Report {
        event: EventId,
        report: Report,
    },

    // Time.
    /// The server runs again: the time since the last command did not count for scopes that listen.
    Resume,
    Tick,
}

/// Which events an approval may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// The document of this machine's scope.
    ScopeOf(MachineId),
    /// The documents of this group.
    Group(GroupId),
    Region,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Done,
    Failed(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMachine {
    pub vm_id: Guid,
    pub name: Name,
    pub home: Home,
    pub place: Place,
    pub host: Option<Name>,
    /// None: the group's next ones, 0 for a machine on its own.
    pub update_domain: Option<u32>,
    pub fault_domain: Option<u32>,
    pub zone: Option<Name>,
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    pub addresses: AddressWish,
    pub terminate: Option<TerminateProfile>,
    pub policy: Option<EventsPolicy>,
    pub details: Arc<Details>,
}

impl NewMachine {
    /// A machine on its own about which nothing else is said.
    pub fn plain(vm_id: Guid, name: &str, home: Home) -> NewMachine {
        NewMachine {
            vm_id,
            name: name.into(),
            home,
            place: Place::Standalone,
            host: None,
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            addresses: AddressWish::None,
            terminate: None,
            policy: None,
            details: Arc::default(),
        }
    }
}

/// Where a machine that is registered by hand goes. Instances of scale sets come from the set, but a Flexible one takes
/// such machines too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Standalone,
    AvailabilitySet(GroupId),
    FlexibleSet(GroupId),
    CloudService { service: GroupId, role: Name },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressWish {
    /// The machine is reached by listener, path or as the default machine.
    None,
    Given(Vec<Address>),
    /// The next free one of the region's pool.
    FromPool,
}

/// What is None stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineChange {
    pub host: Option<Option<Name>>,
    pub update_domain: Option<u32>,
    pub fault_domain: Option<u32>,
    pub zone: Option<Option<Name>>,
    pub addresses: Option<Vec<Address>>,
    pub protected: Option<bool>,
    pub terminate: Option<Option<TerminateProfile>>,
    pub policy: Option<Option<EventsPolicy>>,
    pub details: Option<Arc<Details>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub name: Name,
    pub home: Home,
    pub kind: NewGroupKind,
    pub policy: EventsPolicy,
    /// None: as the original does, 5 for update domains (cloud services, Uniform sets, availability sets).
    pub update_domains: Option<u32>,
    pub fault_domains: Option<u32>,
    /// Ids of what is made along with it are derived from this.
    pub salt: Guid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewGroupKind {
    AvailabilitySet,
    CloudService,
    ScaleSet {
        orchestration: Orchestration,
        upgrade_mode: UpgradeMode,
        capacity: u32,
        placement_group_max: Option<u32>,
        zones: Vec<Name>,
        model: SetModel,
    },
}

/// What is None stays as it is. Everything but `policy` is for scale sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    pub policy: Option<EventsPolicy>,
    pub upgrade_mode: Option<UpgradeMode>,
    pub model: Option<SetModel>,
    /// Scaling in asks for deletions: `by` and `operation` are theirs.
    pub capacity: Option<Scale>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub capacity: u32,
    pub by: Name,
    pub operation: OperationId,
}
