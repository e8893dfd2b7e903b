//! Deployments of templates. The whole template is evaluated before anything is made; then its resources are written in
//! order, by the same functions as those of a PUT, before the request is answered. What went wrong is told to who asks how
//! far it is: clients die of a deployment that is refused at once.
//!
//! A deployment that stops in the middle keeps what it made, and says where it stopped.

use std::collections::HashMap;

use axum::response::{IntoResponse, Response};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::error::{ArmError, OperationStatus};
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::template::{Plan, PlannedResource, Target, Template};
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call, group_id};
use super::machines::last_name;
use super::operations::{Progress, Ticket, with_address};
use super::page::{self, Wanted};
use super::write::{How, Written};
use super::{availability_sets, machines, network, resource_groups, scale_sets};
use forewarn_access::random_guid;
use forewarn_api::Note;
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::values::When;

/// What the attachments are named that hold them; the id follows.
pub const RECORD: &str = "arm/deployment";

/// Deployments that are remembered of one resource group. The oldest goes when there is one more: clients make a new one for
/// every machine.
const KEPT_MAX: usize = 100;

fn record_of(id: &ResourceId) -> String {
    format!("{RECORD}{}", deployment_id(id).key())
}

/// Without the operation that is asked for.
fn deployment_id(id: &ResourceId) -> ResourceId {
    id.parent().unwrap_or_else(|| id.clone())
}

pub async fn put(call: Call) -> Result<Response, ApiError> {
    let body = call.json()?;
    let (arm, id) = (call.arm.clone(), call.id().clone());
    // Who asks may go away meanwhile: what is begun is finished.
    let work = tokio::spawn(async move { deploy(&arm, &id, &body).await });
    let (is_new, record) = work.await.map_err(|_| ApiError::from(forewarn_engine::SubmitError::Stopping))??;
    let mut resource = shown(&call.arm, record.clone()).await?;
    resource["properties"]["provisioningState"] = "Accepted".into();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let operation = record["properties"]["correlationId"].as_str().unwrap_or_default();
    let url = call.url(&format!("{}/operationStatuses/{operation}", call.id()));
    Ok(with_address((status, axum::Json(resource)).into_response(), &url))
}

async fn deploy(arm: &Arm, id: &ResourceId, body: &Value) -> Result<(bool, Value), ApiError> {
    let home = resource_groups::home(arm, id).await?;
    let group = resource_groups::find(arm, id).await?.unwrap_or_default();
    let _lock = arm.lock(id).await;
    let target = Target {
        tenant: arm.api.tenant().to_owned(),
        subscription: home.subscription.to_string(),
        subscription_name: super::subscriptions::DISPLAY_NAME.to_owned(),
        group: home.resource_group.to_string(),
        location: group["location"].as_str().unwrap_or_default().to_owned(),
        deployment: last_name(id).to_owned(),
    };
    let mut record = json!({ "id": id.to_string(), "properties": {
        "mode": "Incremental",
        "timestamp": When(arm.api.engine().now()).to_string(),
        "correlationId": random_guid().to_string(),
    } });
    let outcome = match Template::from_request(body, &target) {
        Ok(plan) => {
            record["properties"]["parameters"] = plan.parameters();
            create(arm, &plan, &mut record).await
        }
        Err(error) => Err(ArmError::from(&error)),
    };
    match outcome {
        Ok(outputs) => record["properties"]["outputs"] = outputs,
        Err(error) => record["properties"]["error"] = error.value(),
    }
    let before = arm.attached(Owner::Region, record_of(id)).await?;
    let mut attachments = oldest(arm, id).await?;
    attachments.push(Attachment::put(Owner::Region, record_of(id), record.to_string()));
    arm.commit(Vec::new(), Note::new("deployment.put", last_name(id)), move |_| attachments).await?;
    Ok((before.is_none(), record))
}

/// Writes the resources of a plan and notes each in the record. The outputs, or where it stopped.
async fn create(arm: &Arm, plan: &Plan, record: &mut Value) -> Result<Value, ArmError> {
    let (mut made, mut tickets, mut ids) = (HashMap::new(), Vec::new(), Vec::new());
    let mut stopped = None;
    for resource in &plan.resources {
        let arm = Arm { version: resource.api_version.clone(), ..arm.clone() };
        match write(&arm, resource).await {
            Ok(written) => {
                tickets.extend(written.pending.map(|ticket| Value::from(ticket.to_string())));
                ids.push(json!({ "id": resource.id.to_string() }));
                made.insert(resource.id.key(), written.resource);
            }
            Err(error) => {
                stopped = Some(failed(resource, &error));
                break;
            }
        }
    }
    record["properties"]["outputResources"] = ids.into();
    record["tickets"] = tickets.into();
    match stopped {
        Some(error) => Err(error),
        None => plan.outputs(&|id| made.get(&id.key()).cloned()).map_err(|error| ArmError::from(&error)),
    }
}

