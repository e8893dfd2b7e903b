//! Handlers of scale sets: groups that create and delete their machines themselves.

use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{Answer, Command, GroupChange, GroupKind, MachineId, Name, NewGroupKind, Region, Request, Scale};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{self, Body, GroupQuery, NoQuery, OptionalBody, Page, Paging, Params, Segment};
use super::groups::{Group, NewGroup, create_one, delete_one, list_of};
use super::machine_actions::DeleteQuery;
use super::machine_parts::{Details, into_tags, into_terminate_profile};
use super::machines::Machine;
use super::names::{self, GroupType};
use super::object;
use super::operations::{self, Operation};
use super::text::{ResourceName, Tags};
use super::values::*;
use super::{Api, AuditNote};
use forewarn_access::random_guid;

/// Default maximum of instances in one placement group of a Uniform set.
pub const PLACEMENT_GROUP_DEFAULT: u32 = 100;

/// No group can have more machines than this.
pub const PLACEMENT_GROUP_RANGE: RangeInclusive<u32> = 1..=core::settings::MACHINES_PER_GROUP_MAX as u32;

/// Zones of one set; an Azure region has three.
pub const ZONES_MAX: usize = 16;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSet {
    #[serde(flatten)]
    pub group: Group,
    pub orchestration: OrchestrationMode,
    pub upgrade_mode: UpgradePolicy,
    /// Desired number of instances, without those being deleted.
    pub capacity: u32,
    /// Maximum number of instances in one placement group; omitted if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_max: Option<u32>,
    pub zones: Vec<String>,
    pub model: Model,
    /// Increases with every change of the model.
    pub model_version: u64,
}

/// The template for new instances and for upgrades of existing ones.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub priority: MachinePriority,
    pub eviction_policy: MachineEvictionPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate_notification: Option<TerminateNotification>,
    pub details: Details,
    pub tags: Tags,
}

/// The fields of `NewGroup` are repeated here, because serde cannot flatten structs that refuse unknown fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewScaleSet {
    pub name: ResourceName,
    pub subscription: Option<ResourceName>,
    pub resource_group: Option<ResourceName>,
    #[serde(default, deserialize_with = "object::optional")]
    pub policy: Option<Policy>,
    #[schema(minimum = 1, maximum = 100)]
    pub update_domains: Option<u32>,
    #[schema(minimum = 1, maximum = 100)]
    pub fault_domains: Option<u32>,
    #[schema(maximum = 10000)]
    pub capacity: u32,
    /// Default: Flexible.
    pub orchestration: Option<OrchestrationMode>,
    /// Default: Manual.
    pub upgrade_mode: Option<UpgradePolicy>,
    /// Maximum number of instances in one placement group of a Uniform set; `null` for no limit. Default: 100.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    pub placement_group_max: Nullable<u32>,
    #[serde(default)]
    #[schema(max_items = 16)]
    pub zones: Vec<ResourceName>,
    #[serde(default, deserialize_with = "object::required")]
    pub model: ModelChange,
}

