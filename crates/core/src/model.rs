//! The data model: machines, groups, scopes, hosts, events and operations. Plain data; the `rules` modules
//! decide when it changes.
//!
//! ```text
//!  Group ──has──▶ Scope ──has──▶ Machine ──may be on──▶ Host
//!                   │ shows          ▲
//!                   ▼                │ is about
//!                 Event ─────────────┘ ◀──owns── Operation
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{EventId, GroupId, Guid, MachineId, OperationId, RolloutId, ScopeId};
use crate::time::Timestamp;

/// Text shared between entities. Cloning it only increments a reference count.
pub type Name = Arc<str>;

// --- machines ------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    pub vm_id: Guid,
    pub name: Name,
    pub home: Home,
    pub scope: ScopeId,
    pub seat: Seat,
    pub host: Option<Name>,
    pub update_domain: u32,
    pub fault_domain: u32,
    pub zone: Option<Name>,
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    pub power: Power,
    pub addresses: Vec<Address>,
    /// The terminate notification applied to this machine. None: the machine is deleted without notice.
    pub terminate: Option<TerminateProfile>,
    /// The version of the scale set model that was last applied.
    pub model: u64,
    /// Protected from scale-in.
    pub protected: bool,
    /// Memory that the machine needs on its host, in MiB. 0: unknown.
    pub memory_mib: u64,
    /// Whether the machine can move to another host while it runs.
    pub live_migratable: bool,
    /// The machine's own policy. Always None for members of a group, where the group's policy applies.
    pub policy: Option<EventsPolicy>,
    pub details: Arc<Details>,
    /// None for almost all machines.
    pub transit: Option<Box<Transit>>,
}

impl Machine {
    /// The host that gets the orders for this machine and reports on it.
    pub fn placed_on(&self) -> Option<&Name> {
        self.arriving().or(self.host.as_ref())
    }

    /// The host that the machine has moved to, until that host reports it.
    pub fn arriving(&self) -> Option<&Name> {
        self.transit.as_ref()?.arriving.as_ref()
    }

    /// The event that has ended although its order for this machine may still be in progress.
    pub fn withdrawn(&self) -> Option<EventId> {
        self.transit.as_ref()?.withdrawn
    }

    /// Hosts that claim the machine although it is on another.
    pub fn claims(&self) -> &[Name] {
        self.transit.as_ref().map_or(&[], |transit| &transit.claims)
    }
}

/// A machine that is between two hosts or two orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transit {
    /// The event that has ended although its order for this machine may still be in progress. Until the host confirms
    /// the end of the order, the machine gets no other.
    pub withdrawn: Option<EventId>,
    /// The host that the machine has moved to according to its old host. The new host has yet to report it.
    pub arriving: Option<Name>,
    /// Hosts that claim the machine although it is on another.
    pub claims: Vec<Name>,
}

/// The subscription and resource group that contain a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    pub subscription: Name,
    pub resource_group: Name,
}

/// A machine's membership in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    Standalone,
    AvailabilitySet(GroupId),
    RoleInstance {
        service: GroupId,
        role: Name,
    },
    /// An instance of a scale set. `number` is its instance ID in a Uniform scale set.
    Instance {
        set: GroupId,
        number: Option<u32>,
    },
}

impl Seat {
    pub fn group(&self) -> Option<GroupId> {
        match self {
            Seat::Standalone => None,
            Seat::AvailabilitySet(group) => Some(*group),
            Seat::RoleInstance { service, .. } => Some(*service),
            Seat::Instance { set, .. } => Some(*set),
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
    pub network: Name,
    pub ip: IpAddr,
}

/// Properties that instance metadata shows. No rule reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub location: String,
    pub size: String,
    pub os_type: String,
    pub computer_name: String,
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    pub image_version: String,
    pub mac: String,
    pub tags: Vec<(String, String)>,
}

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
    pub home: Home,
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
    pub zones: Vec<Name>,
    pub model: SetModel,
    /// Incremented by every change of the model.
    pub model_version: u64,
    /// When the next batch of a rolling upgrade starts.
    pub next_batch: Option<Timestamp>,
}

