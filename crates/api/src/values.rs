//! Times, IDs, durations and enumerations in the API's JSON. Core types are not serializable; the public format is defined
//! here.

use std::fmt;
use std::time::Duration;

use forewarn_core::{
    Cause, EventKind, EventsPolicy, EvictionPolicy, Guid, Orchestration, Power, Priority, Source, TerminateProfile,
    Timestamp, UpgradeMode,
};
use forewarn_wire::document::Kind;
use forewarn_wire::{duration, guid};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::object::Object;

/// A point in time in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub Timestamp);

/// The latest time that RFC 3339 can express, near the end of 9999.
pub const WHEN_SECS_MAX: i64 = 253_402_207_199;

impl When {
    pub fn parse(text: &str) -> Result<When, String> {
        let time: jiff::Timestamp = text
            .parse()
            .map_err(|_| format!("'{text}' is not a valid time. Use RFC 3339, for example 2026-03-01T12:00:00Z"))?;
        Ok(When(Timestamp(time.as_millisecond())))
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounded = self.0.0.clamp(0, WHEN_SECS_MAX * 1000);
        match jiff::Timestamp::from_millisecond(bounded) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        When::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The ID of an operation or machine, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub Guid);

/// The ID of an event, in upper case as in the metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName(pub Guid);

pub fn parse_guid(text: &str) -> Result<Guid, String> {
    guid::parse(text)
        .map(Guid)
        .ok_or_else(|| format!("'{text}' is not a GUID. Use the form 51941b56-8080-45ac-81ae-8bda818f5958"))
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&guid::Lower(self.0.0))
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_guid(&String::deserialize(deserializer)?).map(Id).map_err(D::Error::custom)
    }
}

impl Serialize for EventName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&guid::Upper(self.0.0))
    }
}

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_guid(&String::deserialize(deserializer)?).map(EventName).map_err(D::Error::custom)
    }
}

macro_rules! text_schema {
    ($type:ty, $format:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .format(Some(SchemaFormat::Custom($format.to_owned())))
                    .into()
            }
        }
        impl ToSchema for $type {}
    };
}

text_schema!(When, "date-time");
text_schema!(Id, "uuid");
text_schema!(EventName, "uuid");

/// A field whose `null` differs from its absence.
#[derive(Clone, Debug, Default)]
pub enum Nullable<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Nullable::Null, Nullable::Value))
    }
}

impl<T> From<Nullable<Object<T>>> for Nullable<T> {
    fn from(field: Nullable<Object<T>>) -> Self {
        match field {
            Nullable::Absent => Nullable::Absent,
            Nullable::Null => Nullable::Null,
            Nullable::Value(Object(value)) => Nullable::Value(value),
        }
    }
}

/// For a field that is an object: `deserialize_with = "nullable_object"`.
pub fn nullable_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Nullable<T>, D::Error> {
    Nullable::<Object<T>>::deserialize(deserializer).map(Nullable::from)
}

impl<T> Nullable<T> {
    /// None keeps the value, Some(None) removes it.
    pub fn into_change(self) -> Option<Option<T>> {
        match self {
            Nullable::Absent => None,
            Nullable::Null => Some(None),
            Nullable::Value(value) => Some(Some(value)),
        }
    }
}

/// Terminate notification: notice before a machine is deleted.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminateNotification {
    /// Notice of 5 to 15 minutes in ISO 8601.
    #[serde(default = "default_timeout")]
    #[schema(pattern = "^PT(([5-9]|1[0-4])M([0-5]?[0-9]S)?|15M(00?S)?|[3-8][0-9][0-9]S|900S)$", example = "PT5M")]
    pub not_before_timeout: String,
}

fn default_timeout() -> String {
    "PT5M".into()
}

impl TerminateNotification {
    pub fn of(profile: &TerminateProfile) -> Self {
        TerminateNotification { not_before_timeout: profile.text.to_string() }
    }

    /// Refuses malformed durations; the rules check the range.
    pub fn profile(&self) -> Result<TerminateProfile, String> {
        let secs = duration::parse_secs(&self.not_before_timeout)
            .map_err(|why| format!("'{}': {why}", self.not_before_timeout))?;
        Ok(TerminateProfile { timeout: Duration::from_secs(secs), text: self.not_before_timeout.as_str().into() })
    }
}

/// Events that are approved automatically (`scheduledEventsPolicy` in Azure).
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    pub approve_user_reboot: bool,
    #[serde(default)]
    pub approve_user_redeploy: bool,
    #[serde(default = "yes")]
    pub approve_all_instances_down: bool,
}

fn yes() -> bool {
    true
}

impl From<&EventsPolicy> for Policy {
    fn from(policy: &EventsPolicy) -> Self {
        let EventsPolicy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down } = *policy;
        Policy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down }
    }
}

impl From<Policy> for EventsPolicy {
    fn from(policy: Policy) -> Self {
        let Policy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down } = policy;
        EventsPolicy { approve_user_reboot, approve_user_redeploy, approve_all_instances_down }
    }
}

/// An enumeration of the API that mirrors an enum of another crate, with conversions in both directions.
macro_rules! mirror {
    ($(#[$attribute:meta])* $name:ident = $other:ty { $($variant:ident),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        $(#[$attribute])*
        pub enum $name { $($variant),+ }

        impl From<$other> for $name {
            fn from(value: $other) -> Self {
                match value { $(<$other>::$variant => $name::$variant),+ }
            }
        }

        impl From<$name> for $other {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => <$other>::$variant),+ }
            }
        }
    };
}
pub(crate) use mirror;

mirror!(
    /// The impact of an event on its machines.
    EventType = EventKind { Freeze, Reboot, Redeploy, Preempt, Terminate }
);
mirror!(
    EventCause = Cause {
        HostMaintenance,
        LiveMigration,
        UserRestart,
        UserRedeploy,
        SelfServiceMaintenance,
        HardwareFailure,
        Eviction,
        Deletion,
    }
);
mirror!(EventSource = Source { Platform, User });
mirror!(PowerState = Power { Running, Stopped, Deallocated });
mirror!(MachinePriority = Priority { Regular, Spot });
mirror!(MachineEvictionPolicy = EvictionPolicy { Deallocate, Delete });
mirror!(OrchestrationMode = Orchestration { Uniform, Flexible });
mirror!(UpgradePolicy = UpgradeMode { Automatic, Manual, Rolling });

impl From<EventType> for Kind {
    fn from(event_type: EventType) -> Kind {
        match event_type {
            EventType::Freeze => Kind::Freeze,
            EventType::Reboot => Kind::Reboot,
            EventType::Redeploy => Kind::Redeploy,
            EventType::Preempt => Kind::Preempt,
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
            Kind::Terminate => Some(EventType::Terminate),
            Kind::Unknown => None,
        }
    }

    /// The name of this type.
    pub fn as_str(self) -> &'static str {
        Kind::from(self).as_str()
    }
}
