//! Times and IDs, and the small objects that several resources contain.

use std::fmt;

use forewarn_wire::guid;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A point in time, in milliseconds since 1970; RFC 3339 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// The latest time that RFC 3339 can express, near the end of 9999.
pub const TIME_SECS_MAX: i64 = 253_402_207_199;

impl Time {
    pub fn parse(text: &str) -> Result<Time, String> {
        let time: jiff::Timestamp = text
            .parse()
            .map_err(|_| format!("'{text}' is not a valid time. Use RFC 3339, for example 2026-03-01T12:00:00Z"))?;
        Ok(Time::from(time))
    }

    /// The same time for date arithmetic, bounded to the range that can be displayed.
    pub fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0.clamp(0, TIME_SECS_MAX * 1000)).unwrap_or_default()
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(time: jiff::Timestamp) -> Time {
        Time(time.as_millisecond())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timestamp())
    }
}

/// The ID of an operation or machine, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u128);

/// The ID of an event, in upper case as in the metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u128);

pub fn parse_guid(text: &str) -> Result<u128, String> {
    guid::parse(text)
        .ok_or_else(|| format!("'{text}' is not a GUID. Use the form 51941b56-8080-45ac-81ae-8bda818f5958"))
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        guid::Lower(self.0).fmt(f)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        guid::Upper(self.0).fmt(f)
    }
}

/// A type whose JSON is its text.
macro_rules! as_text {
    ($type:ident, $format:literal, $parse:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                let format = SchemaFormat::Custom($format.to_owned());
                ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
            }
        }

        impl ToSchema for $type {}
    };
}

as_text!(Time, "date-time", Time::parse);
as_text!(Id, "uuid", |text: &str| parse_guid(text).map(Id));
as_text!(EventId, "uuid", |text: &str| parse_guid(text).map(EventId));

/// Terminate notification: notice before a machine is deleted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminateNotification {
    /// Notice of 5 to 15 minutes in ISO 8601.
    #[serde(default = "default_timeout")]
    #[schema(pattern = "^PT(([5-9]|1[0-4])M([0-5]?[0-9]S)?|15M(00?S)?|[3-8][0-9][0-9]S|900S)$", example = "PT5M")]
    pub not_before_timeout: String,
}

impl Default for TerminateNotification {
    fn default() -> TerminateNotification {
        TerminateNotification { not_before_timeout: default_timeout() }
    }
}

fn default_timeout() -> String {
    "PT5M".into()
}

/// Events that are approved automatically (`scheduledEventsPolicy` in Azure).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    pub approve_user_reboot: bool,
    #[serde(default)]
    pub approve_user_redeploy: bool,
    #[serde(default = "default_true")]
    pub approve_all_instances_down: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { approve_user_reboot: false, approve_user_redeploy: false, approve_all_instances_down: true }
    }
}

pub(crate) fn default_true() -> bool {
    true
}
