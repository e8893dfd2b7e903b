//! Scale sets: groups that make and delete their machines themselves.

use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{Answer, Command, GroupChange, GroupKind, MachineId, Name, NewGroupKind, Region, Request, Scale};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::extract::{self, Body, InGroup, NoQuery, OptionalBody, Page, Paging, Params, Segment};
use super::groups::{Group, create_one, delete_one, list_of};
use super::machine_actions::DeleteQuery;
use super::machines::Machine;
use super::names::{self, Kind};
use super::object;
use super::operations::Operation;
use super::parts::{Details, home, tags, terminate};
use super::text::{Tags, Word};
use super::values::*;
use super::{Api, Note};
use forewarn_access::random_guid;

/// The most instances of one placement group of a Uniform set that does not say.
pub const PLACEMENT_GROUP_DEFAULT: u32 = 100;

/// No group has more machines than this.
pub const PLACEMENT_GROUP_RANGE: RangeInclusive<u32> = 1..=core::settings::MACHINES_PER_GROUP_MAX as u32;

/// Zones of one set: the original has three in a region.
pub const ZONES_MAX: usize = 16;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSet {
    #[serde(flatten)]
    pub group: Group,
    pub orchestration: OrchestrationMode,
    pub upgrade_mode: UpgradePolicy,
    /// How many instances are wanted; those that are leaving do not count.
    pub capacity: u32,
    /// The most instances of one placement group; left out when there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_max: Option<u32>,
    pub zones: Vec<String>,
    pub model: Model,
    /// Grows with every change of the model.
    pub model_version: u64,
}

/// What new instances are made from, and existing ones brought to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub priority: PriorityWord,
    pub eviction_policy: EvictionWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate_notification: Option<TerminateNotification>,
    pub details: Details,
    pub tags: Tags,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewScaleSet {
    pub name: Word,
    pub subscription: Option<Word>,
    pub resource_group: Option<Word>,
    #[serde(default, deserialize_with = "object::may")]
    pub policy: Option<Policy>,
    #[schema(minimum = 1, maximum = 100)]
    pub update_domains: Option<u32>,
    #[schema(minimum = 1, maximum = 100)]
    pub fault_domains: Option<u32>,
    #[schema(maximum = 10000)]
    pub capacity: u32,
    /// Flexible when left out.
    pub orchestration: Option<OrchestrationMode>,
    /// Manual when left out.
    pub upgrade_mode: Option<UpgradePolicy>,
    /// Of a Uniform set: 100 when left out, `null` for no limit.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    pub placement_group_max: Patch<u32>,
    #[serde(default)]
    #[schema(max_items = 16)]
    pub zones: Vec<Word>,
    #[serde(default, deserialize_with = "object::one")]
    pub model: ModelChange,
}

