//! The state of a machine in one word: what an event does to it, or its power.

use forewarn_core::{EventKind, Machine, Power, Region, Status};

/// In the order of their urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineState {
    Evicting,
    Redeploying,
    Rebooting,
    Deleting,
    Paused,
    Stopped,
    Deallocated,
    Running,
}

impl MachineState {
    pub fn of(region: &Region, machine: &Machine) -> MachineState {
        let started = region.events_of(machine.id).filter(|event| matches!(event.status, Status::Started { .. }));
        let impact = started.filter_map(|event| match event.kind {
            EventKind::Freeze => Some(MachineState::Paused),
            EventKind::Reboot => Some(MachineState::Rebooting),
            EventKind::Redeploy => Some(MachineState::Redeploying),
            EventKind::Preempt => Some(MachineState::Evicting),
            EventKind::Terminate => Some(MachineState::Deleting),
            EventKind::SpotRebalanceRecommendation => None,
        });
        impact.min().unwrap_or(match machine.power {
            Power::Running => MachineState::Running,
            Power::Stopped => MachineState::Stopped,
            Power::Deallocated => MachineState::Deallocated,
        })
    }

    /// Whether the machine serves nothing. A pause lasts seconds.
    pub fn is_down(&self) -> bool {
        match self {
            MachineState::Evicting
            | MachineState::Redeploying
            | MachineState::Rebooting
            | MachineState::Deleting
            | MachineState::Stopped
            | MachineState::Deallocated => true,
            MachineState::Paused | MachineState::Running => false,
        }
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            MachineState::Evicting => "Evicting",
            MachineState::Redeploying => "Redeploying",
            MachineState::Rebooting => "Rebooting",
            MachineState::Deleting => "Deleting",
            MachineState::Paused => "Paused",
            MachineState::Stopped => "Stopped",
            MachineState::Deallocated => "Deallocated",
            MachineState::Running => "Running",
        }
    }

    /// The class of its mark.
    pub fn class(&self) -> &'static str {
        match self {
            MachineState::Evicting | MachineState::Redeploying | MachineState::Deleting => "down",
            MachineState::Rebooting => "wait",
            MachineState::Paused => "cold",
            MachineState::Stopped | MachineState::Deallocated => "idle",
            MachineState::Running => "",
        }
    }

    /// The class of words in its color.
    pub fn color(&self) -> &'static str {
        match self {
            MachineState::Evicting | MachineState::Redeploying | MachineState::Rebooting | MachineState::Deleting => {
                "red"
            }
            MachineState::Paused => "slate",
            MachineState::Stopped | MachineState::Deallocated => "q",
            MachineState::Running => "green",
        }
    }
}
