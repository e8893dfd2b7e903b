//! Resources as GET shows them: the stored body, overlaid with the state of the region.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use forewarn_core::{
    Event, EventKind, Group, GroupId, GroupKind, Machine, Membership, Name, Orchestration, Priority, Region, ScaleSet,
    Source, Status,
};
use forewarn_store::{Owner, Reader, StoreError};
use serde_json::{Map, Value, json};

use super::call::{Arm, BODY, Call};
use super::fields::{self, at, put};
use super::profile::{
    EVICTIONS, ORCHESTRATIONS, PRIORITIES, UPGRADES, name_of, power_status, render_policy, render_terminate,
};
use super::write::render_identity;
use forewarn_access::MachineIdentity;
use forewarn_api::error::ApiError;
use forewarn_metadata::{group_resource_id, machine_resource_id};
use forewarn_wire::arm::compute::{LOCATION_DEFAULT, SIZE_DEFAULT};
use forewarn_wire::arm::disk::os_disk_defaults;

/// Whether the instance view (power and provisioning state) is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Without,
    With,
}

impl View {
    /// Virtual machines use `$expand`, instances `$select`.
    pub fn of(call: &Call) -> View {
        let is_in = |key: &str| call.query(key).is_some_and(|it| it.to_ascii_lowercase().contains("instanceview"));
        if is_in("$expand") || is_in("$select") { View::With } else { View::Without }
    }
}

/// The resource type that a machine is rendered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceForm {
    VirtualMachine,
    /// `…/virtualMachineScaleSets/S/virtualMachines/N`.
    Instance,
}

/// Machines as GET shows them. The bodies and identities of machines and of their sets are each read once.
pub async fn machines(
    arm: &Arm,
    region: &Region,
    machines: &[std::sync::Arc<Machine>],
    form: ResourceForm,
    view: View,
) -> Result<Vec<Value>, ApiError> {
    let mut sets: HashMap<GroupId, Value> = HashMap::new();
    for set in machines.iter().filter_map(|machine| set_of(machine)) {
        if let Entry::Vacant(entry) = sets.entry(set) {
            let (mut body, identity) = arm.read_bodies(vec![Owner::Group(set)]).await?.pop().unwrap_or_default();
            render_identity(&mut body, identity.as_ref());
            entry.insert(body);
        }
    }
    // Instances of Uniform sets have no bodies of their own.
    let has_body = |machine: &Machine| !matches!(machine.membership, Membership::Instance { number: Some(_), .. });
    let owners = machines.iter().filter(|machine| has_body(machine)).map(|machine| Owner::Machine(machine.id));
    let mut bodies = arm.read_bodies(owners.collect()).await?.into_iter();
    let mut rendered = Vec::with_capacity(machines.len());
    for machine in machines {
        let set = set_of(machine).and_then(|set| sets.get(&set));
        let body = match has_body(machine).then(|| bodies.next()).flatten() {
            Some((own, identity)) => {
                let mut body = if own.is_null() { instance_body(set) } else { own };
                render_identity(&mut body, identity.as_ref());
                body
            }
            None => instance_body(set),
        };
        rendered.push(render_machine(region, machine, body, form, view));
    }
    Ok(rendered)
}

/// The properties that a machine, or the scale set that it belongs to, was given.
pub fn machine_properties(reader: &dyn Reader, machine: &Machine) -> Result<Option<Value>, StoreError> {
    let body = |owner: Owner| -> Result<Option<Value>, StoreError> {
        Ok(reader.attachment(owner, BODY)?.and_then(|text| serde_json::from_str(&text).ok()))
    };
    if let Some(own) = body(Owner::Machine(machine.id))? {
        return Ok(at(&own, "properties").cloned());
    }
    let Some(set) = set_of(machine) else { return Ok(None) };
    Ok(body(Owner::Group(set))?.and_then(|body| at(&body, "properties.virtualMachineProfile").cloned()))
}

