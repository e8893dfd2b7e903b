//! Handlers of availability sets and cloud services, whose machines are registered one by one, and helpers for all groups.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{Command, GroupChange, GroupId, NewGroupKind, Region, Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{self, Body, GroupQuery, NoQuery, Page, Paging, Params, Segment};
use super::machine_actions::DeleteQuery;
use super::machine_parts::home_or_default;
use super::names::{self, GroupType};
use super::object;
use super::text::ResourceName;
use super::values::Policy;
use super::{Api, AuditNote, operations};
use forewarn_access::random_guid;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub id: u64,
    pub name: String,
    pub subscription: String,
    pub resource_group: String,
    pub policy: Policy,
    pub update_domains: u32,
    pub fault_domains: u32,
    /// Number of machines.
    pub machines: usize,
    /// Event groups: the sets of machines that share one document.
    pub scopes: Vec<Scope>,
    /// Whether the group is being deleted.
    pub leaving: bool,
}

/// An event group: the machines that share one document.
#[derive(Debug, Serialize, ToSchema)]
pub struct Scope {
    pub id: u64,
    /// Whether a machine of the event group requests the document.
    pub listening: bool,
    pub incarnation: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewGroup {
    pub name: ResourceName,
    pub subscription: Option<ResourceName>,
    pub resource_group: Option<ResourceName>,
    #[serde(default, deserialize_with = "object::optional")]
    pub policy: Option<Policy>,
    #[schema(minimum = 1, maximum = 100)]
    pub update_domains: Option<u32>,
    #[schema(minimum = 1, maximum = 100)]
    pub fault_domains: Option<u32>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyChange {
    #[serde(default, deserialize_with = "object::optional")]
    pub policy: Option<Policy>,
}

/// The five handlers of one kind of group.
macro_rules! resource {
    ($module:ident, $kind:ident, $action:literal) => {
        pub mod $module {
            use super::*;

            pub async fn list(api: Api, query: Params<Paging>) -> Result<Response, ApiError> {
                list_of(GroupType::$kind, &api, query, Group::of)
            }

            pub async fn get(api: Api, name: Segment, within: Params<GroupQuery>) -> Result<Response, ApiError> {
                let snapshot = api.engine().snapshot();
                let group = names::find_group(&snapshot.region, &name.0, within.0.group.as_deref(), GroupType::$kind)?;
                Ok(extract::ok(Group::of(&snapshot.region, &group)))
            }

            pub async fn create(
                api: Api,
                Params(NoQuery {}): Params<NoQuery>,
                Body(body): Body<NewGroup>,
            ) -> Result<Response, ApiError> {
                let note = AuditNote::new(concat!($action, ".create"), body.name.0.as_str());
                let new = body.into_core(NewGroupKind::$kind);
                create_one(&api, new, note, Group::of).await
            }

            pub async fn change(
                api: Api,
                Segment(name): Segment,
                Params(within): Params<GroupQuery>,
                Body(body): Body<PolicyChange>,
            ) -> Result<Response, ApiError> {
                let snapshot = api.engine().snapshot();
                let group = names::find_group(&snapshot.region, &name, within.group.as_deref(), GroupType::$kind)?;
                let change = GroupChange { policy: body.policy.map(Into::into), ..GroupChange::default() };
                let note = AuditNote::new(concat!($action, ".change"), group.name.as_ref());
                let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() };
                let done = api.submit(command, note).await?;
                let region = &done.snapshot.region;
                Ok(extract::ok(Group::of(region, region.group(group.id).unwrap_or(&group))))
            }

            pub async fn delete(api: Api, name: Segment, query: Params<DeleteQuery>) -> Result<Response, ApiError> {
                delete_one(GroupType::$kind, concat!($action, ".delete"), &api, &name.0, query.0).await
            }
        }
    };
}

resource!(availability_sets, AvailabilitySet, "availability-set");
resource!(cloud_services, CloudService, "cloud-service");

pub fn list_of<T: Serialize>(
    kind: GroupType,
    api: &Api,
    Params(query): Params<Paging>,
    render: fn(&Region, &core::Group) -> T,
) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(GroupId);
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let found = region
        .groups()
        .filter(|group| GroupType::of(group) == kind)
        .filter(|group| after.is_none_or(|after| group.id > after));
    let cursor = |group: &&Arc<core::Group>| group.id.0.to_string();
    Ok(extract::ok(Page::cut(found, limit, cursor, |group| render(region, group))))
}

pub async fn create_one<T: Serialize>(
    api: &Api,
    new: core::NewGroup,
    note: AuditNote,
    render: fn(&Region, &core::Group) -> T,
) -> Result<Response, ApiError> {
    let (home, name) = (new.home.clone(), new.name.clone());
    let done = api.submit(Command::CreateGroup(Box::new(new)), note).await?;
    let region = &done.snapshot.region;
    let id = match done.answer {
        core::Answer::Group { group, .. } => Some(group),
        core::Answer::Done | core::Answer::Machine(_) | core::Answer::Operation(_) | core::Answer::Scaled { .. } => {
            region.group_by_name(&home, &name)
        }
    };
    let group = id.and_then(|id| region.group(id)).ok_or(core::Rejection::UnknownGroup)?;
    Ok(extract::created(render(region, group)))
}

/// Deletes a group and its machines.
pub async fn delete_one(
    kind: GroupType,
    action: &'static str,
    api: &Api,
    name: &str,
    query: DeleteQuery,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let group = names::find_group(region, name, query.group.as_deref(), kind)?;
    let machines = region.group_members(&group).map(|machine| machine.id).collect();
    let request = Request::Delete { machines, group: Some(group.id) };
    let note = AuditNote::new(action, group.name.as_ref());
    operations::start(api, request, query.event_id.map(|id| id.0), note).await
}

impl Group {
    pub fn of(region: &Region, group: &core::Group) -> Group {
        Group {
            id: group.id.0,
            name: group.name.to_string(),
            subscription: group.home.subscription.to_string(),
            resource_group: group.home.resource_group.to_string(),
            policy: (&group.policy).into(),
            update_domains: group.update_domains,
            fault_domains: group.fault_domains,
            machines: region.group_members(group).count(),
            scopes: group.scopes.iter().map(|id| Scope::of(region, *id)).collect(),
            leaving: group.leaving,
        }
    }
}

impl Scope {
    fn of(region: &Region, id: core::ScopeId) -> Scope {
        let incarnation = region.scope(id).map_or(0, |scope| scope.incarnation);
        Scope { id: id.0, listening: region.is_on(id), incarnation }
    }
}

impl NewGroup {
    pub fn into_core(self, kind: NewGroupKind) -> core::NewGroup {
        core::NewGroup {
            name: self.name.into(),
            home: home_or_default(self.subscription, self.resource_group),
            kind,
            policy: self.policy.map(Into::into).unwrap_or_default(),
            update_domains: self.update_domains,
            fault_domains: self.fault_domains,
            salt: random_guid(),
        }
    }
}
