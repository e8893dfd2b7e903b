//! Scale sets, and the bodies of actions on their instances.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Details, Event, EventId, Group, MachineEvictionPolicy, MachinePriority, NewGroup, Nullable, Operation,
    OrchestrationMode, Policy, ResourceName, RolloutOwner, Tags, TerminateNotification, UpgradePolicy, nullable_object,
    object,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewScaleSet {
    pub name: ResourceName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<ResourceName>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub update_domains: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub fault_domains: Option<u32>,
    #[schema(maximum = 10000)]
    pub capacity: u32,
    /// Default: Flexible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<OrchestrationMode>,
    /// Default: Manual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_mode: Option<UpgradePolicy>,
    /// Maximum number of instances in one placement group of a Uniform set; `null` for no limit. Default: 100.
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    pub placement_group_max: Nullable<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub zones: Vec<ResourceName>,
    #[serde(default, deserialize_with = "object::required", skip_serializing_if = "ModelChange::is_empty")]
    pub model: ModelChange,
}

impl NewScaleSet {
    /// A set with the default settings.
    pub fn new(name: ResourceName, capacity: u32) -> NewScaleSet {
        NewScaleSet {
            name,
            subscription: None,
            resource_group: None,
            policy: None,
            update_domains: None,
            fault_domains: None,
            capacity,
            orchestration: None,
            upgrade_mode: None,
            placement_group_max: Nullable::Absent,
            zones: Vec::new(),
            model: ModelChange::default(),
        }
    }

    /// The fields that all groups have.
    pub fn to_group(&self) -> NewGroup {
        NewGroup {
            name: self.name.clone(),
            subscription: self.subscription.clone(),
            resource_group: self.resource_group.clone(),
            policy: self.policy,
            update_domains: self.update_domains,
            fault_domains: self.fault_domains,
        }
    }
}

/// Changes of the model. Omitted fields keep their values, or have their defaults in a new set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MachinePriority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Use `null` to delete instances without notice.
    #[serde(default, deserialize_with = "nullable_object", skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<TerminateNotification>)]
    pub terminate_notification: Nullable<TerminateNotification>,
    /// Merged with the existing details.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// Replaces all tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
}

impl ModelChange {
    pub fn is_empty(&self) -> bool {
        *self == ModelChange::default()
    }
}

/// Changes of a scale set; omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleSetChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub capacity: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_mode: Option<UpgradePolicy>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// In a dry run, the events that would be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// In a dry run, the running rollouts that own hosts or the group of the instances to delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutOwner>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// Instances to upgrade. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceSelection {
    /// Instances of the set. Default: all running ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
    /// Event ID to use for the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteInstances {
    #[schema(min_items = 1)]
    pub instances: Vec<String>,
    /// Event ID to use for the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}
