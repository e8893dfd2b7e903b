//! The enumerations of the native API. Each value is written as its name.

use std::fmt;

use forewarn_wire::document::Kind;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::UnknownWord;

/// An enumeration whose values are written as words.
pub trait Word: Copy + PartialEq + Send + Sync + 'static {
    /// All values, in the order in which they are listed.
    const ALL: &'static [Self];

    /// The value in JSON.
    fn as_str(self) -> &'static str;
}

macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$note:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub enum $name { $($(#[$note])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name of this value in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant)),+ }
            }

            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl Word for $name {
            const ALL: &'static [$name] = $name::ALL;

            fn as_str(self) -> &'static str {
                $name::as_str(self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Words that only responses contain. Clients accept those of a newer server.
macro_rules! response_words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$note:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$note])* $variant,)+
            /// From a newer server. This server never uses it.
            Unknown(UnknownWord),
        }

        impl $name {
            /// All values that this version knows.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name of this value in JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => stringify!($variant),)+
                    $name::Unknown(word) => word.as_str(),
                }
            }

            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl Word for $name {
            const ALL: &'static [$name] = $name::ALL;

            fn as_str(self) -> &'static str {
                $name::as_str(self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                Ok($name::parse(&word).unwrap_or_else(|| $name::Unknown(UnknownWord::new(&word))))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words = $name::ALL.iter().map(|value| value.as_str());
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
            }
        }

        impl ToSchema for $name {}
    };
}

words!(
    /// The impact of an event on its machines.
    EventType { Freeze, Reboot, Redeploy, Preempt, Terminate, SpotRebalanceRecommendation }
);
response_words!(EventCause {
    HostMaintenance,
    LiveMigration,
    UserRestart,
    UserRedeploy,
    SelfServiceMaintenance,
    HardwareFailure,
    Eviction,
    RebalanceRecommendation,
    Deletion,
});
response_words!(EventSource { Platform, User });
response_words!(EventStatus { Scheduled, Started, Ended });
response_words!(EventOutcome { Completed, Failed, TimedOut, Superseded, NoEffect, ResourceGone, Canceled });
words!(
    /// The status of an event, as webhooks report it.
    EventStage { Scheduled, Started, Completed, Canceled }
);
words!(
    /// The subject of webhook messages.
    WebhookTopic {
        /// The events of machines.
        Events,
        /// Rollouts, drains and the states of hosts.
        Rollouts,
    }
);
words!(PowerState { Running, Stopped, Deallocated });
words!(MachinePriority { Regular, Spot });
words!(MachineEvictionPolicy { Deallocate, Delete });
words!(OrchestrationMode { Flexible, Uniform });
words!(UpgradePolicy { Manual, Automatic, Rolling });
response_words!(
    /// Whether a machine has a handler that polls.
    HandlerPresence {
        Polling,
        /// It has stopped polling, or has never polled although other machines of its group do.
        Silent,
        /// No handler is connected, so the machine was not notified.
        Missing,
    }
);
response_words!(
    /// The reason why a machine is not ready.
    NotReadyReason {
        NoHandler,
        /// Its handler has read the event.
        NotApproved,
        /// Its handler has not polled since the event appeared.
        NotPolledSince,
        StoppedPolling,
        NeverPolled,
    }
);
response_words!(OperationKind {
    Restart,
    Redeploy,
    PerformMaintenance,
    Evict,
    RecommendRebalance,
    Delete,
    Maintain,
    Drain,
    Fail
});
response_words!(
    /// Whether machines are placed on a host.
    HostPhase { Active, Draining, Drained, Failed }
);
words!(Weekday { Mon, Tue, Wed, Thu, Fri, Sat, Sun });
response_words!(RolloutPhase { Planned, Running, Waiting, Paused, Finished, Stopped, Failed });
response_words!(RolloutStepPhase { Pending, InProgress, Succeeded, Failed, Skipped, Canceled });
words!(
    /// The maintenance that a rollout carries out on each target.
    RolloutType { Freeze, Reboot, Redeploy, Drain }
);
response_words!(
    /// The reason why a rollout, drain or other operation waits.
    WaitReason {
        Window,
        /// The start time of a rollout.
        Start,
        Pause,
        Availability,
        Capacity,
        Approvals,
        Host,
        Paused,
        /// A planned time, or a notice period that no handler can shorten.
        Notice,
        /// Another event on the same machine.
        Event,
    }
);
response_words!(OperationPhase { Running, Succeeded, Failed, Canceled });
words!(MaintenanceType { Freeze, Reboot, Redeploy });
words!(MaintenanceCause { HostMaintenance, LiveMigration });
words!(FailureType { Reboot, Redeploy });
words!(ClockMode { Real, Manual });
response_words!(RunStatus { Running, Passed, Failed, Stopped });
response_words!(RunStepStatus { Waiting, Running, Done, Failed });

impl From<EventType> for Kind {
    fn from(event_type: EventType) -> Kind {
        match event_type {
            EventType::Freeze => Kind::Freeze,
            EventType::Reboot => Kind::Reboot,
            EventType::Redeploy => Kind::Redeploy,
            EventType::Preempt => Kind::Preempt,
            EventType::SpotRebalanceRecommendation => Kind::SpotRebalanceRecommendation,
            EventType::Terminate => Kind::Terminate,
        }
    }
}

impl EventType {
    /// The type of this name in metadata documents.
    pub fn of_kind(kind: Kind) -> Option<EventType> {
        match kind {
            Kind::Freeze => Some(EventType::Freeze),
            Kind::Reboot => Some(EventType::Reboot),
            Kind::Redeploy => Some(EventType::Redeploy),
            Kind::Preempt => Some(EventType::Preempt),
            Kind::SpotRebalanceRecommendation => Some(EventType::SpotRebalanceRecommendation),
            Kind::Terminate => Some(EventType::Terminate),
            Kind::Unknown => None,
        }
    }
}
