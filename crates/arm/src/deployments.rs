//! Deployments of templates. The whole template is evaluated before anything is created; then its resources are written in
//! order, by the same functions as a PUT, before the response. Errors are reported by the status URL, because clients crash
//! if a deployment is refused immediately.
//!
//! A deployment that fails halfway keeps the resources that it created and reports where it stopped.

use std::collections::HashMap;

use axum::response::{IntoResponse, Response};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::error::{ArmError, OperationStatus};
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::template::{Plan, PlannedResource, Target, Template};
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call};
use super::operations::{OperationTicket, Progress, add_status_url};
use super::page::{self, PageRequest};
use super::resource::{group_id, last_name};
use super::write::{WriteMode, WriteResult};
use super::{availability_sets, group_records, machines, network, scale_sets, subscriptions};
use forewarn_access::random_guid;
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api_types::Time;

/// Prefix of the attachments that hold deployments; the resource ID follows.
pub const RECORD: &str = "arm/deployment";

/// Deployments kept for one resource group, the newest ones: clients create one for every machine.
const KEPT_MAX: usize = 100;

fn record_name(id: &ResourceId) -> String {
    format!("{RECORD}{}", deployment_id(id).key())
}

/// The ID without the operation at its end.
fn deployment_id(id: &ResourceId) -> ResourceId {
    id.parent().unwrap_or_else(|| id.clone())
}

pub async fn put(call: Call) -> Result<Response, ApiError> {
    let body = call.json()?;
    let (arm, id) = (call.arm.clone(), call.id().clone());
    // A separate task, so that the deployment finishes even if the client disconnects.
    let deployment = tokio::spawn(async move { deploy(&arm, &id, &body).await });
    let (is_new, record) = deployment.await.map_err(|_| ApiError::from(forewarn_engine::SubmitError::Stopping))??;
    let mut resource = render(&call.arm, record.clone()).await?;
    resource["properties"]["provisioningState"] = "Accepted".into();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let operation = record["properties"]["correlationId"].as_str().unwrap_or_default();
    let url = call.url(&format!("{}/operationStatuses/{operation}", call.id()));
    Ok(add_status_url((status, axum::Json(resource)).into_response(), &url))
}

