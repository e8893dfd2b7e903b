//! Commands: the only input of the rules. Operators, guests, drivers and the clock all use this enum.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::group_type::GroupType;
use crate::ids::{EventId, GroupId, Guid, MachineId, OperationId, RolloutId};
use crate::model::*;
use crate::rollout::{RolloutPlan, RolloutTargets, StepTarget};

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
    /// Upgrades these instances to the latest model of the set. An empty list means all instances.
    UpgradeInstances {
        group: GroupId,
        machines: Vec<MachineId>,
    },
    RegisterHost {
        name: Name,
    },
    ChangeHost {
        name: Name,
        change: HostChange,
    },
    RemoveHost {
        name: Name,
    },
    /// Makes a drained, draining or failed host available again. Cancels a drain that is in progress.
    ActivateHost {
        name: Name,
        by: Name,
    },
    /// States that a host is off, so that its machines are certainly not running.
    FenceHost {
        name: Name,
    },
    /// The agent of a host has confirmed a copy with everything up to this revision of the region.
    ConfirmHost {
        name: Name,
        revision: u64,
    },
    /// The agent of a host has not been heard from for too long.
    LoseHost {
        name: Name,
    },
    /// The power state of a machine has changed.
    SetPower {
        machine: MachineId,
        power: Power,
    },
    /// Starts, stops or deallocates a machine. If hosts take orders per machine, its host gets an order with this ID.
    /// Otherwise only the record changes.
    ChangePower {
        machine: MachineId,
        power: Power,
        order: EventId,
    },

    // Requests. `event` is the ID of the first event that the request creates.
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
    /// Cancels the operations that own this event.
    CancelEvent {
        event: EventId,
        by: Name,
    },
    StartRollout(Box<NewRollout>),
    PauseRollout {
        rollout: RolloutId,
        /// Cancels Scheduled events instead of letting them finish.
        now: bool,
    },
    ResumeRollout {
        rollout: RolloutId,
    },
    /// Ends a rollout. Scheduled events are canceled, started events finish.
    StopRollout {
        rollout: RolloutId,
        by: Name,
    },
    /// Retries failed steps of a rollout.
    RetrySteps {
        rollout: RolloutId,
        /// ID of the request. A request with a known ID changes nothing.
        operation: OperationId,
        /// Targets of the failed steps. Empty: all of them.
        steps: Vec<StepTarget>,
    },
    Approve {
        by: Approver,
        within: ApprovalScope,
        events: Vec<EventId>,
    },

    // Guests and drivers.
    /// A machine requested its document.
    Seen {
        machine: MachineId,
    },
    Report {
        event: EventId,
        report: Report,
    },
    /// The host of a machine reports how an order ended. The event ends with the report of its last machine.
    ReportMachine {
        event: EventId,
        machine: MachineId,
        host: Name,
        /// The epoch of the host in which it got the order. None: the host's agent is older and does not know.
        epoch: Option<u64>,
        report: MachineReport,
    },
    /// A host reports that it has, or no longer has, a machine.
    ClaimMachine {
        machine: MachineId,
        host: Name,
        present: bool,
    },

    // Time.
    /// The server was restarted. The time since the last command counts as downtime, not as idle time.
    Resume,
    Tick,
}

impl Command {
    /// The machines that the command names. A command may affect others too, such as those of a group.
    pub fn machines(&self) -> Vec<MachineId> {
        match self {
            Command::ChangeMachine { machine, .. }
            | Command::SetPower { machine, .. }
            | Command::ChangePower { machine, .. }
            | Command::Seen { machine }
            | Command::ReportMachine { machine, .. }
            | Command::ClaimMachine { machine, .. } => vec![*machine],
            Command::UpgradeInstances { machines, .. } => machines.clone(),
            Command::Request { request, .. } => request.machines().to_vec(),
            Command::StartRollout(new) => new.targets.machines(),
            Command::Approve { by: Approver::Guest { machine, .. }, .. } => vec![*machine],
            Command::Approve { by: Approver::Management(_) | Approver::Policy, .. }
            | Command::RegisterMachine(_)
            | Command::CreateGroup(_)
            | Command::ChangeGroup { .. }
            | Command::RegisterHost { .. }
            | Command::ChangeHost { .. }
            | Command::RemoveHost { .. }
            | Command::ActivateHost { .. }
            | Command::FenceHost { .. }
            | Command::ConfirmHost { .. }
            | Command::LoseHost { .. }
            | Command::Cancel { .. }
            | Command::CancelEvent { .. }
            | Command::PauseRollout { .. }
            | Command::ResumeRollout { .. }
            | Command::StopRollout { .. }
            | Command::RetrySteps { .. }
            | Command::Report { .. }
            | Command::Resume
            | Command::Tick => Vec::new(),
        }
    }
}

