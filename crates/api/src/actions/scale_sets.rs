//! Creates and changes scale sets, which create and delete their machines themselves, and acts on their instances.

use std::ops::RangeInclusive;
use std::sync::Arc;

use forewarn_access::random_guid;
use forewarn_api_types::{
    DeleteInstances, InstanceSelection, ModelChange, NewScaleSet, Nullable, Operation, OrchestrationMode, ScaleSet,
    ScaleSetChange, ScaleSetChanged, Upgrade, UpgradePolicy,
};
use forewarn_core as core;
use forewarn_core::{Answer, Command, GroupChange, MachineId, NewGroupKind, Region, Request, Scale};
use forewarn_render::{Convert, render_events_of, render_operation, render_owners, render_scale_set};

use super::groups::new_group;
use crate::Actions;
use crate::action::Action;
use crate::audit_detail::AuditDetail;
use crate::dry_run::Execution;
use crate::error::ApiError;
use crate::into_core::{self, merge_details, terminate_profile};
use crate::names::{self, GroupTarget, GroupType, scale_set_of};

/// Default maximum of instances in one placement group of a Uniform set.
pub const PLACEMENT_GROUP_DEFAULT: u32 = 100;

/// No group can have more machines than this.
const PLACEMENT_GROUP_RANGE: RangeInclusive<u32> = 1..=core::settings::MACHINES_PER_GROUP_MAX as u32;

/// Zones of one set; an Azure region has three.
pub const ZONES_MAX: usize = 16;

impl Actions {
    pub async fn create_scale_set(&self, new: NewScaleSet) -> Result<ScaleSet, ApiError> {
        let permit = self.permit(Action::CreateScaleSet)?;
        let note = permit.note(new.name.0.as_str()).with(AuditDetail::ScaleSet { capacity: new.capacity });
        let (done, group) = self.submit_new_group(new_scale_set(new)?, note).await?;
        render(&done.snapshot.region, &group)
    }

    pub async fn change_scale_set(
        &self,
        target: &GroupTarget,
        given: ScaleSetChange,
    ) -> Result<ScaleSetChanged, ApiError> {
        let permit = self.permit(Action::ChangeScaleSet)?;
        let snapshot = self.engine().snapshot();
        let group = target.find(&snapshot.region, GroupType::ScaleSet)?;
        let model = scale_set_of(&group)?.model.clone();
        let operation = random_guid();
        let note = permit
            .note(group.name.as_str())
            .with(AuditDetail::ScaleSetChange { capacity: given.capacity, upgrade_mode: given.upgrade_mode });
        let change = GroupChange {
            policy: given.policy.map(Convert::convert),
            upgrade_mode: given.upgrade_mode.map(Convert::convert),
            model: given.model.map(|change| changed_model(change, model)).transpose()?,
            capacity: given.capacity.map(|capacity| Scale { capacity, by: self.principal_name(), operation }),
        };
        let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() };
        let done = self.submit(command, note).await?;
        let region = &done.snapshot.region;
        let (added, removing) = match done.answer {
            Answer::Scaled { added, removing } => (added, removing),
            Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Operation(_) | Answer::Rollout(_) => {
                (Vec::new(), Vec::new())
            }
        };
        let rollouts = match &self.execution {
            Execution::Dry(_) => render_owners(&snapshot.region, removing.iter().copied()),
            Execution::Real => Vec::new(),
        };
        let names = |ids: Vec<MachineId>| {
            let found = ids.into_iter().filter_map(|id| region.machine(id).or_else(|| snapshot.region.machine(id)));
            found.map(|machine| machine.name.to_string()).collect()
        };
        let operation = region.operation(operation).map(|operation| render_operation(region, operation));
        Ok(ScaleSetChanged {
            scale_set: render(region, region.group(group.id).unwrap_or(&group))?,
            added: names(added),
            removing: names(removing),
            events: match (&self.execution, &operation) {
                (Execution::Dry(_), Some(operation)) => render_events_of(region, operation),
                (Execution::Dry(_), None) | (Execution::Real, _) => Vec::new(),
            },
            operation,
            rollouts,
        })
    }

    /// Upgrades instances to the latest model.
    pub async fn upgrade_instances(&self, target: &GroupTarget, with: Upgrade) -> Result<ScaleSet, ApiError> {
        let permit = self.permit(Action::UpgradeInstances)?;
        let snapshot = self.engine().snapshot();
        let set = target.find(&snapshot.region, GroupType::ScaleSet)?;
        let machines = members_of(&snapshot.region, &set, &with.instances)?;
        let note = permit.note(set.name.as_str()).with(AuditDetail::Instances { instances: with.instances.clone() });
        let done = self.submit(Command::UpgradeInstances { group: set.id, machines }, note).await?;
        let region = &done.snapshot.region;
        render(region, region.group(set.id).unwrap_or(&set))
    }

    pub async fn restart_instances(
        &self,
        target: &GroupTarget,
        with: InstanceSelection,
    ) -> Result<Operation, ApiError> {
        self.start_on_instances(Action::RestartInstances, target, with, |machines| Request::Restart { machines }).await
    }

    pub async fn redeploy_instances(
        &self,
        target: &GroupTarget,
        with: InstanceSelection,
    ) -> Result<Operation, ApiError> {
        self.start_on_instances(Action::RedeployInstances, target, with, |machines| Request::Redeploy { machines })
            .await
    }

    pub async fn perform_maintenance_of_instances(
        &self,
        target: &GroupTarget,
        with: InstanceSelection,
    ) -> Result<Operation, ApiError> {
        let request = |machines| Request::PerformMaintenance { machines };
        self.start_on_instances(Action::PerformMaintenanceOfInstances, target, with, request).await
    }

    pub async fn delete_instances(&self, target: &GroupTarget, with: DeleteInstances) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::DeleteInstances)?;
        let snapshot = self.engine().snapshot();
        let set = target.find(&snapshot.region, GroupType::ScaleSet)?;
        if with.instances.is_empty() {
            return Err(ApiError::field("instances", "must name at least one instance"));
        }
        let note = permit.note(set.name.as_str()).with(AuditDetail::Instances { instances: with.instances.clone() });
        let started = match members_of(&snapshot.region, &set, &with.instances) {
            Ok(machines) => {
                let request = Request::Delete { machines, group: None };
                self.start_deletion(request, with.event_id, note, &with.instances).await
            }
            Err(error) => Err(error),
        };
        self.or_repeated_deletion(started, &with.instances).await
    }

    /// Starts one operation for the named instances, or for all running ones if none is named.
    async fn start_on_instances(
        &self,
        action: Action,
        target: &GroupTarget,
        with: InstanceSelection,
        request: fn(Vec<MachineId>) -> Request,
    ) -> Result<Operation, ApiError> {
        let permit = self.permit(action)?;
        let snapshot = self.engine().snapshot();
        let region = &snapshot.region;
        let set = target.find(region, GroupType::ScaleSet)?;
        let machines = if with.instances.is_empty() {
            let running = region.group_members(&set).filter(|machine| machine.power == core::Power::Running);
            running.map(|machine| machine.id).collect()
        } else {
            members_of(region, &set, &with.instances)?
        };
        let note = permit.note(set.name.as_str()).with(AuditDetail::Instances { instances: with.instances.clone() });
        self.start_operation(request(machines), with.event_id, note).await
    }
}