async fn deploy(arm: &Arm, id: &ResourceId, body: &Value) -> Result<(bool, Value), ApiError> {
    let home = group_records::find_home(arm, id).await?;
    let group = group_records::find(arm, id).await?.unwrap_or_default();
    let _lock = arm.lock(id).await;
    let target = Target {
        tenant: arm.actions.tenant().to_owned(),
        subscription: home.subscription.to_string(),
        subscription_name: subscriptions::DISPLAY_NAME.to_owned(),
        group: home.resource_group.to_string(),
        location: group["location"].as_str().unwrap_or_default().to_owned(),
        deployment: last_name(id).to_owned(),
    };
    let mut record = json!({ "id": id.to_string(), "properties": {
        "mode": "Incremental",
        "timestamp": Time(arm.actions.engine().now().0).to_string(),
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
    let before = arm.read_attachment(Owner::Region, record_name(id)).await?;
    let mut attachments = remove_oldest(arm, id).await?;
    attachments.push(Attachment::put(Owner::Region, record_name(id), record.to_string()));
    arm.actions
        .commit(Vec::new(), arm.actions.permit(Action::PutDeployment)?.note(last_name(id)), move |_| attachments)
        .await?;
    Ok((before.is_none(), record))
}

/// Writes the resources of a plan and adds each to the record. Returns the outputs, or where the deployment stopped.
async fn create(arm: &Arm, plan: &Plan, record: &mut Value) -> Result<Value, ArmError> {
    let (mut created, mut tickets, mut ids) = (HashMap::new(), Vec::new(), Vec::new());
    let mut stopped = None;
    for resource in &plan.resources {
        let arm = Arm { version: resource.api_version.clone(), ..arm.clone() };
        match write(&arm, resource).await {
            Ok(written) => {
                tickets.extend(written.pending.map(|ticket| Value::from(ticket.to_string())));
                ids.push(json!({ "id": resource.id.to_string() }));
                created.insert(resource.id.key(), written.resource);
            }
            Err(error) => {
                stopped = Some(deployment_failed(resource, &error));
                break;
            }
        }
    }
    record["properties"]["outputResources"] = ids.into();
    record["tickets"] = tickets.into();
    match stopped {
        Some(error) => Err(error),
        None => plan.outputs(&|id| created.get(&id.key()).cloned()).map_err(|error| ArmError::from(&error)),
    }
}

async fn write(arm: &Arm, resource: &PlannedResource) -> Result<WriteResult, ApiError> {
    let PlannedResource { id, body, .. } = resource;
    match resource.kind.as_str() {
        "Microsoft.Compute/virtualMachines" => machines::write(arm, id, body, WriteMode::Put).await,
        "Microsoft.Compute/virtualMachineScaleSets" => scale_sets::write(arm, id, body, WriteMode::Put).await,
        "Microsoft.Compute/availabilitySets" => availability_sets::write(arm, id, body, WriteMode::Put).await,
        kind if kind.starts_with("Microsoft.Network/") => network::write(arm, id, body, WriteMode::Put).await,
        kind => {
            let message = format!("Resources of the type '{kind}' cannot be deployed.");
            Err(ApiError::new(ErrorCode::InvalidResourceType, message).with_target(id.to_string()))
        }
    }
}

fn deployment_failed(resource: &PlannedResource, error: &ApiError) -> ArmError {
    let message =
        format!("The deployment stopped at '{}': {} Resources created before it are kept.", resource.id, error.message);
    ArmError::new("DeploymentFailed", message).about(resource.id.to_string()).with_details(vec![error.to_arm()])
}

/// Attachments that remove the oldest deployments, so that there is room for one more.
async fn remove_oldest(arm: &Arm, id: &ResourceId) -> Result<Vec<Attachment>, ApiError> {
    let mut all = read_all(arm, id).await?;
    all.retain(|(name, _)| *name != record_name(id));
    all.sort_by_key(|(_, record)| record["properties"]["timestamp"].as_str().unwrap_or_default().to_owned());
    let surplus = (all.len() + 1).saturating_sub(KEPT_MAX);
    Ok(all.into_iter().take(surplus).map(|(name, _)| Attachment::remove(Owner::Region, name)).collect())
}

async fn read_all(arm: &Arm, id: &ResourceId) -> Result<Vec<(String, Value)>, ApiError> {
    let prefix = format!("{RECORD}{}/", group_id(id).key());
    let found = arm.read(move |reader| reader.attachments(Owner::Region, &prefix, None, ATTACHMENTS_PAGE_MAX)).await?;
    Ok(found.into_iter().filter_map(|(name, text)| Some((name, serde_json::from_str(&text).ok()?))).collect())
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let record = find_record(&call.arm, call.id()).await?;
    Ok(axum::Json(render(&call.arm, record).await?).into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let mut found = read_all(&call.arm, call.id()).await?;
    found.retain(|(name, _)| request.after.as_ref().is_none_or(|after| name > after));
    let next = request.cut(&mut found, |(name, _)| name.clone());
    let mut value = Vec::with_capacity(found.len());
    for (_, record) in found {
        value.push(render(&call.arm, record).await?);
    }
    Ok(page::respond(&call, value, next))
}

/// Deletes the record of a deployment; its resources are kept.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let name = record_name(call.id());
    if call.arm.read_attachment(Owner::Region, name.clone()).await?.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let note = call.arm.actions.permit(Action::DeleteDeployment)?.note(last_name(call.id()));
    call.arm.actions.commit(Vec::new(), note, move |_| vec![Attachment::remove(Owner::Region, name)]).await?;
    Ok(OperationTicket::finished(call.arm.actions.engine().now()).accepted(&call))
}

/// `GET …/deployments/NAME/operationStatuses/ID`.
pub async fn status(call: Call) -> Result<Response, ApiError> {
    let record = find_record(&call.arm, call.id()).await?;
    let progress = read_progress(&call.arm, &record).await?;
    Ok(progress.respond(&call.path.to_string(), call.name(1)))
}

async fn find_record(arm: &Arm, id: &ResourceId) -> Result<Value, ApiError> {
    arm.read_attachment(Owner::Region, record_name(id)).await?.ok_or_else(|| {
        let name = last_name(&deployment_id(id)).to_owned();
        let message = format!("Deployment '{name}' could not be found.");
        ApiError::new(ErrorCode::DeploymentNotFound, message).with_target(name)
    })
}

/// A deployment is finished when all operations that it started are finished.
async fn read_progress(arm: &Arm, record: &Value) -> Result<Progress, ApiError> {
    let properties = &record["properties"];
    let start = properties["timestamp"].as_str().and_then(|text| Time::parse(text).ok());
    if let Some(error) = properties.get("error") {
        return Ok(Progress { status: OperationStatus::Failed, start, end: start, error: Some(parse_error(error)) });
    }
    let mut all = vec![Progress { status: OperationStatus::Succeeded, start, end: start, error: None }];
    let tickets = record["tickets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for ticket in tickets.filter_map(OperationTicket::parse) {
        all.push(ticket.read_progress(arm).await?);
    }
    Ok(Progress::combine(all))
}

/// Reads a stored error.
fn parse_error(error: &Value) -> ArmError {
    let text = |key: &str| error[key].as_str().map(str::to_owned);
    let details = error["details"].as_array().into_iter().flatten().map(parse_error).collect();
    ArmError {
        code: text("code").unwrap_or_default(),
        message: text("message").unwrap_or_default(),
        target: text("target"),
        details,
    }
}

async fn render(arm: &Arm, record: Value) -> Result<Value, ApiError> {
    let id = record["id"].as_str().unwrap_or_default();
    let progress = read_progress(arm, &record).await?;
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
