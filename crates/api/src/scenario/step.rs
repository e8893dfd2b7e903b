//! Steps of a scenario: actions, expectations, and their descriptions.

use std::fmt;
use std::time::Duration;

use forewarn_api_types::span::format_span;
use forewarn_api_types::{MaintenanceTarget, NewFault, NewMaintenance, PowerState};

/// A step and its line in the file.
#[derive(Clone, Debug)]
pub struct Step {
    pub action: StepAction,
    /// The name by which later steps refer to its operation.
    pub label: Option<String>,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StepAction {
    /// An action on a machine that starts an operation.
    Act {
        action: MachineAction,
        machine: String,
    },
    Maintain(Box<NewMaintenance>),
    Scale {
        set: String,
        capacity: u32,
    },
    /// Upgrades all instances to the latest model.
    Upgrade {
        set: String,
    },
    Power {
        action: PowerAction,
        machine: String,
    },
    Cancel {
        of: String,
    },
    Approve {
        of: String,
        /// The guest that approves, or None for the management API.
        by: Option<String>,
        /// Only the event of this machine.
        machine: Option<String>,
    },
    /// The machine requests its document, which activates its event group.
    Poll {
        machine: String,
    },
    /// A fault of the metadata endpoint.
    Fault(Box<NewFault>),
    /// Clears all faults.
    ClearFaults,
    Wait {
        span: Duration,
        /// Stop waiting when this holds; fail if it does not hold in time.
        until: Option<Expectation>,
    },
    Expect {
        expectation: Expectation,
        within: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAction {
    Restart,
    Redeploy,
    PerformMaintenance,
    Evict,
    RecommendRebalance,
    Fail,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    Start,
    Stop,
    Deallocate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    Event {
        of: String,
        /// Only the event of this machine.
        machine: Option<String>,
        state: EventState,
    },
    Machine {
        machine: String,
        state: MachineState,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// In the document now or earlier; an approval may have started it.
    Appeared,
    Scheduled,
    /// Approved, started or not.
    Approved,
    Started,
    /// No longer in the document, with any outcome.
    Gone,
    Completed,
    Canceled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It has requested its document.
    Polling,
    Running,
    Stopped,
    Deallocated,
    Deleted,
}

impl StepAction {
    /// Applies `rename` to every machine name.
    pub(super) fn rename(&mut self, rename: &impl Fn(&mut String)) {
        match self {
            StepAction::Act { machine, .. } | StepAction::Power { machine, .. } | StepAction::Poll { machine } => {
                rename(machine)
            }
            StepAction::Maintain(new) => match &mut new.target {
                MaintenanceTarget::Machines(names) => names.iter_mut().for_each(rename),
                MaintenanceTarget::Host(_) | MaintenanceTarget::Group(_) => {}
            },
            StepAction::Fault(new) => new.machine.iter_mut().for_each(rename),
            StepAction::Approve { by, machine, .. } => by.iter_mut().chain(machine).for_each(rename),
            StepAction::Expect { expectation, .. } | StepAction::Wait { until: Some(expectation), .. } => {
                expectation.machine_mut().into_iter().for_each(rename)
            }
            StepAction::Scale { .. }
            | StepAction::Upgrade { .. }
            | StepAction::Cancel { .. }
            | StepAction::ClearFaults
            | StepAction::Wait { until: None, .. } => {}
        }
    }
}

impl Expectation {
    pub fn machine(&self) -> Option<&str> {
        match self {
            Expectation::Event { machine, .. } => machine.as_deref(),
            Expectation::Machine { machine, .. } => Some(machine),
        }
    }

    fn machine_mut(&mut self) -> Option<&mut String> {
        match self {
            Expectation::Event { machine, .. } => machine.as_mut(),
            Expectation::Machine { machine, .. } => Some(machine),
        }
    }
}

impl MachineAction {
    /// The action in descriptions of steps.
    pub fn as_str(self) -> &'static str {
        match self {
            MachineAction::Restart => "restart",
            MachineAction::Redeploy => "redeploy",
            MachineAction::PerformMaintenance => "perform maintenance",
            MachineAction::Evict => "evict",
            MachineAction::RecommendRebalance => "rebalance recommendation",
            MachineAction::Fail => "hardware failure",
            MachineAction::Delete => "delete",
        }
    }
}

impl PowerAction {
    /// The power state that the action leads to.
    pub fn state(self) -> PowerState {
        match self {
            PowerAction::Start => PowerState::Running,
            PowerAction::Stop => PowerState::Stopped,
            PowerAction::Deallocate => PowerState::Deallocated,
        }
    }

    /// The action in descriptions of steps.
    pub fn as_str(self) -> &'static str {
        match self {
            PowerAction::Start => "start",
            PowerAction::Stop => "stop",
            PowerAction::Deallocate => "deallocate",
        }
    }
}

impl EventState {
    pub const NAMES: [(&'static str, EventState); 7] = [
        ("appeared", EventState::Appeared),
        ("scheduled", EventState::Scheduled),
        ("approved", EventState::Approved),
        ("started", EventState::Started),
        ("gone", EventState::Gone),
        ("completed", EventState::Completed),
        ("canceled", EventState::Canceled),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

impl MachineState {
    pub const NAMES: [(&'static str, MachineState); 5] = [
        ("polling", MachineState::Polling),
        ("running", MachineState::Running),
        ("stopped", MachineState::Stopped),
        ("deallocated", MachineState::Deallocated),
        ("deleted", MachineState::Deleted),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("?", |(name, _)| name)
}

impl fmt::Display for StepAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepAction::Act { action, machine } => write!(f, "{} {machine}", action.as_str()),
            StepAction::Maintain(new) => {
                let (label, names) = match &new.target {
                    MaintenanceTarget::Machines(names) if names.len() == 1 => ("machine", names.join(", ")),
                    MaintenanceTarget::Machines(names) => ("machines", names.join(", ")),
                    MaintenanceTarget::Host(name) => ("host", name.clone()),
                    MaintenanceTarget::Group(name) => ("group", name.clone()),
                };
                write!(f, "maintain {label} {names} ({})", new.kind)
            }
            StepAction::Scale { set, capacity } => write!(f, "scale {set} to {capacity}"),
            StepAction::Upgrade { set } => write!(f, "upgrade {set}"),
            StepAction::Power { action, machine } => write!(f, "{} {machine}", action.as_str()),
            StepAction::Cancel { of } => write!(f, "cancel {of}"),
            StepAction::Approve { of, by, machine } => {
                write!(f, "approve {of}")?;
                machine.as_ref().map_or(Ok(()), |machine| write!(f, " for {machine}"))?;
                by.as_ref().map_or(Ok(()), |by| write!(f, " as {by}"))
            }
            StepAction::Poll { machine } => write!(f, "{machine} requests its document"),
            StepAction::Fault(new) => {
                write!(f, "fault {}", serde_json::to_value(new).unwrap_or_default())
            }
            StepAction::ClearFaults => write!(f, "clear all faults"),
            StepAction::Wait { span, until: None } => write!(f, "wait {}", format_span(*span)),
            StepAction::Wait { span, until: Some(expectation) } => {
                write!(f, "wait at most {} for {expectation}", format_span(*span))
            }
            StepAction::Expect { expectation, .. } => write!(f, "expect {expectation}"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Event { of, machine, state } => {
                write!(f, "{of}")?;
                machine.as_ref().map_or(Ok(()), |machine| write!(f, " of {machine}"))?;
                let verb = if *state == EventState::Appeared { "have" } else { "be" };
                write!(f, " to {verb} {}", state.name())
            }
            Expectation::Machine { machine, state } => write!(f, "{machine} to be {}", state.name()),
        }
    }
}