fn set_of(machine: &Machine) -> Option<GroupId> {
    match machine.membership {
        Membership::Instance { set, .. } => Some(set),
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::RoleInstance { .. } => None,
    }
}

pub async fn machine(
    arm: &Arm,
    region: &Region,
    one: &std::sync::Arc<Machine>,
    form: ResourceForm,
    view: View,
) -> Result<Value, ApiError> {
    Ok(machines(arm, region, std::slice::from_ref(one), form, view).await?.pop().unwrap_or_default())
}

/// The body of an instance without a stored body, derived from the body of its set.
fn instance_body(set: Option<&Value>) -> Value {
    let mut properties =
        set.and_then(|set| at(set, "properties.virtualMachineProfile")).cloned().unwrap_or_else(|| json!({}));
    for place in ["networkProfile", "osProfile.computerNamePrefix", "extensionProfile", "scheduledEventsProfile"] {
        fields::remove(&mut properties, place);
    }
    let mut body = json!({ "properties": properties });
    if let Some(sku) = set.and_then(|set| set.get("sku")).and_then(|sku| sku.get("name")) {
        body["sku"] = json!({ "name": sku, "tier": "Standard" });
    }
    if let Some(identity) = set.and_then(|set| set.get("identity")) {
        body["identity"] = identity.clone();
    }
    if set.is_some() {
        put(&mut body, "properties.networkProfile", json!({ "networkInterfaces": [] }));
    }
    body
}

fn render_machine(region: &Region, machine: &Machine, mut body: Value, form: ResourceForm, view: View) -> Value {
    let details = &machine.details;
    put(&mut body, "name", &*machine.name);
    put(&mut body, "location", or_default(&details.location, LOCATION_DEFAULT));
    put(&mut body, "tags", render_tags(&details.tags));
    if let Some(zone) = &machine.zone {
        put(&mut body, "zones", json!([&**zone]));
    }
    let properties = &mut body["properties"];
    put(properties, "vmId", machine.vm_id.to_string());
    put(properties, "hardwareProfile.vmSize", or_default(&details.size, SIZE_DEFAULT));
    put(properties, "osProfile.computerName", or_default(&details.computer_name, &machine.name));
    put(properties, "provisioningState", machine_state(region, machine));
    put(properties, "priority", name_of(PRIORITIES, machine.priority));
    if machine.priority == Priority::Spot {
        put(properties, "evictionPolicy", name_of(EVICTIONS, machine.eviction));
    }
    if !details.os_type.is_empty() {
        put(properties, "storageProfile.osDisk.osType", &*details.os_type);
    }
    render_image(properties, details);
    render_disks(properties, &machine.name);
    render_terminate(properties, machine.terminate.as_deref());
    if let Some(policy) = &machine.policy {
        render_policy(properties, policy);
    }
    if view == View::With {
        put(properties, "instanceView", instance_view(region, machine));
    }
    match form {
        ResourceForm::VirtualMachine => overlay_virtual_machine(region, machine, &mut body),
        ResourceForm::Instance => overlay_instance(region, machine, &mut body),
    }
    body
}

fn render_image(properties: &mut Value, details: &forewarn_core::Details) {
    for (key, text) in [
        ("publisher", &details.publisher),
        ("offer", &details.offer),
        ("sku", &details.sku),
        ("version", &details.image_version),
    ] {
        if !text.is_empty() {
            put(properties, &format!("storageProfile.imageReference.{key}"), &**text);
        }
    }
}

/// Properties of disks that the service fills in. No disk exists.
fn render_disks(properties: &mut Value, name: &str) {
    let os_disk = os_disk_defaults(name).map(|(place, value)| (format!("storageProfile.osDisk.{place}"), value));
    for (place, value) in os_disk.into_iter().chain([("storageProfile.dataDisks".to_owned(), json!([]))]) {
        if at(properties, &place).is_none() {
            put(properties, &place, value);
        }
    }
}

