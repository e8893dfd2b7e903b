//! Reasons to reject a command. A rejected command changes nothing, not even the region's time. Each reason is
//! a variant with a message that says what to do; the API crates choose status and error codes.

use std::fmt;

use crate::ids::{EventId, MachineId, OperationId, RolloutId};
use crate::model::{Address, HostState, Name};
use crate::rollout::StepState;
use crate::settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    // Not found.
    UnknownMachine(MachineId),
    UnknownGroup,
    UnknownHost(Name),
    UnknownOperation(OperationId),
    UnknownRollout(RolloutId),
    NotAStep {
        step: Name,
        rollout: RolloutId,
    },
    /// These IDs were never in the document, or the events ended more than an hour ago.
    UnknownEvents(Vec<EventId>),
    UnknownEvent(EventId),

    // Conflicts with existing entities.
    NameTaken(Name),
    VmIdTaken,
    AddressTaken {
        address: Address,
        by: Name,
    },
    HostInUse(Name),
    HostOwned {
        host: Name,
        rollout: RolloutId,
    },
    GroupOwned {
        group: Name,
        rollout: RolloutId,
    },
    AlreadyDraining(Name),
    HostNotActive {
        host: Name,
        state: HostState,
    },
    RolloutEnded(RolloutId),
    StepNotFailed {
        step: Name,
        state: StepState,
    },
    NoFailedSteps(RolloutId),
    IdTaken(EventId),

    // Not allowed in the current state.
    NotRunning(Name),
    /// The machine is being deleted or evicted.
    MachineBeingDeleted(Name),
    GroupBeingDeleted(Name),
    MachineBusy(Name),
    OrderInProgress(Name),
    MachineClaimed {
        machine: Name,
        host: Name,
    },
    UserOperationsFull {
        max: u32,
    },
    OperationEnded(OperationId),
    NotCancellable(&'static str),
    PartOfHostOperation(EventId),
    EventEnded(EventId),
    NotStarted(EventId),
    NotOnHost {
        machine: Name,
        host: Name,
    },
    /// The event does not concern the machine, or its order was not given yet.
    NotOrdered {
        machine: Name,
        event: EventId,
    },
    /// The host got the order before it was fenced.
    OtherEpoch {
        host: Name,
        epoch: u64,
        current: u64,
    },
    UnplannedMove {
        machine: Name,
        to: Name,
    },

    // Invalid values.
    NotSpot(Name),
    TerminateOnSpot,
    TerminateRange,
    BadName {
        what: &'static str,
        problem: &'static str,
    },
    DomainRange {
        what: &'static str,
        max: u32,
    },
    DomainsRange {
        what: &'static str,
    },
    NotAScaleSet(Name),
    NotAnAvailabilitySet(Name),
    NotAFlexibleSet(Name),
    NotACloudService(Name),
    NotAMember(Name),
    PolicyOnMember(Name),
    MaintenanceKind,
    FailureKind,
    NoticeTooShort {
        secs_min: u64,
    },
    PlanTooFar,
    PlanPast,
    DurationRange,
    DescriptionTooLong,
    TargetHasNoMachines,
    ParallelRange {
        max: u32,
    },
    UnavailableRange,
    DrainNeedsHosts,
    DuplicateTarget,
    StepTooLarge {
        step: Name,
        group: Name,
        max: u32,
    },
    BadWindow,
    WindowTooShort {
        secs_min: u64,
    },
    BadLabel(Name),
    RevisionAhead(Name),

    // Limits.
    TooManyEvents,
    TooManyMachines,
    TooManyJoined,
    TooManyApprovals,
    TooManyRollouts,
    TooManySteps,
    TooManyWindows,
    TooManyLabels,
    PoolEmpty,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Rejection::*;
        match self {
            UnknownMachine(id) => {
                write!(f, "There is no machine with number {}. List the machines to see the existing ones.", id.0)
            }
            UnknownGroup => {
                write!(f, "This group does not exist. Create the availability set, cloud service or scale set first.")
            }
            UnknownHost(name) => {
                write!(f, "There is no host '{name}'. Register it, or set it as the 'host' of a machine.")
            }
            UnknownOperation(id) => {
                write!(f, "There is no operation {id}, or it ended more than an hour ago. Check the history.")
            }
            UnknownEvent(id) => {
                write!(
                    f,
                    "There is no event {id}, or it ended more than an hour ago. List the events to see the current ones."
                )
            }
            UnknownEvents(ids) => {
                write!(f, "These events are not in this document, or ended more than an hour ago: ")?;
                write_ids(f, ids)?;
                write!(f, ". No event was approved. Send only event IDs that the document shows.")
            }
            NameTaken(name) => write!(
                f,
                "The name '{name}' is already taken in its resource group by another resource of this type. Choose another name, or change the existing resource."
            ),
            VmIdTaken => write!(f, "Another machine has this vmId. Omit it to generate a new one."),
            AddressTaken { address, by } => {
                write!(
                    f,
                    "The address {} on network '{}' belongs to machine '{by}'. Use a different address.",
                    address.ip, address.network
                )
            }
            HostInUse(name) => write!(f, "Host '{name}' still has machines. Move or delete them first."),
            HostOwned { host, rollout } => {
                write!(f, "Host '{host}' belongs to rollout {rollout}. Wait for the rollout to finish, or stop it.")
            }
            GroupOwned { group, rollout } => {
                write!(f, "Group '{group}' belongs to rollout {rollout}. Wait for the rollout to finish, or stop it.")
            }
            AlreadyDraining(host) => {
                write!(f, "Host '{host}' is already being drained. Watch its operation, or undrain the host.")
            }
            HostNotActive { host, state } => {
                write!(f, "Host '{host}' is {}. Activate it first.", state.as_str())
            }
            RolloutEnded(id) => write!(f, "Rollout {id} has ended. Start a new one."),
            StepNotFailed { step, state } => {
                write!(
                    f,
                    "The step '{step}' is {}. Only a failed step can be retried, once each time it fails.",
                    state.as_str()
                )
            }
            NoFailedSteps(id) => {
                write!(f, "Rollout {id} has no failed steps left to retry. Show the rollout to see its steps.")
            }
            NotAStep { step, rollout } => {
                write!(f, "'{step}' is not a step of rollout {rollout}. Show the rollout to see its steps.")
            }
            ParallelRange { max } => write!(f, "'parallel' must be from 1 to {max}."),
            UnavailableRange => write!(
                f,
                "The maximum number of unavailable machines must be at least 1. Omit it to allow one update domain."
            ),
            DrainNeedsHosts => write!(f, "Only hosts can be drained. Choose hosts, or another type of maintenance."),
            DuplicateTarget => write!(f, "A target is listed twice. List each host, group or machine once."),
            StepTooLarge { step, group, max } => write!(
                f,
                "The step '{step}' alone would make more machines of '{group}' unavailable than the limit of {max}. Raise the limit or, for a host, drain it instead."
            ),
            BadWindow => {
                write!(f, "A maintenance window needs at least one weekday and times between 00:00 and 23:59.")
            }
            WindowTooShort { secs_min } => {
                write!(f, "A maintenance window must be longer than the notice period, which is {secs_min} seconds.")
            }
            BadLabel(key) => write!(
                f,
                "The label '{key}' is invalid. Use a key without spaces and slashes, and a value of at most {} bytes without control characters.",
                settings::LABEL_BYTES_MAX
            ),
            RevisionAhead(host) => {
                write!(
                    f,
                    "The agent of host '{host}' has a newer copy than this server. Check that the agent is connected to the right server."
                )
            }
            UnknownRollout(id) => {
                write!(f, "There is no rollout {id}, or it ended more than a week ago. List the rollouts.")
            }
            TooManyRollouts => write!(
                f,
                "At most {} rollouts can be in progress. Wait for one to finish, or stop one.",
                settings::ROLLOUTS_MAX
            ),
            TooManySteps => {
                write!(f, "A rollout can have at most {} steps. Split it into several.", settings::ROLLOUT_STEPS_MAX)
            }
            TooManyWindows => write!(f, "A rollout can have at most {} windows.", settings::WINDOWS_MAX),
            TooManyLabels => {
                write!(f, "A host can have at most {} labels. Remove some.", settings::LABELS_PER_HOST_MAX)
            }
            IdTaken(id) => {
                write!(f, "The ID {id} has already been used. Choose another one, or omit it to generate one.")
            }
            NotRunning(name) => write!(f, "Machine '{name}' is not running. Start it first."),
            MachineBeingDeleted(name) => {
                write!(
                    f,
                    "Machine '{name}' is being deleted or evicted, which cannot be undone. Choose another machine."
                )
            }
            MachineBusy(name) => write!(
                f,
                "The update domain of machine '{name}' cannot change while the machine has an event. Wait for the event to finish, or cancel it."
            ),
            OrderInProgress(name) => {
                write!(
                    f,
                    "The host of machine '{name}' is carrying out an order for it. Wait until the order has ended, then try again."
                )
            }
            MachineClaimed { machine, host } => write!(
                f,
                "Host '{host}' also claims machine '{machine}', which may run there. Remove it from one of the hosts, then try again."
            ),
            PartOfHostOperation(id) => {
                write!(
                    f,
                    "Event {id} belongs to a host operation whose events start together. Cancel the operation instead."
                )
            }
            GroupBeingDeleted(name) => {
                write!(f, "'{name}' is being deleted. Wait for the deletion to finish, then create it again.")
            }
            UserOperationsFull { max } => {
                write!(
                    f,
                    "This subscription already has {max} scheduled restart or redeploy operations, which is the limit. Approve or cancel one, or wait for one to start."
                )
            }
            OperationEnded(id) => {
                write!(f, "Operation {id} has ended or was already canceled. There is nothing left to cancel.")
            }
            NotCancellable(what) => write!(f, "{what} cannot be canceled. Wait for it to finish."),
            EventEnded(id) => write!(f, "Event {id} has already ended. List the events to see the current ones."),
            NotStarted(id) => write!(f, "Event {id} has not started. Report its outcome after it has started."),
            NotOnHost { machine, host } => {
                write!(f, "Machine '{machine}' is not on host '{host}'. Only the host of a machine can report on it.")
            }
            NotOrdered { machine, event } => {
                write!(f, "Event {event} has no order for machine '{machine}'. Report only on orders that were given.")
            }
            OtherEpoch { host, epoch, current } => {
                write!(
                    f,
                    "The order belongs to epoch {epoch}, but host '{host}' is now in epoch {current}: the order was abandoned when the \
                     host was fenced. Report only on current orders."
                )
            }
            UnplannedMove { machine, to } => {
                write!(
                    f,
                    "Machine '{machine}' was not supposed to move to host '{to}'. Check where it runs, and set its host."
                )
            }
            NotSpot(name) => write!(
                f,
                "Machine '{name}' is not a Spot machine. Evictions and rebalance recommendations apply to Spot machines only."
            ),
            TerminateOnSpot => write!(
                f,
                "Terminate notification cannot be enabled for Spot machines, because a Preempt event announces their eviction. Omit the profile, or set the priority to Regular."
            ),
            TerminateRange => write!(f, "notBeforeTimeout must be from 5 to 15 minutes (PT5M to PT15M)."),
            BadName { what, problem } => write!(f, "The {what} {problem}."),
            DomainRange { what, max } => write!(f, "The {what} must be between 0 and {max}."),
            DomainsRange { what } => {
                write!(f, "The number of {what} must be between 1 and {}.", settings::DOMAINS_MAX)
            }
            NotAScaleSet(name) => write!(f, "'{name}' is not a scale set. Choose a scale set."),
            NotAnAvailabilitySet(name) => {
                write!(f, "'{name}' is not an availability set. To add instances to a scale set, change its capacity.")
            }
            NotAFlexibleSet(name) => write!(
                f,
                "'{name}' is not a scale set with flexible orchestration, and only those accept existing machines. To add instances to other scale sets, change their capacity."
            ),
            NotACloudService(name) => write!(f, "'{name}' is not a cloud service. Choose a cloud service."),
            NotAMember(name) => write!(f, "Machine '{name}' is not in this group. Choose machines of the group."),
            PolicyOnMember(name) => {
                write!(
                    f,
                    "Machine '{name}' is in a group, so its own scheduledEventsPolicy has no effect. Set the policy of the group."
                )
            }
            MaintenanceKind => {
                write!(
                    f,
                    "Maintenance must be a Freeze, a Reboot or a Redeploy. To evict or delete machines, use those operations."
                )
            }
            FailureKind => write!(f, "A hardware failure must be a Reboot or a Redeploy."),
            NoticeTooShort { secs_min } => write!(
                f,
                "The notice period must be at least {secs_min} seconds for this event type. Omit it to use the minimum."
            ),
            PlanTooFar => write!(
                f,
                "Maintenance can be planned at most {} days in advance. Choose an earlier time.",
                settings::PLAN_AHEAD_MAX.as_secs() / 86_400
            ),
            PlanPast => {
                write!(f, "The planned time is in the past. Omit it to start as soon as the notice period allows.")
            }
            DurationRange => write!(f, "The duration must be -1 (unknown) or from 0 to 86400 seconds."),
            DescriptionTooLong => {
                write!(f, "The description must not be longer than {} bytes.", settings::DESCRIPTION_BYTES_MAX)
            }
            TargetHasNoMachines => {
                write!(f, "The target has no machines. Choose a target that has at least one machine.")
            }
            TooManyEvents => write!(
                f,
                "A document can have at most {} events. Wait for some to finish.",
                settings::EVENTS_PER_SCOPE_MAX
            ),
            TooManyMachines => write!(
                f,
                "A group can have at most {} machines, and the region at most {}. Delete machines first.",
                settings::MACHINES_PER_GROUP_MAX,
                settings::MACHINES_MAX
            ),
            TooManyJoined => write!(
                f,
                "This event already has {} requests, which is the limit. Wait for it to finish.",
                settings::JOINED_MAX
            ),
            TooManyApprovals => {
                write!(f, "A request can approve at most {} events. Split it into several.", settings::APPROVALS_MAX)
            }
            PoolEmpty => {
                write!(
                    f,
                    "The address pool is exhausted. Specify an address, or enlarge the pool in the configuration."
                )
            }
        }
    }
}

impl std::error::Error for Rejection {}

/// Writes the first few IDs, in upper case as the document shows them.
fn write_ids(f: &mut fmt::Formatter<'_>, ids: &[EventId]) -> fmt::Result {
    const LISTED_MAX: usize = 5;
    for (n, id) in ids.iter().take(LISTED_MAX).enumerate() {
        write!(f, "{}{}", if n == 0 { "" } else { ", " }, id.to_string().to_uppercase())?;
    }
    if ids.len() > LISTED_MAX {
        write!(f, " and {} more", ids.len() - LISTED_MAX)?;
    }
    Ok(())
}
