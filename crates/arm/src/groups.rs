//! What availability sets and scale sets have in common: how they are found, listed, made and deleted.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Answer, Group, GroupId, GroupKind, Region, Request};
use forewarn_wire::arm::id::{Provider, ResourceId};
use http::StatusCode;

use super::call::{Call, home_of, is_in_group};
use super::machines::{last_name, not_found};
use super::operations::Ticket;
use super::page::Wanted;
use super::resource_groups::is_home;
use forewarn_api::Note;
use forewarn_api::error::ApiError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AvailabilitySet,
    ScaleSet,
}

impl Kind {
    pub fn resource_type(self) -> &'static str {
        match self {
            Kind::AvailabilitySet => "Microsoft.Compute/availabilitySets",
            Kind::ScaleSet => "Microsoft.Compute/virtualMachineScaleSets",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Kind::AvailabilitySet => "availability set",
            Kind::ScaleSet => "scale set",
        }
    }

    fn is_of(self, group: &Group) -> bool {
        match group.kind {
            GroupKind::AvailabilitySet => self == Kind::AvailabilitySet,
            GroupKind::ScaleSet(_) => self == Kind::ScaleSet,
            GroupKind::CloudService => false,
        }
    }
}

/// The group that an id names, or the one that it is a part of.
pub fn find(region: &Region, id: &ResourceId, kind: Kind) -> Result<Arc<Group>, ApiError> {
    let id = whole(id);
    let found = region.group_by_name(&home_of(&id), last_name(&id)).and_then(|group| region.group(group));
    found.filter(|group| kind.is_of(group)).cloned().ok_or_else(|| not_found(&id))
}

/// Without instances and extensions.
fn whole(id: &ResourceId) -> ResourceId {
    let first =
        |provider: &Provider| Provider { pairs: provider.pairs.iter().take(1).cloned().collect(), ..provider.clone() };
    ResourceId { provider: id.provider.as_ref().map(first), ..id.base() }
}

/// Those that a list shows, of a resource group or of the whole subscription, and where the next page begins.
pub fn list(call: &Call, kind: Kind) -> Result<(Vec<Arc<Group>>, Option<String>), ApiError> {
    let wanted = Wanted::of(call)?;
    let after = wanted.after_number()?.map(GroupId);
    let snapshot = call.arm.snapshot();
    let home = call.home();
    let in_group = is_in_group(call.id());
    let is_wanted = |group: &&Arc<Group>| {
        kind.is_of(group)
            && after.is_none_or(|after| group.id > after)
            && group.home.subscription.eq_ignore_ascii_case(&home.subscription)
            && (!in_group || is_home(&group.home, &home))
    };
    let mut found: Vec<_> = snapshot.region.groups().filter(is_wanted).take(wanted.limit + 1).cloned().collect();
    let next = wanted.cut(&mut found, |group| group.id.0.to_string());
    Ok((found, next))
}

/// The group that a command has just made.
pub fn made(answers: &[Answer]) -> Option<GroupId> {
    match answers.first() {
        Some(Answer::Group { group, .. }) => Some(*group),
        Some(Answer::Done | Answer::Machine(_) | Answer::Operation(_) | Answer::Scaled { .. }) | None => None,
    }
}

/// Deletes a group with all that is in it.
pub async fn delete(call: &Call, group: &Group, action: &'static str) -> Result<Ticket, ApiError> {
    let request = Request::Delete { machines: Vec::new(), group: Some(group.id) };
    let (ticket, commands) = Ticket::of_requests(&call.arm, vec![request]);
    call.arm.commit(commands, Note::new(action, group.name.as_ref()), |_| Vec::new()).await?;
    Ok(ticket)
}

/// What is not there need not be deleted.
pub fn nothing_to_delete() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
