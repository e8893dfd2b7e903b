//! Operations that availability sets and scale sets share: find, list, create and delete.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Answer, Group, GroupId, NewGroup, NewGroupKind, Region, Request, ResourceGroupRef};
use forewarn_wire::arm::id::{Provider, ResourceId};
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::fields::invalid_name;
use super::operations::OperationTicket;
use super::page::PageRequest;
use super::profile;
use super::resource::{is_in_group, is_same_resource_group, last_name, not_found, resource_group_of};
use forewarn_access::random_guid;
use forewarn_api::Action;
use forewarn_api::error::ApiError;
use forewarn_api_types::ResourceName;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    AvailabilitySet,
    ScaleSet,
}

impl GroupType {
    pub fn resource_type(self) -> &'static str {
        match self {
            GroupType::AvailabilitySet => "Microsoft.Compute/availabilitySets",
            GroupType::ScaleSet => "Microsoft.Compute/virtualMachineScaleSets",
        }
    }

    /// The name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::AvailabilitySet => "availability set",
            GroupType::ScaleSet => "scale set",
        }
    }

    fn in_region(self) -> forewarn_core::GroupType {
        match self {
            GroupType::AvailabilitySet => forewarn_core::GroupType::AvailabilitySet,
            GroupType::ScaleSet => forewarn_core::GroupType::ScaleSet,
        }
    }

    fn is_of(self, group: &Group) -> bool {
        forewarn_core::GroupType::of(group) == self.in_region()
    }
}

/// The group that an ID names, or that the named instance belongs to.
pub fn find(region: &Region, id: &ResourceId, kind: GroupType) -> Result<Arc<Group>, ApiError> {
    let id = without_instance(id);
    let found = region.group_by_name(&resource_group_of(&id), last_name(&id), kind.in_region());
    found.and_then(|group| region.group(group)).cloned().ok_or_else(|| not_found(&id))
}

/// The ID without the instance and without the extension.
fn without_instance(id: &ResourceId) -> ResourceId {
    let first =
        |provider: &Provider| Provider { pairs: provider.pairs.iter().take(1).cloned().collect(), ..provider.clone() };
    ResourceId { provider: id.provider.as_ref().map(first), ..id.base() }
}

/// One page of a list, of a resource group or of the subscription, and the cursor of the next page.
pub fn list(call: &Call, kind: GroupType) -> Result<(Vec<Arc<Group>>, Option<String>), ApiError> {
    let request = PageRequest::of(call)?;
    let after = request.after_number()?.map(GroupId);
    let snapshot = call.arm.snapshot();
    let home = call.home();
    let in_group = is_in_group(call.id());
    let is_wanted = |group: &&Arc<Group>| {
        kind.is_of(group)
            && after.is_none_or(|after| group.id > after)
            && group.home.subscription.eq_ignore_ascii_case(&home.subscription)
            && (!in_group || is_same_resource_group(&group.home, &home))
    };
    let mut found: Vec<_> = snapshot.region.groups().filter(is_wanted).take(request.limit + 1).cloned().collect();
    let next = request.cut(&mut found, |group| group.id.0.to_string());
    Ok((found, next))
}

/// A new group from the body of a PUT.
pub fn new_group(
    name: &str,
    home: ResourceGroupRef,
    kind: NewGroupKind,
    properties: &Value,
    [update_domains, fault_domains]: [Option<u32>; 2],
) -> Result<NewGroup, ApiError> {
    Ok(NewGroup {
        name: ResourceName::new(name.to_owned()).map_err(|reason| invalid_name("name", reason))?.0.into(),
        home,
        kind,
        policy: profile::policy(properties)?.unwrap_or_default(),
        update_domains,
        fault_domains,
        salt: random_guid(),
    })
}

/// The group that a command created.
pub fn created_group(answers: &[Answer]) -> Option<GroupId> {
    match answers.first() {
        Some(Answer::Group { group, .. }) => Some(*group),
        Some(Answer::Done | Answer::Machine(_) | Answer::Operation(_) | Answer::Rollout(_) | Answer::Scaled { .. })
        | None => None,
    }
}

/// Deletes a group and its machines.
pub async fn delete(call: &Call, group: &Group, action: Action) -> Result<OperationTicket, ApiError> {
    let request = Request::Delete { machines: Vec::new(), group: Some(group.id) };
    let (ticket, commands) = OperationTicket::of_requests(&call.arm, vec![request]);
    call.arm
        .actions
        .commit(commands, call.arm.actions.permit(action)?.note(group.name.as_str()), |_| Vec::new())
        .await?;
    Ok(ticket)
}

/// Responds to the deletion of a resource that does not exist.
pub fn already_deleted() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