impl RolloutTargets {
    fn machines(&self) -> Vec<MachineId> {
        match self {
            RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => machines.clone(),
            RolloutTargets::Hosts(_) | RolloutTargets::Groups(_) => Vec::new(),
        }
    }
}

/// The events that an approval may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalScope {
    /// The events in the document of this machine's scope.
    ScopeOf(MachineId),
    /// The events in the documents of this group.
    Group(GroupId),
    Region,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Done,
    Failed(Name),
}

/// The end of an order on one machine, as its host reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineReport {
    Done,
    /// Nothing is in progress on the machine any more.
    Failed(Name),
    /// The machine does not exist on this host. For a deletion, this is success.
    Gone,
    /// The machine is no longer on this host, but on another, which has yet to report it.
    Moved {
        to: Name,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMachine {
    pub vm_id: Guid,
    pub name: Name,
    pub home: ResourceGroupRef,
    pub place: NewMembership,
    pub host: Option<Name>,
    /// None: assigned by the group in turn; 0 for a standalone machine.
    pub update_domain: Option<u32>,
    pub fault_domain: Option<u32>,
    pub zone: Option<SharedName>,
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    pub addresses: AddressRequest,
    pub terminate: Option<Arc<TerminateProfile>>,
    pub policy: Option<EventsPolicy>,
    pub memory_mib: u32,
    pub live_migratable: bool,
    pub details: Arc<Details>,
}

impl NewMachine {
    /// A standalone machine with default properties.
    pub fn plain(vm_id: Guid, name: &str, home: ResourceGroupRef) -> NewMachine {
        NewMachine {
            vm_id,
            name: name.into(),
            home,
            place: NewMembership::Standalone,
            host: None,
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            addresses: AddressRequest::None,
            terminate: None,
            policy: None,
            memory_mib: 0,
            live_migratable: true,
            details: Arc::default(),
        }
    }
}

/// The placement of a registered machine. Scale sets create their own instances, but a Flexible scale set also
/// accepts registered machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewMembership {
    Standalone,
    AvailabilitySet(GroupId),
    FlexibleSet(GroupId),
    CloudService { service: GroupId, role: SharedName },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRequest {
    /// No address: the machine is identified by its listener, its URL path, or as the default machine.
    None,
    Given(Vec<Address>),
    /// The next free address of the region's pool.
    FromPool,
}

/// A change of a machine. Fields that are None keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineChange {
    pub host: Option<Option<Name>>,
    pub update_domain: Option<u32>,
    pub fault_domain: Option<u32>,
    pub zone: Option<Option<SharedName>>,
    pub addresses: Option<Vec<Address>>,
    pub protected: Option<bool>,
    pub memory_mib: Option<u32>,
    pub live_migratable: Option<bool>,
    pub terminate: Option<Option<Arc<TerminateProfile>>>,
    pub policy: Option<Option<EventsPolicy>>,
    pub details: Option<Arc<Details>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub name: Name,
    pub home: ResourceGroupRef,
    pub kind: NewGroupKind,
    pub policy: EventsPolicy,
    /// None: the Azure default, which is 5 update domains for availability sets, cloud services and Uniform
    /// scale sets.
    pub update_domains: Option<u32>,
    pub fault_domains: Option<u32>,
    /// Seed from which the IDs of the group's machines are derived.
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
        zones: Vec<SharedName>,
        model: SetModel,
    },
}

impl NewGroupKind {
    pub fn group_type(&self) -> GroupType {
        match self {
            NewGroupKind::AvailabilitySet => GroupType::AvailabilitySet,
            NewGroupKind::CloudService => GroupType::CloudService,
            NewGroupKind::ScaleSet { .. } => GroupType::ScaleSet,
        }
    }
}

/// A change of a group. Fields that are None keep their value. All fields but `policy` require a scale set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    pub policy: Option<EventsPolicy>,
    pub upgrade_mode: Option<UpgradeMode>,
    pub model: Option<SetModel>,
    /// Scaling in creates a delete operation with this `operation` ID and requester `by`.
    pub capacity: Option<Scale>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub capacity: u32,
    pub by: Name,
    pub operation: OperationId,
}

/// A change of a host. Fields that are None keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostChange {
    pub pool: Option<Name>,
    pub labels: Option<BTreeMap<Name, Name>>,
    pub memory_mib: Option<Option<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRollout {
    pub id: RolloutId,
    pub by: Name,
    pub targets: RolloutTargets,
    pub plan: RolloutPlan,
}
