//! Conversions between the types of the API and those of the rules. Both are defined in other crates, so `From` cannot be
//! implemented here.

use forewarn_api_types::{
    Address, Details, EventCause, EventOutcome, EventSource, EventStage, EventType, FailureType, Id, Ip,
    MachineEvictionPolicy, MachinePriority, MaintenanceCause, MaintenanceType, OrchestrationMode, Policy, PowerState,
    ResourceName, RolloutType, Tags, TerminateNotification, Text, Time, UpgradePolicy,
};
use forewarn_core as core;
use forewarn_core::{
    Cause, EventKind, EventsPolicy, EvictionPolicy, Guid, Name, Orchestration, Outcome, Power, Priority, RolloutAction,
    Source, TerminateProfile, Timestamp, UpgradeMode,
};
use forewarn_wire::cloudevent::Stage;

const _: () = assert!(forewarn_api_types::NAME_BYTES_MAX == core::settings::NAME_BYTES_MAX);
const _: () = assert!(
    forewarn_api_types::TEXT_CHARS_MAX * 4 <= core::settings::DESCRIPTION_BYTES_MAX,
    "a short text fits a description"
);

/// A conversion that cannot fail.
pub trait Convert<T> {
    fn convert(self) -> T;
}

/// Two enums with the same variants.
macro_rules! mirror {
    ($api:ty = $other:ty { $($variant:ident),+ $(,)? }) => {
        impl Convert<$api> for $other {
            fn convert(self) -> $api {
                match self { $(<$other>::$variant => <$api>::$variant),+ }
            }
        }

        impl Convert<$other> for $api {
            fn convert(self) -> $other {
                match self { $(<$api>::$variant => <$other>::$variant),+ }
            }
        }
    };
}

/// An enum of the API that only responses contain.
macro_rules! mirror_response {
    ($api:ty = $other:ty { $($variant:ident),+ $(,)? }) => {
        impl Convert<$api> for $other {
            fn convert(self) -> $api {
                match self { $(<$other>::$variant => <$api>::$variant),+ }
            }
        }
    };
}

mirror!(EventType = EventKind { Freeze, Reboot, Redeploy, Preempt, Terminate, SpotRebalanceRecommendation });
mirror_response!(
    EventCause = Cause {
        HostMaintenance,
        LiveMigration,
        UserRestart,
        UserRedeploy,
        SelfServiceMaintenance,
        HardwareFailure,
        Eviction,
        RebalanceRecommendation,
        Deletion,
    }
);
mirror_response!(EventSource = Source { Platform, User });
mirror!(EventStage = Stage { Scheduled, Started, Completed, Canceled });
mirror!(PowerState = Power { Running, Stopped, Deallocated });
mirror!(MachinePriority = Priority { Regular, Spot });
mirror!(MachineEvictionPolicy = EvictionPolicy { Deallocate, Delete });
mirror!(OrchestrationMode = Orchestration { Uniform, Flexible });
mirror!(UpgradePolicy = UpgradeMode { Automatic, Manual, Rolling });

impl Convert<EventOutcome> for &Outcome {
    fn convert(self) -> EventOutcome {
        match self {
            Outcome::Completed => EventOutcome::Completed,
            Outcome::Failed(_) => EventOutcome::Failed,
            Outcome::TimedOut => EventOutcome::TimedOut,
            Outcome::Superseded => EventOutcome::Superseded,
            Outcome::NoEffect => EventOutcome::NoEffect,
            Outcome::ResourceGone => EventOutcome::ResourceGone,
            Outcome::Canceled { .. } => EventOutcome::Canceled,
        }
    }
}

impl Convert<RolloutType> for &RolloutAction {
    fn convert(self) -> RolloutType {
        match self {
            RolloutAction::Freeze => RolloutType::Freeze,
            RolloutAction::Reboot => RolloutType::Reboot,
            RolloutAction::Redeploy => RolloutType::Redeploy,
            RolloutAction::Drain { .. } => RolloutType::Drain,
        }
    }
}

impl Convert<EventKind> for MaintenanceType {
    fn convert(self) -> EventKind {
        match self {
            MaintenanceType::Freeze => EventKind::Freeze,
            MaintenanceType::Reboot => EventKind::Reboot,
            MaintenanceType::Redeploy => EventKind::Redeploy,
        }
    }
}

impl Convert<Cause> for MaintenanceCause {
    fn convert(self) -> Cause {
        match self {
            MaintenanceCause::HostMaintenance => Cause::HostMaintenance,
            MaintenanceCause::LiveMigration => Cause::LiveMigration,
        }
    }
}

impl Convert<EventKind> for FailureType {
    fn convert(self) -> EventKind {
        match self {
            FailureType::Reboot => EventKind::Reboot,
            FailureType::Redeploy => EventKind::Redeploy,
        }
    }
}

impl Convert<Time> for Timestamp {
    fn convert(self) -> Time {
        Time(self.0)
    }
}

impl Convert<Timestamp> for Time {
    fn convert(self) -> Timestamp {
        Timestamp(self.0)
    }
}

impl Convert<Id> for Guid {
    fn convert(self) -> Id {
        Id(self.0)
    }
}

impl Convert<Policy> for &EventsPolicy {
    fn convert(self) -> Policy {
        let EventsPolicy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down } = *self;
        Policy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down }
    }
}

impl Convert<EventsPolicy> for Policy {
    fn convert(self) -> EventsPolicy {
        let Policy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down } = self;
        EventsPolicy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down }
    }
}

impl Convert<TerminateNotification> for &TerminateProfile {
    fn convert(self) -> TerminateNotification {
        TerminateNotification { not_before_timeout: self.text.to_string() }
    }
}

/// The details and tags of a machine or model.
pub fn render_details(details: &core::Details) -> (Details, Tags) {
    let text = |text: &Name| (!text.is_empty()).then(|| Text(text.to_string()));
    let shown = Details {
        location: text(&details.location),
        size: text(&details.size),
        os_type: text(&details.os_type),
        computer_name: text(&details.computer_name),
        publisher: text(&details.publisher),
        offer: text(&details.offer),
        sku: text(&details.sku),
        image_version: text(&details.image_version),
        mac: text(&details.mac),
    };
    let tags = details.tags.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    (shown, Tags(tags.collect()))
}

pub fn render_addresses(addresses: &[core::Address]) -> Vec<Address> {
    let render =
        |address: &core::Address| Address { network: ResourceName(address.network.to_string()), ip: Ip(address.ip) };
    addresses.iter().map(render).collect()
}
