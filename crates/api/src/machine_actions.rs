//! Handlers of actions on one machine: operations that create events, and changes of the power state.

use axum::response::Response;
use forewarn_api_types::{ActionOptions, EmptyBody, EventId, FailureOptions, PowerState};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Actions;
use super::actions::GroupDeletion;
use super::error::ApiError;
use super::extract::{self, GroupQuery, OptionalBody, Params, Segment};
use super::names::{GroupTarget, MachineTarget};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct DeleteQuery {
    /// Resource group, or cloud service of a role instance, if the name alone is not unique.
    pub group: Option<String>,
    /// Event ID to use.
    #[param(inline)]
    pub event_id: Option<EventId>,
    /// Delete an availability set or cloud service with its machines. Without it, only empty ones can be deleted.
    #[serde(default)]
    pub with_machines: bool,
}

impl DeleteQuery {
    pub fn options(&self) -> ActionOptions {
        ActionOptions { event_id: self.event_id }
    }

    pub fn deletion(&self) -> GroupDeletion {
        match self.with_machines {
            true => GroupDeletion::WithMachines,
            false => GroupDeletion::OnlyEmpty,
        }
    }

    pub fn into_group(self, name: String) -> GroupTarget {
        GroupTarget::Named { name, within: self.group }
    }
}

/// A handler of an action whose only option is the event ID.
macro_rules! action {
    ($name:ident, $method:ident) => {
        pub async fn $name(
            actions: Actions,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(body): OptionalBody<ActionOptions>,
        ) -> Result<Response, ApiError> {
            let operation = actions.$method(&within.machine(name), body).await?;
            Ok(actions.respond_started(operation))
        }
    };
}

action!(restart, restart_machine);
action!(redeploy, redeploy_machine);
action!(perform_maintenance, perform_maintenance);
action!(evict, evict_machine);
action!(recommend_rebalance, recommend_rebalance);

pub async fn fail(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<FailureOptions>,
) -> Result<Response, ApiError> {
    let operation = actions.fail_machine(&within.machine(name), body).await?;
    Ok(actions.respond_started(operation))
}

pub async fn delete(
    actions: Actions,
    Segment(name): Segment,
    Params(query): Params<DeleteQuery>,
) -> Result<Response, ApiError> {
    let options = query.options();
    let target = MachineTarget::Named { name, within: query.group };
    let operation = actions.delete_machine(&target, options).await?;
    Ok(actions.respond_started(operation))
}

/// A handler that starts, stops or deallocates a machine, without an event.
macro_rules! power {
    ($name:ident, $power:ident) => {
        pub async fn $name(
            actions: Actions,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
        ) -> Result<Response, ApiError> {
            actions.set_power(&within.machine(name), PowerState::$power).await.map(extract::respond_ok)
        }
    };
}

power!(start, Running);
power!(stop, Stopped);
power!(deallocate, Deallocated);

/// Turns on the machine's event group, as the first request of a handler does. Tests use it to create events before
/// their handler runs, without a metadata request that faults could affect.
pub async fn enable_events(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    actions.enable_events(&within.machine(name)).await.map(extract::respond_ok)
}