fn render(region: &Region, group: &core::Group) -> Result<ScaleSet, ApiError> {
    Ok(render_scale_set(region, group, scale_set_of(group)?))
}

fn members_of(region: &Region, set: &core::Group, names: &[String]) -> Result<Vec<MachineId>, ApiError> {
    let machines = names::find_machines(region, names)?;
    match machines.iter().find(|machine| machine.membership.group() != Some(set.id)) {
        Some(stranger) => Err(core::Rejection::NotAMember(stranger.name.clone()).into()),
        None => Ok(machines.iter().map(|machine| machine.id).collect()),
    }
}

fn new_scale_set(new: NewScaleSet) -> Result<core::NewGroup, ApiError> {
    if new.zones.len() > ZONES_MAX {
        return Err(ApiError::field("zones", format!("has more than {ZONES_MAX} entries")));
    }
    let group = new.to_group();
    let orchestration = new.orchestration.unwrap_or(OrchestrationMode::Flexible);
    let placement_group_max = match (new.placement_group_max, orchestration) {
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
        orchestration: orchestration.convert(),
        upgrade_mode: new.upgrade_mode.unwrap_or(UpgradePolicy::Manual).convert(),
        capacity: new.capacity,
        placement_group_max,
        zones: new.zones.into_iter().map(into_core::name).collect(),
        model: changed_model(new.model, default)?,
    };
    Ok(new_group(group, kind))
}

fn changed_model(change: ModelChange, mut model: core::SetModel) -> Result<core::SetModel, ApiError> {
    model.priority = change.priority.map_or(model.priority, Convert::convert);
    model.eviction = change.eviction_policy.map_or(model.eviction, Convert::convert);
    match change.terminate_notification.into_change() {
        None => {}
        Some(given) => model.terminate = given.as_ref().map(terminate_profile).transpose()?,
    }
    if change.details.is_some() || change.tags.is_some() {
        let mut details = (*model.details).clone();
        merge_details(change.details.unwrap_or_default(), change.tags, &mut details);
        model.details = Arc::new(details);
    }
    Ok(model)
}
