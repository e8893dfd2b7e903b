//! What is done to one machine: operations that make events, and the power switch.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core::{Command, EventKind, Machine, MachineId, Power, Request, Target};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{InGroup, Nothing, OptionalBody, Params, Segment};
use super::values::{EventName, EventType};
use super::{Api, Note, machines, names};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// The id that the event is to have.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// Reboot (when left out) or Redeploy.
    #[serde(rename = "type")]
    pub kind: Option<FailureType>,
    /// The id that the event is to have.
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
    /// Resource group (or cloud service of a role instance), when the name alone is not unique.
    pub group: Option<String>,
    /// The id that the event is to have.
    #[param(inline)]
    pub event_id: Option<EventName>,
}

impl Failure {
    pub fn kind(&self) -> EventKind {
        match self.kind.unwrap_or(FailureType::Reboot) {
            FailureType::Reboot => EventKind::Reboot,
            FailureType::Redeploy => EventKind::Redeploy,
        }
    }

    pub fn note(&self, target: &str) -> Note {
        let kind = EventType::from(self.kind());
        Note::new("hardware-failure", target).with(serde_json::json!({ "type": kind }))
    }
}

/// An action that takes nothing but the id of its event.
macro_rules! action {
    ($name:ident, $action:literal, $request:expr) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<InGroup>,
            OptionalBody(body): OptionalBody<Action>,
        ) -> Result<Response, ApiError> {
            let machine = find(&api, &name, &within)?;
            let request: fn(MachineId) -> Request = $request;
            let note = Note::new($action, machine.name.as_ref());
            api.request(request(machine.id), body.event_id.map(|id| id.0), note).await
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
    Params(within): Params<InGroup>,
    OptionalBody(body): OptionalBody<Failure>,
) -> Result<Response, ApiError> {
    let machine = find(&api, &name, &within)?;
    let request = Request::Fail { target: Target::Machines(vec![machine.id]), kind: body.kind() };
    api.request(request, body.event_id.map(|id| id.0), body.note(&machine.name)).await
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<DeleteQuery>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::machine(&snapshot.region, &name, query.group.as_deref())?;
    let request = Request::Delete { machines: vec![machine.id], group: None };
    api.request(request, query.event_id.map(|id| id.0), Note::new("delete", machine.name.as_ref())).await
}

/// The power switch: a direct change, no event comes of it.
macro_rules! power {
    ($name:ident, $action:literal, $power:expr) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<InGroup>,
            OptionalBody(Nothing {}): OptionalBody<Nothing>,
        ) -> Result<Response, ApiError> {
            let machine = find(&api, &name, &within)?;
            let command = Command::SetPower { machine: machine.id, power: $power };
            let done = api.submit(command, Note::new($action, machine.name.as_ref())).await?;
            machines::shown(&done.snapshot.region, &machine)
        }
    };
}

power!(start, "start", Power::Running);
power!(stop, "stop", Power::Stopped);
power!(deallocate, "deallocate", Power::Deallocated);

fn find(api: &Api, name: &str, within: &InGroup) -> Result<Arc<Machine>, ApiError> {
    names::machine(&api.engine().snapshot().region, name, within.group.as_deref())
}