/// The configuration that new instances get and existing instances are upgraded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetModel {
    pub priority: Priority,
    pub eviction: EvictionPolicy,
    pub terminate: Option<TerminateProfile>,
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
    pub switch: Switch,
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
pub enum Switch {
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
        }
    }

    pub fn is_unreachable(&self) -> bool {
        matches!(self.contact, Contact::Lost { .. })
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

// --- events --------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    /// Sequence number that orders the events of a document.
    pub seq: u64,
    pub subscription: Name,
    pub scope: ScopeId,
    pub kind: EventKind,
    pub cause: Cause,
    pub visibility: Visibility,
    pub status: Status,
    pub resources: Arc<[Resource]>,
    pub appeared: Timestamp,
    pub not_before: Timestamp,
    /// When the machines will have seen the event for the minimum notice period. Moves back when the server was
    /// down, while `not_before` stays as announced.
    pub notice_end: Timestamp,
    /// The minimum time for which the machines must see the event before it starts without approval.
    pub notice: Duration,
    /// Whether the agent of one of its hosts has yet to confirm the event. Until then, its notice does not begin.
    pub unseen: bool,
    /// The revision of the region in which the event appeared.
    pub revision: u64,
    /// The driver's timeout counts from here: the start, or the latest time at which a lost host came back.
    pub attended: Timestamp,
    /// Whether both `not_before` and `notice_end` have passed.
    pub due: bool,
    pub approval: Option<Approval>,
    pub description: Name,
    pub duration_secs: i64,
    /// The operations that requested the event. There are several if later requests joined it.
    pub operations: Vec<OperationId>,
    /// The host operation that the event belongs to. Its events start together.
    pub cohort: Option<OperationId>,
    /// The hosts to which machines move. They are reserved until the event ends.
    pub moves: Vec<Move>,
    /// The notice scale in effect when the event was created. Later changes of the setting do not affect it.
    pub notice_scale: u32,
    /// The results of the machines whose host has reported. The others still have an order.
    pub progress: Vec<Progress>,
}

impl Event {
    /// The reported result of a machine.
    pub fn result_of(&self, machine: MachineId) -> Option<&MachineResult> {
        self.progress.iter().find(|progress| progress.machine == machine).map(|progress| &progress.result)
    }

    /// Whether the machine's host has reported that the event is done there.
    pub fn is_done(&self, machine: MachineId) -> bool {
        self.result_of(machine) == Some(&MachineResult::Done)
    }

    /// The host to which this event moves a machine.
    pub fn target_of(&self, machine: MachineId) -> Option<&Name> {
        self.moves.iter().find(|step| step.machine == machine).map(|step| &step.to)
    }
}

/// The reported result of one machine of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub machine: MachineId,
    pub result: MachineResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineResult {
    Done,
    Failed(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Freeze => "Freeze",
            EventKind::Reboot => "Reboot",
            EventKind::Redeploy => "Redeploy",
            EventKind::Preempt => "Preempt",
            EventKind::Terminate => "Terminate",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    HostMaintenance,
    LiveMigration,
    UserRestart,
    UserRedeploy,
    SelfServiceMaintenance,
    HardwareFailure,
    Eviction,
    Deletion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Platform,
    User,
}

/// Whether an event appears in its scope's document. Events in a scope that is off are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Shown,
    Hidden,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Scheduled,
    Started { at: Timestamp },
    Ended { at: Timestamp, outcome: Outcome },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    /// The driver reported a failure with this reason.
    Failed(Name),
    /// The driver did not report in time.
    TimedOut,
    /// A more urgent event took over the machine.
    Superseded,
    /// All its machines were powered off when it could start.
    NoEffect,
    /// All its machines were deleted.
    ResourceGone,
    Canceled {
        by: Name,
    },
}

/// A machine as an event names it. The name remains after the machine is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub machine: MachineId,
    pub name: Name,
    /// The oldest document version formats the names of role instances differently.
    pub role_instance: bool,
}

/// The host to which an event moves a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub machine: MachineId,
    pub to: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub by: Approver,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approver {
    /// A machine of the scope.
    Guest { machine: MachineId, name: Name },
    /// A user of the management API.
    Management(Name),
    /// `scheduledEventsPolicy`.
    Policy,
}

