//! Handlers of configuration assignments, which connect a maintenance configuration with a machine, an instance or a set. An assignment
//! is an attachment of what it is assigned to, and ends with it.

use axum::response::{IntoResponse, Response};
use forewarn_core::Region;
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call};
use super::fields::{invalid, missing, read_text};
use super::groups::{self, GroupType};
use super::resource::not_found;
use super::{instances, machines, maintenance};
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};

/// Prefix of the attachments; the name of the assignment follows.
const RECORD: &str = "arm/assignment/";

/// Assignments of one resource.
const ASSIGNMENTS_MAX: usize = 20;

/// The machine or group that an extension resource belongs to.
pub fn owner(region: &Region, id: &ResourceId) -> Result<Owner, ApiError> {
    let base = id.base();
    match base.kind().as_deref() {
        Some("Microsoft.Compute/virtualMachines") => Ok(Owner::Machine(machines::find(region, &base)?.id)),
        Some("Microsoft.Compute/virtualMachineScaleSets/virtualMachines") => {
            Ok(Owner::Machine(instances::find(region, &base)?.id))
        }
        Some("Microsoft.Compute/virtualMachineScaleSets") => {
            Ok(Owner::Group(groups::find(region, &base, GroupType::ScaleSet)?.id))
        }
        Some(_) | None => Ok(Owner::Group(groups::find(region, &base, GroupType::AvailabilitySet)?.id)),
    }
}

fn name(call: &Call) -> &str {
    call.id().name().map_or("", |name| name.as_str())
}

fn record_name(name: &str) -> String {
    format!("{RECORD}{}", name.to_ascii_lowercase())
}

pub async fn put(call: Call) -> Result<Response, ApiError> {
    const PLACE: &str = "properties.maintenanceConfigurationId";
    let owner = owner(&call.arm.snapshot().region, call.id())?;
    let _lock = call.arm.lock(call.id()).await;
    let body = call.json()?;
    let configuration = read_text(&body, PLACE)?.ok_or_else(|| missing(PLACE))?;
    let configuration = ResourceId::parse(configuration).map_err(|error| invalid(PLACE, error))?;
    maintenance::find(&call.arm, &configuration).await?.ok_or_else(|| not_found(&configuration))?;
    let before = read_all(&call.arm, owner).await?;
    let is_new = !before.iter().any(|(record, _)| *record == record_name(name(&call)));
    if is_new && before.len() >= ASSIGNMENTS_MAX {
        let message = format!("A resource can have at most {ASSIGNMENTS_MAX} assignments. Delete one first.");
        return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
    }
    let stored = json!({ "name": name(&call), "configuration": configuration.to_string() });
    let attachment = Attachment::put(owner, record_name(name(&call)), stored.to_string());
    let note = call.arm.actions.permit(Action::PutMaintenanceConfiguration)?.note(call.id().base().to_string());
    call.arm.actions.commit(Vec::new(), note, move |_| vec![attachment]).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(render(&call, &stored))).into_response())
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let owner = owner(&call.arm.snapshot().region, call.id())?;
    let stored = call.arm.read_attachment(owner, record_name(name(&call))).await?;
    let stored = stored.ok_or_else(|| not_found(call.id()))?;
    Ok(axum::Json(render(&call, &stored)).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let owner = owner(&call.arm.snapshot().region, call.id())?;
    let found = read_all(&call.arm, owner).await?;
    let value: Vec<Value> = found.iter().map(|(_, stored)| render(&call, stored)).collect();
    Ok(axum::Json(json!({ "value": value })).into_response())
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let owner = owner(&call.arm.snapshot().region, call.id())?;
    let _lock = call.arm.lock(call.id()).await;
    let record = record_name(name(&call));
    let Some(stored) = call.arm.read_attachment(owner, record.clone()).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let note = call.arm.actions.permit(Action::DeleteMaintenanceConfiguration)?.note(call.id().base().to_string());
    call.arm.actions.commit(Vec::new(), note, move |_| vec![Attachment::remove(owner, record)]).await?;
    Ok(axum::Json(render(&call, &stored)).into_response())
}

async fn read_all(arm: &Arm, owner: Owner) -> Result<Vec<(String, Value)>, ApiError> {
    let found = arm.read(move |reader| reader.attachments(owner, RECORD, None, ATTACHMENTS_PAGE_MAX)).await?;
    Ok(found.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap_or_default())).collect())
}

/// The bodies of the configurations that are assigned to a machine or group.
pub async fn configurations(arm: &Arm, owner: Owner) -> Result<Vec<Value>, ApiError> {
    let mut found = Vec::new();
    for (_, stored) in read_all(arm, owner).await? {
        let id = stored["configuration"].as_str().and_then(|id| ResourceId::parse(id).ok());
        if let Some(id) = id {
            found.extend(maintenance::find(arm, &id).await?);
        }
    }
    Ok(found)
}

fn render(call: &Call, stored: &Value) -> Value {
    let (base, name) = (call.id().base().to_string(), stored["name"].as_str().unwrap_or_default());
    json!({
        "id": format!("{base}/providers/Microsoft.Maintenance/configurationAssignments/{name}"),
        "name": name,
        "type": "Microsoft.Maintenance/configurationAssignments",
        "properties": { "maintenanceConfigurationId": stored["configuration"], "resourceId": base },
    })
}
