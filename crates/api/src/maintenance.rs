//! Platform maintenance of machines, a host or a group.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::{Cause, EventKind, Name, Plan, Region, Request, Target};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::error::ApiError;
use super::extract::{Body, NoQuery, Params};
use super::object;
use super::text::Text;
use super::values::{EventName, Nullable, When};
use super::{Api, AuditNote, hosts, names, operations};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMaintenance {
    pub target: MaintenanceTarget,
    #[serde(rename = "type")]
    pub kind: MaintenanceType,
    /// Default: HostMaintenance.
    pub cause: Option<MaintenanceCause>,
    /// Earliest start time.
    pub at: Option<When>,
    /// Notice period, if longer than the minimum of the event type.
    #[schema(maximum = 34_560_000)]
    pub notice_seconds: Option<u64>,
    /// Expected duration of the impact; -1 if unknown.
    #[schema(minimum = -1, maximum = 86400)]
    pub duration_seconds: Option<i64>,
    pub description: Option<Text>,
    /// Event ID to use for the first event.
    pub event_id: Option<EventName>,
}

/// The target of maintenance; exactly one of the fields.
#[derive(Debug)]
pub enum MaintenanceTarget {
    /// One or several machines, one update domain at a time. Each is named as in paths.
    Machines(Vec<String>),
    /// All machines on a host, at once.
    Host(String),
    /// All machines in an availability set, cloud service or scale set, one update domain at a time.
    Group(String),
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

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub enum MaintenanceType {
    Freeze,
    Reboot,
    Redeploy,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub enum MaintenanceCause {
    HostMaintenance,
    LiveMigration,
}

pub async fn start(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewMaintenance>,
) -> Result<Response, ApiError> {
    let (target, name) = body.target.resolve(&api.engine().snapshot().region)?;
    let note = AuditNote::new("maintenance", name)
        .with(serde_json::json!({ "type": body.kind, "at": body.at, "noticeSeconds": body.notice_seconds }));
    let event = body.event_id.map(|id| id.0);
    operations::start(&api, Request::Maintain { target, plan: body.plan() }, event, note).await
}

impl NewMaintenance {
    fn plan(self) -> Plan {
        Plan {
            kind: match self.kind {
                MaintenanceType::Freeze => EventKind::Freeze,
                MaintenanceType::Reboot => EventKind::Reboot,
                MaintenanceType::Redeploy => EventKind::Redeploy,
            },
            cause: match self.cause.unwrap_or(MaintenanceCause::HostMaintenance) {
                MaintenanceCause::HostMaintenance => Cause::HostMaintenance,
                MaintenanceCause::LiveMigration => Cause::LiveMigration,
            },
            at: self.at.map(|when| when.0),
            notice: self.notice_seconds.map(Duration::from_secs),
            duration_secs: self.duration_seconds,
            description: self.description.map(|text| Name::from(text.0)),
        }
    }
}

impl MaintenanceTarget {
    /// The target and its name for the audit trail.
    fn resolve(&self, region: &Region) -> Result<(Target, String), ApiError> {
        Ok(match self {
            MaintenanceTarget::Machines(given) => {
                let machines = names::find_machines(region, given)?;
                let names = machines.iter().map(|machine| &*machine.name).collect::<Vec<_>>().join(", ");
                (Target::Machines(machines.iter().map(|machine| machine.id).collect()), names)
            }
            MaintenanceTarget::Host(name) => (Target::Host(hosts::find(region, name)?), name.clone()),
            MaintenanceTarget::Group(name) => {
                let group = names::find_any_group(region, name)?;
                (Target::Group(group.id), group.name.to_string())
            }
        })
    }
}