async fn write(arm: &Arm, resource: &PlannedResource) -> Result<Written, ApiError> {
    let PlannedResource { id, body, .. } = resource;
    match resource.kind.as_str() {
        "Microsoft.Compute/virtualMachines" => machines::write(arm, id, body, How::Put).await,
        "Microsoft.Compute/virtualMachineScaleSets" => scale_sets::write(arm, id, body, How::Put).await,
        "Microsoft.Compute/availabilitySets" => availability_sets::write(arm, id, body, How::Put).await,
        kind if kind.starts_with("Microsoft.Network/") => network::write(arm, id, body, How::Put).await,
        kind => {
            let message = format!("Resources of the type '{kind}' cannot be deployed here.");
            Err(ApiError::new(Refusal::InvalidResourceType, message).about(id.to_string()))
        }
    }
}

fn failed(resource: &PlannedResource, error: &ApiError) -> ArmError {
    let message =
        format!("The deployment stopped at '{}': {} What was made before it stays.", resource.id, error.message);
    ArmError::new("DeploymentFailed", message).about(resource.id.to_string()).with_details(vec![error.shown()])
}

/// What has to go so that one more has room.
async fn oldest(arm: &Arm, id: &ResourceId) -> Result<Vec<Attachment>, ApiError> {
    let mut all = records(arm, id).await?;
    all.retain(|(name, _)| *name != record_of(id));
    all.sort_by_key(|(_, record)| record["properties"]["timestamp"].as_str().unwrap_or_default().to_owned());
    let surplus = (all.len() + 1).saturating_sub(KEPT_MAX);
    Ok(all.into_iter().take(surplus).map(|(name, _)| Attachment::remove(Owner::Region, name)).collect())
}

async fn records(arm: &Arm, id: &ResourceId) -> Result<Vec<(String, Value)>, ApiError> {
    let prefix = format!("{RECORD}{}/", group_id(id).key());
    let found = arm.read(move |reader| reader.attachments(Owner::Region, &prefix, None, ATTACHMENTS_PAGE_MAX)).await?;
    Ok(found.into_iter().filter_map(|(name, text)| Some((name, serde_json::from_str(&text).ok()?))).collect())
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let record = find(&call.arm, call.id()).await?;
    Ok(axum::Json(shown(&call.arm, record).await?).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&call)?;
    let mut found = records(&call.arm, call.id()).await?;
    found.retain(|(name, _)| wanted.after.as_ref().is_none_or(|after| name > after));
    let next = wanted.cut(&mut found, |(name, _)| name.clone());
    let mut value = Vec::with_capacity(found.len());
    for (_, record) in found {
        value.push(shown(&call.arm, record).await?);
    }
    Ok(page::shown(&call, value, next))
}

/// Forgets the deployment. What it made stays.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let name = record_of(call.id());
    if call.arm.attached(Owner::Region, name.clone()).await?.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let note = Note::new("deployment.delete", last_name(call.id()));
    call.arm.commit(Vec::new(), note, move |_| vec![Attachment::remove(Owner::Region, name)]).await?;
    Ok(Ticket::over(call.arm.api.engine().now()).accepted(&call))
}

/// `GET …/deployments/NAME/operationStatuses/ID`.
pub async fn status(call: Call) -> Result<Response, ApiError> {
    let record = find(&call.arm, call.id()).await?;
    let progress = progress(&call.arm, &record).await?;
    Ok(progress.shown(&call.path.to_string(), call.name(1)))
}

async fn find(arm: &Arm, id: &ResourceId) -> Result<Value, ApiError> {
    arm.attached(Owner::Region, record_of(id)).await?.ok_or_else(|| {
        let name = last_name(&deployment_id(id)).to_owned();
        let message = format!("Deployment '{name}' could not be found.");
        ApiError::new(Refusal::DeploymentNotFound, message).about(name)
    })
}

/// A deployment is over when all that it has set off is.
async fn progress(arm: &Arm, record: &Value) -> Result<Progress, ApiError> {
    let properties = &record["properties"];
    let start = properties["timestamp"].as_str().and_then(|text| When::parse(text).ok());
    if let Some(error) = properties.get("error") {
        return Ok(Progress { status: OperationStatus::Failed, start, end: start, error: Some(parsed(error)) });
    }
    let mut all = vec![Progress { status: OperationStatus::Succeeded, start, end: start, error: None }];
    let tickets = record["tickets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for ticket in tickets.filter_map(Ticket::parse) {
        all.push(ticket.progress(arm).await?);
    }
    Ok(Progress::of_all(all))
}

/// An error as it was stored.
fn parsed(error: &Value) -> ArmError {
    let text = |key: &str| error[key].as_str().map(str::to_owned);
    let details = error["details"].as_array().into_iter().flatten().map(parsed).collect();
    ArmError {
        code: text("code").unwrap_or_default(),
        message: text("message").unwrap_or_default(),
        target: text("target"),
        details,
    }
}

async fn shown(arm: &Arm, record: Value) -> Result<Value, ApiError> {
    let id = record["id"].as_str().unwrap_or_default();
    let progress = progress(arm, &record).await?;
    let mut properties = record["properties"].clone();
    properties["provisioningState"] = match progress.status {
        OperationStatus::InProgress => "Running",
        OperationStatus::Succeeded => "Succeeded",
        OperationStatus::Failed | OperationStatus::Canceled => "Failed",
    }
    .into();
    if let Some(error) = &progress.error {
        properties["error"] = error.value();
    }
    Ok(json!({
        "id": id,
        "name": id.rsplit('/').next(),
        "type": "Microsoft.Resources/deployments",
        "properties": properties,
    }))
}
