//! Why the rules refuse a command. A refusal changes nothing, not even the time. Each reason is one
//! variant and one sentence that somebody can act on; statuses and codes are the API's business.

use std::fmt;

use crate::ids::{EventId, MachineId, OperationId};
use crate::model::{Address, Name};
use crate::settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    // Not there.
    UnknownMachine(MachineId),
    UnknownGroup,
    UnknownHost(Name),
    UnknownOperation(OperationId),
    /// These ids were never in the document, or are over for more than an hour.
    UnknownEvents(Vec<EventId>),
    UnknownEvent(EventId),

    // Taken.
    NameTaken(Name),
    VmIdTaken,
    AddressTaken {
        address: Address,
        by: Name,
    },
    HostInUse(Name),
    IdTaken(EventId),

    // Not now.
    NotRunning(Name),
    /// The machine is being deleted or evicted.
    MachineLeaving(Name),
    GroupLeaving(Name),
    MachineBusy(Name),
    UserOperationsFull {
        max: u32,
    },
    OperationOver(OperationId),
    NotCancellable(&'static str),
    PartOfHostOperation(EventId),
    EventOver(EventId),
    NotStarted(EventId),

    // Not like this.
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
    NothingThere,

    // Too much.
    TooManyEvents,
    TooManyMachines,
    TooManyJoined,
    TooManyApprovals,
    PoolEmpty,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Rejection::*;
        match self {
            UnknownMachine(id) => {
                write!(f, "There is no machine number {}. List the machines to see which there are.", id.0)
            }
            UnknownGroup => {
                write!(f, "There is no such group. Create the availability set, cloud service or scale set first.")
            }
            UnknownHost(name) => write!(f, "There is no host '{name}'. Register it, or name it in a machine's 'host'."),
            UnknownOperation(id) => {
                write!(f, "There is no operation {id}, or it ended more than an hour ago. See the history.")
            }
            UnknownEvent(id) => {
                write!(
                    f,
                    "There is no event {id}, or it is over for more than an hour. List the events to see which there are."
                )
            }
            UnknownEvents(ids) => {
                write!(f, "Not an event of this document, or over for more than an hour: ")?;
                list(f, ids)?;
                write!(f, ". Nothing was approved; send ids that the document shows.")
            }
            NameTaken(name) => write!(
                f,
                "The name '{name}' is taken in its resource group. Choose another, or change the one that has it."
            ),
            VmIdTaken => write!(f, "Another machine has this vmId. Leave it out to get a new one."),
            AddressTaken { address, by } => {
                write!(
                    f,
                    "The address {} on network '{}' belongs to machine '{by}'. Give each machine its own.",
                    address.ip, address.network
                )
            }
            HostInUse(name) => write!(f, "Machines are still on host '{name}'. Move or delete them first."),
            IdTaken(id) => {
                write!(f, "The id {id} was used before. Ids are given once; choose another or leave it out.")
            }
            NotRunning(name) => write!(f, "Machine '{name}' is not running. Start it first."),
            MachineLeaving(name) => {
                write!(f, "Machine '{name}' is being deleted or evicted, and that cannot be taken back.")
            }
            MachineBusy(name) => write!(
                f,
                "Machine '{name}' has an event that is not over, and its update domain stays as it is until then."
            ),
            PartOfHostOperation(id) => {
                write!(f, "Event {id} is one of several that a host operation starts together. Cancel the operation.")
            }
            GroupLeaving(name) => write!(f, "'{name}' is being deleted. Wait until it is gone, then create it again."),
            UserOperationsFull { max } => {
                write!(
                    f,
                    "{max} restart or redeploy operations are waiting in this subscription already, which is the limit. Approve or cancel one, or wait."
                )
            }
            OperationOver(id) => write!(f, "Operation {id} is over, so there is nothing left to cancel."),
            NotCancellable(what) => write!(f, "{what} cannot be cancelled."),
            EventOver(id) => write!(f, "Event {id} is over."),
            NotStarted(id) => write!(f, "Event {id} has not started, so no driver can report on it."),
            NotSpot(name) => write!(
                f,
                "Machine '{name}' is not a Spot machine, and only those are evicted. Delete or redeploy it instead."
            ),
            TerminateOnSpot => write!(
                f,
                "Terminate notification cannot be enabled for Spot machines: they are told of an eviction by a Preempt event. Leave the profile out, or use priority Regular."
            ),
            TerminateRange => write!(f, "notBeforeTimeout must be from 5 to 15 minutes (PT5M to PT15M)."),
            BadName { what, problem } => write!(f, "The {what} {problem}."),
            DomainRange { what, max } => write!(f, "The {what} must be from 0 to {max}."),
            DomainsRange { what } => write!(f, "The number of {what} must be from 1 to {}.", settings::DOMAINS_MAX),
            NotAScaleSet(name) => write!(f, "'{name}' is not a scale set."),
            NotAnAvailabilitySet(name) => write!(
                f,
                "'{name}' is not an availability set. Instances of scale sets are made by changing the capacity."
            ),
            NotAFlexibleSet(name) => write!(
                f,
                "'{name}' is not a scale set with flexible orchestration, and only those take machines. Instances of other scale sets are made by changing the capacity."
            ),
            NotACloudService(name) => write!(f, "'{name}' is not a cloud service."),
            NotAMember(name) => write!(f, "Machine '{name}' is not of this group."),
            PolicyOnMember(name) => {
                write!(f, "Machine '{name}' is in a group, and the group's scheduledEventsPolicy counts. Set it there.")
            }
            MaintenanceKind => {
                write!(f, "Maintenance is a Freeze, a Reboot or a Redeploy. To evict or delete machines, ask for that.")
            }
            FailureKind => write!(f, "A hardware failure is a Reboot or a Redeploy."),
            NoticeTooShort { secs_min } => write!(
                f,
                "The notice is at least {secs_min} seconds for this type of event. Leave it out to give that. Short notice for tests: start the server with a notice scale."
            ),
            PlanTooFar => write!(
                f,
                "Maintenance can be planned {} days ahead at the most.",
                settings::PLAN_AHEAD_MAX.as_secs() / 86_400
            ),
            PlanPast => write!(f, "The planned time has passed. Leave it out to start as soon as notice allows."),
            DurationRange => write!(f, "The duration must be -1 (not known) or from 0 to 86400 seconds."),
            DescriptionTooLong => write!(f, "The description may have {} bytes.", settings::DESCRIPTION_BYTES_MAX),
            NothingThere => write!(f, "There is no machine there, so there is nothing to do."),
            TooManyEvents => write!(
                f,
                "The document would have more than {} events. Wait until some are over.",
                settings::EVENTS_PER_SCOPE_MAX
            ),
            TooManyMachines => write!(
                f,
                "A group may have {} machines, and the region {}.",
                settings::MACHINES_PER_GROUP_MAX,
                settings::MACHINES_MAX
            ),
            TooManyJoined => write!(f, "{} requests wait for this event already.", settings::JOINED_MAX),
            TooManyApprovals => write!(f, "One request may approve {} events.", settings::APPROVALS_MAX),
            PoolEmpty => {
                write!(f, "The address pool is used up. Give the address, or widen the pool in the configuration.")
            }
        }
    }
}

impl std::error::Error for Rejection {}

fn list(f: &mut fmt::Formatter<'_>, ids: &[EventId]) -> fmt::Result {
    const SHOWN_MAX: usize = 5;
    for (n, id) in ids.iter().take(SHOWN_MAX).enumerate() {
        write!(f, "{}{}", if n == 0 { "" } else { ", " }, id.to_string().to_uppercase())?;
    }
    if ids.len() > SHOWN_MAX {
        write!(f, " and {} more", ids.len() - SHOWN_MAX)?;
    }
    Ok(())
}