fn overlay_virtual_machine(region: &Region, machine: &Machine, body: &mut Value) {
    put(body, "id", machine_resource_id(region, machine));
    put(body, "type", "Microsoft.Compute/virtualMachines");
    let group = machine.membership.group().and_then(|group| region.group(group));
    if let Some(group) = group {
        let place = match group.kind {
            GroupKind::AvailabilitySet => "properties.availabilitySet",
            GroupKind::ScaleSet(_) => "properties.virtualMachineScaleSet",
            GroupKind::CloudService => return,
        };
        put(body, place, json!({ "id": group_resource_id(group) }));
        if matches!(group.kind, GroupKind::ScaleSet(_)) {
            fields::remove(body, "sku");
        }
    }
}

fn overlay_instance(region: &Region, machine: &Machine, body: &mut Value) {
    let Some(group) = machine.membership.group().and_then(|group| region.group(group)) else { return };
    let instance = instance_id(machine);
    put(body, "id", format!("{}/virtualMachines/{instance}", group_resource_id(group)));
    put(body, "type", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines");
    put(body, "instanceId", instance);
    if let GroupKind::ScaleSet(set) = &group.kind {
        put(body, "properties.latestModelApplied", machine.model == set.model_version);
    }
    put(body, "properties.modelDefinitionApplied", "VirtualMachineScaleSet");
    put(body, "properties.protectionPolicy", json!({ "protectFromScaleIn": machine.protected }));
}

/// The instance ID: a number in a Uniform set, the name in a Flexible set.
pub fn instance_id(machine: &Machine) -> String {
    match machine.membership {
        Membership::Instance { number: Some(number), .. } => number.to_string(),
        Membership::Instance { number: None, .. }
        | Membership::Standalone
        | Membership::AvailabilitySet(_)
        | Membership::RoleInstance { .. } => machine.name.to_string(),
    }
}

pub fn instance_view(region: &Region, machine: &Machine) -> Value {
    let (code, display) = power_status(machine);
    let state = machine_state(region, machine);
    json!({
        "computerName": or_default(&machine.details.computer_name, &machine.name),
        "platformUpdateDomain": machine.update_domain,
        "platformFaultDomain": machine.fault_domain,
        "statuses": [
            {
                "code": format!("ProvisioningState/{}", state.to_ascii_lowercase()),
                "level": "Info",
                "displayStatus": format!("Provisioning {}", state.to_ascii_lowercase()),
            },
            { "code": code, "level": "Info", "displayStatus": display },
        ],
    })
}

fn machine_state(region: &Region, machine: &Machine) -> &'static str {
    provisioning_state(region.events_of(machine.id).map(|event| &**event))
}

/// The provisioning state that events imply: those in progress, and those that a user requested.
fn provisioning_state<'a>(events: impl Iterator<Item = &'a Event>) -> &'static str {
    let mut state = "Succeeded";
    for event in events {
        let counts = event.cause.source() == Source::User || matches!(event.status, Status::Started { .. });
        match (event.kind, counts) {
            (EventKind::Terminate, _) => return "Deleting",
            (EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt, true) => {
                state = "Updating"
            }
            (EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt, false)
            | (EventKind::SpotRebalanceRecommendation, _) => {}
        }
    }
    state
}

// --- groups --------------------------------------------------------------------------------------

fn group_type(group: &Group) -> &'static str {
    match group.kind {
        GroupKind::AvailabilitySet => "Microsoft.Compute/availabilitySets",
        GroupKind::ScaleSet(_) => "Microsoft.Compute/virtualMachineScaleSets",
        GroupKind::CloudService => "Microsoft.Compute/cloudServices",
    }
}

fn overlay_group(group: &Group, body: &mut Value) {
    put(body, "id", group_resource_id(group));
    put(body, "name", &*group.name);
    put(body, "type", group_type(group));
    if at(body, "location").is_none() {
        put(body, "location", LOCATION_DEFAULT);
    }
    if at(body, "tags").is_none() {
        put(body, "tags", json!({}));
    }
    render_policy(&mut body["properties"], &group.policy);
}