// --- operations ----------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub by: Name,
    pub subscription: Name,
    pub request: Request,
    pub asked: Timestamp,
    pub state: OperationState,
    /// The events of the operation, with the outcomes of those that have ended.
    pub parts: Vec<Part>,
    /// Progress of maintenance by update domain.
    pub domains: Option<DomainProgress>,
    /// Progress of a drain.
    pub drain: Option<DrainProgress>,
    /// The rollout that requested the operation.
    pub rollout: Option<RolloutId>,
    /// The user who canceled the operation. Events that had already started still finish.
    pub canceled: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub event: EventId,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    Running,
    Ended { at: Timestamp, result: OperationResult },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    Succeeded,
    Failed(Outcome),
    Canceled { by: Name },
}

/// The action that an operation performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Creates one operation, and one event per machine.
    Restart {
        machines: Vec<MachineId>,
    },
    Redeploy {
        machines: Vec<MachineId>,
    },
    /// Self-service maintenance: a redeploy at a time that the user chooses.
    PerformMaintenance {
        machines: Vec<MachineId>,
    },
    Evict {
        machine: MachineId,
    },
    /// Deletes machines and, if `group` is set, the group that contains them all.
    Delete {
        machines: Vec<MachineId>,
        group: Option<GroupId>,
    },
    Maintain {
        target: Target,
        plan: Plan,
    },
    /// Moves all machines away from a host.
    Drain(DrainPlan),
    /// Simulated hardware failure, without notice. `kind` is Reboot or Redeploy.
    Fail {
        target: Target,
        kind: EventKind,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Chosen machines. Several of them are treated like a group.
    Machines(Vec<MachineId>),
    /// All machines on the host, together.
    Host(Name),
    /// All machines in the group, one update domain at a time.
    Group(GroupId),
}

/// Requested maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Freeze, Reboot or Redeploy.
    pub kind: EventKind,
    /// HostMaintenance or LiveMigration.
    pub cause: Cause,
    /// Earliest start time. None: as soon as the notice period allows.
    pub at: Option<Timestamp>,
    /// Notice period, if longer than the minimum for the kind.
    pub notice: Option<Duration>,
    pub duration_secs: Option<i64>,
    pub description: Option<Name>,
}

/// Progress of maintenance by update domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainProgress {
    /// The first update domain that has not been started.
    pub next_domain: u32,
    /// End of the pause after the previous domain. None while a domain is in progress.
    pub resume: Option<Timestamp>,
}

/// A requested drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    pub host: Name,
    /// The pool to which machines move. None: the host's own pool.
    pub to: Option<Name>,
    /// Maximum number of machines that move at a time.
    pub parallel: u32,
    /// Maximum number of unavailable machines in each group. None: the size of its largest update domain.
    pub unavailable_max: Option<u32>,
    /// Notice period, if longer than the minimum for the kind.
    pub notice: Option<Duration>,
    /// Machines that cannot move while they run restart in place instead of moving.
    pub in_place: bool,
    pub description: Option<Name>,
}

/// Progress of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Machines that are still on the host although their event has ended: they restarted in place, or their
    /// move failed.
    pub settled: Vec<MachineId>,
    /// Why no further machine moves. None: machines are moving, or the drain has ended.
    pub waits_for: Option<Wait>,
}

/// The reason why a rollout or drain cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The next maintenance window opens at this time.
    Window { opens: Timestamp },
    /// The pause between steps.
    Pause { until: Timestamp },
    /// The group has too many unavailable machines. The name is that of the group or the standalone machine.
    Availability { group: Name, unavailable: u32, max: u32 },
    /// No host has room for this machine.
    Capacity { machine: Name },
    /// The events wait for approval or for the end of their notice.
    Approvals,
    /// This host is unreachable, has failed, or is not active yet.
    Host(Name),
    /// The rollout that requested the drain is paused.
    Paused,
}

impl Wait {
    /// The reason as one word, as the API shows it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Wait::Window { .. } => "window",
            Wait::Pause { .. } => "pause",
            Wait::Availability { .. } => "availability",
            Wait::Capacity { .. } => "capacity",
            Wait::Approvals => "approvals",
            Wait::Host(_) => "host",
            Wait::Paused => "paused",
        }
    }
}