/// Changes of the model. Omitted fields keep their values, or have their defaults in a new set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChange {
    pub priority: Option<MachinePriority>,
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Use `null` to delete instances without notice.
    #[serde(default, deserialize_with = "nullable_object")]
    #[schema(value_type = Option<TerminateNotification>)]
    pub terminate_notification: Nullable<TerminateNotification>,
    /// Merged with the existing details.
    #[serde(default, deserialize_with = "object::optional")]
    pub details: Option<Details>,
    /// Replaces all tags.
    pub tags: Option<Tags>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleSetChange {
    #[schema(maximum = 10000)]
    pub capacity: Option<u32>,
    pub upgrade_mode: Option<UpgradePolicy>,
    #[serde(default, deserialize_with = "object::optional")]
    pub policy: Option<Policy>,
    #[serde(default, deserialize_with = "object::optional")]
    pub model: Option<ModelChange>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSetChanged {
    pub scale_set: ScaleSet,
    /// Names of created instances.
    pub added: Vec<String>,
    /// Names of instances being deleted.
    pub removing: Vec<String>,
    /// The operation that deletes instances, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// Instances to upgrade. Default: all.
    #[serde(default)]
    pub instances: Vec<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeInstances {
    /// Instances of the set. Default: all running ones.
    #[serde(default)]
    pub instances: Vec<String>,
    /// Event ID to use for the first event.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteInstances {
    #[schema(min_items = 1)]
    pub instances: Vec<String>,
    /// Event ID to use for the first event.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstancesQuery {
    /// Resource group of the set, if its name alone is not unique.
    pub group: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, query: Params<Paging>) -> Result<Response, ApiError> {
    list_of(GroupType::ScaleSet, &api, query, ScaleSet::of)
}

pub async fn get(api: Api, Segment(name): Segment, Params(within): Params<GroupQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let set = find(&snapshot.region, &name, &within)?;
    Ok(extract::ok(ScaleSet::of(&snapshot.region, &set)))
}

pub async fn create(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewScaleSet>,
) -> Result<Response, ApiError> {
    let note =
        AuditNote::new("scale-set.create", body.name.0.as_str()).with(serde_json::json!({ "capacity": body.capacity }));
    create_one(&api, body.into_core()?, note, ScaleSet::of).await
}

pub async fn change(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<ScaleSetChange>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let group = find(&snapshot.region, &name, &within)?;
    let operation = random_guid();
    let note = AuditNote::new("scale-set.change", group.name.as_ref())
        .with(serde_json::json!({ "capacity": body.capacity, "upgradeMode": body.upgrade_mode }));
    let change = GroupChange {
        policy: body.policy.map(Into::into),
        upgrade_mode: body.upgrade_mode.map(Into::into),
        model: body.model.map(|model| model.apply_to(set_of(&group).model.clone())).transpose()?,
        capacity: body.capacity.map(|capacity| Scale { capacity, by: api.principal_name(), operation }),
    };
    let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() };
    let done = api.submit(command, note).await?;
    let region = &done.snapshot.region;
    let (added, removing) = match done.answer {
        Answer::Scaled { added, removing } => (added, removing),
        Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Operation(_) => (Vec::new(), Vec::new()),
    };
    let names = |ids: Vec<MachineId>| {
        let found = ids.into_iter().filter_map(|id| region.machine(id).or_else(|| snapshot.region.machine(id)));
        found.map(|machine| machine.name.to_string()).collect()
    };
    Ok(extract::ok(ScaleSetChanged {
        scale_set: ScaleSet::of(region, region.group(group.id).unwrap_or(&group)),
        added: names(added),
        removing: names(removing),
        operation: region.operation(operation).map(|operation| Operation::of(region, operation)),
    }))
}

pub async fn delete(api: Api, name: Segment, query: Params<DeleteQuery>) -> Result<Response, ApiError> {
    delete_one(GroupType::ScaleSet, "scale-set.delete", &api, &name.0, query.0).await
}

pub async fn instances(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<InstancesQuery>,
) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(MachineId);
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let set = names::find_group(region, &name, query.group.as_deref(), GroupType::ScaleSet)?;
    let mut members: Vec<_> =
        region.group_members(&set).filter(|machine| after.is_none_or(|after| machine.id > after)).collect();
    // Members are grouped by placement group; pages are ordered by registration.
    members.sort_unstable_by_key(|machine| machine.id);
    let cursor = |machine: &&Arc<core::Machine>| machine.id.0.to_string();
    Ok(extract::ok(Page::cut(members.into_iter(), limit, cursor, |machine| Machine::of(region, machine))))
}

pub async fn upgrade(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<Upgrade>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let set = find(&snapshot.region, &name, &within)?;
    let machines = members_of(&snapshot.region, &set, &body.instances)?;
    let note =
        AuditNote::new("scale-set.upgrade", set.name.as_ref()).with(serde_json::json!({ "instances": body.instances }));
    let done = api.submit(Command::UpgradeInstances { group: set.id, machines }, note).await?;
    let region = &done.snapshot.region;
    Ok(extract::ok(ScaleSet::of(region, region.group(set.id).unwrap_or(&set))))
}

/// A handler of an action on instances: one operation for all of them.
macro_rules! instance_action {
    ($name:ident, $action:literal, $request:ident) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(body): OptionalBody<SomeInstances>,
        ) -> Result<Response, ApiError> {
            let snapshot = api.engine().snapshot();
            let set = find(&snapshot.region, &name, &within)?;
            let machines = body.select(&snapshot.region, &set)?;
            let note = AuditNote::new($action, set.name.as_ref()).with(serde_json::json!({ "instances": body.instances }));
            operations::start(&api, Request::$request { machines }, body.event_id.map(|id| id.0), note).await
        }
    };
}

instance_action!(restart, "scale-set.restart", Restart);
instance_action!(redeploy, "scale-set.redeploy", Redeploy);
instance_action!(perform_maintenance, "scale-set.perform-maintenance", PerformMaintenance);

impl SomeInstances {
    /// The named instances, or all running ones if none is named.
    fn select(&self, region: &Region, set: &core::Group) -> Result<Vec<MachineId>, ApiError> {
        if !self.instances.is_empty() {
            return members_of(region, set, &self.instances);
        }
        let running = region.group_members(set).filter(|machine| machine.power == core::Power::Running);
        Ok(running.map(|machine| machine.id).collect())
    }
}

