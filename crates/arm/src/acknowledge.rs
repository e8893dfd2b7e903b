//! `Microsoft.Maintenance`: approving events from outside their machines, one or several.

use axum::response::{IntoResponse, Response};
use forewarn_core::settings::APPROVALS_MAX;
use forewarn_core::{Approver, Command, EventId, Region, Rejection, Within};
use forewarn_wire::arm::error::ArmError;
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::guid;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::Call;
use super::fields::{invalid, missing};
use super::{availability_sets, machines, scale_sets};
use forewarn_api::Note;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_engine::SubmitError;

/// `POST …/scheduledevents/ID/acknowledge`.
pub async fn one(call: Call) -> Result<Response, ApiError> {
    let within = within(&call.arm.snapshot().region, call.id())?;
    let name = call.id().name().map_or("", |name| name.as_str());
    match approve(&call, within, name).await? {
        Ok(()) => Ok(axum::Json(json!({ "value": "Successfully Approved" })).into_response()),
        Err(refused) => Ok((refused.status(), axum::Json(refused.error(name).body())).into_response()),
    }
}

/// `POST …/scheduledevents` with `{"value": ["ID", …]}`: each for itself.
pub async fn several(call: Call) -> Result<Response, ApiError> {
    let within = within(&call.arm.snapshot().region, call.id())?;
    let body = call.json()?;
    let ids =
        body.get("value").and_then(Value::as_array).filter(|ids| !ids.is_empty()).ok_or_else(|| missing("value"))?;
    if ids.len() > APPROVALS_MAX {
        return Err(Rejection::TooManyApprovals.into());
    }
    let mut refused = Vec::new();
    for id in ids {
        let id = id.as_str().ok_or_else(|| invalid("value", "must be a list of event ids"))?;
        if let Err(why) = approve(&call, within.clone(), id).await? {
            refused.push(why.error(id).about(id));
        }
    }
    if refused.is_empty() {
        let value = json!({ "value": "Successfully approved all Scheduled Events in the list" });
        return Ok(axum::Json(value).into_response());
    }
    let message = format!("{} of {} events could not be approved; the details say why.", refused.len(), ids.len());
    let error = ArmError::new("MultiStatusResponse", message).with_details(refused);
    Ok((StatusCode::MULTI_STATUS, axum::Json(error.body())).into_response())
}

/// Why one event was not approved.
enum Refused {
    NotFound,
    Over,
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Refused::NotFound => StatusCode::NOT_FOUND,
            Refused::Over => StatusCode::CONFLICT,
        }
    }

    fn error(&self, id: &str) -> ArmError {
        match self {
            Refused::NotFound => ArmError::new(
                "NotFound",
                format!("There is no event '{id}' in the document of this resource. List its scheduled events."),
            ),
            Refused::Over => ArmError::new("Conflict", format!("The event '{id}' is over.")),
        }
    }
}

/// The outer error is of the request, the inner one of the event.
async fn approve(call: &Call, within: Within, id: &str) -> Result<Result<(), Refused>, ApiError> {
    let Some(event) = guid::parse(id).map(forewarn_core::Guid) else { return Ok(Err(Refused::NotFound)) };
    let command = approval(call, within, event);
    let note = Note::new("approve", guid::Upper(event.0).to_string());
    match call.arm.api.engine().submit(command, Some(call.arm.api.asked(note))).await {
        Ok(_) => Ok(Ok(())),
        Err(SubmitError::Rejected(Rejection::UnknownEvents(_))) => Ok(Err(Refused::NotFound)),
        Err(SubmitError::Rejected(Rejection::EventOver(_))) => Ok(Err(Refused::Over)),
        Err(error) => Err(error.into()),
    }
}

fn approval(call: &Call, within: Within, event: EventId) -> Command {
    Command::Approve { by: Approver::Management(call.arm.by.clone()), within, events: vec![event] }
}

/// The documents of the resource that the extension hangs on.
pub fn within(region: &Region, id: &ResourceId) -> Result<Within, ApiError> {
    let base = id.base();
    match base.kind().as_deref() {
        Some("Microsoft.Compute/virtualMachines") => Ok(Within::ScopeOf(machines::find(region, &base)?.id)),
        Some("Microsoft.Compute/virtualMachineScaleSets") => Ok(Within::Group(scale_sets::find(region, &base)?.id)),
        Some("Microsoft.Compute/availabilitySets") => Ok(Within::Group(availability_sets::find(region, &base)?.id)),
        Some(_) | None => {
            let message = "Scheduled events are those of virtual machines, scale sets and availability sets.";
            Err(ApiError::new(Refusal::InvalidResourceType, message).about(base.to_string()))
        }
    }
}
