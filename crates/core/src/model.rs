//! What there is: machines, the groups they were made in, the scopes that share a document, hosts,
//! events and operations. Plain data; who may change it, and when, is in `rules`.
//!
//! ```text
//!  Group ──has──▶ Scope ──has──▶ Machine ──may be on──▶ Host
//!                   │ shows          ▲
//!                   ▼                │ is about
//!                 Event ─────────────┘ ◀──owns── Operation
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{EventId, GroupId, Guid, MachineId, OperationId, ScopeId};
use crate::time::Timestamp;

/// Text that many entities share: cloning one costs a counter.
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
    /// The terminate notification that was applied to this machine; None: it is deleted without notice.
    pub terminate: Option<TerminateProfile>,
    /// The version of its scale set's model that was applied last.
    pub model: u64,
    /// Scale-in leaves it alone.
    pub protected: bool,
    /// Its own policy. Members of a group never have one: the group's counts.
    pub policy: Option<EventsPolicy>,
    pub details: Arc<Details>,
}

/// Where a resource is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    pub subscription: Name,
    pub resource_group: Name,
}

/// How a machine came to its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    Standalone,
    AvailabilitySet(GroupId),
    RoleInstance {
        service: GroupId,
        role: Name,
    },
    /// An instance of a scale set; `number` is its instance id in a Uniform set.
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

/// What an eviction leaves of a Spot machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionPolicy {
    Deallocate,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    /// Switched off, still on its host.
    Stopped,
    /// Switched off, and its host no longer keeps a place for it.
    Deallocated,
}

/// An address on one of the networks that metadata listeners serve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub network: Name,
    pub ip: IpAddr,
}

/// What instance metadata shows of a machine and no rule reads.
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
    /// The duration as it was written, to be shown again.
    pub text: Name,
}

/// `scheduledEventsPolicy`: what is approved without asking anybody.
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
    /// The documents of its machines: one, or one for each placement group of a Uniform scale set.
    pub scopes: Vec<ScopeId>,
    pub update_domains: u32,
    pub fault_domains: u32,
    /// How many machines it has ever had: domains are given out round robin.
    pub seats_given: u32,
    /// Set while the group and everything in it is being deleted.
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
    /// How many instances are wanted; those that are leaving do not count.
    pub capacity: u32,
    /// The most instances of one placement group of a Uniform set; None: no limit.
    pub placement_group_max: Option<u32>,
    pub zones: Vec<Name>,
    pub model: SetModel,
    /// Grows with every change of the model.
    pub model_version: u64,
    /// When the next batch of a rolling upgrade is due.
    pub next_batch: Option<Timestamp>,
}

/// What new instances are made from, and existing ones brought to.
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

/// The machines that see one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub id: ScopeId,
    pub owner: ScopeOwner,
    /// For the placement groups of one scale set the first one's counts for all.
    pub switch: Switch,
    /// 0 until the scope is turned on for the first time.
    pub incarnation: u64,
    /// Its events that are not over, in order of appearance, hidden ones included.
    pub live: Vec<EventId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeOwner {
    Machine(MachineId),
    /// `part` numbers the placement groups.
    Group {
        group: GroupId,
        part: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Off,
    /// `seen`: the latest request that the region was told of, on the clock that stands still while the
    /// server does not run.
    On {
        seen: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: Name,
}

// --- events --------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    /// Orders the events of a document.
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
    /// `not_before` has passed.
    pub due: bool,
    pub approval: Option<Approval>,
    pub description: Name,
    pub duration_secs: i64,
    /// Who asked for it. More than one when a later request joined.
    pub operations: Vec<OperationId>,
    /// Events of one host operation start together.
    pub cohort: Option<OperationId>,
    /// The notice scale when it was made: a later one does not touch it.
    pub notice_scale: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
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

/// Whether an event is in its scope's document. Work in a scope that is off is hidden.
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
    /// The driver said so, with its reason.
    Failed(Name),
    /// The driver said nothing for too long.
    TimedOut,
    /// Something that does not wait took the machine.
    Superseded,
    /// All its machines were stopped when it could start.
    NoEffect,
    /// All its machines were gone.
    ResourceGone,
    Canceled {
        by: Name,
    },
}

/// A machine as an event names it: the name stays when the machine has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub machine: MachineId,
    pub name: Name,
    /// Role instances of cloud services are named differently in the oldest version of the document.
    pub role_instance: bool,
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
    /// Somebody at the management API.
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
    /// Its events, and how those that are over ended.
    pub parts: Vec<Part>,
    pub rollout: Option<Rollout>,
    /// Who stopped it; what had started by then still finishes.
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

/// What somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One operation, however many machines; an event for each.
    Restart {
        machines: Vec<MachineId>,
    },
    Redeploy {
        machines: Vec<MachineId>,
    },
    /// Self-service maintenance: a redeploy at a time of the user's choice.
    PerformMaintenance {
        machines: Vec<MachineId>,
    },
    Evict {
        machine: MachineId,
    },
    /// Delete machines and, with `group`, the group that they are all of.
    Delete {
        machines: Vec<MachineId>,
        group: Option<GroupId>,
    },
    Maintain {
        target: Target,
        plan: Plan,
    },
    /// Hardware breaks: no notice. `kind` is Reboot or Redeploy.
    Fail {
        target: Target,
        kind: EventKind,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One, or several as if they were a group.
    Machines(Vec<MachineId>),
    /// Everything on the host, at once.
    Host(Name),
    /// Everything in the group, one update domain at a time.
    Group(GroupId),
}

/// Maintenance as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Freeze, Reboot or Redeploy.
    pub kind: EventKind,
    /// HostMaintenance or LiveMigration.
    pub cause: Cause,
    /// Not before this time; None: as soon as notice allows.
    pub at: Option<Timestamp>,
    /// More notice than the least that the kind has.
    pub notice: Option<Duration>,
    pub duration_secs: Option<i64>,
    pub description: Option<Name>,
}

/// Where a roll-out over update domains stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The first update domain that was not visited yet.
    pub next_domain: u32,
    /// When the pause after the domain before is over; None while a domain is at work.
    pub resume: Option<Timestamp>,
}