pub fn availability_set(region: &Region, group: &Group, mut body: Value) -> Value {
    put(&mut body, "properties.platformUpdateDomainCount", group.update_domains);
    put(&mut body, "properties.platformFaultDomainCount", group.fault_domains);
    let members: Vec<_> =
        region.group_members(group).map(|machine| json!({ "id": machine_resource_id(region, machine) })).collect();
    put(&mut body, "properties.virtualMachines", members);
    if at(&body, "sku").is_none() {
        put(&mut body, "sku", json!({ "name": "Aligned" }));
    }
    overlay_group(group, &mut body);
    body
}

pub fn scale_set(
    region: &Region,
    group: &Group,
    set: &ScaleSet,
    mut body: Value,
    identity: Option<&MachineIdentity>,
) -> Value {
    let details = &set.model.details;
    put(&mut body, "sku.name", or_default(&details.size, SIZE_DEFAULT));
    put(&mut body, "sku.tier", "Standard");
    put(&mut body, "sku.capacity", set.capacity);
    put(&mut body, "location", or_default(&details.location, LOCATION_DEFAULT));
    put(&mut body, "tags", render_tags(&details.tags));
    if !set.zones.is_empty() {
        put(&mut body, "zones", set.zones.iter().map(|zone| Value::from(&**zone)).collect::<Vec<_>>());
    }
    let properties = &mut body["properties"];
    put(properties, "orchestrationMode", name_of(ORCHESTRATIONS, set.orchestration));
    put(properties, "upgradePolicy.mode", name_of(UPGRADES, set.upgrade_mode));
    put(properties, "provisioningState", set_state(region, group));
    put(properties, "platformFaultDomainCount", group.fault_domains);
    put(properties, "uniqueId", forewarn_core::Guid(u128::from(group.id.0)).derive(0).to_string());
    if set.orchestration == Orchestration::Uniform && at(properties, "singlePlacementGroup").is_none() {
        put(properties, "singlePlacementGroup", group.scopes.len() == 1);
    }
    put(properties, "virtualMachineProfile.priority", name_of(PRIORITIES, set.model.priority));
    if set.model.priority == Priority::Spot {
        put(properties, "virtualMachineProfile.evictionPolicy", name_of(EVICTIONS, set.model.eviction));
    }
    let profile = &mut properties["virtualMachineProfile"];
    render_image(profile, details);
    render_terminate(profile, set.model.terminate.as_deref());
    overlay_group(group, &mut body);
    render_identity(&mut body, identity);
    body
}

fn set_state(region: &Region, group: &Group) -> &'static str {
    if group.leaving {
        return "Deleting";
    }
    let scopes = group.scopes.iter().filter_map(|scope| region.scope(*scope));
    let events = scopes.flat_map(|scope| &scope.live).filter_map(|id| region.event(*id));
    match provisioning_state(events.map(|event| &**event)) {
        "Succeeded" => "Succeeded",
        _ => "Updating",
    }
}

/// The instance view of a scale set: the number of instances in each state.
pub fn set_view(region: &Region, group: &Group) -> Value {
    let mut counts: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for machine in region.group_members(group) {
        let state = format!("ProvisioningState/{}", machine_state(region, machine).to_ascii_lowercase());
        for code in [state.as_str(), power_status(machine).0] {
            *counts.entry(code.to_owned()).or_default() += 1;
        }
    }
    let summary: Vec<_> = counts.into_iter().map(|(code, count)| json!({ "code": code, "count": count })).collect();
    let state = set_state(region, group).to_ascii_lowercase();
    json!({
        "virtualMachine": { "statusesSummary": summary },
        "statuses": [{
            "code": format!("ProvisioningState/{state}"),
            "level": "Info",
            "displayStatus": format!("Provisioning {state}"),
        }],
    })
}

fn render_tags(tags: &[(Name, Name)]) -> Value {
    Value::Object(tags.iter().map(|(key, value)| (key.to_string(), Value::from(&**value))).collect::<Map<_, _>>())
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}
