//! Times, ids, durations and closed sets of words as the API writes and reads them. Core types are not
//! serialisable; what is promised to strangers is promised here.

use std::fmt;
use std::time::Duration;

use forewarn_core::{
    Cause, EventKind, EventsPolicy, EvictionPolicy, Guid, Orchestration, Power, Priority, Source, TerminateProfile,
    Timestamp, UpgradeMode,
};
use forewarn_wire::{duration, guid};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::object::Object;

/// A point in time, RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub Timestamp);

/// The latest time that can be shown, near the end of 9999. What follows has years of five digits, which
/// RFC 3339 does not know.
pub const WHEN_SECS_MAX: i64 = 253_402_207_199;

impl When {
    pub fn parse(text: &str) -> Result<When, String> {
        let time: jiff::Timestamp = text
            .parse()
            .map_err(|_| format!("'{text}' is not a time. Write RFC 3339, for example 2026-03-01T12:00:00Z"))?;
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

/// The id of an operation or machine, shown in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub Guid);

/// The id of an event, shown in upper case as in the metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName(pub Guid);

pub fn parse_guid(text: &str) -> Result<Guid, String> {
    guid::parse(text)
        .map(Guid)
        .ok_or_else(|| format!("'{text}' is not a GUID. Write it as 51941b56-8080-45ac-81ae-8bda818f5958"))
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

/// A key of a PATCH whose `null` means something else than its absence.
#[derive(Clone, Debug, Default)]
pub enum Patch<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Patch::Null, Patch::Value))
    }
}

impl<T> From<Patch<Object<T>>> for Patch<T> {
    fn from(patch: Patch<Object<T>>) -> Self {
        match patch {
            Patch::Absent => Patch::Absent,
            Patch::Null => Patch::Null,
            Patch::Value(Object(value)) => Patch::Value(value),
        }
    }
}

/// For a field that is an object: `deserialize_with = "patch_object"`.
pub fn patch_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<T>, D::Error> {
    Patch::<Object<T>>::deserialize(deserializer).map(Patch::from)
}

impl<T> Patch<T> {
    /// None: stays. Some(None): goes.
    pub fn into_change(self) -> Option<Option<T>> {
        match self {
            Patch::Absent => None,
            Patch::Null => Some(None),
            Patch::Value(value) => Some(Some(value)),
        }
    }
}

/// Terminate notification: how long a deletion waits for its machine.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminateNotification {
    /// 5 to 15 minutes, ISO 8601.
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

    /// The range is the rules' business; what is no duration at all is refused here.
    pub fn profile(&self) -> Result<TerminateProfile, String> {
        let secs = duration::parse_secs(&self.not_before_timeout)
            .map_err(|why| format!("'{}': {why}", self.not_before_timeout))?;
        Ok(TerminateProfile { timeout: Duration::from_secs(secs), text: self.not_before_timeout.as_str().into() })
    }
}

/// `scheduledEventsPolicy`: what is approved without asking anybody.
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

/// A closed set of words that stands for one of the core's enums, in both directions.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $core:ty { $($word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, ToSchema)]
        pub enum $name { $($word),+ }

        impl From<$core> for $name {
            fn from(value: $core) -> Self {
                match value { $(<$core>::$word => $name::$word),+ }
            }
        }

        impl From<$name> for $core {
            fn from(value: $name) -> Self {
                match value { $($name::$word => <$core>::$word),+ }
            }
        }
    };
}

words!(
    /// What an event does to its machines.
    EventType = EventKind { Freeze, Reboot, Redeploy, Preempt, Terminate }
);
words!(
    CauseWord = Cause {
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
words!(SourceWord = Source { Platform, User });
words!(PowerState = Power { Running, Stopped, Deallocated });
words!(PriorityWord = Priority { Regular, Spot });
words!(EvictionWord = EvictionPolicy { Deallocate, Delete });
words!(OrchestrationMode = Orchestration { Uniform, Flexible });
words!(UpgradePolicy = UpgradeMode { Automatic, Manual, Rolling });
