//! Machines, and the bodies of actions on them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::values::default_true;
use crate::{
    EventId, FailureType, HandlerHealth, Id, Ip, MachineEvictionPolicy, MachineMemory, MachinePriority, Nullable,
    Policy, PowerState, ResourceName, Tags, TerminateNotification, Text, nullable_object, object,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Number in order of registration.
    pub id: u64,
    pub vm_id: Id,
    pub name: String,
    pub subscription: String,
    pub resource_group: String,
    /// ID of the event group: the machines that share one document.
    pub event_group: u64,
    /// Whether a handler is connected: a machine of the event group requests the document.
    pub handler_connected: bool,
    /// How its own handler polls; absent if it never has. Only in lists and in the response for a single machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<HandlerHealth>,
    pub incarnation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_set: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_set: Option<String>,
    /// Instance ID in a Uniform scale set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<u32>,
    /// Whether an instance of a scale set has the latest model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_model_applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub update_domain: u32,
    pub fault_domain: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    pub priority: MachinePriority,
    pub eviction_policy: MachineEvictionPolicy,
    pub power: PowerState,
    /// A start, stop or deallocation that the host has not completed. Only with drivers of real machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_change: Option<PowerChange>,
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate_notification: Option<TerminateNotification>,
    /// Whether it is protected from scale-in.
    pub protected: bool,
    /// Memory that it needs on its host, in MiB. 0: unknown.
    #[serde(default)]
    pub memory_mib: u64,
    /// Whether it can move to another host while it runs.
    // Servers from before this field move every machine while it runs.
    #[serde(default = "default_true")]
    pub live_migratable: bool,
    /// A problem that stops its events and that an operator must solve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    pub details: Details,
    pub tags: Tags,
}

/// A start, stop or deallocation that an operator requested and the host has not completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerChange {
    /// Requested power state.
    pub to: PowerState,
    /// Reason why the order waits, if the host cannot begin it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Reason why the host could not carry it out. Absent while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl PowerChange {
    /// The state in one or two words: `stopping`, or `stop failed`.
    pub fn as_str(&self) -> &'static str {
        match (self.to, &self.failure) {
            (PowerState::Running, None) => "starting",
            (PowerState::Running, Some(_)) => "start failed",
            (PowerState::Stopped, None) => "stopping",
            (PowerState::Stopped, Some(_)) => "stop failed",
            (PowerState::Deallocated, None) => "deallocating",
            (PowerState::Deallocated, Some(_)) => "deallocation failed",
        }
    }

    /// The state with its reason: `stopping, waiting for host 'node3', which is unreachable`.
    pub fn describe(&self) -> String {
        match (&self.failure, &self.waiting_for) {
            (Some(reason), _) => format!("{}: {reason}", self.as_str()),
            (None, Some(obstacle)) => format!("{}, waiting for {obstacle}", self.as_str()),
            (None, None) => self.as_str().into(),
        }
    }
}

impl Machine {
    /// The power state, with a change that is in progress or has failed: `Running, stopping`.
    pub fn describe_power(&self) -> String {
        match &self.power_change {
            Some(change) => format!("{}, {}", self.power, change.describe()),
            None => self.power.to_string(),
        }
    }

    /// The group that makes the name unique: GROUP in GROUP/NAME.
    pub fn group(&self) -> &str {
        self.cloud_service.as_ref().unwrap_or(&self.resource_group)
    }

    /// The set or service of the machine.
    pub fn set(&self) -> Option<&str> {
        self.availability_set.as_deref().or(self.cloud_service.as_deref()).or(self.scale_set.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMachine {
    pub name: ResourceName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<ResourceName>,
    /// Availability set to add it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_set: Option<String>,
    /// Flexible scale set to add it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_set: Option<String>,
    /// Cloud service to add it to, as a role instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_service: Option<String>,
    /// Role in the cloud service. Default: the part of the name before `_IN_`, as in `FrontEnd_IN_0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 99)]
    pub update_domain: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 99)]
    pub fault_domain: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MachinePriority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Addresses; an empty list for none. Default: one from the pool.
    #[serde(default, deserialize_with = "object::optional_list", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub addresses: Option<Vec<Address>>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub terminate_notification: Option<TerminateNotification>,
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Memory that it needs on its host, in MiB. Default: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<MachineMemory>,
    /// Whether it can move to another host while it runs. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_migratable: Option<bool>,
    #[serde(default, deserialize_with = "object::required", skip_serializing_if = "Details::is_empty")]
    pub details: Details,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

impl NewMachine {
    /// A machine with the default settings.
    pub fn named(name: ResourceName) -> NewMachine {
        NewMachine {
            name,
            vm_id: None,
            subscription: None,
            resource_group: None,
            availability_set: None,
            scale_set: None,
            cloud_service: None,
            role: None,
            memory_mib: None,
            live_migratable: None,
            host: None,
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: None,
            eviction_policy: None,
            addresses: None,
            terminate_notification: None,
            policy: None,
            details: Details::default(),
            tags: Tags::default(),
        }
    }
}

/// Changes of a machine; omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineChange {
    /// Use `null` to remove the host.
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<ResourceName>)]
    pub host: Nullable<ResourceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 99)]
    pub update_domain: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 99)]
    pub fault_domain: Option<u32>,
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<ResourceName>)]
    pub zone: Nullable<ResourceName>,
    #[serde(default, deserialize_with = "object::optional_list", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub addresses: Option<Vec<Address>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    /// Memory that it needs on its host, in MiB. 0: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<MachineMemory>,
    /// Whether it can move to another host while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_migratable: Option<bool>,
    #[serde(default, deserialize_with = "nullable_object", skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<TerminateNotification>)]
    pub terminate_notification: Nullable<TerminateNotification>,
    #[serde(default, deserialize_with = "nullable_object", skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<Policy>)]
    pub policy: Nullable<Policy>,
    /// Merged with the existing details.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// Replaces all tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Network of a metadata listener.
    #[serde(default = "default_network")]
    pub network: ResourceName,
    pub ip: Ip,
}

/// The network of listeners and addresses that name none.
pub const NETWORK_DEFAULT: &str = "default";

fn default_network() -> ResourceName {
    ResourceName(NETWORK_DEFAULT.into())
}

impl Address {
    /// An address in the default network.
    pub fn new(ip: Ip) -> Address {
        Address { network: default_network(), ip }
    }
}

/// Details for instance metadata; no rule reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Details {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_type: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer_name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_version: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Text>,
}

impl Details {
    pub fn is_empty(&self) -> bool {
        self.fields().iter().all(|(_, text)| text.is_none())
    }

    /// The details with their names in JSON.
    pub fn fields(&self) -> [(&'static str, Option<&Text>); 9] {
        [
            ("location", self.location.as_ref()),
            ("size", self.size.as_ref()),
            ("osType", self.os_type.as_ref()),
            ("computerName", self.computer_name.as_ref()),
            ("publisher", self.publisher.as_ref()),
            ("offer", self.offer.as_ref()),
            ("sku", self.sku.as_ref()),
            ("imageVersion", self.image_version.as_ref()),
            ("mac", self.mac.as_ref()),
        ]
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionOptions {
    /// Event ID to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureOptions {
    /// Type of the event. Default: Reboot.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FailureType>,
    /// Event ID to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}
