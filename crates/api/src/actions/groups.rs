//! Creates, changes and deletes availability sets and cloud services, whose machines are registered one by one.

use std::sync::Arc;

use forewarn_access::random_guid;
use forewarn_api_types::{ActionOptions, Group, NewGroup, Operation, PolicyChange, count_of};
use forewarn_core as core;
use forewarn_core::{Answer, Command, GroupChange, NewGroupKind, Region, Request};
use forewarn_engine::SubmitResult;
use forewarn_render::{Convert, render_group};

use crate::Actions;
use crate::action::{Action, AuditNote, Permit};
use crate::error::{ApiError, ErrorCode};
use crate::into_core::{self, resource_group_or_default};
use crate::names::{GroupTarget, GroupType};

/// The two kinds of groups whose machines are registered one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainGroup {
    AvailabilitySet,
    CloudService,
}

impl PlainGroup {
    pub fn group_type(self) -> GroupType {
        match self {
            PlainGroup::AvailabilitySet => GroupType::AvailabilitySet,
            PlainGroup::CloudService => GroupType::CloudService,
        }
    }

    pub fn create_action(self) -> Action {
        match self {
            PlainGroup::AvailabilitySet => Action::CreateAvailabilitySet,
            PlainGroup::CloudService => Action::CreateCloudService,
        }
    }

    pub fn change_action(self) -> Action {
        match self {
            PlainGroup::AvailabilitySet => Action::ChangeAvailabilitySet,
            PlainGroup::CloudService => Action::ChangeCloudService,
        }
    }
}

/// Whether a group may be deleted together with its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupDeletion {
    /// Refuse to delete an availability set or cloud service that has machines.
    OnlyEmpty,
    WithMachines,
}

/// The action that deletes a group of this type.
pub fn delete_action(group: GroupType) -> Action {
    match group {
        GroupType::AvailabilitySet => Action::DeleteAvailabilitySet,
        GroupType::CloudService => Action::DeleteCloudService,
        GroupType::ScaleSet => Action::DeleteScaleSet,
    }
}

impl Actions {
    pub async fn create_group(&self, kind: PlainGroup, new: NewGroup) -> Result<Group, ApiError> {
        let note = self.permit(kind.create_action())?.note(new.name.0.as_str());
        let new = new_group(
            new,
            match kind {
                PlainGroup::AvailabilitySet => NewGroupKind::AvailabilitySet,
                PlainGroup::CloudService => NewGroupKind::CloudService,
            },
        );
        let (done, group) = self.submit_new_group(new, note).await?;
        Ok(render_group(&done.snapshot.region, &group))
    }

    pub async fn change_group(
        &self,
        kind: PlainGroup,
        target: &GroupTarget,
        change: PolicyChange,
    ) -> Result<Group, ApiError> {
        let permit = self.permit(kind.change_action())?;
        let group = self.find_group(kind.group_type(), target)?;
        let change = GroupChange { policy: change.policy.map(Convert::convert), ..GroupChange::default() };
        let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: random_guid() };
        let done = self.submit(command, permit.note(group.name.as_str())).await?;
        let region = &done.snapshot.region;
        Ok(render_group(region, region.group(group.id).unwrap_or(&group)))
    }

    /// Deletes a group of any type, and its machines if the request includes them.
    pub async fn delete_group(
        &self,
        kind: GroupType,
        target: &GroupTarget,
        deletion: GroupDeletion,
        with: ActionOptions,
    ) -> Result<Operation, ApiError> {
        let permit = self.permit(delete_action(kind))?;
        let started = self.start_group_deletion(permit, kind, target, deletion, with).await;
        self.or_repeated_deletion(started, &[]).await
    }

    async fn start_group_deletion(
        &self,
        permit: Permit,
        kind: GroupType,
        target: &GroupTarget,
        deletion: GroupDeletion,
        with: ActionOptions,
    ) -> Result<Operation, ApiError> {
        let snapshot = self.engine().snapshot();
        let group = target.find(&snapshot.region, kind)?;
        // Scale sets own their instances and are deleted with them, as on Azure.
        if kind != GroupType::ScaleSet && deletion == GroupDeletion::OnlyEmpty {
            refuse_members(&snapshot.region, &group)?;
        }
        let machines = snapshot.region.group_members(&group).map(|machine| machine.id).collect();
        let request = Request::Delete { machines, group: Some(group.id) };
        self.start_deletion(request, with.event_id, permit.note(group.name.as_str()), &[]).await
    }

    pub(super) async fn submit_new_group(
        &self,
        new: core::NewGroup,
        note: AuditNote,
    ) -> Result<(SubmitResult, Arc<core::Group>), ApiError> {
        let (home, name, group_type) = (new.home.clone(), new.name.clone(), new.kind.group_type());
        let done = self.submit(Command::CreateGroup(Box::new(new)), note).await?;
        let region = &done.snapshot.region;
        let id = match done.answer {
            Answer::Group { group, .. } => Some(group),
            Answer::Done | Answer::Machine(_) | Answer::Operation(_) | Answer::Rollout(_) | Answer::Scaled { .. } => {
                region.group_by_name(&home, &name, group_type)
            }
        };
        let group = id.and_then(|id| region.group(id)).cloned().ok_or(core::Rejection::UnknownGroup)?;
        Ok((done, group))
    }

    fn find_group(&self, kind: GroupType, target: &GroupTarget) -> Result<Arc<core::Group>, ApiError> {
        target.find(&self.engine().snapshot().region, kind)
    }
}

fn refuse_members(region: &Region, group: &core::Group) -> Result<(), ApiError> {
    let Some(first) = region.group_members(group).next() else { return Ok(()) };
    let message = format!(
        "'{}' has {}, such as '{}'. Delete them first, or include them with withMachines=true (--with-machines).",
        group.name,
        count_of(region.group_members(group).count(), "machine"),
        first.name
    );
    Err(ApiError::new(ErrorCode::GroupHasMachines, message).with_target(group.name.as_str()))
}

pub(super) fn new_group(new: NewGroup, kind: NewGroupKind) -> core::NewGroup {
    core::NewGroup {
        name: into_core::name(new.name),
        home: resource_group_or_default(new.subscription, new.resource_group),
        kind,
        policy: new.policy.map(Convert::convert).unwrap_or_default(),
        update_domains: new.update_domains,
        fault_domains: new.fault_domains,
        salt: random_guid(),
    }
}
