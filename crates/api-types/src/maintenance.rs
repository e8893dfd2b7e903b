//! Platform maintenance of machines, a host or a group.

use serde::de::{Deserializer, Error as _};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::{EventId, MaintenanceCause, MaintenanceType, Nullable, Text, Time, object};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMaintenance {
    pub target: MaintenanceTarget,
    #[serde(rename = "type")]
    pub kind: MaintenanceType,
    /// Default: HostMaintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<MaintenanceCause>,
    /// Earliest start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Notice period, if longer than the minimum of the event type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 34_560_000)]
    pub notice_seconds: Option<u64>,
    /// Expected duration of the impact; -1 if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 86400)]
    pub duration_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Event ID to use for the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

impl NewMaintenance {
    /// Maintenance as soon as the notice allows.
    pub fn of(target: MaintenanceTarget, kind: MaintenanceType) -> NewMaintenance {
        NewMaintenance {
            target,
            kind,
            cause: None,
            at: None,
            notice_seconds: None,
            duration_seconds: None,
            description: None,
            event_id: None,
        }
    }
}

/// The target of maintenance; exactly one of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaintenanceTarget {
    /// One or several machines, one update domain at a time. Each is named as in paths.
    Machines(Vec<String>),
    /// All machines on a host, at once.
    Host(String),
    /// All machines in an availability set, cloud service or scale set, one update domain at a time.
    Group(String),
}

impl Serialize for MaintenanceTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            MaintenanceTarget::Machines(names) => map.serialize_entry("machines", names)?,
            MaintenanceTarget::Host(name) => map.serialize_entry("host", name)?,
            MaintenanceTarget::Group(name) => map.serialize_entry("group", name)?,
        }
        map.end()
    }
}

/// The fields are read first, because serde's errors for enums are hard to understand.
impl<'de> Deserialize<'de> for MaintenanceTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use Nullable::{Absent, Value};
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            #[serde(default)]
            machine: Nullable<String>,
            #[serde(default)]
            machines: Nullable<Vec<String>>,
            #[serde(default)]
            host: Nullable<String>,
            #[serde(default)]
            group: Nullable<String>,
        }
        let Keys { machine, machines, host, group } = object::required(deserializer)?;
        match (machine, machines, host, group) {
            (Value(name), Absent, Absent, Absent) => Ok(MaintenanceTarget::Machines(vec![name])),
            (Absent, Value(names), Absent, Absent) if names.is_empty() => {
                Err(D::Error::custom("'machines' is empty; name at least one machine"))
            }
            (Absent, Value(names), Absent, Absent) => Ok(MaintenanceTarget::Machines(names)),
            (Absent, Absent, Value(name), Absent) => Ok(MaintenanceTarget::Host(name)),
            (Absent, Absent, Absent, Value(name)) => Ok(MaintenanceTarget::Group(name)),
            (_, _, _, _) => Err(D::Error::custom("set exactly one of 'machine', 'machines', 'host' and 'group'")),
        }
    }
}

impl PartialSchema for MaintenanceTarget {
    fn schema() -> RefOr<Schema> {
        let name = || ObjectBuilder::new().schema_type(Type::String);
        let one = |key: &str, value: RefOr<Schema>| {
            ObjectBuilder::new()
                .property(key, value)
                .required(key)
                .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        };
        let names = ArrayBuilder::new().items(name()).min_items(Some(1));
        OneOfBuilder::new()
            .item(one("machine", name().into()))
            .item(one("machines", names.into()))
            .item(one("host", name().into()))
            .item(one("group", name().into()))
            .into()
    }
}

impl ToSchema for MaintenanceTarget {}