pub async fn delete_instances(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<DeleteInstances>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let set = find(&snapshot.region, &name, &within)?;
    if body.instances.is_empty() {
        return Err(ApiError::field("instances", "must name at least one instance"));
    }
    let machines = members_of(&snapshot.region, &set, &body.instances)?;
    let note = AuditNote::new("scale-set.delete-instances", set.name.as_ref())
        .with(serde_json::json!({ "instances": body.instances }));
    let request = Request::Delete { machines, group: None };
    operations::start(&api, request, body.event_id.map(|id| id.0), note).await
}

fn find(region: &Region, name: &str, within: &GroupQuery) -> Result<Arc<core::Group>, ApiError> {
    names::find_group(region, name, within.group.as_deref(), GroupType::ScaleSet)
}

fn members_of(region: &Region, set: &core::Group, names: &[String]) -> Result<Vec<MachineId>, ApiError> {
    let machines = names::find_machines(region, names)?;
    match machines.iter().find(|machine| machine.seat.group() != Some(set.id)) {
        Some(stranger) => Err(core::Rejection::NotAMember(stranger.name.clone()).into()),
        None => Ok(machines.iter().map(|machine| machine.id).collect()),
    }
}

/// The scale set of a group that `find` returned.
fn set_of(group: &core::Group) -> &core::ScaleSet {
    match &group.kind {
        GroupKind::ScaleSet(set) => set,
        GroupKind::AvailabilitySet | GroupKind::CloudService => unreachable!("'{}' is not a scale set", group.name),
    }
}

impl ScaleSet {
    pub fn of(region: &Region, group: &core::Group) -> ScaleSet {
        let set = set_of(group);
        ScaleSet {
            group: Group::of(region, group),
            orchestration: set.orchestration.into(),
            upgrade_mode: set.upgrade_mode.into(),
            capacity: set.capacity,
            placement_group_max: set.placement_group_max,
            zones: set.zones.iter().map(|zone| zone.to_string()).collect(),
            model: Model {
                priority: set.model.priority.into(),
                eviction_policy: set.model.eviction.into(),
                terminate_notification: set.model.terminate.as_ref().map(TerminateNotification::of),
                details: Details::of(&set.model.details),
                tags: Tags(set.model.details.tags.iter().cloned().collect()),
            },
            model_version: set.model_version,
        }
    }
}

impl NewScaleSet {
    fn into_core(self) -> Result<core::NewGroup, ApiError> {
        if self.zones.len() > ZONES_MAX {
            return Err(ApiError::field("zones", format!("has more than {ZONES_MAX} entries")));
        }
        let orchestration = self.orchestration.unwrap_or(OrchestrationMode::Flexible);
        let placement_group_max = match (self.placement_group_max, orchestration) {
            (Nullable::Value(max), _) if PLACEMENT_GROUP_RANGE.contains(&max) => Some(max),
            (Nullable::Value(_), _) => {
                let range = format!("must be from 1 to {}", PLACEMENT_GROUP_RANGE.end());
                return Err(ApiError::field("placementGroupMax", range));
            }
            (Nullable::Absent, OrchestrationMode::Uniform) => Some(PLACEMENT_GROUP_DEFAULT),
            (Nullable::Absent, OrchestrationMode::Flexible) | (Nullable::Null, _) => None,
        };
        let default = core::SetModel {
            priority: core::Priority::Regular,
            eviction: core::EvictionPolicy::Deallocate,
            terminate: None,
            details: Arc::default(),
        };
        let kind = NewGroupKind::ScaleSet {
            orchestration: orchestration.into(),
            upgrade_mode: self.upgrade_mode.unwrap_or(UpgradePolicy::Manual).into(),
            capacity: self.capacity,
            placement_group_max,
            zones: self.zones.into_iter().map(Name::from).collect(),
            model: self.model.apply_to(default)?,
        };
        let group = NewGroup {
            name: self.name,
            subscription: self.subscription,
            resource_group: self.resource_group,
            policy: self.policy,
            update_domains: self.update_domains,
            fault_domains: self.fault_domains,
        };
        Ok(group.into_core(kind))
    }
}

impl ModelChange {
    fn apply_to(self, mut model: core::SetModel) -> Result<core::SetModel, ApiError> {
        model.priority = self.priority.map_or(model.priority, Into::into);
        model.eviction = self.eviction_policy.map_or(model.eviction, Into::into);
        match self.terminate_notification.into_change() {
            None => {}
            Some(given) => model.terminate = given.map(into_terminate_profile).transpose()?,
        }
        if self.details.is_some() || self.tags.is_some() {
            let mut details = (*model.details).clone();
            self.details.unwrap_or_default().merge_into(&mut details);
            if let Some(given) = self.tags {
                details.tags = into_tags(given);
            }
            model.details = Arc::new(details);
        }
        Ok(model)
    }
}
