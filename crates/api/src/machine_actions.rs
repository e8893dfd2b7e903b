//! Actions on one machine: operations that create events, and changes of the power state.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core::{Command, EventKind, Machine, MachineId, Power, Request, Target};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{EmptyBody, GroupQuery, OptionalBody, Params, Segment};
use super::values::{EventName, EventType};
use super::{Api, AuditNote, machines, names, operations};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionOptions {
    /// Event ID to use.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureOptions {
    /// Type of the event. Default: Reboot.
    #[serde(rename = "type")]
    pub kind: Option<FailureType>,
    /// Event ID to use.
    pub event_id: Option<EventName>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub enum FailureType {
    Reboot,
    Redeploy,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct DeleteQuery {
    /// Resource group, or cloud service of a role instance, if the name alone is not unique.
    pub group: Option<String>,
    /// Event ID to use.
    #[param(inline)]
    pub event_id: Option<EventName>,
}

impl FailureOptions {
    pub fn kind(&self) -> EventKind {
        match self.kind.unwrap_or(FailureType::Reboot) {
            FailureType::Reboot => EventKind::Reboot,
            FailureType::Redeploy => EventKind::Redeploy,
        }
    }

    pub fn note(&self, target: &str) -> AuditNote {
        let kind = EventType::from(self.kind());
        AuditNote::new("hardware-failure", target).with(serde_json::json!({ "type": kind }))
    }
}

/// A handler of an action whose only option is the event ID.
macro_rules! action {
    ($name:ident, $action:literal, $request:expr) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(body): OptionalBody<ActionOptions>,
        ) -> Result<Response, ApiError> {
            let machine = find(&api, &name, &within)?;
            let request: fn(MachineId) -> Request = $request;
            let note = AuditNote::new($action, machine.name.as_ref());
            operations::start(&api, request(machine.id), body.event_id.map(|id| id.0), note).await
        }
    };
}

action!(restart, "restart", |machine| Request::Restart { machines: vec![machine] });
action!(redeploy, "redeploy", |machine| Request::Redeploy { machines: vec![machine] });
action!(perform_maintenance, "perform-maintenance", |machine| Request::PerformMaintenance { machines: vec![machine] });
action!(evict, "evict", |machine| Request::Evict { machine });

pub async fn fail(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<FailureOptions>,
) -> Result<Response, ApiError> {
    let machine = find(&api, &name, &within)?;
    let request = Request::Fail { target: Target::Machines(vec![machine.id]), kind: body.kind() };
    operations::start(&api, request, body.event_id.map(|id| id.0), body.note(&machine.name)).await
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<DeleteQuery>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, query.group.as_deref())?;
    let request = Request::Delete { machines: vec![machine.id], group: None };
    let note = AuditNote::new("delete", machine.name.as_ref());
    operations::start(&api, request, query.event_id.map(|id| id.0), note).await
}

/// A handler that changes the power state directly, without an event.
macro_rules! power {
    ($name:ident, $action:literal, $power:expr) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
        ) -> Result<Response, ApiError> {
            let machine = find(&api, &name, &within)?;
            let command = Command::SetPower { machine: machine.id, power: $power };
            let done = api.submit(command, AuditNote::new($action, machine.name.as_ref())).await?;
            machines::respond_changed(&done.snapshot.region, &machine)
        }
    };
}

power!(start, "start", Power::Running);
power!(stop, "stop", Power::Stopped);
power!(deallocate, "deallocate", Power::Deallocated);

fn find(api: &Api, name: &str, within: &GroupQuery) -> Result<Arc<Machine>, ApiError> {
    names::find_machine(&api.engine().snapshot().region, name, within.group.as_deref())
}