/// What is left out stays, or has its default in a new set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChange {
    pub priority: Option<PriorityWord>,
    pub eviction_policy: Option<EvictionWord>,
    /// `null`: instances are deleted without notice.
    #[serde(default, deserialize_with = "patch_object")]
    #[schema(value_type = Option<TerminateNotification>)]
    pub terminate_notification: Patch<TerminateNotification>,
    /// Key by key.
    #[serde(default, deserialize_with = "object::may")]
    pub details: Option<Details>,
    /// As a whole.
    pub tags: Option<Tags>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleSetChange {
    #[schema(maximum = 10000)]
    pub capacity: Option<u32>,
    pub upgrade_mode: Option<UpgradePolicy>,
    #[serde(default, deserialize_with = "object::may")]
    pub policy: Option<Policy>,
    #[serde(default, deserialize_with = "object::may")]
    pub model: Option<ModelChange>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSetChanged {
    pub scale_set: ScaleSet,
    /// Instances that were made.
    pub added: Vec<String>,
    /// Instances that are being deleted.
    pub removing: Vec<String>,
    /// The deletion, when instances are being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// Machines of the set; none: all.
    #[serde(default)]
    pub instances: Vec<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeInstances {
    /// Machines of the set; none: all that run.
    #[serde(default)]
    pub instances: Vec<String>,
    /// The id that the first event is to have.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteInstances {
    #[schema(min_items = 1)]
    pub instances: Vec<String>,
    /// The id that the first event is to have.
    pub event_id: Option<EventName>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstancesQuery {
    /// The set's resource group, when its name alone is not unique.
    pub group: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, query: Params<Paging>) -> Result<Response, ApiError> {
    list_of(Kind::ScaleSet, &api, query, ScaleSet::of)
}

pub async fn get(api: Api, Segment(name): Segment, Params(within): Params<InGroup>) -> Result<Response, ApiError> {
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
        Note::new("scale-set.create", body.name.0.as_str()).with(serde_json::json!({ "capacity": body.capacity }));
    create_one(&api, body.into_core()?, note, ScaleSet::of).await
}

pub async fn change(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<InGroup>,
    Body(body): Body<ScaleSetChange>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let group = find(&snapshot.region, &name, &within)?;
    let operation = random_guid();
    let note = Note::new("scale-set.change", group.name.as_ref())
        .with(serde_json::json!({ "capacity": body.capacity, "upgradeMode": body.upgrade_mode }));
    let change = GroupChange {
        policy: body.policy.map(Into::into),
        upgrade_mode: body.upgrade_mode.map(Into::into),
        model: body.model.map(|model| model.applied_to(set_of(&group).model.clone())).transpose()?,
        capacity: body.capacity.map(|capacity| Scale { capacity, by: api.by(), operation }),
    };
    let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() };
    let done = api.submit(command, note).await?;
    let region = &done.snapshot.region;
    let (added, removing) = match done.answer {
        Answer::Scaled { added, removing } => (added, removing),
        Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Operation(_) => (Vec::new(), Vec::new()),
    };
    let named = |ids: Vec<MachineId>| {
        let found = ids.into_iter().filter_map(|id| region.machine(id).or_else(|| snapshot.region.machine(id)));
        found.map(|machine| machine.name.to_string()).collect()
    };
    Ok(extract::ok(ScaleSetChanged {
        scale_set: ScaleSet::of(region, region.group(group.id).unwrap_or(&group)),
        added: named(added),
        removing: named(removing),
        operation: region.operation(operation).map(|operation| Operation::of(region, operation)),
    }))
}

pub async fn delete(api: Api, name: Segment, query: Params<DeleteQuery>) -> Result<Response, ApiError> {
    delete_one(Kind::ScaleSet, "scale-set.delete", &api, &name.0, query.0).await
}

pub async fn instances(
    api: Api,
    Segment(name): Segment,
    Params(query): Params<InstancesQuery>,
) -> Result<Response, ApiError> {
    let limit = extract::limit(query.limit)?;
    let after = extract::after_number(query.after.as_deref())?.map(MachineId);
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let set = names::group(region, &name, query.group.as_deref(), Kind::ScaleSet)?;
    let mut members: Vec<_> =
        region.group_members(&set).filter(|machine| after.is_none_or(|after| machine.id > after)).collect();
    // Placement groups come one after the other; pages go by registration.
    members.sort_unstable_by_key(|machine| machine.id);
    let cursor = |machine: &&Arc<core::Machine>| machine.id.0.to_string();
    Ok(extract::ok(Page::cut(members.into_iter(), limit, cursor, |machine| Machine::of(region, machine))))
}

pub async fn upgrade(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<InGroup>,
    OptionalBody(body): OptionalBody<Upgrade>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let set = find(&snapshot.region, &name, &within)?;
    let machines = members_of(&snapshot.region, &set, &body.instances)?;
    let note =
        Note::new("scale-set.upgrade", set.name.as_ref()).with(serde_json::json!({ "instances": body.instances }));
    let done = api.submit(Command::UpgradeInstances { group: set.id, machines }, note).await?;
    let region = &done.snapshot.region;
    Ok(extract::ok(ScaleSet::of(region, region.group(set.id).unwrap_or(&set))))
}

/// A deed that is done to instances: one operation, however many they are.
macro_rules! deed {
    ($name:ident, $action:literal, $request:ident) => {
        pub async fn $name(
            api: Api,
            Segment(name): Segment,
            Params(within): Params<InGroup>,
            OptionalBody(body): OptionalBody<SomeInstances>,
        ) -> Result<Response, ApiError> {
            let snapshot = api.engine().snapshot();
            let set = find(&snapshot.region, &name, &within)?;
            let machines = body.running(&snapshot.region, &set)?;
            let note = Note::new($action, set.name.as_ref()).with(serde_json::json!({ "instances": body.instances }));
            api.request(Request::$request { machines }, body.event_id.map(|id| id.0), note).await
        }
    };
}

deed!(restart, "scale-set.restart", Restart);
deed!(redeploy, "scale-set.redeploy", Redeploy);
deed!(perform_maintenance, "scale-set.perform-maintenance", PerformMaintenance);

impl SomeInstances {
    /// Those that are named; who names none means all that run.
    fn running(&self, region: &Region, set: &core::Group) -> Result<Vec<MachineId>, ApiError> {
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
    Params(within): Params<InGroup>,
    Body(body): Body<DeleteInstances>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let set = find(&snapshot.region, &name, &within)?;
    if body.instances.is_empty() {
        return Err(ApiError::field("instances", "name at least one instance"));
    }
    let machines = members_of(&snapshot.region, &set, &body.instances)?;
    let note = Note::new("scale-set.delete-instances", set.name.as_ref())
        .with(serde_json::json!({ "instances": body.instances }));
    let request = Request::Delete { machines, group: None };
    api.request(request, body.event_id.map(|id| id.0), note).await
}

fn find(region: &Region, name: &str, within: &InGroup) -> Result<Arc<core::Group>, ApiError> {
    names::group(region, name, within.group.as_deref(), Kind::ScaleSet)
}

fn members_of(region: &Region, set: &core::Group, named: &[String]) -> Result<Vec<MachineId>, ApiError> {
    let machines = names::machines(region, named)?;
    match machines.iter().find(|machine| machine.seat.group() != Some(set.id)) {
        Some(stranger) => Err(core::Rejection::NotAMember(stranger.name.clone()).into()),
        None => Ok(machines.iter().map(|machine| machine.id).collect()),
    }
}

/// `names::group` has made sure that it is one.
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
            return Err(ApiError::field("zones", format!("there may be {ZONES_MAX}")));
        }
        let orchestration = self.orchestration.unwrap_or(OrchestrationMode::Flexible);
        let placement_group_max = match (self.placement_group_max, orchestration) {
            (Patch::Value(max), _) if PLACEMENT_GROUP_RANGE.contains(&max) => Some(max),
            (Patch::Value(_), _) => {
                let range = format!("it must be from 1 to {}", PLACEMENT_GROUP_RANGE.end());
                return Err(ApiError::field("placementGroupMax", range));
            }
            (Patch::Absent, OrchestrationMode::Uniform) => Some(PLACEMENT_GROUP_DEFAULT),
            (Patch::Absent, OrchestrationMode::Flexible) | (Patch::Null, _) => None,
        };
        let blank = core::SetModel {
            priority: core::Priority::Regular,
            eviction: core::EvictionPolicy::Deallocate,
            terminate: None,
            details: Arc::default(),
        };
        Ok(core::NewGroup {
            name: self.name.into(),
            home: home(self.subscription, self.resource_group),
            kind: NewGroupKind::ScaleSet {
                orchestration: orchestration.into(),
                upgrade_mode: self.upgrade_mode.unwrap_or(UpgradePolicy::Manual).into(),
                capacity: self.capacity,
                placement_group_max,
                zones: self.zones.into_iter().map(Name::from).collect(),
                model: self.model.applied_to(blank)?,
            },
            policy: self.policy.map(Into::into).unwrap_or_default(),
            update_domains: self.update_domains,
            fault_domains: self.fault_domains,
            salt: random_guid(),
        })
    }
}

impl ModelChange {
    fn applied_to(self, mut model: core::SetModel) -> Result<core::SetModel, ApiError> {
        model.priority = self.priority.map_or(model.priority, Into::into);
        model.eviction = self.eviction_policy.map_or(model.eviction, Into::into);
        match self.terminate_notification.into_change() {
            None => {}
            Some(given) => model.terminate = given.map(terminate).transpose()?,
        }
        if self.details.is_some() || self.tags.is_some() {
            let mut details = (*model.details).clone();
            self.details.unwrap_or_default().merge_into(&mut details);
            if let Some(given) = self.tags {
                details.tags = tags(given);
            }
            model.details = Arc::new(details);
        }
        Ok(model)
    }
}
