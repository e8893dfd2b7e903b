//! Approval of scheduled events through `Microsoft.Maintenance`, one or several at a time.

use axum::response::{IntoResponse, Response};
use forewarn_core::settings::APPROVALS_MAX;
use forewarn_core::{ApprovalScope, Region, Rejection};
use forewarn_wire::arm::acknowledge::{self, RefusedApproval};
use forewarn_wire::arm::error::ArmError;
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::guid;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::Call;
use super::fields::{invalid, missing};
use super::groups::{self, GroupType};
use super::machines;
use forewarn_api::error::{ApiError, ErrorCode};

/// `POST …/scheduledevents/ID/acknowledge`.
pub async fn approve_one(call: Call) -> Result<Response, ApiError> {
    let within = resolve_scope(&call.arm.snapshot().region, call.id())?;
    let name = call.id().name().map_or("", |name| name.as_str());
    match approve(&call, within, name).await? {
        Ok(()) => Ok(axum::Json(json!({ "value": "Successfully Approved" })).into_response()),
        Err(ApprovalError::NotFound) => {
            Ok((StatusCode::NOT_FOUND, axum::Json(acknowledge::event_not_found())).into_response())
        }
        Err(ApprovalError::Finished) => {
            let error = ArmError::new("Conflict", format!("Event '{name}' is finished."));
            Ok((StatusCode::CONFLICT, axum::Json(error.body())).into_response())
        }
    }
}

/// `POST …/scheduledevents` with `{"value": ["ID", …]}`; each event is approved on its own.
pub async fn approve_many(call: Call) -> Result<Response, ApiError> {
    let within = resolve_scope(&call.arm.snapshot().region, call.id())?;
    let body = call.json()?;
    let ids =
        body.get("value").and_then(Value::as_array).filter(|ids| !ids.is_empty()).ok_or_else(|| missing("value"))?;
    if ids.len() > APPROVALS_MAX {
        return Err(Rejection::TooManyApprovals.into());
    }
    let mut refused = Vec::new();
    for id in ids {
        let id = id.as_str().ok_or_else(|| invalid("value", "must be a list of event IDs"))?;
        if let Err(error) = approve(&call, within.clone(), id).await? {
            refused.push(error.describe(id));
        }
    }
    if refused.is_empty() {
        let value = json!({ "value": "Successfully approved all Scheduled Events in the list" });
        return Ok(axum::Json(value).into_response());
    }
    let message = format!("{} of {} events could not be approved. See 'Details'.", refused.len(), ids.len());
    Ok((StatusCode::MULTI_STATUS, axum::Json(acknowledge::multi_status(&message, &refused))).into_response())
}

/// The reason why an event was not approved.
enum ApprovalError {
    NotFound,
    Finished,
}

impl ApprovalError {
    /// The detail of one event of a list.
    fn describe(&self, id: &str) -> RefusedApproval {
        match self {
            ApprovalError::NotFound => RefusedApproval {
                code: "NotFound",
                message: format!(
                    "Event '{id}' was not found among the scheduled events of this resource. List its scheduled events."
                ),
            },
            ApprovalError::Finished => {
                RefusedApproval { code: "Conflict", message: format!("Event '{id}' is finished.") }
            }
        }
    }
}

/// The outer error concerns the request, the inner one the event.
async fn approve(call: &Call, within: ApprovalScope, id: &str) -> Result<Result<(), ApprovalError>, ApiError> {
    let Some(event) = guid::parse(id).map(forewarn_core::Guid) else { return Ok(Err(ApprovalError::NotFound)) };
    match call.arm.actions.approve_events(within, vec![event]).await {
        Ok(_) => Ok(Ok(())),
        Err(error) if error.is_rejection(&Rejection::UnknownEvents(Vec::new())) => Ok(Err(ApprovalError::NotFound)),
        Err(error) if error.is_rejection(&Rejection::EventEnded(event)) => Ok(Err(ApprovalError::Finished)),
        Err(error) => Err(error),
    }
}

/// The part of the region whose events an extension resource shows.
pub fn resolve_scope(region: &Region, id: &ResourceId) -> Result<ApprovalScope, ApiError> {
    let base = id.base();
    match base.kind().as_deref() {
        Some("Microsoft.Compute/virtualMachines") => Ok(ApprovalScope::ScopeOf(machines::find(region, &base)?.id)),
        Some("Microsoft.Compute/virtualMachineScaleSets") => {
            Ok(ApprovalScope::Group(groups::find(region, &base, GroupType::ScaleSet)?.id))
        }
        Some("Microsoft.Compute/availabilitySets") => {
            Ok(ApprovalScope::Group(groups::find(region, &base, GroupType::AvailabilitySet)?.id))
        }
        Some(_) | None => {
            let message = "Only virtual machines, scale sets and availability sets have scheduled events.";
            Err(ApiError::new(ErrorCode::InvalidResourceType, message).with_target(base.to_string()))
        }
    }
}
