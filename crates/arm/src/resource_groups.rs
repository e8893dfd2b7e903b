//! Handlers of resource groups. How groups are found and stored is in `group_records`.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::{IntoResponse, Response};
use forewarn_core::{GroupId, Machine, MachineId, Region, Request, ResourceGroupRef};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call};
use super::fields::{self, missing, read_text};
use super::group_records::{self, find, group_not_found, implied_groups, record_name};
use super::operations::OperationTicket;
use super::page::{self, PageRequest};
use super::resource::{group_id, is_same_location, is_same_resource_group, resource_group_of};
use super::write::{WriteMode, WriteResult, write_handlers};
use super::{deployments, network};
use forewarn_api::Action;
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api_types::ResourceName;

/// Resource groups of one subscription; Azure allows 980. A list of them is read in one go.
const GROUPS_MAX: usize = 980;
const _: () = assert!(GROUPS_MAX < ATTACHMENTS_PAGE_MAX as usize, "all groups fit one page of the store");

write_handlers!(new: CREATED);

async fn write(arm: &Arm, id: &ResourceId, given: &Value, mode: WriteMode) -> Result<WriteResult, ApiError> {
    let _lock = arm.lock(id).await;
    let existing = find(arm, id).await?;
    let home = resource_group_of(id);
    for (place, name) in [("subscription", &home.subscription), ("resource group", &home.resource_group)] {
        ResourceName::new(name.to_string()).map_err(|reason| fields::invalid_name(place, reason))?;
    }
    if existing.is_none() && mode == WriteMode::Patch {
        return Err(group_not_found(id));
    }
    let merged = mode.merge(existing.as_ref().unwrap_or(&Value::Null), given);
    let location = read_text(&merged, "location")?.ok_or_else(|| missing("location"))?.to_owned();
    let before = existing.as_ref().and_then(|existing| existing["location"].as_str());
    if let Some(before) = before.filter(|before| !is_same_location(before, &location)) {
        let message = format!("The resource group is in '{before}' and cannot be moved to '{location}'.");
        return Err(ApiError::new(ErrorCode::PropertyChangeNotAllowed, message).with_target("location"));
    }
    let tags = fields::read_tags(&merged)?.unwrap_or_default();
    let name = existing.as_ref().and_then(|it| it["name"].as_str()).unwrap_or(&home.resource_group).to_owned();
    let record = json!({
        "name": name,
        "location": location,
        "tags": tags.into_iter().map(|(key, value)| (key, value.into())).collect::<serde_json::Map<_, Value>>(),
    });
    if existing.is_none() {
        check_quota(arm, id).await?;
    }
    let attachment = Attachment::put(Owner::Region, record_name(id), record.to_string());
    let note = arm.actions.permit(Action::PutResourceGroup)?.note(name.as_str());
    arm.actions.commit(Vec::new(), note, move |_| vec![attachment]).await?;
    let resource = group_records::render(&home, &record, "Succeeded");
    Ok(WriteResult { is_new: existing.is_none(), resource, pending: None })
}

async fn check_quota(arm: &Arm, id: &ResourceId) -> Result<(), ApiError> {
    let count = group_records::read_all(arm, id.subscription()).await?.len();
    match count < GROUPS_MAX {
        true => Ok(()),
        false => {
            let message = format!("A subscription can have at most {GROUPS_MAX} resource groups. Delete one first.");
            Err(ApiError::new(ErrorCode::QuotaExceeded, message))
        }
    }
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?.ok_or_else(|| group_not_found(call.id()))?;
    Ok(axum::Json(found).into_response())
}

/// Answers 204 if the group exists, otherwise 404.
pub async fn head(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?;
    Ok(if found.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let subscription: forewarn_core::Name = call.subscription().into();
    let mut all = BTreeMap::new();
    for group in implied_groups(&call.arm.snapshot().region, &subscription) {
        all.insert(group.home.resource_group.as_str().to_ascii_lowercase(), group.render());
    }
    for record in group_records::read_all(&call.arm, call.id().subscription()).await? {
        let name = record["name"].as_str().unwrap_or_default();
        let home = ResourceGroupRef { subscription: subscription.clone(), resource_group: name.into() };
        all.insert(name.to_ascii_lowercase(), group_records::render(&home, &record, "Succeeded"));
    }
    let after = request.after.as_deref();
    let rest = all.into_iter().filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
    let mut found: Vec<_> = rest.take(request.limit + 1).collect();
    let next = request.cut(&mut found, |(key, _)| key.clone());
    Ok(page::respond(&call, found.into_iter().map(|(_, group)| group).collect(), next))
}

/// Deletes everything in the group, with notice where it applies. The group exists until its last machine is gone.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let (arm, id) = (&call.arm, call.id());
    let _lock = arm.lock(id).await;
    if find(arm, id).await?.is_none() {
        return Err(group_not_found(id));
    }
    let home = resource_group_of(id);
    let snapshot = arm.snapshot();
    let (groups, machines) = contents(&snapshot.region, &home);
    let mut requests: Vec<_> =
        groups.into_iter().map(|group| Request::Delete { machines: Vec::new(), group: Some(group) }).collect();
    if !machines.is_empty() {
        requests.push(Request::Delete { machines, group: None });
    }
    let mut removed = attachments_in(arm, id).await?;
    removed.push(record_name(id));
    let (ticket, commands) = OperationTicket::of_requests(arm, requests);
    let note = call.arm.actions.permit(Action::DeleteResourceGroup)?.note(home.resource_group.as_str());
    let remove = |name| Attachment::remove(Owner::Region, name);
    arm.actions.commit(commands, note, move |_| removed.into_iter().map(remove).collect()).await?;
    Ok(ticket.accepted(&call))
}

/// The groups, and the machines that are in none of them.
fn contents(region: &Region, home: &ResourceGroupRef) -> (Vec<GroupId>, Vec<MachineId>) {
    let groups: BTreeSet<_> =
        region.groups().filter(|group| is_same_resource_group(&group.home, home)).map(|group| group.id).collect();
    let is_alone = |machine: &&std::sync::Arc<Machine>| {
        is_same_resource_group(&machine.home, home)
            && machine.membership.group().is_none_or(|group| !groups.contains(&group))
    };
    let machines = region.machines().filter(is_alone).map(|machine| machine.id).collect();
    (groups.into_iter().collect(), machines)
}

/// The attachments of the region that belong to a resource group: network resources and deployments.
async fn attachments_in(arm: &Arm, id: &ResourceId) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::new();
    for record in [network::RECORD, deployments::RECORD] {
        let prefix = format!("{record}{}/", group_id(id).key());
        names.extend(arm.read_attachments_below(prefix, None).await?.into_iter().map(|(name, _)| name));
    }
    Ok(names)
}
